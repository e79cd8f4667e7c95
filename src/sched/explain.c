// Unit explain.c: why a request waits, in words. Called for people who ask.
#include "sched/sched.h"

static void add_need(struct buf *out, int n_slots)
{
    if (n_slots == 0)
        buf_addz(out, "needs a place for a task without slots");
    else
        buf_printf(out, "needs %d slot%s", n_slots, n_slots == 1 ? "" : "s");
}

static void add_behind(const struct sched_view *view, const struct sched_request *r, int behind,
                       struct buf *out)
{
    if (behind < 0) return;
    int group = view->requests[behind].group;
    if (group == r->group)
        buf_printf(out, "; behind other work of %s", view->groups[group].name);
    else
        buf_printf(out, "; behind %s", view->groups[group].name);
}

static void add_freeing(const struct sched_view *view, int stops, struct buf *out)
{
    if (stops < 0)
        buf_addz(out, "; room is becoming free");
    else
        buf_printf(out, "; %s is stopping to make room",
                   view->groups[view->requests[stops].group].name);
}

void sched_explain(const struct sched_view *view, const struct sched_plan *plan, size_t i,
                   struct buf *out)
{
    const struct sched_request *r = &view->requests[i];
    const struct sched_decision *d = &plan->decisions[i];
    const char *name = view->groups[r->group].name;
    if (d->action != SCHED_WAIT) return;
    add_need(out, r->n_slots);
    switch (d->why) {
    case SCHED_WHY_SLOTS:
        if (r->n_slots)
            buf_printf(out, ", %d %s free", d->limit, d->limit == 1 ? "is" : "are");
        else
            buf_addz(out, ", all are taken");
        add_behind(view, r, d->behind, out);
        break;
    case SCHED_WHY_TURN:
        buf_addz(out, " and would fit");
        add_behind(view, r, d->behind, out);
        break;
    case SCHED_WHY_FREEING:
        add_freeing(view, d->behind, out);
        break;
    case SCHED_WHY_SHARE:
        buf_printf(out, ", the fair share of %s is %d", name, d->limit);
        add_behind(view, r, d->behind, out);
        break;
    case SCHED_WHY_CAP:
        buf_printf(out, ", max_slots of %s is %d", name, d->limit);
        break;
    case SCHED_WHY_NEVER:
        if (r->n_slots)
            buf_printf(out, ", but there %s only %d", d->limit == 1 ? "is" : "are", d->limit);
        else
            buf_addz(out, ", but there is none");
        break;
    case SCHED_WHY_WAITING:
        buf_printf(out, "; %d wait already to be started", d->limit);
        add_behind(view, r, d->behind, out);
        break;
    case SCHED_WHY_DRAINING:
        buf_addz(out, "; the machine is going away, so nothing new is started on it");
        break;
    }
}
