// Unit watcher.c: asks the master, with long polls, whether this allocation should end. Started by
// core.c.
#include "client/watcher.h"

#include "doc/json.h"
#include "base/mem.h"
#include "client/shipper.h"
#include "sys/clock.h"
#include "sys/interrupt.h"
#include <pthread.h>
#include <stdatomic.h>

enum { POLL_S = 60, POLL_GRACE_S = 30, RETRY_S = 2 };

struct watcher {
    struct http_client *client;
    char *path;
    pthread_t thread;
    _Atomic bool should_end;
    pthread_mutex_t lock; // of the next two
    pthread_cond_t changed;
    bool was_answered, stopping;
};

static void publish(struct watcher *w, bool should_end)
{
    if (should_end) atomic_store(&w->should_end, true);
    pthread_mutex_lock(&w->lock);
    w->was_answered = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static bool is_stopping(struct watcher *w)
{
    pthread_mutex_lock(&w->lock);
    bool stopping = w->stopping;
    pthread_mutex_unlock(&w->lock);
    return stopping;
}

static void pause_briefly(struct watcher *w)
{
    struct timespec end = clock_mono_in(RETRY_S * 1000000);
    pthread_mutex_lock(&w->lock);
    while (!w->stopping && pthread_cond_timedwait(&w->changed, &w->lock, &end) == 0)
        ;
    pthread_mutex_unlock(&w->lock);
}

// Asks once. True if it was answered.
static bool ask(struct watcher *w, int wait_s)
{
    struct arena arena = ARENA_INIT;
    struct doc *answer;
    const struct http_call call = {
        .path = arena_printf(&arena, "%s?timeout_seconds=%d", w->path, wait_s),
        .timeout_us = (int64_t)(wait_s + POLL_GRACE_S) * 1000000};
    int rc = http_call_json(w->client, &call, &arena, &answer, NULL);
    bool answered = !is_transient(rc) && rc != DET_ECANCELED;
    if (answered) {
        const struct doc *preempt = rc ? NULL : doc_find(answer, "preempt");
        // A master that does not know the allocation has given it up; nothing we do counts any
        // more.
        publish(w, rc ? true : preempt && preempt->kind == DOC_BOOL && preempt->boolean);
    }
    arena_done(&arena);
    return answered;
}

static void *watcher_main(void *arg)
{
    struct watcher *w = arg;
    int wait_s = 0; // the first answer is wanted at once
    while (!is_stopping(w) && !atomic_load(&w->should_end)) {
        if (ask(w, wait_s))
            wait_s = POLL_S;
        else
            pause_briefly(w);
    }
    return NULL;
}

int watcher_start(const char *path, const struct http_client_opts *master, struct watcher **out,
                  det_err *err)
{
    struct http_client *client = http_client_new(master, err);
    if (!client) return err ? err->code : DET_EINVAL;
    struct watcher *w = xcalloc(1, sizeof *w);
    pthread_condattr_t attr;
    w->client = client;
    w->path = xstrdup(path);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&w->thread, NULL, watcher_main, w) == 0) {
        *out = w;
        return det_ok(err);
    }
    http_client_free(client);
    free(w->path);
    free(w);
    return det_fail(err, DET_ENOMEM, "cannot start a thread");
}

void watcher_stop(struct watcher *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    http_client_cancel(w->client);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    http_client_free(w->client);
    free(w->path);
    free(w);
}

bool watcher_should_end(const struct watcher *w)
{
    return atomic_load_explicit(&w->should_end, memory_order_relaxed);
}

bool watcher_wait(struct watcher *w)
{
    bool goes_on = true;
    pthread_mutex_lock(&w->lock);
    while (!w->was_answered && goes_on) {
        struct timespec end = clock_mono_in(INTERRUPT_POLL_US);
        pthread_cond_timedwait(&w->changed, &w->lock, &end);
        pthread_mutex_unlock(&w->lock); // handlers of signals may take long
        goes_on = !interrupted();
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}
