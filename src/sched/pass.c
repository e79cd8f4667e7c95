// Unit pass.c: the steps that every policy is made of. Called by sched.c and the policies.
#include "sched/pass.h"

#include "base/assert.h"

bool group_is_ahead(const struct sched_view *view, int a, int b)
{
    const struct sched_group *x = &view->groups[a], *y = &view->groups[b];
    if (x->priority != y->priority) return x->priority < y->priority;
    if (x->position != y->position) return x->position < y->position;
    return a < b;
}

int pass_spans(const struct pass *p, struct span **out)
{
    struct span *spans = arena_array(p->arena, p->view->n_groups, sizeof *spans);
    int n = 0;
    for (int k = 0; k < p->n; k++) {
        int group = p->view->requests[p->order[k]].group;
        if (!n || spans[n - 1].group != group) spans[n++] = (struct span){group, k, 0};
        spans[n - 1].n++;
    }
    *out = spans;
    return n;
}

int pass_need(const struct sched_request *request)
{
    return MAX(request->n_slots, 1);
}

// Held room need not be free yet: who takes some now must leave enough of what comes free later.
static int room(const struct pass *p, enum room_when when)
{
    int freed = p->total - (p->used - p->leaving) - p->held;
    switch (when) {
    case ROOM_NOW:
        return MAX(0, MIN(p->total - p->used, freed));
    case ROOM_FREED:
        return MAX(0, freed);
    case ROOM_IDLE:
        return MAX(0, p->total - p->held);
    case ROOM_EVER:
        return p->total;
    }
    return 0;
}

bool pass_fits(const struct pass *p, int i, enum room_when when)
{
    return pass_need(&p->view->requests[i]) <= room(p, when);
}

bool pass_is_candidate(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    int cap = p->view->groups[r->group].max_slots;
    if (r->state != SCHED_PENDING) return false;
    if (!pass_fits(p, i, ROOM_EVER))
        pass_wait(p, i, SCHED_WHY_NEVER, p->total, -1);
    else if (p->view->draining)
        pass_wait(p, i, SCHED_WHY_DRAINING, 0, -1);
    else if (cap && r->n_slots && p->in_use[r->group] + r->n_slots > cap)
        pass_wait(p, i, SCHED_WHY_CAP, cap, -1);
    else
        return true;
    return false;
}

void pass_start(struct pass *p, int i, bool backfilled)
{
    const struct sched_request *r = &p->view->requests[i];
    p->decisions[i] =
        (struct sched_decision){.action = SCHED_START, .backfilled = backfilled, .behind = -1};
    p->used += pass_need(r);
    p->in_use[r->group] += r->n_slots;
    p->staying[r->group] += r->n_slots;
}

void pass_hold(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    p->held += pass_need(r);
    p->in_use[r->group] += r->n_slots;
}

void pass_leave(struct pass *p, int i)
{
    p->leaving += pass_need(&p->view->requests[i]);
}

void pass_return(struct pass *p, int i)
{
    p->leaving -= pass_need(&p->view->requests[i]);
}

void pass_release(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    ASSERT(r->state == SCHED_RUNNING && r->preemptible);
    p->decisions[i].action = SCHED_RELEASE;
    pass_leave(p, i);
    p->staying[r->group] -= r->n_slots;
}

void pass_wait(struct pass *p, int i, enum sched_why why, int limit, int behind)
{
    p->decisions[i] = (struct sched_decision){
        .action = SCHED_WAIT, .why = why, .limit = limit, .behind = behind == i ? -1 : behind};
}

void pass_wait_for_slots(struct pass *p, int i, int behind)
{
    pass_wait(p, i, SCHED_WHY_SLOTS, room(p, ROOM_NOW), behind);
}
