// Unit fair_share.c: the policy SCHED_FAIR_SHARE: offers slots to groups by their weights, then
// releases what is beyond an offer and starts what an offer covers.
#include "sched/pass.h"

#include "base/assert.h"
#include <limits.h>

struct share {
    struct span span; // its requests
    double weight;
    int demand;   // slots it could use
    int smallest; // request
    int reserved; // slots of running work that cannot be released
    int offered;
    int unpaid;     // the part of reserved that no round has offered yet
    int owed;       // the part of offered that it does not have yet
    bool set_aside; // its part was of no use to it
};

static int compare_demands(const void *a, const void *b, void *ctx)
{
    const struct share *x = *(struct share *const *)a, *y = *(struct share *const *)b;
    if (x->demand != y->demand) return x->demand < y->demand ? -1 : 1;
    return group_is_ahead(ctx, x->span.group, y->span.group) ? -1 : 1;
}

static void count_demand(struct pass *p, struct share *s)
{
    const struct sched_group *group = &p->view->groups[s->span.group];
    int cap = group->max_slots ? group->max_slots : INT_MAX;
    s->weight = group->weight;
    s->smallest = INT_MAX;
    for (int k = s->span.first; k < s->span.first + s->span.n; k++) {
        int i = p->order[k];
        const struct sched_request *r = &p->view->requests[i];
        if (r->state == SCHED_STOPPING) continue;
        if (r->state == SCHED_PENDING && (r->n_slots > cap || !pass_fits(p, i, ROOM_EVER)))
            continue;
        s->demand += r->n_slots;
        s->smallest = MIN(s->smallest, r->n_slots);
        if (r->state == SCHED_RUNNING && !r->preemptible) s->reserved += r->n_slots;
    }
    s->demand = MIN(s->demand, cap);
}

static bool wants_more(const struct share *s)
{
    return !s->set_aside && s->offered < s->demand;
}

// One round: everybody who wants more is offered a part of what was left at its start. Reserved
// slots count as the first part of their group's offers.
static int offer_round(struct share **shares, int n, int capacity)
{
    double weights = 0, at_start = capacity;
    for (int i = 0; i < n; i++)
        if (wants_more(shares[i])) weights += shares[i]->weight;
    for (int i = 0; i < n; i++) {
        struct share *s = shares[i];
        if (!wants_more(s)) continue;
        int part = MAX(1, (int)(at_start * s->weight / weights));
        int paid = MIN(part, s->unpaid);
        s->unpaid -= paid;
        part = MIN(MIN(part - paid, s->demand - s->offered), capacity);
        s->offered += part;
        capacity -= part;
    }
    return capacity;
}

// Progressive filling: rounds until nothing is left, or nobody wants more.
static void offer_slots(struct share **shares, int n, int capacity, bool reserve)
{
    for (int i = 0; i < n; i++) {
        shares[i]->unpaid = shares[i]->offered = reserve ? shares[i]->reserved : 0;
        capacity -= shares[i]->offered;
    }
    for (;;) {
        bool more = false;
        for (int i = 0; i < n; i++)
            more |= wants_more(shares[i]);
        if (!more || capacity <= 0) return;
        capacity = offer_round(shares, n, capacity);
    }
}

// The last in the queue of those whose offer is too small for anything they have.
static struct share *find_stuck(struct share *shares, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        struct share *s = &shares[i];
        if (!s->set_aside && s->offered > 0 && s->offered < s->smallest) return s;
    }
    return NULL;
}

// Who can use its part is decided as if everything could be released: it will be true when the work
// that cannot be has ended, and until then nobody else may grow into that part.
static void divide(struct pass *p, struct share *shares, int n)
{
    int capacity = p->total;
    struct share **by_demand = arena_array(p->arena, (size_t)n, sizeof *by_demand);
    struct share *stuck;
    for (int i = 0; i < n; i++)
        by_demand[i] = &shares[i];
    qsort_r(by_demand, (size_t)n, sizeof *by_demand, compare_demands, (void *)(uintptr_t)p->view);
    do {
        offer_slots(by_demand, n, capacity, false);
        stuck = find_stuck(shares, n);
        if (stuck) stuck->set_aside = true;
    } while (stuck);
    offer_slots(by_demand, n, capacity, true);
}

// Keeps what comes first in order, as far as the offer goes.
static void release_beyond(struct pass *p, const struct share *s)
{
    int kept = s->reserved;
    for (int k = s->span.first; k < s->span.first + s->span.n; k++) {
        int i = p->order[k];
        const struct sched_request *r = &p->view->requests[i];
        if (r->state != SCHED_RUNNING || !r->preemptible) continue;
        if (kept + r->n_slots <= s->offered)
            kept += r->n_slots;
        else
            pass_release(p, i);
    }
}

// In order: a request that the share is enough for is not passed by others of its group. One that
// has to wait for room keeps others out of the place where it waits.
static void start_within(struct pass *p, const struct share *s)
{
    int active = p->staying[s->span.group], first_waiting = -1;
    for (int k = s->span.first; k < s->span.first + s->span.n; k++) {
        int i = p->order[k], need = p->view->requests[i].n_slots;
        if (!pass_is_candidate(p, i)) continue;
        if (need > s->offered || first_waiting >= 0 || active + need > s->offered) {
            pass_wait(p, i, SCHED_WHY_SHARE, s->offered, first_waiting);
            if (need <= s->offered && first_waiting < 0) first_waiting = i;
            continue;
        }
        active += need;
        if (pass_fits(p, i, ROOM_NOW)) {
            pass_start(p, i, false);
            continue;
        }
        pass_wait_for_slots(p, i, -1);
        if (pass_fits(p, i, ROOM_IDLE)) pass_hold(p, i);
    }
}

// Who is owed the most comes first: else others would fill, one by one, the room that a large
// request waits for.
static int compare_debts(const void *a, const void *b, void *ctx)
{
    const struct share *x = a, *y = b;
    if (x->owed != y->owed) return x->owed > y->owed ? -1 : 1;
    return group_is_ahead(ctx, x->span.group, y->span.group) ? -1 : 1;
}

void fair_share_plan(struct pass *p)
{
    struct span *spans;
    int n = pass_spans(p, &spans);
    struct share *shares = arena_array(p->arena, (size_t)n, sizeof *shares); // in queue order
    for (int i = 0; i < n; i++) {
        shares[i].span = spans[i];
        count_demand(p, &shares[i]);
    }
    divide(p, shares, n);
    for (int i = 0; i < n; i++) {
        const int *staying = &p->staying[shares[i].span.group];
        if (*staying > shares[i].offered) release_beyond(p, &shares[i]);
        shares[i].owed = shares[i].offered - *staying;
    }
    qsort_r(shares, (size_t)n, sizeof *shares, compare_debts, (void *)(uintptr_t)p->view);
    for (int i = 0; i < n; i++)
        start_within(p, &shares[i]);
}
