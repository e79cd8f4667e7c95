// Unit sched.c: the plan of sched/sched.h: orders the requests and lets the policy decide. Called
// by the master.
#include "sched/sched.h"

#include "base/assert.h"
#include "sched/pass.h"

static const struct {
    void (*plan)(struct pass *p); // of requests with slots
} policies[] = {
    [SCHED_PRIORITY] = {priority_plan},
    [SCHED_FAIR_SHARE] = {fair_share_plan},
    [SCHED_ROUND_ROBIN] = {round_robin_plan},
    [SCHED_HAND_ON] = {hand_on_plan},
};

static int compare_requests(const void *a, const void *b, void *ctx)
{
    const struct sched_view *view = ctx;
    const struct sched_request *x = &view->requests[*(const int *)a];
    const struct sched_request *y = &view->requests[*(const int *)b];
    if (x->group != y->group) return group_is_ahead(view, x->group, y->group) ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void pass_init(struct pass *p, const struct sched_view *view, bool aux,
                      struct sched_decision *decisions, struct arena *arena)
{
    *p = (struct pass){
        .view = view,
        .arena = arena,
        .aux = aux,
        .total = aux ? view->n_aux : view->n_slots,
        .decisions = decisions,
        .order = arena_array(arena, view->n_requests, sizeof *p->order),
        .running = arena_array(arena, view->n_requests, sizeof *p->running),
        .in_use = arena_array(arena, view->n_groups, sizeof *p->in_use),
        .staying = arena_array(arena, view->n_groups, sizeof *p->staying),
    };
    for (size_t i = 0; i < view->n_requests; i++) {
        const struct sched_request *r = &view->requests[i];
        if ((r->n_slots == 0) != aux) continue;
        p->order[p->n++] = (int)i;
        if (r->state != SCHED_PENDING) p->used += pass_need(r);
        if (r->state == SCHED_STOPPING) p->leaving += pass_need(r);
        if (r->state != SCHED_PENDING) p->in_use[r->group] += r->n_slots;
        if (r->state == SCHED_RUNNING) p->staying[r->group] += r->n_slots;
    }
    qsort_r(p->order, (size_t)p->n, sizeof *p->order, compare_requests, (void *)(uintptr_t)view);
    for (int k = 0; k < p->n; k++) {
        const struct sched_request *r = &view->requests[p->order[k]];
        if (r->state == SCHED_RUNNING && r->preemptible) p->running[p->n_running++] = k;
    }
}

struct sched_plan sched_run(const struct sched_view *view, struct arena *arena)
{
    struct sched_decision *decisions = arena_array(arena, view->n_requests, sizeof *decisions);
    struct sched_plan plan = {.decisions = decisions};
    struct pass pass;
    for (size_t i = 0; i < view->n_requests; i++) {
        const struct sched_request *r = &view->requests[i];
        ASSERT(r->group >= 0 && (size_t)r->group < view->n_groups && r->n_slots >= 0);
        bool pending = r->state == SCHED_PENDING;
        decisions[i].action = pending ? SCHED_WAIT : SCHED_KEEP;
        decisions[i].behind = -1;
    }
    pass_init(&pass, view, false, decisions, arena);
    policies[view->policy].plan(&pass);
    pass_init(&pass, view, true, decisions, arena);
    view->policy == SCHED_HAND_ON ? hand_on_plan(&pass) : priority_plan(&pass);
    for (size_t i = 0; i < view->n_requests; i++) {
        plan.n_start += decisions[i].action == SCHED_START;
        plan.n_release += decisions[i].action == SCHED_RELEASE;
    }
    return plan;
}

bool sched_could_ever_fit(const struct sched_view *view, int n_slots)
{
    return n_slots ? n_slots <= view->n_slots : view->n_aux > 0;
}
