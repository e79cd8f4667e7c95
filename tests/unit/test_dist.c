// Collectives: the same bits on every rank, and an error that names the rank when one deviates,
// fails or dies.
#include "support/ranks.h"

#include <math.h>

enum { LARGE = 700001 }; // several chunks of f32, and not a multiple of anything

static int join(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    const int *size = user;
    RANK_CHECK(d && dist_rank(d) == rank && dist_size(d) == *size);
    for (int i = 0; i < 1000; i++)
        RANK_CHECK(!dist_barrier(d, "meeting", &mine->err));
    return 0;
}

static void test_ranks__meet(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++)
        assert_ranks_fine(ranks_run(n, join, &n), n);
}

static void test_one_rank__is_free(void **state)
{
    (void)state;
    struct dist *d;
    det_err err;
    float x = 3;
    struct dist_parts parts;
    const struct dist_opts opts = {.key = "alone", .size = 1};
    assert_int_equal(dist_join(&opts, &d, &err), 0);
    assert_null(d);
    assert_int_equal(dist_size(d), 1);
    assert_int_equal(dist_barrier(d, "x", &err), 0);
    assert_int_equal(dist_all_reduce(d, "x", &x, 1, DIST_F32, DIST_MEAN, &err), 0);
    assert_true(x == 3);
    assert_int_equal(dist_broadcast(d, "x", 0, &x, sizeof x, &err), 0);
    assert_int_equal(dist_all_gather(d, "x", STR("mine"), &parts, &err), 0);
    assert_int_equal(parts.n, 1);
    assert_true(str_eqz(parts.part[0], "mine"));
    dist_parts_done(&parts);
    dist_leave(d);
}

// --- sums

// A sum of three whose result depends on the order: only that of ranks gives it.
static int sum_in_order(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    static const float parts[] = {1e8F, 1, -1e8F};
    float *x = malloc(LARGE * sizeof *x), expected = (parts[0] + parts[1]) + parts[2];
    for (int i = 0; i < LARGE; i++)
        x[i] = parts[rank] * (float)(i % 7);
    RANK_CHECK(!dist_all_reduce(d, "x", x, LARGE, DIST_F32, DIST_SUM, &mine->err));
    for (int i = 0; i < LARGE; i++) {
        float k = (float)(i % 7);
        RANK_CHECK(x[i] == (parts[0] * k + parts[1] * k) + parts[2] * k);
    }
    RANK_CHECK(x[1] == expected && expected == 0); // 1e8 + 1 is 1e8 in f32
    free(x);
    return 0;
}

static void test_sum__is_in_order_of_ranks(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run(3, sum_in_order, NULL), 3);
}

static int mean_of_types(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    float f[] = {(float)rank, 1, INFINITY};
    double g[] = {rank, 1e300, rank ? NAN : 0};
    uint16_t b[] = {0x3f80, rank ? 0x3f80 : 0x3f81}; // 1 and 1, 1 + 2^-7 and 1
    RANK_CHECK(!dist_all_reduce(d, "f", f, 3, DIST_F32, DIST_MEAN, &mine->err));
    RANK_CHECK(f[0] == 0.5F && f[1] == 1 && isinf(f[2]));
    RANK_CHECK(!dist_all_reduce(d, "g", g, 3, DIST_F64, DIST_MEAN, &mine->err));
    RANK_CHECK(g[0] == 0.5 && g[1] == 1e300 && isnan(g[2]));
    RANK_CHECK(!dist_all_reduce(d, "b", b, 2, DIST_BF16, DIST_MEAN, &mine->err));
    RANK_CHECK(b[0] == 0x3f80 && b[1] == 0x3f80); // half way between two: the even one
    RANK_CHECK(!dist_all_reduce(d, "none", NULL, 0, DIST_F32, DIST_SUM, &mine->err));
    return 0;
}

static void test_mean__of_all_types(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run(2, mean_of_types, NULL), 2);
}

// Many small operations of changing kinds and sizes, so that chunks and stamps are used again.
static int mix(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    int size = dist_size(d);
    for (int i = 0; i < 500; i++) {
        int64_t number = rank == i % size ? i : -1;
        double sum = rank + i;
        struct dist_parts parts;
        RANK_CHECK(!dist_broadcast(d, "number", i % size, &number, sizeof number, &mine->err));
        RANK_CHECK(number == i);
        RANK_CHECK(!dist_all_reduce(d, "sum", &sum, 1, DIST_F64, DIST_SUM, &mine->err));
        RANK_CHECK(sum == i * size + size * (size - 1) / 2.0);
        RANK_CHECK(!dist_all_gather(d, "text", (struct str){"abcdefgh", (size_t)(rank + i) % 9},
                                    &parts, &mine->err));
        for (int k = 0; k < size; k++)
            RANK_CHECK(str_eq(parts.part[k], (struct str){"abcdefgh", (size_t)(k + i) % 9}));
        dist_parts_done(&parts);
    }
    return 0;
}

