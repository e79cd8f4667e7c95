// Random numbers and dropout: rates, scales, and that every element is a function of its position
// alone.
#include "support/test.h"

#include "base/rng.h"
#include "det/tensor.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static det_err err;

static int setup(void **state)
{
    (void)state;
    det_scope_begin();
    det_manual_seed(42);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    det_set_threads(2);
    if (det_check(&err)) fail_msg("%s", err.msg);
    det_scope_end();
    return 0;
}

static void assert_same(det_tensor *a, det_tensor *b)
{
    const void *pa = det_data(a), *pb = det_data(b);
    assert_non_null(pa);
    assert_non_null(pb);
    assert_int_equal(det_numel(a), det_numel(b));
    assert_memory_equal(pa, pb, (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a)));
}

// --- dropout

static void test_dropout__drops_at_its_rate_and_scales_the_rest(void **state)
{
    (void)state;
    const double rates[] = {0.1, 0.5, 0.9};
    enum { N = 100000 };
    for (int i = 0; i < 3; i++) {
        double p = rates[i];
        det_tensor *ones = det_ones(DET_F32, DET_DIMS(N));
        const float *y = det_data_f32(det_dropout(ones, p, true));
        int dropped = 0;
        for (int k = 0; k < N; k++) {
            dropped += y[k] == 0;
            assert_true(y[k] == 0 || fabs(y[k] - 1 / (1 - p)) < 1e-5);
        }
        assert_true(fabs(dropped - p * N) < 5 * sqrt(p * (1 - p) * N)); // five standard deviations
    }
}

static void test_dropout__does_nothing_when_not_training_or_never_dropping(void **state)
{
    (void)state;
    det_tensor *x = det_randn(DET_F32, DET_DIMS(10));
    det_rng_state before = det_get_rng_state();
    assert_ptr_equal(det_dropout(x, 0.5, false), x);
    assert_ptr_equal(det_dropout(x, 0, true), x);
    assert_ptr_equal(det_dropout_channels(x, 0.5, false), x);
    det_rng_state after = det_get_rng_state();
    assert_memory_equal(&before, &after, sizeof before);
}

static void test_dropout__of_everything_gives_zeros(void **state)
{
    (void)state;
    const float *y = det_data_f32(det_dropout(det_ones(DET_F32, DET_DIMS(1000)), 1, true));
    for (int k = 0; k < 1000; k++)
        assert_true(y[k] == 0);
}

static void test_dropout__the_same_state_gives_the_same_mask(void **state)
{
    (void)state;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1000));
    det_rng_state here = det_get_rng_state();
    det_tensor *first = det_dropout(x, 0.5, true), *second = det_dropout(x, 0.5, true);
    det_set_rng_state(here);
    assert_same(det_dropout(x, 0.5, true), first);
    assert_same(det_dropout(x, 0.5, true), second);
    assert_memory_not_equal(det_data(first), det_data(second), 4000);
    det_rng_set_step(7);
    det_tensor *other_step = det_dropout(x, 0.5, true);
    assert_memory_not_equal(det_data(first), det_data(other_step), 4000);
    det_manual_seed(43);
    assert_memory_not_equal(det_data(first), det_data(det_dropout(x, 0.5, true)), 4000);
}

static void test_dropout__an_element_stays_by_its_position_not_by_layout_or_type(void **state)
{
    (void)state;
    det_tensor *rows = det_ones(DET_F32, DET_DIMS(30, 70));
    det_tensor *columns = det_transpose(det_ones(DET_F32, DET_DIMS(70, 30)), 0, 1);
    det_tensor *stepped = det_slice(det_ones(DET_F32, DET_DIMS(30, 140)), 1, 0, 140, 2);
    det_rng_state here = det_get_rng_state();
    det_tensor *y = det_dropout(rows, 0.5, true);
    det_tensor *others[] = {columns, stepped, det_to(rows, DET_F64), det_to(rows, DET_BF16),
                            det_reshape(rows, DET_DIMS(3, 10, 70))};
    for (int i = 0; i < 5; i++) {
        det_set_rng_state(here);
        assert_same(det_to(det_dropout(others[i], 0.5, true), DET_F32), y);
    }
}

