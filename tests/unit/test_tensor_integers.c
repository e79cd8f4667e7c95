// Integers and bool: how they are computed with, and where they are refused, as torch does.
#include "support/tensors.h"

static det_tensor *whole(int64_t a, int64_t b)
{
    return det_from(DET_I64, DET_DIMS(2), (int64_t[]){a, b});
}

static det_tensor *bytes(uint8_t a, uint8_t b)
{
    return det_from(DET_U8, DET_DIMS(2), (uint8_t[]){a, b});
}

static det_tensor *bools(bool a, bool b)
{
    return det_from(DET_BOOL, DET_DIMS(2), (uint8_t[]){a, b});
}

static void assert_whole(det_tensor *t, int64_t a, int64_t b)
{
    const int64_t *v = det_data_i64(t);
    assert_fine();
    assert_int_equal(v[0], a);
    assert_int_equal(v[1], b);
}

static void assert_bools(det_tensor *t, bool a, bool b)
{
    const uint8_t *v = det_data(t);
    assert_fine();
    assert_int_equal(det_dtype_of(t), DET_BOOL);
    assert_int_equal(v[0], a);
    assert_int_equal(v[1], b);
}

// --- numbers beside tensors

static void test_scalar__no_integer_can_hold_makes_floats_of_integers(void **state)
{
    (void)state;
    assert_values(det_div_scalar(whole(3, -3), INFINITY), 0, 0);
    assert_values(det_add_scalar(whole(1, 2), 1e30), 1e30f, 1e30f);
    assert_bools(det_eq_scalar(whole(INT64_MAX, 0), INFINITY), false, false);
    assert_whole(det_add_scalar(whole(1, 2), 3), 4, 5);
}

static void test_scalar__that_divides_integers_is_a_float(void **state)
{
    (void)state;
    assert_values(det_div_scalar(bytes(1, 4), -2), -0.5f, -2);
    assert_values(det_atan2_scalar(bytes(1, 0), -1), 2.3561945f, 3.1415927f);
}

static void test_pow__negative_number_is_refused_for_integers(void **state)
{
    (void)state;
    det_pow_scalar(whole(2, 3), -1);
    assert_raised(DET_EINVAL, "pow: i64 to the power of -1; negative powers are for floats");
    assert_values(det_pow_scalar(whole(2, 4), -0.5), 0.70710678f, 0.5f);
}

static void test_fill__number_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    det_full(DET_I64, DET_DIMS(2), NAN);
    assert_raised(DET_EINVAL, "nan is no i64");
    det_fill_(bytes(1, 2), 256);
    assert_raised(DET_EINVAL, "det_fill_: 256 is no u8");
    det_masked_fill(whole(1, 2), bools(true, false), -INFINITY);
    assert_raised(DET_EINVAL, "masked_fill: -inf is no i64");
    det_masked_fill(det_full(DET_I32, DET_DIMS(2), 0), bools(true, false), 0x1p31);
    assert_raised(DET_EINVAL, "masked_fill: 2.14748e+09 is no i32");
    assert_bools(det_full(DET_BOOL, DET_DIMS(2), NAN), true, true);
}

// --- integers

static void test_integers__wrap_around(void **state)
{
    (void)state;
    assert_whole(det_add(whole(INT64_MAX, 1), whole(1, 1)), INT64_MIN, 2);
    assert_whole(det_sub(whole(INT64_MIN, 1), whole(1, 1)), INT64_MAX, 0);
    assert_whole(det_mul(whole(INT64_MAX, 3), whole(2, 2)), -2, 6);
}

static void test_integers__division_by_zero_is_refused(void **state)
{
    (void)state;
    det_fmod(whole(1, 2), whole(1, 0));
    assert_raised(DET_EINVAL, "fmod: division of i64 by zero");
    det_remainder_scalar(bytes(1, 2), 0);
    assert_raised(DET_EINVAL, "remainder: division of u8 by zero");
    det_fmod(det_zeros(DET_I64, DET_DIMS(0)), det_zeros(DET_I64, DET_DIMS(1))); // nothing to divide
    assert_fine();
}

