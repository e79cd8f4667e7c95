#include "det/data.h"
#include "support/tensors.h"

static void assert_order(const det_sampler *s, uint64_t epoch, const int64_t *expected, size_t n)
{
    assert_int_equal(det_sampler_length(s), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(det_sampler_at(s, epoch, (int64_t)i), expected[i]);
}

#define ORDER(...) (const int64_t[]){__VA_ARGS__}, N_OF(((const int64_t[]){__VA_ARGS__}))

static void test_sequential__counts(void **state)
{
    (void)state;
    det_sampler *s = det_sampler_sequential(4);
    assert_order(s, 0, ORDER(0, 1, 2, 3));
    assert_order(s, 7, ORDER(0, 1, 2, 3));
    assert_int_equal(det_sampler_at(s, 0, 4), -1);
    assert_int_equal(det_sampler_at(s, 0, -1), -1);
    det_sampler_free(s);
}

static void test_shuffle__is_a_permutation_of_any_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 4097, 60000};
    for (size_t l = 0; l < N_OF(lengths); l++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            int64_t n = lengths[l];
            det_sampler *s = det_sampler_shuffle(n, l);
            char *seen = calloc((size_t)n, 1);
            for (int64_t i = 0; i < n; i++) {
                int64_t at = det_sampler_at(s, epoch, i);
                assert_in_range(at, 0, n - 1);
                assert_false(seen[at]++);
            }
            free(seen);
            det_sampler_free(s);
        }
}

static void test_shuffle__reaches_far_positions_at_once(void **state)
{
    (void)state;
    det_sampler *s = det_sampler_shuffle(INT64_MAX, 1);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t a = det_sampler_at(s, 9, INT64_MAX - 1 - i);
        assert_true(a >= 0);
        assert_int_equal(a, det_sampler_at(s, 9, INT64_MAX - 1 - i));
    }
    det_sampler_free(s);
}

static void test_shuffle__depends_on_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 1000 };
    det_sampler *a = det_sampler_shuffle(N, 1), *b = det_sampler_shuffle(N, 2);
    int same_seed = 0, same_epoch = 0, same_place = 0;
    for (int64_t i = 0; i < N; i++) {
        same_seed += det_sampler_at(a, 0, i) == det_sampler_at(a, 1, i);
        same_epoch += det_sampler_at(a, 0, i) == det_sampler_at(b, 0, i);
        same_place += det_sampler_at(a, 0, i) == i;
    }
    assert_in_range(same_seed, 0, 10); // 1 is expected by chance
    assert_in_range(same_epoch, 0, 10);
    assert_in_range(same_place, 0, 10);
    det_sampler_free(a);
    det_sampler_free(b);
}

// Chi-squared of counts against equal ones.
static double chi_squared(const int *count, int n, double expected)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

static void test_shuffle__gives_all_orders_of_few_equally_often(void **state)
{
    (void)state;
    enum { EPOCHS = 24000 };
    int count[256] = {0}, orders[24], n_orders = 0;
    det_sampler *s = det_sampler_shuffle(4, 3);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int code = 0;
        for (int64_t i = 0; i < 4; i++)
            code = 4 * code + (int)det_sampler_at(s, epoch, i);
        count[code]++;
    }
    for (int i = 0; i < 256; i++)
        if (count[i]) {
            assert_in_range(n_orders, 0, 23);
            orders[n_orders++] = count[i];
        }
    assert_int_equal(n_orders, 24);
    assert_true(chi_squared(orders, 24, EPOCHS / 24.0) < 60); // 23 degrees: 1 in 40000 by chance
    det_sampler_free(s);
}

static void test_shuffle__puts_every_sample_everywhere_equally_often(void **state)
{
    (void)state;
    enum { N = 20, EPOCHS = 4000 };
    static int count[N][N], next[N * N];
    det_sampler *s = det_sampler_shuffle(N, 5);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t before = -1;
        for (int64_t i = 0; i < N; i++) {
            int64_t at = det_sampler_at(s, epoch, i);
            count[i][at]++;
            if (before >= 0) next[before * N + at]++;
            before = at;
        }
    }
    for (int i = 0; i < N; i++)
        assert_true(chi_squared(count[i], N, (double)EPOCHS / N) < 60); // 19 degrees
    double neighbours =
        chi_squared(next, N * N, EPOCHS * 19.0 / (N * 19.0)) - N * EPOCHS / (double)N;
    assert_true(neighbours < 480); // 361 degrees; the diagonal, always 0, is taken out
    det_sampler_free(s);
}

