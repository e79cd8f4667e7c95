// Slow work beside an event loop.
#include "support/test.h"

#include "base/mem.h"
#include "sys/worker.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct job {
    struct loop *loop;
    pthread_t ran_in, done_in;
    _Atomic int *n_left;
};

static void run(void *ctx, void *own)
{
    struct job *job = ctx;
    (void)own;
    job->ran_in = pthread_self();
}

static void done(void *ctx)
{
    struct job *job = ctx;
    job->done_in = pthread_self();
    if (--*job->n_left == 0) loop_stop(job->loop);
}

static void test_worker__runs_elsewhere_and_reports_to_the_loop(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, &(struct worker_opts){.n_threads = 3}, NULL);
    _Atomic int n_left = 100;
    struct job jobs[100];
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, &(struct work){run, done, &jobs[i], i % 7});
    }
    loop_run(loop);
    for (int i = 0; i < 100; i++) {
        assert_false(pthread_equal(jobs[i].ran_in, pthread_self()));
        assert_true(pthread_equal(jobs[i].done_in, pthread_self()));
    }
    worker_free(w);
    loop_free(loop);
}

static void test_worker__can_end_with_work_left(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, &(struct worker_opts){.n_threads = 1}, NULL);
    _Atomic int n_left = 1000;
    static struct job jobs[1000];
    for (int i = 0; i < 1000; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, &(struct work){run, done, &jobs[i], i % 7});
    }
    worker_free(w);
    assert_int_equal(n_left, 1000); // nothing was reported: the loop did not run
    loop_free(loop);
}

static void test_worker__can_be_waited_for(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, &(struct worker_opts){.n_threads = 2}, NULL);
    _Atomic int n_left = 1000;
    static struct job jobs[1000];
    assert_false(worker_drain(w));
    for (int i = 0; i < 1000; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, &(struct work){run, done, &jobs[i], i % 7});
    }
    assert_true(worker_drain(w));
    assert_int_equal(n_left, 0);
    worker_free(w);
    loop_free(loop);
}

// --- whose turn it is

// The first job of a thread waits until all others are in the queue.
struct turns {
    struct loop *loop;
    sem_t go;
    _Atomic int n;
    int64_t order[200];
    int n_done, stop_at;
};

struct turn {
    struct turns *turns;
    int64_t who;
    bool waits;
};

static void take_turn(void *ctx, void *own)
{
    struct turn *t = ctx;
    (void)own;
    while (t->waits && sem_wait(&t->turns->go) != 0) {
    }
    t->turns->order[t->turns->n++] = t->who;
}

static void count_turn(void *ctx)
{
    struct turn *t = ctx;
    if (++t->turns->n_done == t->turns->stop_at) loop_stop(t->turns->loop);
}

static void add_turn(struct worker *w, struct turn *t)
{
    worker_run(w, &(struct work){take_turn, count_turn, t, t->who});
}

static void test_worker__lets_everybody_have_a_turn(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, &(struct worker_opts){.n_threads = 1}, NULL);
    static struct turns turns;
    static struct turn jobs[102];
    turns = (struct turns){.loop = loop, .stop_at = 102};
    sem_init(&turns.go, 0, 0);
    for (int i = 0; i < 102; i++) { // the last one is another's
        jobs[i] = (struct turn){&turns, i == 101, i == 0};
        add_turn(w, &jobs[i]);
    }
    sem_post(&turns.go);
    loop_run(loop);
    int place = 0;
    while (turns.order[place] != 1)
        place++;
    assert_true(place <= 2); // after the one under way, and one more at most
    sem_destroy(&turns.go);
    worker_free(w);
    loop_free(loop);
}

static void test_worker__gives_nobody_all_threads(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, &(struct worker_opts){.n_threads = 2}, NULL);
    static struct turns turns;
    struct turn jobs[] = {{&turns, 7, true}, {&turns, 7, true}, {&turns, 8, false}};
    turns = (struct turns){.loop = loop, .stop_at = 1};
    sem_init(&turns.go, 0, 0);
    for (int i = 0; i < 3; i++)
        add_turn(w, &jobs[i]);
    loop_run(loop); // the others wait for go, so this ends only if it is the turn of the third
    assert_int_equal(turns.order[0], 8);
    sem_post(&turns.go);
    sem_post(&turns.go);
    worker_drain(w);
    assert_int_equal(turns.n_done, 3);
    sem_destroy(&turns.go);
    worker_free(w);
    loop_free(loop);
}

// --- what threads have

static _Atomic int n_open;

static int open_own(void *ctx, void **own, det_err *err)
{
    if (*(const bool *)ctx && n_open) return det_fail(err, DET_EIO, "no more connections");
    n_open++;
    *own = xmalloc(sizeof(pthread_t));
    *(pthread_t *)*own = pthread_self();
    return 0;
}

static void close_own(void *own)
{
    assert_true(pthread_equal(*(pthread_t *)own, pthread_self()));
    free(own);
    n_open--;
}

static void check_own(void *ctx, void *own)
{
    struct job *job = ctx;
    job->ran_in = *(pthread_t *)own;
    assert_true(pthread_equal(job->ran_in, pthread_self()));
}

static void test_worker__gives_each_thread_its_own(void **state)
{
    (void)state;
    bool fails = false;
    struct loop *loop = loop_new(NULL);
    const struct worker_opts opts = {3, open_own, close_own, &fails};
    struct worker *w = worker_new(loop, &opts, NULL);
    assert_int_equal(n_open, 3);
    _Atomic int n_left = 100;
    struct job jobs[100];
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, &(struct work){check_own, done, &jobs[i], 0});
    }
    worker_drain(w);
    worker_free(w);
    assert_int_equal(n_open, 0);
    det_err err = {0};
    fails = true;
    assert_null(worker_new(loop, &opts, &err));
    assert_string_equal(err.msg, "no more connections");
    assert_int_equal(n_open, 0);
    loop_free(loop);
}

RUN_TESTS(cmocka_unit_test(test_worker__lets_everybody_have_a_turn),
          cmocka_unit_test(test_worker__gives_nobody_all_threads),
          cmocka_unit_test(test_worker__gives_each_thread_its_own),
          cmocka_unit_test(test_worker__runs_elsewhere_and_reports_to_the_loop),
          cmocka_unit_test(test_worker__can_end_with_work_left),
          cmocka_unit_test(test_worker__can_be_waited_for))
