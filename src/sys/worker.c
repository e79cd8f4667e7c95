// Unit worker.c: a queue of jobs and the threads that take from it.
#include "sys/worker.h"

#include "base/mem.h"
#include <pthread.h>
#include <stdbool.h>

struct job {
    void (*run)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
    struct job *next;
};

struct worker {
    struct loop *loop;
    pthread_t *threads;
    int n_threads;
    pthread_mutex_t lock;     // of what follows
    pthread_cond_t wake;      // there is something to do
    pthread_cond_t idle;      // there is nothing left to do
    struct job *first, *last; // to do
    struct job *finished;     // to be reported, the latest first
    int n_running;
    bool stop;
};

static void free_all(struct job *job)
{
    for (struct job *next; job; job = next) {
        next = job->next;
        free(job);
    }
}

static struct job *take_finished(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    struct job *job = w->finished, *oldest_first = NULL;
    w->finished = NULL;
    pthread_mutex_unlock(&w->lock);
    for (struct job *next; job; job = next) {
        next = job->next;
        job->next = oldest_first;
        oldest_first = job;
    }
    return oldest_first;
}

static bool report_all(struct worker *w)
{
    struct job *jobs = take_finished(w);
    for (struct job *job = jobs; job; job = job->next)
        job->done(job->ctx);
    free_all(jobs);
    return jobs;
}

static void report(void *ctx)
{
    report_all(ctx);
}

static struct job *take(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->stop)
        pthread_cond_wait(&w->wake, &w->lock);
    struct job *job = w->stop ? NULL : w->first;
    if (job) w->first = job->next;
    if (job) w->n_running++;
    if (!w->first) w->last = NULL;
    pthread_mutex_unlock(&w->lock);
    return job;
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    for (struct job *job; (job = take(w));) {
        job->run(job->ctx);
        pthread_mutex_lock(&w->lock);
        job->next = w->finished;
        w->finished = job;
        if (--w->n_running == 0 && !w->first) pthread_cond_signal(&w->idle);
        pthread_mutex_unlock(&w->lock);
        loop_post(w->loop, report, w);
    }
    return NULL;
}

struct worker *worker_new(struct loop *loop, int n_threads, det_err *err)
{
    struct worker *w = xcalloc(1, sizeof *w);
    w->loop = loop;
    w->threads = xcalloc((size_t)n_threads, sizeof *w->threads);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->idle, NULL);
    for (; w->n_threads < n_threads; w->n_threads++) {
        int rc = pthread_create(&w->threads[w->n_threads], NULL, work, w);
        if (!rc) continue;
        det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc));
        worker_free(w);
        return NULL;
    }
    return w;
}

void worker_free(struct worker *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    free_all(w->first);
    free_all(w->finished);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->idle);
    free(w->threads);
    free(w);
}

void worker_run(struct worker *w, void (*run)(void *job), void (*done)(void *job), void *ctx)
{
    struct job *job = xmalloc(sizeof *job);
    *job = (struct job){.run = run, .done = done, .ctx = ctx};
    pthread_mutex_lock(&w->lock);
    if (w->last)
        w->last->next = job;
    else
        w->first = job;
    w->last = job;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

bool worker_drain(struct worker *w)
{
    for (bool any = false;; any = true) {
        pthread_mutex_lock(&w->lock);
        while (w->first || w->n_running)
            pthread_cond_wait(&w->idle, &w->lock);
        pthread_mutex_unlock(&w->lock);
        if (!report_all(w)) return any; // reports may have brought new jobs
    }
}