// Vectors of the original platform's ReproducibleShuffleSampler.
static void test_numpy_shuffle__is_that_of_numpy(void **state)
{
    (void)state;
    det_sampler *s = det_sampler_numpy_shuffle(5, 777);
    assert_order(s, 0, ORDER(0, 4, 1, 2, 3));
    assert_order(s, 1, ORDER(2, 0, 1, 3, 4));
    for (int64_t i = 0; i < 5; i++)
        det_sampler_at(s, 9, i);
    assert_order(s, 0, ORDER(0, 4, 1, 2, 3));
    det_sampler_free(s);
    // numpy.random.RandomState(1).shuffle(list(range(1000))), the second time
    s = det_sampler_numpy_shuffle(1000, 1);
    assert_int_equal(det_sampler_at(s, 1, 0), 56);
    assert_int_equal(det_sampler_at(s, 1, 999), 983);
    det_sampler_free(s);
    assert_null(det_sampler_numpy_shuffle(5, (uint64_t)1 << 32));
    assert_raised(DET_EINVAL, "seed 4294967296");
}

static void test_weighted__follows_the_weights(void **state)
{
    (void)state;
    enum { N = 40000 };
    static const double weights[] = {0, 1, 3, 0, 4, 0};
    static const double shares[] = {0, 0.125, 0.375, 0, 0.5, 0};
    int count[6] = {0};
    det_sampler *s = det_sampler_weighted(weights, 6, N, 11);
    assert_int_equal(det_sampler_length(s), N);
    for (int64_t i = 0; i < N; i++)
        count[det_sampler_at(s, 2, i)]++;
    for (int i = 0; i < 6; i++)
        assert_near(count[i] / (double)N, shares[i], shares[i] ? 0.01 : 0);
    assert_true(det_sampler_at(s, 0, 0) == det_sampler_at(s, 0, 0));
    det_sampler_free(s);
}

static void test_weighted__refuses_what_is_no_weight(void **state)
{
    (void)state;
    assert_null(det_sampler_weighted((const double[]){1, -1}, 2, 5, 0));
    assert_raised(DET_EINVAL, "weight 1 is -1");
    assert_null(det_sampler_weighted((const double[]){NAN}, 1, 5, 0));
    assert_raised(DET_EINVAL, "weight 0 is nan");
    assert_null(det_sampler_weighted((const double[]){0, 0}, 2, 5, 0));
    assert_raised(DET_EINVAL, "the sum of the weights is 0");
    assert_null(det_sampler_weighted(NULL, 0, 5, 0));
    assert_raised(DET_EINVAL, "the sum of the weights is 0");
}

static int64_t reversed_length(void *self)
{
    return *(int64_t *)self;
}

static int64_t reversed_at(void *self, uint64_t epoch, int64_t index)
{
    (void)epoch;
    return *(int64_t *)self - 1 - index;
}

static int n_freed;
static void count_free(void *self)
{
    (void)self;
    n_freed++;
}

static void test_user_sampler__is_asked_and_freed(void **state)
{
    (void)state;
    int64_t n = 3;
    det_sampler_ops ops = {.length = reversed_length, .at = reversed_at, .free = count_free};
    det_sampler *s = det_sampler_new(&ops, &n);
    assert_order(s, 0, ORDER(2, 1, 0));
    n_freed = 0;
    det_sampler_free(s);
    assert_int_equal(n_freed, 1);
    ops.at = NULL;
    assert_null(det_sampler_new(&ops, &n));
    assert_int_equal(n_freed, 2);
    assert_raised(DET_EINVAL, "a sampler needs length and at");
}

static void test_samplers__refuse_negative_lengths(void **state)
{
    (void)state;
    assert_null(det_sampler_sequential(-1));
    assert_raised(DET_EINVAL, "det_sampler_sequential: the length is -1");
    assert_null(det_sampler_shuffle(-2, 0));
    assert_raised(DET_EINVAL, "det_sampler_shuffle: the length is -2");
    det_sampler_free(NULL);
    assert_int_equal(det_sampler_length(NULL), 0);
}

RUN_TESTS(TEST(test_sequential__counts), TEST(test_shuffle__is_a_permutation_of_any_length),
          TEST(test_shuffle__reaches_far_positions_at_once),
          TEST(test_shuffle__depends_on_seed_and_epoch),
          TEST(test_shuffle__gives_all_orders_of_few_equally_often),
          TEST(test_shuffle__puts_every_sample_everywhere_equally_often),
          TEST(test_numpy_shuffle__is_that_of_numpy), TEST(test_weighted__follows_the_weights),
          TEST(test_weighted__refuses_what_is_no_weight),
          TEST(test_user_sampler__is_asked_and_freed), TEST(test_samplers__refuse_negative_lengths))
