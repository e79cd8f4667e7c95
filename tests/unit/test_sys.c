// What sys/ promises about threads, memory and the processor.
#include "support/test.h"

#include "sys/cpu.h"
#include "sys/pool.h"
#include "sys/vmem.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PIECES = 1000 };

struct tally {
    _Atomic int runs[N_PIECES];
    _Atomic int nested;
};

static void count_piece(void *ctx, int piece)
{
    struct tally *t = ctx;
    atomic_fetch_add(&t->runs[piece], 1);
}

static void assert_each_once(struct tally *t)
{
    for (int i = 0; i < N_PIECES; i++)
        assert_int_equal(atomic_exchange(&t->runs[i], 0), 1);
}

static void test_pool__runs_every_piece_once_with_any_number_of_threads(void **state)
{
    (void)state;
    static struct tally t;
    for (int threads = 1; threads <= 8; threads++) {
        pool_set_threads(threads);
        assert_int_equal(pool_threads(), threads);
        for (int round = 0; round < 200; round++) {
            pool_run(N_PIECES, count_piece, &t);
            assert_each_once(&t);
        }
    }
    pool_set_threads(2);
}

struct short_run {
    int size;
    atomic_int n_runs;
    atomic_bool strange; // a piece that this run does not have
};

static void short_piece(void *ctx, int piece)
{
    struct short_run *r = ctx;
    if (piece < 0 || piece >= r->size) atomic_store(&r->strange, true);
    atomic_fetch_add(&r->n_runs, 1);
}

// A worker that comes late to a run of few pieces must not take a piece of the longer one after it.
static void test_pool__runs_of_different_sizes_do_not_mix(void **state)
{
    (void)state;
    pool_set_threads(4);
    for (int round = 0; round < 100000; round++) {
        struct short_run r = {.size = 2 + round % 7};
        pool_run(r.size, short_piece, &r);
        assert_int_equal(r.n_runs, r.size);
        assert_false(r.strange);
    }
    pool_set_threads(2);
}

static void nesting_piece(void *ctx, int piece)
{
    struct tally *t = ctx;
    (void)piece;
    pool_run(N_PIECES, count_piece, t); // inside a piece: in this thread
    atomic_fetch_add(&t->nested, 1);
}

static void test_pool__a_piece_may_use_the_pool(void **state)
{
    (void)state;
    static struct tally t;
    pool_run(3, nesting_piece, &t);
    assert_int_equal(t.nested, 3);
    for (int i = 0; i < N_PIECES; i++)
        assert_int_equal(t.runs[i], 3);
}

static void *run_from_thread(void *arg)
{
    for (int round = 0; round < 300; round++)
        pool_run(N_PIECES, count_piece, arg);
    return NULL;
}

static void test_pool__two_threads_may_use_it_at_once(void **state)
{
    (void)state;
    static struct tally a, b;
    pthread_t thread;
    pthread_create(&thread, NULL, run_from_thread, &a);
    run_from_thread(&b);
    pthread_join(thread, NULL);
    for (int i = 0; i < N_PIECES; i++) {
        assert_int_equal(a.runs[i], 300);
        assert_int_equal(b.runs[i], 300);
    }
}

static void test_pool__works_again_in_a_forked_child(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); // it does not let children of programs with threads start threads
#endif
    static struct tally t;
    pool_run(N_PIECES, count_piece, &t);
    assert_each_once(&t);
    pid_t pid = fork();
    if (pid == 0) {
        pool_run(N_PIECES, count_piece, &t);
        int ok = 1;
        for (int i = 0; i < N_PIECES; i++)
            ok = ok && t.runs[i] == 1;
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_vmem__absurd_sizes_give_null(void **state)
{
    (void)state;
    assert_null(vmem_map(SIZE_MAX / 2, 0));
    assert_null(vmem_map((size_t)1 << 60, 0));
    char *p = vmem_map(5 << 20, 5 << 20);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % VMEM_ALIGN, 0);
    p[0] = p[(5 << 20) - 1] = 1;
    vmem_unmap(p, 5 << 20);
}

static void test_cpu__reports_at_least_one_processor_and_a_known_set(void **state)
{
    (void)state;
    assert_true(cpu_count() >= 1);
    assert_true(cpu_features()->isa < CPU_N_ISA);
    assert_non_null(cpu_isa_name(cpu_features()->isa));
}

RUN_TESTS(cmocka_unit_test(test_pool__runs_every_piece_once_with_any_number_of_threads),
          cmocka_unit_test(test_pool__runs_of_different_sizes_do_not_mix),
          cmocka_unit_test(test_pool__a_piece_may_use_the_pool),
          cmocka_unit_test(test_pool__two_threads_may_use_it_at_once),
          cmocka_unit_test(test_pool__works_again_in_a_forked_child),
          cmocka_unit_test(test_vmem__absurd_sizes_give_null),
          cmocka_unit_test(test_cpu__reports_at_least_one_processor_and_a_known_set))
