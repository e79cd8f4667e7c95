// sched/pass.h: one pass over the requests: what the policies share. Private to the layer.
#pragma once

#include "sched/sched.h"

// Decisions are written by the functions below only.
struct pass {
    const struct sched_view *view;
    struct arena *arena;
    struct sched_decision *decisions;
    bool aux;    // about auxiliary places, else about slots:
    int total;   // of the pool
    int used;    // by what runs, stops, or starts in this pass
    int leaving; // the part of used that stops
    int held;    // for requests that wait for it
    int *order;  // requests of this kind (with slots, or without), the most important first
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

// When room is wanted, from the strictest to the most patient.
enum room_when {
    ROOM_NOW,
    ROOM_FREED, // when what is stopping has stopped
    ROOM_IDLE,  // when everything has ended
    ROOM_EVER,  // if nothing else, and nobody waiting, was there
};

// Slots, or the one auxiliary place.
int pass_need(const struct sched_request *request);
bool pass_fits(const struct pass *p, int i, enum room_when when);

// Of a request that fits.
void pass_start(struct pass *p, int i, bool backfilled);
void pass_hold(struct pass *p, int i);

void pass_release(struct pass *p, int i);
// What if it stopped? And back.
void pass_leave(struct pass *p, int i);
void pass_return(struct pass *p, int i);

// behind may be i itself, or -1: none.
void pass_wait(struct pass *p, int i, enum sched_why why, int limit, int behind);
void pass_wait_for_slots(struct pass *p, int i, int behind);

// The policies.
void priority_plan(struct pass *p);
void fair_share_plan(struct pass *p);
void round_robin_plan(struct pass *p);
void hand_on_plan(struct pass *p);
