// Unit loop.c: the event loop of sys/loop.h. The http server and all of the master run on it.
#include "sys/loop.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 64 };

struct post {
    void (*fn)(void *ctx);
    void *ctx;
    struct post *next;
};

struct loop {
    int epoll_fd;
    bool stopping;
    struct epoll_event events[EVENTS_AT_ONCE]; // being handled: those from i_event to n_events
    int i_event, n_events;
    struct loop_timer **heap; // heap[1] is due first; heap[0] is not used
    size_t n_timers, heap_cap;
    struct loop_watch wake; // an eventfd: there are posts
    pthread_mutex_t lock;   // of the posts
    struct post *first, *last;
    struct loop_times times;
};

static void run_posts(void *ctx, uint32_t events)
{
    (void)events;
    struct loop *loop = ctx;
    uint64_t n;
    if (read(loop->wake.fd, &n, sizeof n) < 0) return;
    pthread_mutex_lock(&loop->lock);
    struct post *p = loop->first;
    loop->first = loop->last = NULL;
    pthread_mutex_unlock(&loop->lock);
    while (p) {
        struct post *next = p->next;
        p->fn(p->ctx);
        free(p);
        p = next;
    }
}

struct loop *loop_new(det_err *err)
{
    struct loop *loop = xcalloc(1, sizeof *loop);
    pthread_mutex_init(&loop->lock, NULL);
    loop->wake = (struct loop_watch){.fn = run_posts, .ctx = loop, .fd = -1};
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->wake.fd < 0)
        det_fail(err, DET_EIO, "cannot start an event loop: %s", strerror(errno));
    else if (!loop_watch(loop, &loop->wake, EPOLLIN, err))
        return loop;
    loop_free(loop);
    return NULL;
}

void loop_free(struct loop *loop)
{
    if (!loop) return;
    for (struct post *p = loop->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    if (loop->wake.fd >= 0) close(loop->wake.fd);
    if (loop->epoll_fd >= 0) close(loop->epoll_fd);
    pthread_mutex_destroy(&loop->lock);
    free(loop->heap);
    free(loop);
}

// --- descriptors

int loop_watch(struct loop *loop, struct loop_watch *watch, uint32_t events, det_err *err)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &e) < 0)
        return det_fail(err, DET_EIO, "cannot watch descriptor %d: %s", watch->fd, strerror(errno));
    return 0;
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    // Its owner may free it now, so an event that is yet to be handled must not reach it.
    for (int i = loop->i_event; i < loop->n_events; i++)
        if (loop->events[i].data.ptr == watch) loop->events[i].data.ptr = NULL;
}

// --- timers: a binary heap

static void heap_put(struct loop *loop, size_t place, struct loop_timer *timer)
{
    loop->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct loop *loop, struct loop_timer *timer)
{
    size_t i = timer->place;
    for (; i > 1 && loop->heap[i / 2]->at_us > timer->at_us; i /= 2)
        heap_put(loop, i, loop->heap[i / 2]);
    heap_put(loop, i, timer);
}

static void sift_down(struct loop *loop, struct loop_timer *timer)
{
    size_t i = timer->place;
    for (;;) {
        size_t child = 2 * i;
        if (child > loop->n_timers) break;
        if (child < loop->n_timers && loop->heap[child + 1]->at_us < loop->heap[child]->at_us)
            child++;
        if (loop->heap[child]->at_us >= timer->at_us) break;
        heap_put(loop, i, loop->heap[child]);
        i = child;
    }
    heap_put(loop, i, timer);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
    size_t place = timer->place;
    if (!place) return;
    timer->place = 0;
    struct loop_timer *last = loop->heap[loop->n_timers--];
    if (last == timer) return;
    heap_put(loop, place, last);
    sift_up(loop, last);
    sift_down(loop, last);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t delay_us)
{
    loop_timer_clear(loop, timer);
    timer->at_us = clock_mono_us() + delay_us;
    if (loop->n_timers + 2 > loop->heap_cap) {
        loop->heap_cap = MAX(loop->heap_cap * 2, (size_t)16);
        loop->heap = xrealloc(loop->heap, loop->heap_cap * sizeof *loop->heap);
    }
    heap_put(loop, ++loop->n_timers, timer);
    sift_up(loop, timer);
}

static void run_timers(struct loop *loop)
{
    int64_t now = clock_mono_us(); // one that sets itself again waits for the next turn
    while (loop->n_timers && loop->heap[1]->at_us <= now && !loop->stopping) {
        struct loop_timer *timer = loop->heap[1];
        loop_timer_clear(loop, timer);
        timer->fn(timer->ctx);
    }
}

// --- running

void loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx)
{
    struct post *p = xmalloc(sizeof *p);
    *p = (struct post){fn, ctx, NULL};
    pthread_mutex_lock(&loop->lock);
    bool was_empty = !loop->first;
    if (was_empty)
        loop->first = p;
    else
        loop->last->next = p;
    loop->last = p;
    // Under the lock, so that the loop cannot be freed between the two by whom this post tells to.
    uint64_t one = 1;
    if (was_empty && write(loop->wake.fd, &one, sizeof one) < 0)
        ASSERT(errno == EAGAIN); // it is readable already
    pthread_mutex_unlock(&loop->lock);
}

static int wait_ms(const struct loop *loop, int64_t max_wait_us)
{
    int64_t us = max_wait_us;
    if (loop->n_timers) {
        int64_t until = MAX(loop->heap[1]->at_us - clock_mono_us(), (int64_t)0);
        us = us < 0 ? until : MIN(us, until);
    }
    if (us < 0) return -1;
    return (int)MIN((us + 999) / 1000, (int64_t)3600000); // rounded up: never a busy wait
}

const int64_t loop_bounds_us[LOOP_N_BOUNDS] = {100,   500,   1000,  2000,   5000,
                                               10000, 20000, 50000, 100000, 1000000};

static void count_length(struct loop_lengths *l, int64_t us)
{
    l->total_us += us;
    l->longest_us = MAX(l->longest_us, us);
    for (int i = LOOP_N_BOUNDS; i-- > 0 && us <= loop_bounds_us[i];)
        l->n_within[i]++;
}

const struct loop_times *loop_times(const struct loop *loop)
{
    return &loop->times;
}

void loop_run_once(struct loop *loop, int64_t max_wait_us)
{
    int n = epoll_wait(loop->epoll_fd, loop->events, EVENTS_AT_ONCE, wait_ms(loop, max_wait_us));
    ASSERT(n >= 0 || errno == EINTR);
    int64_t begin_us = clock_mono_us(), used_us = clock_thread_us();
    loop->n_events = MAX(n, 0);
    for (loop->i_event = 0; loop->i_event < loop->n_events && !loop->stopping;) {
        const struct epoll_event *e = &loop->events[loop->i_event++];
        struct loop_watch *watch = e->data.ptr;
        if (watch) watch->fn(watch->ctx, e->events);
    }
    loop->n_events = 0;
    run_timers(loop);
    loop->times.n_turns++;
    count_length(&loop->times.elapsed, clock_mono_us() - begin_us);
    count_length(&loop->times.used, clock_thread_us() - used_us);
}

void loop_run(struct loop *loop)
{
    while (!loop->stopping)
        loop_run_once(loop, -1);
    loop->stopping = false;
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
