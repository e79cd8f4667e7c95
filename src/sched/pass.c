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

bool pass_is_candidate(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    int cap = p->view->groups[r->group].max_slots;
    if (r->state != SCHED_PENDING) return false;
    if (!pass_fits(p, i, ROOM_EVER))
        pass_wait(p, i, SCHED_WHY_NEVER, room_largest(&p->room, r, ROOM_EVER), -1);
    else if (cap && r->n_slots && p->in_use[r->group] + r->n_slots > cap)
        pass_wait(p, i, SCHED_WHY_CAP, cap, -1);
    else
        return true;
    return false;
}

bool pass_fits(struct pass *p, int i, enum room_when when)
{
    return room_fit(&p->room, &p->view->requests[i], when) > 0;
}

static size_t n_places_of(const struct pass *p, const struct sched_request *r)
{
    int left = r->n_slots;
    size_t n = 0;
    do
        left -= p->room.places[n++].n_slots;
    while (left > 0);
    return n;
}

void pass_start(struct pass *p, int i, bool backfilled)
{
    const struct sched_request *r = &p->view->requests[i];
    struct sched_decision *d = &p->decisions[i];
    size_t n = n_places_of(p, r);
    struct sched_place *places = arena_array(p->arena, n, sizeof *places);
    memcpy(places, p->room.places, n * sizeof *places);
    *d = (struct sched_decision){.action = SCHED_START,
                                 .places = places,
                                 .n_places = n,
                                 .backfilled = backfilled,
                                 .behind = -1};
    room_take(&p->room, places, n);
    p->in_use[r->group] += r->n_slots;
    p->staying[r->group] += r->n_slots;
}

void pass_hold(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    room_hold(&p->room, p->room.places, n_places_of(p, r));
    p->in_use[r->group] += r->n_slots;
}

void pass_release(struct pass *p, int i)
{
    const struct sched_request *r = &p->view->requests[i];
    ASSERT(r->state == SCHED_RUNNING && r->preemptible);
    p->decisions[i].action = SCHED_RELEASE;
    room_leave(&p->room, r);
    p->staying[r->group] -= r->n_slots;
}

void pass_wait(struct pass *p, int i, enum sched_why why, int limit, int behind)
{
    p->decisions[i] = (struct sched_decision){
        .action = SCHED_WAIT, .why = why, .limit = limit, .behind = behind == i ? -1 : behind};
}

void pass_wait_for_slots(struct pass *p, int i, int behind)
{
    int largest = room_largest(&p->room, &p->view->requests[i], ROOM_NOW);
    pass_wait(p, i, SCHED_WHY_SLOTS, largest, behind);
}