// Element e is word (e % 256) / 64 of Philox's block e / 256 * 64 + e % 64; the stream of the first
// random operation of step 0 is 0.
static void test_dropout__mask_is_philox_of_the_position(void **state)
{
    (void)state;
    enum { N = 5000 };
    const float *y = det_data_f32(det_dropout(det_ones(DET_F32, DET_DIMS(N)), 0.25, true));
    for (uint64_t e = 0; e < N; e++) {
        uint32_t word = rng_philox(42, 0, e / 256 * 64 + e % 64).word[e % 256 / 64];
        assert_int_equal(y[e] != 0, word >= 1u << 30);
    }
}

static void test_dropout__does_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 300001 };
    det_tensor *x = det_requires_grad(det_randn(DET_F32, DET_DIMS(N)), true);
    det_rng_state here = det_get_rng_state();
    det_set_threads(1);
    det_tensor *alone = det_dropout(x, 0.3, true);
    det_set_threads(3);
    det_set_rng_state(here);
    assert_same(det_dropout(x, 0.3, true), alone);
}

static void test_dropout__backward_uses_the_mask_of_forward(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_ones(DET_F32, DET_DIMS(500)), true);
    det_tensor *y = det_dropout(x, 0.4, true);
    det_dropout(det_ones(DET_F32, DET_DIMS(10)), 0.4, true); // the stream has moved on
    det_backward(det_sum(y));
    assert_same(det_grad(x), y);
}

static void test_dropout_channels__drops_whole_channels(void **state)
{
    (void)state;
    enum { N = 40, C = 50, AREA = 6 };
    det_tensor *x = det_requires_grad(det_ones(DET_F32, DET_DIMS(N, C, 2, 3)), true);
    det_tensor *y = det_dropout_channels(x, 0.5, true);
    const float *v = det_data_f32(y);
    int dropped = 0;
    for (int c = 0; c < N * C; c++) {
        dropped += v[c * AREA] == 0;
        for (int i = 0; i < AREA; i++)
            assert_true(v[c * AREA + i] == v[c * AREA]);
        assert_true(v[c * AREA] == 0 || v[c * AREA] == 2);
    }
    assert_true(abs(dropped - N * C / 2) < 5 * sqrt(N * C / 4.0));
    det_backward(det_sum(y));
    assert_same(det_grad(x), y);
}

static void test_dropout__refuses_impossible_rates(void **state)
{
    (void)state;
    assert_null(det_dropout(det_ones(DET_F32, DET_DIMS(3)), 1.5, true));
    assert_int_equal(det_check(&err), DET_EINVAL);
    assert_string_equal(err.msg, "dropout: p is 1.5, wants 0 .. 1");
    assert_null(det_dropout_channels(det_ones(DET_F32, DET_DIMS(3)), 0.5, true));
    assert_int_equal(det_check(&err), DET_ESHAPE);
}

// --- rand, randn, randint

static void test_rand__is_uniform_below_one(void **state)
{
    (void)state;
    const det_dtype dtypes[] = {DET_F32, DET_F64, DET_BF16};
    enum { N = 50000 };
    for (int i = 0; i < 3; i++) {
        const double *v = det_data(det_to(det_rand(dtypes[i], DET_DIMS(N)), DET_F64));
        double sum = 0, sum_of_squares = 0;
        for (int k = 0; k < N; k++) {
            assert_true(v[k] >= 0 && v[k] < 1);
            sum += v[k];
            sum_of_squares += v[k] * v[k];
        }
        assert_true(fabs(sum / N - 0.5) < 0.01);
        assert_true(fabs(sum_of_squares / N - 1 / 3.0) < 0.01);
    }
}

