// Unit waiters.c: requests that wait to hear that their task should stop.
#include "master/state.h"

struct waiter {
    struct http_request *req;
    struct live_allocation *allocation;
    struct loop_timer timer;
    struct waiter *next;
};

static void answer(struct http_request *req, bool preempt)
{
    struct buf out = BUF_INIT(64);
    buf_printf(&out, "{\"preempt\":%s}", preempt ? "true" : "false");
    http_reply_json(req, 200, &out);
}

static void on_timeout(void *ctx)
{
    struct waiter *w = ctx;
    struct waiter **at = &w->allocation->waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    answer(w->req, false);
}

int wait_for_preemption(struct http_request *req, struct live_allocation *a, int64_t timeout_us)
{
    struct master *m = req->user;
    bool preempt = a->row.preempt || a->row.kill;
    if (preempt || timeout_us <= 0) {
        answer(req, preempt);
        return 0;
    }
    struct waiter *w = arena_alloc(req->arena, sizeof *w);
    *w = (struct waiter){.req = req, .allocation = a, .next = a->waiters};
    w->timer = (struct loop_timer){.fn = on_timeout, .ctx = w};
    loop_timer_set(m->loop, &w->timer, timeout_us);
    a->waiters = w;
    return http_later(req);
}

void wake_waiters(struct live_allocation *a, bool preempt)
{
    struct master *m = a->trial->experiment->master;
    for (struct waiter *w = a->waiters, *next; w; w = next) {
        next = w->next;
        loop_timer_clear(m->loop, &w->timer);
        answer(w->req, preempt);
    }
    a->waiters = NULL;
}

void waiters_close(struct master *m)
{
    for (size_t i = 0; i < m->allocations.n; i++)
        wake_waiters(m->allocations.items[i].value, false);
}
