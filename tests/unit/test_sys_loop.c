// What sys/loop.h promises.
#include "support/files.h"

#include "sys/clock.h"
#include "sys/loop.h"
#include <pthread.h>
#include <sys/epoll.h>

struct record {
    struct loop *loop;
    int n, order[16];
};

struct step {
    struct record *record;
    int number, stop_at;
    struct loop_timer timer;
};

static void note(struct record *r, int number, int stop_at)
{
    r->order[r->n++] = number;
    if (r->n == stop_at) loop_stop(r->loop);
}

static void on_step(void *ctx)
{
    struct step *s = ctx;
    note(s->record, s->number, s->stop_at);
}

static struct loop *start(struct record *r)
{
    det_err err = {0};
    struct loop *loop = loop_new(&err);
    if (!loop) fail_msg("%s", err.msg);
    *r = (struct record){.loop = loop};
    return loop;
}

static void test_timers__run_in_the_order_of_their_time(void **state)
{
    (void)state;
    struct record r;
    struct loop *loop = start(&r);
    static const int delays[] = {5000, 1000, 4000, 2000, 3000, 6000};
    struct step steps[6];
    for (int i = 0; i < 6; i++) {
        steps[i] = (struct step){&r, i, 5, {.fn = on_step, .ctx = &steps[i]}};
        loop_timer_set(loop, &steps[i].timer, delays[i]);
    }
    loop_timer_clear(loop, &steps[3].timer);
    loop_timer_clear(loop, &steps[3].timer);
    loop_timer_set(loop, &steps[1].timer, 7000); // moved behind the others
    loop_run(loop);
    const int expected[] = {4, 2, 0, 5, 1};
    assert_memory_equal(r.order, expected, sizeof expected);
    loop_free(loop);
}

static void spin(void *ctx)
{
    (void)ctx;
    for (int64_t end = clock_mono_us() + 3000; clock_mono_us() < end;) {
    }
}

static void test_loop__counts_its_turns_by_their_length(void **state)
{
    (void)state;
    struct record r;
    struct loop *loop = start(&r);
    struct loop_timer timer = {.fn = spin};
    loop_timer_set(loop, &timer, 0);
    while (timer.place)
        loop_run_once(loop, -1);
    const struct loop_times *t = loop_times(loop);
    const struct loop_lengths *l = &t->elapsed;
    assert_true(l->longest_us >= 3000 && l->total_us >= l->longest_us);
    for (int i = 0; i < LOOP_N_BOUNDS; i++) // the long one is in no bucket that is too short for it
        assert_true(l->n_within[i] <= t->n_turns - (loop_bounds_us[i] < 3000));
    assert_true(t->used.longest_us > 0 &&
                t->used.total_us <= l->total_us + 1000 * (int64_t)t->n_turns);
    loop_free(loop);
}

enum { N_POSTS = 1000, N_POSTERS = 4 };

struct poster {
    struct loop *loop;
    int n_run; // only touched by the loop's thread
    int *n_total;
};

static void on_post(void *ctx)
{
    struct poster *p = ctx;
    p->n_run++;
    if (++*p->n_total == N_POSTS * N_POSTERS) loop_stop(p->loop);
}

static void *post_many(void *ctx)
{
    struct poster *p = ctx;
    for (int i = 0; i < N_POSTS; i++)
        loop_post(p->loop, on_post, p);
    return NULL;
}

static void test_posts__of_all_threads_run_once(void **state)
{
    (void)state;
    struct record r;
    struct loop *loop = start(&r);
    struct poster posters[N_POSTERS];
    pthread_t threads[N_POSTERS];
    int n_total = 0;
    for (int i = 0; i < N_POSTERS; i++) {
        posters[i] = (struct poster){loop, 0, &n_total};
        pthread_create(&threads[i], NULL, post_many, &posters[i]);
    }
    loop_run(loop);
    for (int i = 0; i < N_POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posters[i].n_run, N_POSTS);
    }
    loop_free(loop);
}

struct pipe_end {
    struct loop *loop;
    struct loop_watch watch;
    struct pipe_end *other;
    int *n_calls;
};

// The first of two that are ready at the same time takes the other away.
static void on_readable(void *ctx, uint32_t events)
{
    struct pipe_end *p = ctx;
    assert_true(events & EPOLLIN);
    ++*p->n_calls;
    loop_unwatch(p->loop, &p->other->watch);
    loop_stop(p->loop);
}

static void test_unwatch__also_drops_events_that_are_waiting(void **state)
{
    (void)state;
    struct record r;
    det_err err = {0};
    struct loop *loop = start(&r);
    struct pipe_end ends[2];
    int fds[2][2], n_calls = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        assert_int_equal(write(fds[i][1], "x", 1), 1);
        ends[i] =
            (struct pipe_end){loop, {on_readable, &ends[i], fds[i][0]}, &ends[1 - i], &n_calls};
        assert_ok(loop_watch(loop, &ends[i].watch, EPOLLIN, &err), &err);
    }
    loop_run_once(loop, 0);
    assert_int_equal(n_calls, 1);
    for (int i = 0; i < 2; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    assert_int_equal(loop_watch(loop, &ends[0].watch, EPOLLIN, &err), DET_EIO);
    loop_free(loop);
}

RUN_TESTS(cmocka_unit_test(test_loop__counts_its_turns_by_their_length),
          cmocka_unit_test(test_timers__run_in_the_order_of_their_time),
          cmocka_unit_test(test_posts__of_all_threads_run_once),
          cmocka_unit_test(test_unwatch__also_drops_events_that_are_waiting))
