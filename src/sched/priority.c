// Unit priority.c: the policy SCHED_PRIORITY, and the order in which auxiliary places are given.
#include "sched/pass.h"

static bool preempts(const struct sched_view *view)
{
    return view->policy == SCHED_PRIORITY && view->preemption;
}

static bool can_be_released(const struct pass *p, int i)
{
    return p->decisions[i].action == SCHED_KEEP;
}

// The first of what runs that is behind place k of the order.
static int first_behind(const struct pass *p, int k)
{
    int low = 0, high = p->n_running;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (p->running[mid] <= k)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// When a limit was lowered, the last in order go.
static void release_over_limits(struct pass *p)
{
    for (int v = p->n_running - 1; v >= 0; v--) {
        int i = p->order[p->running[v]], group = p->view->requests[i].group;
        int cap = p->view->groups[group].max_slots;
        if (cap && p->staying[group] > cap && can_be_released(p, i)) pass_release(p, i);
    }
}

// Releases as little as possible of what is behind place k of the order, so that the request there
// fits; nothing if that is not enough. Returns the last one released, -1: none.
static int release_for(struct pass *p, int k)
{
    int i = p->order[k], first = first_behind(p, k), last = -1;
    for (int v = first; v < p->n_running; v++) {
        int victim = p->order[p->running[v]];
        if (can_be_released(p, victim)) pass_leave(p, victim);
    }
    bool enough = pass_fits(p, i, ROOM_FREED);
    for (int v = first; v < p->n_running; v++) { // the most important are the first to be spared
        int victim = p->order[p->running[v]];
        if (!can_be_released(p, victim)) continue;
        pass_return(p, victim);
        if (!enough || pass_fits(p, i, ROOM_FREED)) continue;
        pass_release(p, victim);
        last = victim;
    }
    return last;
}

// Room is found in what is stopping already, or is made. Others get none of it.
static bool make_room(struct pass *p, int k)
{
    int i = p->order[k], stops = -1;
    if (!pass_fits(p, i, ROOM_FREED)) stops = release_for(p, k);
    if (!pass_fits(p, i, ROOM_FREED)) return false;
    pass_hold(p, i);
    pass_wait(p, i, SCHED_WHY_FREEING, 0, stops);
    return true;
}

void priority_plan(struct pass *p)
{
    int first_waiting = -1;
    if (preempts(p->view)) release_over_limits(p);
    for (int k = 0; k < p->n; k++) {
        int i = p->order[k];
        if (!pass_is_candidate(p, i)) continue;
        bool backfill = first_waiting >= 0;
        bool may_start = !backfill || (preempts(p->view) && p->view->requests[i].preemptible);
        bool fits = pass_fits(p, i, ROOM_NOW);
        if (fits && may_start) {
            pass_start(p, i, backfill);
            continue;
        }
        if (!backfill) first_waiting = i;
        if (fits)
            pass_wait(p, i, SCHED_WHY_TURN, 0, first_waiting);
        else if (!may_start || !preempts(p->view) || !make_room(p, k))
            pass_wait_for_slots(p, i, first_waiting);
    }
}
