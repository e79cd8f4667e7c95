// sched/sched.h: who runs where. A view of the cluster goes in, a plan comes out: one decision for
// each request. The same view always gives the same plan: nothing here knows the time, and nothing
// is remembered between two calls.
//   sched_run  sched_could_ever_fit  sched_explain
//
//     struct sched_agent agent = {.id = 1, .n_slots = 8, .n_aux = 100};
//     struct sched_group group = {.name = "experiment 4", .priority = 42, .weight = 1};
//     struct sched_request request = {.id = 17, .n_slots = 2, .preemptible = true};
//     struct sched_view view = {.agents = &agent, .n_agents = 1, .groups = &group, .n_groups = 1,
//                               .requests = &request, .n_requests = 1};
//     struct sched_plan plan = sched_run(&view, &arena);
//     plan.decisions[0].action;                  // SCHED_START, on places[0].agent
//
// Requests are ordered by the priority of their group, its queue position, and their own id. Rules
// that hold under every policy:
//   - A request is placed whole or not at all: on one agent, or else on several that are completely
//     idle and are used completely.
//   - A request that no empty cluster could hold, or that its group's max_slots holds back, does
//     not stand in anybody's way.
//   - Requests without slots count against the auxiliary places of an agent; they never compete
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
};

enum sched_fitting {
    SCHED_FIT_BEST,  // pack: the agent with the fewest free slots
    SCHED_FIT_WORST, // spread: the agent with the largest free part
};

struct sched_agent {
    int64_t id;
    int n_slots;   // those that may be used
    int n_aux;     // how many requests without slots it takes
    bool draining; // takes nothing new
};

// What shares, priorities and limits belong to: an experiment, a job, a command.
struct sched_group {
    const char *name; // for sched_explain: "experiment 4"
    int priority;     // 1 is the most important
    int64_t position; // in the queue: lower is earlier; the time of submission unless moved
    double weight;    // > 0
    int max_slots;    // it may use at a time; 0: no limit
};

// Slots on one agent (an index into the view); one auxiliary place has n_slots 0.
struct sched_place {
    int agent;
    int n_slots;
};

enum sched_state {
    SCHED_PENDING,
    SCHED_RUNNING,
    SCHED_STOPPING, // was told to stop, but still has its places
};

struct sched_request {
    int64_t id;       // unique; a later request has a larger one
    int group;        // an index into the view
    int n_slots;      // 0: an auxiliary place
    bool preemptible; // can stop and go on later
    bool one_agent;   // may not be spread over several
    enum sched_state state;
    const struct sched_place *places; // not pending: where it is
    size_t n_places;
    const int *excluded; // agents it may not use
    size_t n_excluded;
};

struct sched_view {
    enum sched_policy policy;
    enum sched_fitting fitting;
    bool preemption;    // SCHED_PRIORITY: more important work displaces less important
    bool heterogeneous; // a request may be spread over agents of different sizes
    const struct sched_agent *agents;
    size_t n_agents;
    const struct sched_group *groups;
    size_t n_groups;
    const struct sched_request *requests;
    size_t n_requests;
};

enum sched_action {
    SCHED_WAIT,    // pending and stays so
    SCHED_START,   // pending: start it at places
    SCHED_KEEP,    // running or stopping: leave it alone
    SCHED_RELEASE, // running: ask it to stop
};

enum sched_why {
    SCHED_WHY_SLOTS,   // limit is the largest free block; maybe behind another request
    SCHED_WHY_TURN,    // would fit, but is behind another request
    SCHED_WHY_FREEING, // room is being made for it; behind is one that stops, if there is any
    SCHED_WHY_SHARE,   // limit is the share of its group
    SCHED_WHY_CAP,     // limit is max_slots of its group
    SCHED_WHY_NEVER,   // not even an empty cluster has room; limit is its largest block
};

struct sched_decision {
    enum sched_action action;
    const struct sched_place *places; // SCHED_START
    size_t n_places;
    bool backfilled;    // SCHED_START: passes a request that waits, and may have to give way to it
    enum sched_why why; // SCHED_WAIT
    int limit;
    int behind; // an index into the requests; -1: none
};

struct sched_plan {
    const struct sched_decision *decisions; // of each request of the view, in that order
    size_t n_start, n_release;
};

// The plan lives in the arena. The view must be consistent (indices in range, places of what runs).
struct sched_plan sched_run(const struct sched_view *view, struct arena *arena);

// Would request fit if nothing else was running? It needs not be one of the view's requests. What
// does not fit deserves an error when it is submitted.
bool sched_could_ever_fit(const struct sched_view *view, const struct sched_request *request,
                          struct arena *arena);

// Why request number i of the view waits, in words: "needs 12 slots, the largest free block is 8;
// behind experiment 4". Nothing for requests that do not wait.
void sched_explain(const struct sched_view *view, const struct sched_plan *plan, size_t i,
                   struct buf *out);
