// Unit shipper.c: delivers a journal. Started by core.c, and by client_deliver() for journals that
// were left behind.
//
// An answer decides what becomes of an entry: taken (2xx); refused (4xx: the entry is passed over
// and the error kept for whoever asks next); not now (no answer, 5xx, 429: tried again after a
// while). When the master does not know us any more (401, 403: the allocation has ended, or another
// run has taken its place) nothing that follows would be taken either: it is over.
//
// What waits is sent in batches. The master takes a batch or refuses it as a whole; one that is
// refused is sent again entry by entry, which tells the bad ones from the good ones.
#include "client/shipper.h"

#include "base/assert.h"
#include "base/mem.h"
#include "client/batch.h"
#include "sys/clock.h"
#include "sys/interrupt.h"
#include <pthread.h>

enum {
    FIRST_DELAY_US = 100000,
    LONGEST_DELAY_US = 5 * 1000000,
    SYNC_EVERY_US = 1000000, // so much may be delivered again after a power failure
};

struct shipper {
    struct journal *journal;
    struct http_client *client;
    struct batch batch;  // being sent
    int64_t alone_until; // number of the last entry to be sent alone: it was in a batch refused
    pthread_t thread;
    pthread_mutex_t lock; // of all below
    pthread_cond_t changed;
    bool stopping, is_over;
    bool is_idle;  // nothing waits, and all of that is on disk
    bool has_more; // since is_idle was set
    det_err error; // not yet reported
    det_err end;   // why it is over
};

bool is_transient(int code)
{
    return code == DET_EUNREACHABLE || code == DET_ETIMEOUT || code == DET_EBUSY ||
           code == DET_EIO || code == DET_ENOSPC || code == DET_ENOMEM;
}

static bool is_final(int code)
{
    return code == DET_EAUTH || code == DET_EDENIED;
}

// --- waiting, under the lock

// Until the delay is over or the thread is to stop.
static void pause_for(struct shipper *s, int64_t delay_us)
{
    struct timespec end = clock_mono_in(delay_us);
    while (!s->stopping && pthread_cond_timedwait(&s->changed, &s->lock, &end) == 0)
        ;
}

// --- the thread

static void keep_error(struct shipper *s, const det_err *err)
{
    pthread_mutex_lock(&s->lock);
    if (!s->error.code) s->error = *err;
    if (is_final(err->code)) {
        s->is_over = true;
        s->end = *err;
    }
    pthread_mutex_unlock(&s->lock);
}

enum sent { TAKEN, NOT_NOW, REFUSED };

static enum sent send_batch(struct shipper *s)
{
    const struct batch *b = &s->batch;
    det_err err = {0};
    const struct http_call call = {.method = HTTP_POST,
                                   .path = buf_str(&b->path).ptr,
                                   .body = buf_str(&b->body),
                                   .idempotency_key = b->key};
    int rc = http_call(s->client, &call, NULL, &err);
    if (rc == DET_ECANCELED || is_transient(rc)) return NOT_NOW;
    if (rc && b->n > 1 && !is_final(rc)) return REFUSED;
    if (rc) { // passed over, as if it had been taken
        det_wrap(&err, "the master refused a report");
        keep_error(s, &err);
    }
    return TAKEN;
}

