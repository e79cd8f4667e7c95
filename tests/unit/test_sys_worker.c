// Slow work beside an event loop.
#include "support/test.h"

#include "sys/worker.h"
#include <pthread.h>
#include <stdatomic.h>

struct job {
    struct loop *loop;
    pthread_t ran_in, done_in;
    _Atomic int *n_left;
};

static void run(void *ctx)
{
    struct job *job = ctx;
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
    struct worker *w = worker_new(loop, 3, NULL);
    _Atomic int n_left = 100;
    struct job jobs[100];
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, run, done, &jobs[i]);
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
    struct worker *w = worker_new(loop, 1, NULL);
    _Atomic int n_left = 1000;
    static struct job jobs[1000];
    for (int i = 0; i < 1000; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, run, done, &jobs[i]);
    }
    worker_free(w);
    assert_int_equal(n_left, 1000); // nothing was reported: the loop did not run
    loop_free(loop);
}

static void test_worker__can_be_waited_for(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    struct worker *w = worker_new(loop, 2, NULL);
    _Atomic int n_left = 1000;
    static struct job jobs[1000];
    assert_false(worker_drain(w));
    for (int i = 0; i < 1000; i++) {
        jobs[i] = (struct job){.loop = loop, .n_left = &n_left};
        worker_run(w, run, done, &jobs[i]);
    }
    assert_true(worker_drain(w));
    assert_int_equal(n_left, 0);
    worker_free(w);
    loop_free(loop);
}

RUN_TESTS(cmocka_unit_test(test_worker__runs_elsewhere_and_reports_to_the_loop),
          cmocka_unit_test(test_worker__can_end_with_work_left),
          cmocka_unit_test(test_worker__can_be_waited_for))
