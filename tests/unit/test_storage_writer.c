#include "storage/storage.h"
#include "support/checkpoints.h"

#include <pthread.h>

// A job that waits until it may go on, and what became of it.
struct work {
    int64_t steps;
    int code; // what write() returns
    pthread_mutex_t may_write;
    pthread_t written_by;
    int n_done, n_committed;
    struct ckpt_info info;
};

static int do_write(void *ctx, struct ckpt *c, det_err *err)
{
    struct work *w = ctx;
    pthread_mutex_lock(&w->may_write);
    pthread_mutex_unlock(&w->may_write);
    w->written_by = pthread_self();
    int rc = write_files(c, w->steps, err);
    return w->code ? det_fail(err, w->code, "no more room") : rc;
}

static void do_done(void *ctx, const struct ckpt_info *info)
{
    struct work *w = ctx;
    w->n_done++;
    if (!info) return;
    w->n_committed++;
    w->info = *info;
}

#define WORK(n)                                              \
    {                                                        \
        .steps = (n), .may_write = PTHREAD_MUTEX_INITIALIZER \
    }

static struct ckpt_job job_of(struct work *w)
{
    return (struct ckpt_job){
        .info = {.steps_completed = w->steps}, .write = do_write, .done = do_done, .ctx = w};
}

static struct ckpt_writer *new_writer(struct store *s)
{
    det_err err = {0};
    struct ckpt_writer *w = ckpt_writer_new(s, &err);
    if (!w) fail_msg("%s", err.msg);
    return w;
}

static void test_writer__writes_in_a_thread_of_its_own(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("thread");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt_writer *writer = new_writer(s);
    struct work w = WORK(5);
    struct ckpt_job job = job_of(&w);
    pthread_mutex_lock(&w.may_write);
    assert_ok(ckpt_writer_start(writer, &job, &err), &err);
    assert_ok(ckpt_writer_poll(writer, &err), &err); // does not wait
    assert_int_equal(w.n_done, 0);
    assert_ok(ckpt_list(s, 0, &arena, &list, &err), &err);
    assert_int_equal(list.n + list.n_damaged, 0);
    pthread_mutex_unlock(&w.may_write);
    assert_ok(ckpt_writer_wait(writer, &err), &err);
    assert_false(pthread_equal(w.written_by, pthread_self()));
    assert_int_equal(w.n_done, 1);
    assert_int_equal(w.n_committed, 1);
    assert_int_equal(w.info.steps_completed, 5);
    assert_ok(ckpt_verify(s, w.info.id, NULL, &err), &err);
    assert_ok(ckpt_writer_wait(writer, &err), &err); // nothing to wait for
    assert_int_equal(w.n_done, 1);
    ckpt_writer_free(writer);
    arena_done(&arena);
    store_close(s);
}

static void test_writer__has_one_in_flight_and_keeps_the_order(void **state)
{
    (void)state;
    enum { N = 20 };
    det_err err = {0};
    struct store *s = new_store("order");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt_writer *writer = new_writer(s);
    struct work all[N];
    for (int i = 0; i < N; i++) {
        all[i] = (struct work)WORK(i);
        struct ckpt_job job = job_of(&all[i]);
        assert_ok(ckpt_writer_start(writer, &job, &err), &err);
        if (i) assert_int_equal(all[i - 1].n_committed, 1); // the one before was complete
        assert_int_equal(all[i].n_done, 0);
    }
    ckpt_writer_free(writer);
    assert_int_equal(all[N - 1].n_committed, 1);
    assert_ok(ckpt_list(s, 0, &arena, &list, &err), &err);
    assert_int_equal(list.n, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(list.items[i].steps_completed, N - 1 - (int64_t)i);
    arena_done(&arena);
    store_close(s);
}

static void test_writer__reports_a_failure_on_the_next_call_once(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("failure");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt_writer *writer = new_writer(s);
    struct work bad = WORK(1), good = WORK(2);
    bad.code = DET_ENOSPC;
    struct ckpt_job first = job_of(&bad), second = job_of(&good);
    assert_ok(ckpt_writer_start(writer, &first, &err), &err);
    assert_int_equal(ckpt_writer_start(writer, &second, &err), DET_ENOSPC);
    assert_failed_with(&err, DET_ENOSPC, "no more room");
    assert_int_equal(bad.n_done, 1);
    assert_int_equal(bad.n_committed, 0);
    assert_int_equal(good.n_done, 0);
    assert_ok(ckpt_writer_start(writer, &second, &err), &err);
    assert_ok(ckpt_writer_wait(writer, &err), &err);
    assert_int_equal(good.n_committed, 1);
    ckpt_writer_free(writer);
    assert_ok(ckpt_list(s, 0, &arena, &list, &err), &err);
    assert_int_equal(list.n, 1);
    arena_done(&arena);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer__writes_in_a_thread_of_its_own),
        cmocka_unit_test(test_writer__has_one_in_flight_and_keeps_the_order),
        cmocka_unit_test(test_writer__reports_a_failure_on_the_next_call_once),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