static void test_operations__of_all_kinds_in_a_row(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run(4, mix, NULL), 4);
}

// --- bytes

static int large_bytes(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    size_t n = 3000000 + (size_t)rank * 1000001;
    char *bytes = malloc(n);
    struct dist_parts parts;
    memset(bytes, 'a' + rank, n);
    RANK_CHECK(!dist_all_gather(d, "large", (struct str){rank ? bytes : NULL, rank ? n : 0}, &parts,
                                &mine->err));
    RANK_CHECK(parts.n == 3 && parts.part[0].len == 0);
    for (int i = 1; i < 3; i++) {
        RANK_CHECK(parts.part[i].len == 3000000 + (size_t)i * 1000001);
        for (size_t k = 0; k < parts.part[i].len; k++)
            RANK_CHECK(parts.part[i].ptr[k] == 'a' + i);
    }
    dist_parts_done(&parts);
    RANK_CHECK(!dist_broadcast(d, "large", 2, bytes, 3000000, &mine->err));
    RANK_CHECK(bytes[0] == 'c' && bytes[2999999] == 'c');
    free(bytes);
    return 0;
}

static void test_bytes__of_any_length(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run(3, large_bytes, NULL), 3);
}

// --- notes

static int take_note(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    for (uint64_t i = 1; i < 200; i++) {
        uint64_t before = dist_note(d);
        dist_set_note(d, rank ? 999 : i);
        RANK_CHECK(dist_note(d) == before); // until the next operation
        RANK_CHECK(!dist_barrier(d, "x", &mine->err));
        RANK_CHECK(dist_note(d) == i);
    }
    return 0;
}

static void test_note__of_rank_0_comes_with_the_next_operation(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run(2, take_note, NULL), 2);
}

// --- what goes wrong

static void assert_says(const struct rank_result *r, int code, const char *text)
{
    assert_int_equal(r->status, 0);
    if (r->err.code != code || !strstr(r->err.msg, text))
        fail_msg("expected %s '%s', found %s '%s'", det_err_name(code), text,
                 det_err_name(r->err.code), r->err.msg);
}

static int one_dies(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    double x = rank;
    RANK_CHECK(!dist_barrier(d, "before", &mine->err));
    if (rank == 1) raise(SIGKILL);
    int rc = dist_all_reduce(d, "numbers", &x, 1, DIST_F64, DIST_SUM, &mine->err);
    RANK_CHECK(rc == mine->err.code && dist_is_broken(d));
    RANK_CHECK(dist_blame(d, &mine->err) == rc);
    det_err later;
    RANK_CHECK(dist_barrier(d, "later", &later) == rc && !strcmp(later.msg, mine->err.msg));
    return 0;
}

static void test_death__of_a_rank_is_noticed_by_all(void **state)
{
    (void)state;
    struct rank_result *all = ranks_run(3, one_dies, NULL);
    assert_int_equal(all[1].status, RANK_KILLED);
    assert_says(&all[0], DET_EUNREACHABLE, "rank 1 (process ");
    assert_says(&all[0], DET_EUNREACHABLE, "has died");
    assert_says(&all[2], DET_EUNREACHABLE, "rank 1 (process ");
}

static int one_fails(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    if (rank == 2) {
        dist_fail(d, DET_EHPARAM, "the learning rate is too large");
        return 0;
    }
    RANK_CHECK(dist_barrier(d, "x", &mine->err));
    return 0;
}

static void test_failure__is_heard_with_its_reason(void **state)
{
    (void)state;
    struct rank_result *all = ranks_run(3, one_fails, NULL);
    for (int i = 0; i < 2; i++)
        assert_says(&all[i], DET_EHPARAM, "rank 2: the learning rate is too large");
}

static int one_leaves(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    RANK_CHECK(!dist_barrier(d, "x", &mine->err));
    if (rank == 0) return 0;
    RANK_CHECK(dist_barrier(d, "y", &mine->err));
    return 0;
}

static void test_leaving__too_early_is_an_error(void **state)
{
    (void)state;
    struct rank_result *all = ranks_run(2, one_leaves, NULL);
    assert_int_equal(all[0].err.code, 0);
    assert_says(&all[1], DET_EUNREACHABLE, "rank 0 (process ");
    assert_says(&all[1], DET_EUNREACHABLE, "has left before the others were done");
}

// All pass the last barrier, whoever is gone first.
static int leave_together(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)rank;
    (void)user;
    RANK_CHECK(!dist_barrier(d, "the last", &mine->err));
    return 0;
}