static bool goes_on(struct shipper *s)
{
    pthread_mutex_lock(&s->lock);
    bool go_on = !s->stopping && !s->is_over;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void wait_longer(struct shipper *s, int64_t *delay_us)
{
    pthread_mutex_lock(&s->lock);
    pause_for(s, *delay_us);
    pthread_mutex_unlock(&s->lock);
    *delay_us = MIN(2 * *delay_us, (int64_t)LONGEST_DELAY_US);
}

// Delivers until nothing waits. False: it is over, or something is wrong with the journal.
static bool deliver_all(struct shipper *s)
{
    det_err err = {0};
    int64_t delay_us = FIRST_DELAY_US, synced_us = clock_mono_us();
    while (goes_on(s)) {
        int rc = batch_next(&s->batch, s->journal, s->alone_until, &err);
        if (rc < 0) keep_error(s, &err);
        if (rc <= 0) return rc == 0;
        enum sent sent = send_batch(s);
        if (sent == NOT_NOW)
            wait_longer(s, &delay_us);
        else
            delay_us = FIRST_DELAY_US;
        if (sent == REFUSED) s->alone_until = s->batch.last;
        if (sent == TAKEN && goes_on(s)) journal_taken(s->journal, s->batch.last);
        if (clock_mono_us() - synced_us > SYNC_EVERY_US) {
            journal_note_taken(s->journal, NULL);
            journal_sync(s->journal, NULL); // a failure shows itself when something is added
            synced_us = clock_mono_us();
        }
    }
    return false;
}

static void *shipper_main(void *arg)
{
    struct shipper *s = arg;
    bool go_on = true;
    while (go_on) {
        pthread_mutex_lock(&s->lock);
        s->has_more = false;
        pthread_mutex_unlock(&s->lock);
        go_on = deliver_all(s);
        journal_note_taken(s->journal, NULL);
        journal_sync(s->journal, NULL);
        pthread_mutex_lock(&s->lock);
        if (!go_on) s->is_over = true;
        s->is_idle = !s->has_more;
        pthread_cond_broadcast(&s->changed);
        while (go_on && !s->has_more && !s->stopping)
            pthread_cond_wait(&s->changed, &s->lock);
        s->is_idle = false;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

// --- for others

int shipper_start(struct journal *j, const struct http_client_opts *master, struct shipper **out,
                  det_err *err)
{
    struct http_client *client = http_client_new(master, err);
    if (!client) return err ? err->code : DET_EINVAL;
    struct shipper *s = xcalloc(1, sizeof *s);
    pthread_condattr_t attr;
    s->journal = j;
    s->client = client;
    s->batch = BATCH_INIT;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&s->thread, NULL, shipper_main, s) == 0) {
        *out = s;
        return det_ok(err);
    }
    http_client_free(client);
    batch_done(&s->batch);
    free(s);
    return det_fail(err, DET_ENOMEM, "cannot start a thread");
}

void shipper_wake(struct shipper *s)
{
    pthread_mutex_lock(&s->lock);
    s->has_more = true;
    s->is_idle = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int shipper_take_error(struct shipper *s, det_err *err)
{
    pthread_mutex_lock(&s->lock);
    int code = s->error.code;
    if (code && err) *err = s->error;
    s->error.code = 0;
    pthread_mutex_unlock(&s->lock);
    return code;
}

int shipper_drain(struct shipper *s, int64_t timeout_us, det_err *err)
{
    int64_t end_us = clock_mono_us() + timeout_us;
    bool was_interrupted = false;
    pthread_mutex_lock(&s->lock);
    while (!s->is_idle && !s->is_over && clock_mono_us() < end_us && !was_interrupted) {
        struct timespec soon = clock_mono_in(INTERRUPT_POLL_US);
        pthread_cond_timedwait(&s->changed, &s->lock, &soon);
        pthread_mutex_unlock(&s->lock); // handlers of signals may take long
        was_interrupted = interrupted();
        pthread_mutex_lock(&s->lock);
    }
    bool is_over = s->is_over;
    det_err why = s->end;
    pthread_mutex_unlock(&s->lock);
    if (is_over && why.code) {
        if (err) *err = why;
        return why.code;
    }
    int64_t n = journal_n_waiting(s->journal);
    if (!n) return det_ok(err);
    return det_fail(err, was_interrupted ? DET_ECANCELED : DET_ETIMEOUT,
                    "%lld reports could not be delivered to the master; they are kept in '%s'",
                    (long long)n, journal_path(s->journal));
}

void shipper_stop(struct shipper *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    http_client_cancel(s->client);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    http_client_free(s->client);
    batch_done(&s->batch);
    free(s);
}
