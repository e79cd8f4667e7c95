// sched/sched.h: who runs. A view of a pool of slots goes in, a plan comes out: one decision for
// each request. The same view always gives the same plan: nothing here knows the time, and nothing
// is remembered between two calls.
//   sched_run  sched_could_ever_fit  sched_explain
//
//     struct sched_group group = {.name = "experiment 4", .priority = 42, .weight = 1};
//     struct sched_request request = {.id = 17, .n_slots = 2, .preemptible = true};
//     struct sched_view view = {.n_slots = 8, .n_aux = 100, .groups = &group, .n_groups = 1,
//                               .requests = &request, .n_requests = 1};
//     struct sched_plan plan = sched_run(&view, &arena);
//     plan.decisions[0].action;                  // SCHED_START
//
// Requests are ordered by the priority of their group, its queue position, and their own id. Rules
// that hold under every policy:
//   - A request gets all of its slots or none.
//   - A request that not even an empty pool could hold, or that its group's max_slots holds back,
//     does not stand in anybody's way.
//   - Requests without slots count against the auxiliary places of the pool; they never compete
//     with the others, and are served in order.
// What a policy promises against starvation is said at its name.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include <stdint.h>

enum sched_policy {
    // In order. What cannot start holds back what is behind it, except preemptible requests when
    // preemption is on: those fill the gap, and give way again. With preemption on, running
    // preemptible work gives way to what is ahead of it. So the first in order waits at most for
    // the work that ran before it, and is not preemptible, to end.
    SCHED_PRIORITY,
    // Every group is offered a share of the slots by its weight. Work beyond its group's share is
    // released. The group that is owed the most of its share waits at most for running work to end;
    // a request larger than the share waits until other groups want less.
    SCHED_FAIR_SHARE,
    // The groups take turns, those with the fewest slots first; nothing is released. The first
    // group waits at most for running work to end.
    SCHED_ROUND_ROBIN,
    // Another scheduler (Slurm) decides when and where. Requests are handed on to it, by priority;
    // groups of the same priority take turns. No more than max_waiting of them wait there, so that
    // what is important does not come behind everything else. Nothing is released.
    SCHED_HAND_ON,
};

// What shares, priorities and limits belong to: an experiment, a job, a command.
struct sched_group {
    const char *name; // for sched_explain: "experiment 4"
    int priority;     // 1 is the most important
    int64_t position; // in the queue: lower is earlier; the time of submission unless moved
    double weight;    // > 0
    int max_slots;    // it may use at a time; 0: no limit
};

enum sched_state {
    SCHED_PENDING,
    SCHED_RUNNING,
    SCHED_STOPPING, // was told to stop, but still has its slots
};

struct sched_request {
    int64_t id;       // unique; a later request has a larger one
    int group;        // an index into the view
    int n_slots;      // 0: an auxiliary place
    bool preemptible; // can stop and go on later
    enum sched_state state;
    bool waits_elsewhere; // SCHED_HAND_ON: was handed on, and has not begun
};

struct sched_view {
    enum sched_policy policy;
    bool preemption; // SCHED_PRIORITY: more important work displaces less important
    bool draining;   // nothing new starts
    int n_slots;     // that may be used
    int n_aux;       // how many requests without slots there may be
    int max_waiting; // SCHED_HAND_ON
    const struct sched_group *groups;
    size_t n_groups;
    const struct sched_request *requests;
    size_t n_requests;
};

enum sched_action {
    SCHED_WAIT,    // pending and stays so
    SCHED_START,   // pending: start it
    SCHED_KEEP,    // running or stopping: leave it alone
    SCHED_RELEASE, // running: ask it to stop
};

enum sched_why {
    SCHED_WHY_SLOTS,    // limit is how many are free for it; maybe behind another request
    SCHED_WHY_TURN,     // would fit, but is behind another request
    SCHED_WHY_FREEING,  // room is being made for it; behind is one that stops, if there is any
    SCHED_WHY_SHARE,    // limit is the share of its group
    SCHED_WHY_CAP,      // limit is max_slots of its group
    SCHED_WHY_NEVER,    // not even an empty pool has room; limit is what it has
    SCHED_WHY_WAITING,  // limit is max_waiting
    SCHED_WHY_DRAINING, // nothing new starts
};

struct sched_decision {
    enum sched_action action;
    bool backfilled;    // SCHED_START: passes a request that waits, and may have to give way to it
    enum sched_why why; // SCHED_WAIT
    int limit;
    int behind; // an index into the requests; -1: none
};

struct sched_plan {
    const struct sched_decision *decisions; // of each request of the view, in that order
    size_t n_start, n_release;
};

// The plan lives in the arena. The view must be consistent (indices in range).
struct sched_plan sched_run(const struct sched_view *view, struct arena *arena);

// Would a request for so many slots fit if nothing else was running? What does not fit deserves an
// error when it is submitted.
bool sched_could_ever_fit(const struct sched_view *view, int n_slots);

// Why request number i of the view waits, in words: "needs 12 slots, 8 are free; behind experiment
// 4". Nothing for requests that do not wait.
void sched_explain(const struct sched_view *view, const struct sched_plan *plan, size_t i,
                   struct buf *out);
