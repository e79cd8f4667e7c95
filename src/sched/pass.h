// sched/pass.h: one pass over the requests: what the policies share. Private to the layer.
#pragma once

#include "sched/room.h"

// Decisions are written by the functions below only.
struct pass {
    const struct sched_view *view;
    struct arena *arena;
    struct room room;
    struct sched_decision *decisions;
    int *order; // requests of this kind (with slots, or without), the most important first
    int n;
    int *running; // places of the order where something runs that can stop and go on later
    int n_running;
    int *in_use;  // slots of each group: running, stopping, starting, held for it
    int *staying; // slots of each group: running and not released, or starting
};

// The requests of one group are next to each other in order.
struct span {
    int group;
    int first, n;
};
int pass_spans(const struct pass *p, struct span **out);

// Is group a ahead of b? By priority and position.
bool group_is_ahead(const struct sched_view *view, int a, int b);

// Pending, and neither too large nor over its group's limit. If not so, the decision says why.
bool pass_is_candidate(struct pass *p, int i);

bool pass_fits(struct pass *p, int i, enum room_when when);

// Of a request that fits: at the places of the last pass_fits().
void pass_start(struct pass *p, int i, bool backfilled);
void pass_hold(struct pass *p, int i);

void pass_release(struct pass *p, int i);

// behind may be i itself, or -1: none.
void pass_wait(struct pass *p, int i, enum sched_why why, int limit, int behind);
void pass_wait_for_slots(struct pass *p, int i, int behind);

// The policies.
void priority_plan(struct pass *p);
void fair_share_plan(struct pass *p);
void round_robin_plan(struct pass *p);
