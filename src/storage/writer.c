// Unit writer.c: the thread that writes checkpoints while training goes on.
//
// The caller's thread owns the writer; mutex guards state and error, which the two threads share.
//
//     IDLE --start--> QUEUED --(thread)--> OVER --reap (caller's thread)--> IDLE
#include "storage/storage.h"

#include "base/mem.h"
#include <pthread.h>

enum state { IDLE, QUEUED, OVER, QUIT };

struct ckpt_writer {
    struct store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum state state;
    struct ckpt_job job;   // the caller's while IDLE and OVER, the thread's while QUEUED
    struct ckpt_info info; // what was committed
    int rc;
    det_err err;
};

static int write_one(struct store *s, const struct ckpt_job *job, struct ckpt_info *out,
                     det_err *err)
{
    struct ckpt *c = NULL;
    int rc = ckpt_begin(s, &job->info, &c, err);
    if (rc) return rc;
    rc = job->write(job->ctx, c, err);
    if (!rc) return ckpt_commit(c, out, err);
    ckpt_abort(c);
    return rc;
}

static void set_state(struct ckpt_writer *w, enum state state)
{
    pthread_mutex_lock(&w->mutex);
    w->state = state;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static enum state wait_while(struct ckpt_writer *w, enum state a, enum state b)
{
    pthread_mutex_lock(&w->mutex);
    while (w->state == a || w->state == b)
        pthread_cond_wait(&w->changed, &w->mutex);
    enum state now = w->state;
    pthread_mutex_unlock(&w->mutex);
    return now;
}

static void *thread_main(void *ctx)
{
    struct ckpt_writer *w = ctx;
    while (wait_while(w, IDLE, OVER) != QUIT) {
        w->rc = write_one(w->store, &w->job, &w->info, &w->err);
        set_state(w, OVER);
    }
    return NULL;
}

static void destroy(struct ckpt_writer *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

struct ckpt_writer *ckpt_writer_new(struct store *s, det_err *err)
{
    struct ckpt_writer *w = xcalloc(1, sizeof *w);
    w->store = s;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (!pthread_create(&w->thread, NULL, thread_main, w)) return w;
    det_fail(err, DET_ENOMEM, "cannot start the thread that writes checkpoints");
    destroy(w);
    return NULL;
}

// After OVER: tells the job, and gives its error once.
static int reap(struct ckpt_writer *w, det_err *err)
{
    int rc = w->rc;
    w->job.done(w->job.ctx, rc ? NULL : &w->info);
    if (rc && err) *err = w->err;
    set_state(w, IDLE);
    return rc ? rc : det_ok(err);
}

int ckpt_writer_poll(struct ckpt_writer *w, det_err *err)
{
    pthread_mutex_lock(&w->mutex);
    bool over = w->state == OVER;
    pthread_mutex_unlock(&w->mutex);
    return over ? reap(w, err) : det_ok(err);
}

int ckpt_writer_wait(struct ckpt_writer *w, det_err *err)
{
    return wait_while(w, QUEUED, QUEUED) == OVER ? reap(w, err) : det_ok(err);
}

int ckpt_writer_start(struct ckpt_writer *w, const struct ckpt_job *job, det_err *err)
{
    int rc = ckpt_writer_wait(w, err);
    if (rc) return rc;
    w->job = *job;
    set_state(w, QUEUED);
    return rc;
}

void ckpt_writer_free(struct ckpt_writer *w)
{
    if (!w) return;
    ckpt_writer_wait(w, NULL);
    set_state(w, QUIT);
    pthread_join(w->thread, NULL);
    destroy(w);
}