static void test_integers__smallest_number_by_minus_one_leaves_nothing(void **state)
{
    (void)state;
    assert_whole(det_fmod(whole(INT64_MIN, 7), whole(-1, -4)), 0, 3);
    assert_whole(det_remainder(whole(INT64_MIN, 7), whole(-1, -4)), 0, -1);
}

static void test_matmul__of_integers_is_exact_and_wraps(void **state)
{
    (void)state;
    int64_t large[] = {INT64_C(1) << 53, 1, INT64_MAX, 1}, ones[] = {1, 1};
    det_tensor *a = det_from(DET_I64, DET_DIMS(2, 2), large);
    assert_whole(det_matmul(a, det_from(DET_I64, DET_DIMS(2), ones)), (INT64_C(1) << 53) + 1,
                 INT64_MIN);
    det_matmul(bools(true, true), bools(true, true));
    assert_raised(DET_EDTYPE, "matmul");
}

static void test_linear__multiplies_integers(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_I64, DET_DIMS(1, 2), (int64_t[]){2, 3});
    det_tensor *w = det_from(DET_I64, DET_DIMS(2, 2), (int64_t[]){1, 1, 10, -1});
    det_tensor *y = det_linear(x, w, whole(100, 200));
    assert_int_equal(det_ndim(y), 2);
    assert_whole(det_reshape(y, DET_DIMS(2)), 105, 217);
}

// --- what is refused

static void test_activations__are_for_floats(void **state)
{
    (void)state;
    det_tensor *(*const activation[])(det_tensor *) = {
        det_silu, det_mish,        det_gelu,      det_gelu_tanh,
        det_selu, det_hardsigmoid, det_hardswish, det_logsigmoid};
    for (size_t i = 0; i < N_OF(activation); i++) {
        assert_null(activation[i](whole(1, 2)));
        assert_raised(DET_EDTYPE, "not for i64");
    }
    det_elu(bytes(1, 2), 1);
    assert_raised(DET_EDTYPE, "elu: not for u8");
    det_relu6(bools(true, false));
    assert_raised(DET_EDTYPE, "relu6: not for bool");
    det_hardtanh(bytes(1, 2), -1, 1);
    assert_raised(DET_EDTYPE, "hardtanh: not for u8 between -1 and 1");
    assert_whole(det_hardtanh(whole(-4, 2), -2.5, 1.5), -2, 1);
    assert_whole(det_relu(whole(-1, 2)), 0, 2);
    assert_values(det_exp(whole(0, 0)), 1, 1);
}

static void test_bool__is_added_as_or_and_not_subtracted(void **state)
{
    (void)state;
    assert_bools(det_add(bools(true, true), bools(true, false)), true, true);
    assert_bools(det_mul(bools(true, true), bools(true, false)), true, false);
    det_sub(whole(1, 2), bools(true, false));
    assert_raised(DET_EDTYPE, "sub: not for bool");
    det_neg(bools(true, false));
    assert_raised(DET_EDTYPE, "neg: not for bool");
    det_pow(bools(true, false), bools(true, false));
    assert_raised(DET_EDTYPE, "pow: not for bool");
}

static void test_arange__goes_towards_its_end(void **state)
{
    (void)state;
    det_arange(DET_F32, 0, -0.5, 1);
    assert_raised(DET_EINVAL, "arange: from 0 to -0.5 by 1 is not a range");
    det_arange(DET_BOOL, 0, 2, 1);
    assert_raised(DET_EDTYPE, "arange: not for bool");
}

RUN_TESTS(TEST(test_scalar__no_integer_can_hold_makes_floats_of_integers),
          TEST(test_scalar__that_divides_integers_is_a_float),
          TEST(test_pow__negative_number_is_refused_for_integers),
          TEST(test_fill__number_that_does_not_fit_is_refused), TEST(test_integers__wrap_around),
          TEST(test_integers__division_by_zero_is_refused),
          TEST(test_integers__smallest_number_by_minus_one_leaves_nothing),
          TEST(test_matmul__of_integers_is_exact_and_wraps), TEST(test_linear__multiplies_integers),
          TEST(test_activations__are_for_floats),
          TEST(test_bool__is_added_as_or_and_not_subtracted),
          TEST(test_arange__goes_towards_its_end))
