// Unit worker.c: queues of jobs and the threads that take from them.
#include "sys/worker.h"

#include "base/assert.h"
#include "base/mem.h"
#include <pthread.h>

struct job {
    struct work work;
    struct line *line;
    struct job *next;
};

// The jobs of one on whose behalf they are done. Exists while there are any.
struct line {
    int64_t who;
    struct job *first, *last; // to do
    int n_running;
    struct line *next;
};

struct worker {
    struct loop *loop;
    struct worker_opts opts;
    pthread_t *threads;
    int n_threads;
    pthread_mutex_t lock;  // of what follows
    pthread_cond_t wake;   // there is something to do
    pthread_cond_t idle;   // there is nothing left to do, or a thread is open
    struct line *lines;    // whose turn it is comes first
    struct job *finished;  // to be reported, the latest first
    int n_jobs, n_opening; // that are to do or running; threads that begin
    int open_failed;
    det_err err;
    bool stop;
};

static void free_all(struct job *job)
{
    for (struct job *next; job; job = next) {
        next = job->next;
        free(job);
    }
}

// --- lines

static struct line *find_line(struct worker *w, int64_t who)
{
    struct line **at = &w->lines;
    while (*at && (*at)->who != who)
        at = &(*at)->next;
    if (!*at) {
        *at = xcalloc(1, sizeof **at);
        (*at)->who = who;
    }
    return *at;
}

static void unlink_line(struct worker *w, struct line *line)
{
    struct line **at = &w->lines;
    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    line->next = NULL;
}

static void append_line(struct worker *w, struct line *line)
{
    struct line **at = &w->lines;
    while (*at)
        at = &(*at)->next;
    *at = line;
}

// The next job of the first line that may have another thread. The line goes to the end.
static struct job *next_job(struct worker *w)
{
    int share = MAX(1, w->opts.n_threads - 1);
    struct line *line = w->lines;
    while (line && (!line->first || line->n_running >= share))
        line = line->next;
    if (!line) return NULL;
    struct job *job = line->first;
    line->first = job->next;
    if (!line->first) line->last = NULL;
    line->n_running++;
    unlink_line(w, line);
    append_line(w, line);
    return job;
}

static void end_job(struct worker *w, struct job *job)
{
    struct line *line = job->line;
    job->next = w->finished;
    w->finished = job;
    w->n_jobs--;
    line->n_running--;
    if (line->first || line->n_running) return;
    unlink_line(w, line);
    free(line);
}

// --- reports

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
        job->work.done(job->work.job);
    free_all(jobs);
    return jobs;
}

static void report(void *ctx)
{
    report_all(ctx);
}

// --- threads

static void note_open(struct worker *w, int rc, const det_err *err)
{
    pthread_mutex_lock(&w->lock);
    if (rc && !w->open_failed) w->err = *err;
    w->open_failed = w->open_failed ? w->open_failed : rc;
    w->n_opening--;
    pthread_cond_broadcast(&w->idle);
    pthread_mutex_unlock(&w->lock);
}

static struct job *take(struct worker *w)
{
    struct job *job = NULL;
    pthread_mutex_lock(&w->lock);
    while (!w->stop && !(job = next_job(w)))
        pthread_cond_wait(&w->wake, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return job;
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    void *own = NULL;
    det_err err = {0};
    int rc = w->opts.open ? w->opts.open(w->opts.ctx, &own, &err) : 0;
    note_open(w, rc, &err);
    for (struct job *job; !rc && (job = take(w));) {
        job->work.run(job->work.job, own);
        pthread_mutex_lock(&w->lock);
        end_job(w, job);
        if (!w->n_jobs) pthread_cond_broadcast(&w->idle);
        pthread_mutex_unlock(&w->lock);
        loop_post(w->loop, report, w);
    }
    if (!rc && w->opts.close) w->opts.close(own);
    return NULL;
}

static int start_threads(struct worker *w, det_err *err)
{
    int rc = 0;
    w->n_opening = w->opts.n_threads;
    for (; w->n_threads < w->opts.n_threads; w->n_threads++)
        if ((rc = pthread_create(&w->threads[w->n_threads], NULL, work, w))) break;
    pthread_mutex_lock(&w->lock);
    w->n_opening -= w->opts.n_threads - w->n_threads;
    while (w->n_opening)
        pthread_cond_wait(&w->idle, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (rc) return det_fail(err, DET_EIO, "cannot start a thread: %s", strerror(rc));
    return w->open_failed ? det_fail(err, w->open_failed, "%s", w->err.msg) : 0;
}

struct worker *worker_new(struct loop *loop, const struct worker_opts *opts, det_err *err)
{
    struct worker *w = xcalloc(1, sizeof *w);
    w->loop = loop;
    w->opts = *opts;
    w->threads = xcalloc((size_t)opts->n_threads, sizeof *w->threads);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->idle, NULL);
    if (!start_threads(w, err)) return w;
    worker_free(w);
    return NULL;
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
    for (struct line *line = w->lines, *next; line; line = next) {
        next = line->next;
        free_all(line->first);
        free(line);
    }
    free_all(w->finished);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->idle);
    free(w->threads);
    free(w);
}

void worker_run(struct worker *w, const struct work *todo)
{
    struct job *job = xmalloc(sizeof *job);
    *job = (struct job){.work = *todo};
    pthread_mutex_lock(&w->lock);
    struct line *line = job->line = find_line(w, todo->who);
    *(line->last ? &line->last->next : &line->first) = job;
    line->last = job;
    w->n_jobs++;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

bool worker_drain(struct worker *w)
{
    for (bool any = false;; any = true) {
        pthread_mutex_lock(&w->lock);
        while (w->n_jobs)
            pthread_cond_wait(&w->idle, &w->lock);
        pthread_mutex_unlock(&w->lock);
        if (!report_all(w)) return any; // reports may have brought new jobs
    }
}
