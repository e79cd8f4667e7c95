// Unit round_robin.c: the policy SCHED_ROUND_ROBIN.
#include "sched/pass.h"

// A group and the first of its requests that had no turn yet.
struct turn {
    struct span span;
    int next, staying;
};

static int compare_turns(const void *a, const void *b, void *ctx)
{
    const struct turn *x = a, *y = b;
    if (x->staying != y->staying) return x->staying < y->staying ? -1 : 1;
    return group_is_ahead(ctx, x->span.group, y->span.group) ? -1 : 1;
}

// Starts the next request of the group that fits. The very first one that does not fit keeps others
// out of the place where it waits; *held is that request, -1: none yet.
static bool take_turn(struct pass *p, struct turn *t, int *held)
{
    while (t->next < t->span.n) {
        int i = p->order[t->span.first + t->next++];
        if (!pass_is_candidate(p, i)) continue;
        if (pass_fits(p, i, ROOM_NOW)) {
            pass_start(p, i, *held >= 0);
            return true;
        }
        pass_wait_for_slots(p, i, *held);
        if (*held >= 0 || !pass_fits(p, i, ROOM_IDLE)) continue;
        pass_hold(p, i);
        *held = i;
    }
    return false;
}

void round_robin_plan(struct pass *p)
{
    struct span *spans;
    int n = pass_spans(p, &spans), held = -1;
    struct turn *turns = arena_array(p->arena, (size_t)n, sizeof *turns);
    for (int i = 0; i < n; i++)
        turns[i] = (struct turn){spans[i], 0, p->staying[spans[i].group]};
    qsort_r(turns, (size_t)n, sizeof *turns, compare_turns, (void *)(uintptr_t)p->view);
    for (bool started = true; started;) {
        started = false;
        for (int i = 0; i < n; i++)
            started |= take_turn(p, &turns[i], &held);
    }
}