static void test_randn__has_the_moments_of_a_normal_distribution(void **state)
{
    (void)state;
    const det_dtype dtypes[] = {DET_F32, DET_F64, DET_BF16};
    enum { N = 200000 };
    for (int i = 0; i < 3; i++) {
        const double *v = det_data(det_to(det_randn(dtypes[i], DET_DIMS(N)), DET_F64));
        double moment[5] = {0};
        int far = 0;
        for (int k = 0; k < N; k++) {
            for (int m = 1; m <= 4; m++)
                moment[m] += pow(v[k], m) / N;
            far += fabs(v[k]) > 3;
        }
        assert_true(fabs(moment[1]) < 0.015 && fabs(moment[2] - 1) < 0.02);
        assert_true(fabs(moment[3]) < 0.06 && fabs(moment[4] - 3) < 0.15);
        assert_true(abs(far - (int)(0.0027 * N)) < 130);
    }
}

static void test_randint__covers_its_range_evenly(void **state)
{
    (void)state;
    enum { N = 60000 };
    const int64_t *v = det_data_i64(det_randint(-2, 4, DET_DIMS(N)));
    int count[6] = {0};
    for (int k = 0; k < N; k++) {
        assert_true(v[k] >= -2 && v[k] < 4);
        count[v[k] + 2]++;
    }
    for (int i = 0; i < 6; i++)
        assert_true(abs(count[i] - N / 6) < 500);
    const int64_t *wide = det_data_i64(det_randint(INT64_MIN, INT64_MAX, DET_DIMS(100)));
    int negative = 0;
    for (int k = 0; k < 100; k++)
        negative += wide[k] < 0;
    assert_true(negative > 20 && negative < 80);
}

static det_tensor *draw(int which, int64_t n)
{
    det_manual_seed(5);
    switch (which) {
    case 0:
        return det_rand(DET_F32, DET_DIMS(n));
    case 1:
        return det_randn(DET_F32, DET_DIMS(n));
    case 2:
        return det_randn(DET_BF16, DET_DIMS(n));
    case 3:
        return det_rand(DET_F64, DET_DIMS(n));
    default:
        return det_randint(0, 1000, DET_DIMS(n));
    }
}

static void test_random__a_value_depends_on_its_position_alone(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++) {
        det_set_threads(1);
        det_tensor *all = draw(which, 200001);
        det_set_threads(3);
        assert_same(draw(which, 200001), all);
        det_tensor *few = draw(which, 777);
        assert_memory_equal(det_data(few), det_data(all), 777 * det_dtype_size(det_dtype_of(few)));
    }
}

static void test_random__integers_are_not_drawn_as_floats(void **state)
{
    (void)state;
    assert_null(det_rand(DET_I64, DET_DIMS(3)));
    assert_int_equal(det_check(&err), DET_EDTYPE);
    assert_null(det_randint(3, 3, DET_DIMS(3)));
    assert_int_equal(det_check(&err), DET_EINVAL);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
RUN_TESTS(TEST(test_dropout__drops_at_its_rate_and_scales_the_rest),
          TEST(test_dropout__does_nothing_when_not_training_or_never_dropping),
          TEST(test_dropout__of_everything_gives_zeros),
          TEST(test_dropout__the_same_state_gives_the_same_mask),
          TEST(test_dropout__an_element_stays_by_its_position_not_by_layout_or_type),
          TEST(test_dropout__mask_is_philox_of_the_position),
          TEST(test_dropout__does_not_depend_on_threads),
          TEST(test_dropout__backward_uses_the_mask_of_forward),
          TEST(test_dropout_channels__drops_whole_channels),
          TEST(test_dropout__refuses_impossible_rates), TEST(test_rand__is_uniform_below_one),
          TEST(test_randn__has_the_moments_of_a_normal_distribution),
          TEST(test_randint__covers_its_range_evenly),
          TEST(test_random__a_value_depends_on_its_position_alone),
          TEST(test_random__integers_are_not_drawn_as_floats))