static void test_leaving__together_is_none(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        assert_ranks_fine(ranks_run(4, leave_together, NULL), 4);
}

static int deviate(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    const char *how = user;
    float x[2] = {0};
    struct dist_parts parts;
    if (rank == 0) return dist_all_reduce(d, "x", x, 1, DIST_F32, DIST_SUM, &mine->err) ? 0 : 1;
    switch (how[0]) {
    case 'n':
        return dist_all_reduce(d, "x", x, 2, DIST_F32, DIST_SUM, &mine->err) ? 0 : 1;
    case 'w':
        return dist_all_reduce(d, "y", x, 1, DIST_F32, DIST_SUM, &mine->err) ? 0 : 1;
    case 'm':
        return dist_all_reduce(d, "x", x, 1, DIST_F32, DIST_MEAN, &mine->err) ? 0 : 1;
    default:
        return dist_all_gather(d, "x", STR("1234"), &parts, &mine->err) ? 0 : 1;
    }
}

static void test_order__of_operations_must_be_the_same(void **state)
{
    (void)state;
    static const char *const ways[] = {"n", "w", "m", "gather"};
    for (int i = 0; i < 4; i++) {
        struct rank_result *all = ranks_run(2, deviate, (void *)(uintptr_t)ways[i]);
        for (int k = 0; k < 2; k++)
            assert_says(&all[k], DET_ESTATE,
                        "ranks do not do the same: rank 0 is in all-reduce of 'x', 4 bytes");
    }
    struct rank_result *all = ranks_run(2, deviate, (void *)(uintptr_t) "gather");
    assert_says(&all[0], DET_ESTATE, "rank 1 in all-gather of 'x', 4 bytes");
}

static int fail_to_join(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)rank;
    (void)mine;
    (void)user;
    return d ? 1 : 0;
}

static void test_size__must_be_the_same(void **state)
{
    (void)state;
    const int sizes[] = {2, 3};
    struct rank_result *all = ranks_run_sizes(2, sizes, fail_to_join, NULL);
    for (int i = 0; i < 2; i++)
        assert_says(&all[i], DET_EINVAL, "rank 0 expects 2 of them, rank 1 expects 3");
}

static void test_join__waits_only_so_long(void **state)
{
    (void)state;
    struct dist *d;
    det_err err;
    struct dist_opts opts = {.key = "nobody comes", .size = 3, .timeout_us = 100000};
    assert_int_equal(dist_join(&opts, &d, &err), DET_ETIMEOUT);
    assert_non_null(strstr(err.msg, "of 3 ranks, these did not come: 1, 2"));
    opts.rank = 1;
    assert_int_equal(dist_join(&opts, &d, &err), DET_ETIMEOUT);
    assert_non_null(strstr(err.msg, "rank 1 of 3 found no rank 0 of 'nobody comes'"));
    opts.rank = 3;
    assert_int_equal(dist_join(&opts, &d, &err), DET_EINVAL);
}

static void test_environment__says_who_is_who(void **state)
{
    (void)state;
    struct dist *d;
    det_err err;
    unsetenv("WORLD_SIZE");
    assert_int_equal(dist_join_env(&d, &err), 0);
    assert_null(d);
    setenv("WORLD_SIZE", "2", 1);
    unsetenv("DET_RANKS_KEY");
    assert_int_equal(dist_join_env(&d, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "DET_RANKS_KEY"));
    setenv("WORLD_SIZE", "many", 1);
    assert_int_equal(dist_join_env(&d, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "WORLD_SIZE must be a number"));
    unsetenv("WORLD_SIZE");
}

RUN_TESTS(cmocka_unit_test(test_ranks__meet), cmocka_unit_test(test_one_rank__is_free),
          cmocka_unit_test(test_sum__is_in_order_of_ranks),
          cmocka_unit_test(test_mean__of_all_types),
          cmocka_unit_test(test_operations__of_all_kinds_in_a_row),
          cmocka_unit_test(test_bytes__of_any_length),
          cmocka_unit_test(test_note__of_rank_0_comes_with_the_next_operation),
          cmocka_unit_test(test_death__of_a_rank_is_noticed_by_all),
          cmocka_unit_test(test_failure__is_heard_with_its_reason),
          cmocka_unit_test(test_leaving__too_early_is_an_error),
          cmocka_unit_test(test_leaving__together_is_none),
          cmocka_unit_test(test_order__of_operations_must_be_the_same),
          cmocka_unit_test(test_size__must_be_the_same),
          cmocka_unit_test(test_join__waits_only_so_long),
          cmocka_unit_test(test_environment__says_who_is_who))
