// Unit hand_on.c: the policy SCHED_HAND_ON.
#include "sched/pass.h"

// A group and the first of its requests that had no turn yet.
struct turn {
    struct span span;
    int next;
};

static int count_waiting(const struct pass *p)
{
    int n = 0;
    for (int k = 0; k < p->n; k++)
        n += p->view->requests[p->order[k]].waits_elsewhere;
    return n;
}

// Hands on the next request of the group; false: there is none.
static bool take_turn(struct pass *p, struct turn *t, int *n_waiting)
{
    while (t->next < t->span.n) {
        int i = p->order[t->span.first + t->next++];
        if (!pass_is_candidate(p, i)) continue;
        if (*n_waiting >= p->view->max_waiting) {
            pass_wait(p, i, SCHED_WHY_WAITING, p->view->max_waiting, -1);
            continue;
        }
        pass_start(p, i, false);
        ++*n_waiting;
        return true;
    }
    return false;
}

static int priority_of(const struct pass *p, const struct turn *t)
{
    return p->view->groups[t->span.group].priority;
}

void hand_on_plan(struct pass *p)
{
    struct span *spans;
    int n = pass_spans(p, &spans), n_waiting = count_waiting(p), n_equal;
    struct turn *turns = arena_array(p->arena, (size_t)n, sizeof *turns);
    for (int i = 0; i < n; i++)
        turns[i] = (struct turn){spans[i], 0};
    for (int i = 0; i < n; i += n_equal) {
        for (n_equal = 1; i + n_equal < n; n_equal++)
            if (priority_of(p, &turns[i + n_equal]) != priority_of(p, &turns[i])) break;
        for (bool any = true; any;) {
            any = false;
            for (int k = i; k < i + n_equal; k++)
                any |= take_turn(p, &turns[k], &n_waiting);
        }
    }
}
