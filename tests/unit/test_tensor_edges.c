// What torch does at the edges: mixed types, infinities, empty batches, single images. The expected
// values are torch's.
#include "support/tensors.h"

#include <pthread.h>

static det_tensor *floats(const int64_t *shape, int ndim, const float *v)
{
    return det_from(DET_F32, shape, ndim, v);
}

static det_tensor *counted(const int64_t *shape, int ndim) // 1, 2, 3, ...
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    return det_reshape(det_arange(DET_F32, 1, (double)n + 1, 1), shape, ndim);
}

static void assert_shape_of(det_tensor *t, const int64_t *shape, int ndim)
{
    assert_fine();
    assert_int_equal(det_ndim(t), ndim);
    for (int d = 0; d < ndim; d++)
        assert_int_equal(det_size(t, d), shape[d]);
}

// Bit for bit the same, in the same type and shape.
static void assert_same(det_tensor *a, det_tensor *b)
{
    assert_shape_of(a, det_shape(b), det_ndim(b));
    assert_int_equal(det_dtype_of(a), det_dtype_of(b));
    assert_memory_equal(det_data(a), det_data(b),
                        (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a)));
}

// The same up to the rounding of sums in another order.
static void assert_close(det_tensor *a, det_tensor *b)
{
    assert_shape_of(a, det_shape(b), det_ndim(b));
    const float *va = det_data_f32(a), *vb = det_data_f32(b);
    for (int64_t i = 0; i < det_numel(a); i++)
        assert_near(va[i], vb[i], 1e-5);
}

// --- options mean what they say

static void test_max_pool__pads_one_side_only_if_told_so(void **state)
{
    (void)state;
    det_tensor *x = counted(DET_DIMS(1, 1, 4, 4));
    det_tensor *y = det_max_pool2d(x, .kernel = {2, 2}, .padding = {1, 0});
    assert_shape_of(y, DET_DIMS(1, 1, 3, 2));
    assert_values(y, 2, 4, 10, 12, 14, 16);
    y = det_max_pool2d(x, .kernel = {2, 2}, .padding = {0, 1});
    assert_values(y, 5, 7, 8, 13, 15, 16);
}

static void test_pools__take_a_second_0_of_kernel_and_stride_for_the_first(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(2, 3, 9, 8));
    assert_same(det_max_pool2d(x, .kernel = {3}, .stride = {2}),
                det_max_pool2d(x, .kernel = {3, 3}, .stride = {2, 2}));
    assert_same(det_avg_pool2d(x, .kernel = {3}, .stride = {2}),
                det_avg_pool2d(x, .kernel = {3, 3}, .stride = {2, 2}));
    assert_same(det_avg_pool2d(x, .kernel = {2, 3}),
                det_avg_pool2d(x, .kernel = {2, 3}, .stride = {2, 3}));
}

static void test_batch_norm__with_momentum_0_leaves_the_statistics_alone(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(8, 2)), *mean = det_zeros(DET_F32, DET_DIMS(2)),
               *var = det_ones(DET_F32, DET_DIMS(2));
    det_tensor *y = det_batch_norm(x, .running_mean = mean, .running_var = var, .training = true,
                                   .momentum = 0);
    assert_values(mean, 0, 0);
    assert_values(var, 1, 1);
    assert_same(y, det_batch_norm(x, .training = true));
}

static void test_batch_norm__with_eps_0_divides_by_the_deviation_itself(void **state)
{
    (void)state;
    det_tensor *x = floats(DET_DIMS(2, 1), (float[]){1e-4f, -1e-4f});
    assert_values(det_batch_norm(x, .training = true, .eps = 0), 1, -1);
}

// --- pools

static void test_pools__in_ceil_mode_take_a_window_larger_than_the_image(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(counted(DET_DIMS(1, 1, 3, 3)), true);
    det_tensor *y = det_max_pool2d(x, .kernel = {4, 4}, .stride = {2, 2}, .ceil_mode = true);
    assert_values(y, 9);
    det_backward(y);
    assert_values(det_grad(x), 0, 0, 0, 0, 0, 0, 0, 0, 1);
    det_pool_opts avg = {.kernel = {5, 5}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true};
    assert_values(det_avg_pool2d_with(x, avg), 1.8f);
    avg.exclude_padding = true;
    assert_values(det_avg_pool2d_with(x, avg), 5);
    assert_null(det_max_pool2d(x, .kernel = {5, 5}, .stride = {2, 2}, .ceil_mode = true));
    assert_raised(DET_ESHAPE, "the window (5, 5) is larger than the input (1, 1, 3, 3)");
    assert_null(det_avg_pool2d(x, .kernel = {4, 4}, .stride = {1, 1}, .ceil_mode = true));
    assert_raised(DET_ESHAPE, "the window (4, 4) is larger");
}

static det_tensor *conv(det_tensor *x)
{
    return det_conv2d(x, det_full(DET_F32, DET_DIMS(5, 3, 2, 2), 0.5), NULL);
}

static det_tensor *conv_pool(det_tensor *x)
{
    return det_relu(det_max_pool2d(conv(x), .kernel = {2, 2}));
}

static det_tensor *conv_transpose(det_tensor *x)
{
    return det_conv_transpose2d(x, det_full(DET_F32, DET_DIMS(3, 4, 2, 2), 0.5), NULL);
}

static det_tensor *max_pool(det_tensor *x)
{
    return det_max_pool2d(x, .kernel = {2, 2});
}

static det_tensor *avg_pool(det_tensor *x)
{
    return det_avg_pool2d(x, .kernel = {2, 2});
}

static det_tensor *adaptive_avg(det_tensor *x)
{
    return det_adaptive_avg_pool2d(x, 2, 3);
}

static det_tensor *adaptive_max(det_tensor *x)
{
    return det_adaptive_max_pool2d(x, 2, 3);
}

static void test_images__may_come_alone(void **state)
{
    (void)state;
    det_tensor *(*const functions[])(det_tensor * x) = {
        conv, conv_pool, conv_transpose, max_pool, avg_pool, adaptive_avg, adaptive_max};
    for (size_t i = 0; i < N_OF(functions); i++) {
        det_tensor *one = det_requires_grad(det_rand(DET_F32, DET_DIMS(3, 6, 5)), true);
        det_tensor *batch = det_requires_grad(det_unsqueeze(det_detach(one), 0), true);
        det_tensor *y = functions[i](one), *y_batch = functions[i](batch);
        assert_int_equal(det_ndim(y), 3);
        assert_close(y, det_squeeze(y_batch, 0));
        det_backward(det_sum(det_square(y)));
        det_backward(det_sum(det_square(y_batch)));
        assert_close(det_grad(one), det_squeeze(det_grad(batch), 0));
    }
}

static void test_conv1d__takes_a_single_sequence(void **state)
{
    (void)state;
    det_tensor *x = counted(DET_DIMS(2, 4)), *w = det_ones(DET_F32, DET_DIMS(1, 2, 2));
    det_tensor *y = det_conv1d(x, w, NULL);
    assert_shape_of(y, DET_DIMS(1, 3));
    assert_values(y, 14, 18, 22);
    assert_null(det_conv1d(det_ones(DET_F32, DET_DIMS(4)), w, NULL));
    assert_raised(DET_ESHAPE, "input is (4,), wants (N, C, L) or (C, L)");
}

// --- types

static det_tensor *of_type(det_dtype dtype, const int64_t *shape, int ndim, const float *v)
{
    return det_to(floats(shape, ndim, v), dtype);
}

static det_tensor *three(det_dtype dtype, float a, float b, float c)
{
    return of_type(dtype, DET_DIMS(3), (const float[]){a, b, c});
}

static void test_where__promotes_as_torch(void **state)
{
    (void)state;
    static const det_dtype low_to_high[] = {DET_BOOL, DET_U8,  DET_I32, DET_I64,
                                            DET_BF16, DET_F32, DET_F64};
    det_tensor *c = three(DET_BOOL, 1, 0, 1);
    for (size_t i = 0; i < N_OF(low_to_high); i++)
        for (size_t j = 0; j < N_OF(low_to_high); j++) {
            det_tensor *a = three(low_to_high[i], 1, 0, 1), *b = three(low_to_high[j], 0, 1, 0);
            det_dtype expected = low_to_high[i > j ? i : j];
            assert_same(det_where(c, a, b), three(expected, 1, 1, 1));
        }
    // A single number does not widen a tensor of its own category.
    det_tensor *x = three(DET_F32, 1, 2, 3), *n = three(DET_U8, 1, 2, 3);
    assert_same(det_where(c, x, det_zeros(DET_F64, DET_SCALAR)), three(DET_F32, 1, 0, 3));
    assert_same(det_where(c, det_zeros(DET_I64, DET_SCALAR), n), three(DET_U8, 0, 2, 0));
    assert_same(det_where(c, n, det_zeros(DET_BF16, DET_SCALAR)), three(DET_BF16, 1, 0, 3));
}

static void test_where__of_two_types_gives_each_a_gradient_in_its_own(void **state)
{
    (void)state;
    det_tensor *c = three(DET_BOOL, 1, 0, 1), *a = three(DET_F32, 1, 2, 3),
               *b = three(DET_F64, 1, 2, 3);
    det_requires_grad(a, true);
    det_requires_grad(b, true);
    det_backward(det_sum(det_square(det_where(c, a, b))));
    assert_same(det_grad(a), three(DET_F32, 2, 0, 6));
    assert_same(det_grad(b), three(DET_F64, 0, 4, 0));
}

static void test_rounding__of_integers_keeps_their_type(void **state)
{
    (void)state;
    det_tensor *(*const functions[])(det_tensor * x) = {det_floor, det_ceil, det_round, det_trunc};
    static const det_dtype types[] = {DET_I64, DET_I32, DET_U8};
    for (size_t t = 0; t < N_OF(types); t++) {
        for (size_t i = 0; i < N_OF(functions); i++)
            assert_same(functions[i](three(types[t], 3, 0, 7)), three(types[t], 3, 0, 7));
        assert_same(det_sign(three(types[t], 3, 0, 7)), three(types[t], 1, 0, 1));
    }
    int64_t large[] = {(1ll << 62) + 1};
    det_tensor *x = det_from(DET_I64, DET_DIMS(1), large);
    assert_same(det_round(x), x);
    assert_same(det_sign(three(DET_I32, -3, 0, 7)), three(DET_I32, -1, 0, 1));
    assert_same(det_sign(three(DET_BOOL, 1, 0, 1)), three(DET_BOOL, 1, 0, 1));
    assert_same(det_square(three(DET_BOOL, 1, 0, 1)), three(DET_I64, 1, 0, 1));
}

static void test_questions__about_integers_have_answers(void **state)
{
    (void)state;
    static const det_dtype types[] = {DET_I64, DET_I32, DET_U8, DET_BOOL};
    for (size_t t = 0; t < N_OF(types); t++) {
        det_tensor *x = three(types[t], 1, 0, 1);
        assert_same(det_isnan(x), three(DET_BOOL, 0, 0, 0));
        assert_same(det_isinf(x), three(DET_BOOL, 0, 0, 0));
        assert_same(det_isfinite(x), three(DET_BOOL, 1, 1, 1));
    }
}

static void test_mul_in_place__multiplies_integers_by_whole_numbers(void **state)
{
    (void)state;
    static const det_dtype types[] = {DET_I64, DET_I32, DET_U8};
    for (size_t t = 0; t < N_OF(types); t++) {
        det_tensor *x = three(types[t], 1, 2, 3);
        det_mul_(x, 3);
        assert_same(x, three(types[t], 3, 6, 9));
    }
    det_tensor *grid = det_to(counted(DET_DIMS(2, 3)), DET_I64);
    det_mul_(det_slice(grid, 1, 0, 3, 2), -1);
    assert_same(grid, of_type(DET_I64, DET_DIMS(2, 3), (float[]){-1, 2, -3, -4, 5, -6}));
    det_mul_(grid, 2.5);
    assert_raised(DET_EDTYPE, "det_mul_: the result is f32 and does not fit a tensor of type i64");
    det_mul_(three(DET_BOOL, 1, 0, 1), 2);
    assert_raised(DET_EDTYPE, "det_mul_: the result is i64 and does not fit a tensor of type bool");
}

// --- bounds

static void test_clamp__takes_the_upper_bound_if_the_bounds_contradict(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(three(DET_F32, -3, 1, 5), true);
    det_tensor *y = det_clamp(x, 2, -1);
    assert_values(y, -1, -1, -1);
    det_backward(det_sum(y));
    assert_values(det_grad(x), 0, 0, 0);
    assert_same(det_clamp(three(DET_F64, -3, 1, 5), 2, -1), three(DET_F64, -1, -1, -1));
    assert_same(det_clamp(three(DET_BF16, -3, 1, 5), 2, -1), three(DET_BF16, -1, -1, -1));
    assert_same(det_clamp(three(DET_I32, -3, 1, 5), 2, -1), three(DET_I32, -1, -1, -1));
    assert_true(isnan(det_item(det_clamp(det_scalar(NAN), 2, -1))));
    assert_true(isnan(det_item(det_clamp(det_scalar(1), NAN, 2))));
}

static void test_clamp__of_integers_is_exact_and_keeps_their_type(void **state)
{
    (void)state;
    int64_t large[] = {(1ll << 62) + 1};
    det_tensor *x = det_from(DET_I64, DET_DIMS(1), large);
    assert_same(det_clamp(x, 0, INFINITY), x);
    assert_same(det_clamp(three(DET_U8, 0, 5, 200), -INFINITY, 7), three(DET_U8, 0, 5, 7));
    assert_same(det_clamp(three(DET_I32, 0, 1, 2), 0.5, 1.5), three(DET_F32, 0.5f, 1, 1.5f));
    assert_same(det_clamp(three(DET_BOOL, 0, 1, 1), 0, 1), three(DET_I64, 0, 1, 1));
    assert_same(det_relu6(three(DET_I64, -1, 5, 9)), three(DET_I64, 0, 5, 6));
    assert_same(det_hardtanh(three(DET_I32, -5, 0, 9), -1, 1), three(DET_I32, -1, 0, 1));
}

// --- remainder

static void assert_remainder(double a, double b, double expected)
{
    static const det_dtype types[] = {DET_F32, DET_F64, DET_BF16};
    for (size_t i = 0; i < N_OF(types); i++) {
        det_tensor *x = det_full(types[i], DET_SCALAR, a), *y = det_full(types[i], DET_SCALAR, b);
        double got = det_item(det_remainder(x, y));
        if (isnan(expected) ? !isnan(got) : got != expected || signbit(got) != signbit(expected))
            fail_msg("%g mod %g is %g in %s, expected %g", a, b, got, det_dtype_name(types[i]),
                     expected);
    }
}

static void test_remainder__by_infinity_is_as_torch(void **state)
{
    (void)state;
    assert_remainder(5, INFINITY, 5);
    assert_remainder(-5, INFINITY, INFINITY);
    assert_remainder(5, -INFINITY, -INFINITY);
    assert_remainder(-5, -INFINITY, -5);
    assert_remainder(0.0, INFINITY, 0.0);
    assert_remainder(-0.0, -INFINITY, -0.0);
    assert_remainder(INFINITY, 3, NAN);
    assert_remainder(INFINITY, INFINITY, NAN);
    assert_remainder(5, 0, NAN);
    assert_remainder(-5, 3, 1);
    assert_remainder(5, -3, -1);
}

static void test_remainder__of_a_large_quotient_is_exact(void **state)
{
    (void)state;
    double r = det_item(det_remainder_scalar(det_scalar(7.5), 0.1)); // torch's numbers
    assert_near(r, 0.09999988973140717, 1e-9);
    r = det_item(det_remainder_scalar(det_scalar(1e20), 3));
    assert_near(r, 2, 0);
}

static void test_remainder__of_integers_rounds_down_and_never_traps(void **state)
{
    (void)state;
    int64_t a[] = {INT64_MIN, INT64_MIN, INT64_MAX - 1, -7, 7};
    int64_t b[] = {-1, INT64_MAX, INT64_MAX, 3, -3};
    int64_t expected[] = {0, INT64_MAX - 1, INT64_MAX - 1, 2, -2};
    det_tensor *x = det_from(DET_I64, DET_DIMS(5), a), *y = det_from(DET_I64, DET_DIMS(5), b);
    assert_same(det_remainder(x, y), det_from(DET_I64, DET_DIMS(5), expected));
    int64_t truncated[] = {0, -1, INT64_MAX - 1, -1, 1};
    assert_same(det_fmod(x, y), det_from(DET_I64, DET_DIMS(5), truncated));
    det_remainder(x, det_to(det_zeros(DET_F32, DET_SCALAR), DET_I64));
    assert_raised(DET_EINVAL, "remainder: division of i64 by zero");
}

static void test_remainder__passes_a_gradient_to_an_infinite_divisor(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(three(DET_F32, 5, -5, 7.5f), true);
    det_tensor *y = det_requires_grad(three(DET_F32, INFINITY, INFINITY, 0.1f), true);
    det_backward(det_sum(det_remainder(x, y)));
    assert_values(det_grad(x), 1, 1, 1);
    assert_values(det_grad(y), 0, 1, -74);
}

// --- indices

static void test_indices__may_be_i32(void **state)
{
    (void)state;
    det_tensor *x = counted(DET_DIMS(3, 2)), *wide = three(DET_I64, 2, 0, 2),
               *narrow = three(DET_I32, 2, 0, 2);
    assert_same(det_index_select(x, 0, narrow), det_index_select(x, 0, wide));
    assert_same(det_embedding(narrow, x, -1), det_embedding(wide, x, -1));
    assert_same(det_one_hot(narrow, -1), det_one_hot(wide, -1));
    det_tensor *at = det_reshape(wide, DET_DIMS(3, 1)), *at32 = det_reshape(narrow, DET_DIMS(3, 1));
    assert_same(det_gather(x, 0, at32), det_gather(x, 0, at));
    assert_same(det_scatter_add(x, 0, at32, det_ones(DET_F32, DET_DIMS(3, 1))),
                det_scatter_add(x, 0, at, det_ones(DET_F32, DET_DIMS(3, 1))));
    det_tensor *logits = counted(DET_DIMS(3, 3));
    assert_same(det_nll_loss(logits, narrow), det_nll_loss(logits, wide));
    assert_same(det_cross_entropy(logits, narrow), det_cross_entropy(logits, wide));
    assert_same(det_cross_entropy(logits, three(DET_U8, 2, 0, 2)), det_cross_entropy(logits, wide));
    assert_null(det_cross_entropy(logits, three(DET_BOOL, 1, 0, 1)));
    assert_raised(DET_EDTYPE, "target is bool, wants i64, i32 or u8");
}

static void test_indices__of_i32_let_gradients_through(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(counted(DET_DIMS(3, 1)), true);
    det_backward(det_sum(det_embedding(three(DET_I32, 2, 0, 2), x, -1)));
    assert_values(det_grad(x), 1, 0, 2);
}

// --- empty batches

// All parameters of f get zeros if its input is an empty batch.
static void assert_zero_grads(det_tensor *y, det_tensor *const *params, int n)
{
    assert_int_equal(det_numel(y), 0);
    det_backward(det_sum(y));
    assert_fine();
    for (int i = 0; i < n; i++) {
        const float *g = det_data_f32(det_grad(params[i]));
        assert_non_null(g);
        for (int64_t k = 0; k < det_numel(params[i]); k++)
            assert_near(g[k], 0, 0);
    }
}

static void test_empty_batch__gives_parameters_a_gradient_of_zero(void **state)
{
    (void)state;
    det_tensor *w = det_ones(DET_F32, DET_DIMS(4)), *b = det_ones(DET_F32, DET_DIMS(4));
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(0, 4)),
               *images = det_zeros(DET_F32, DET_DIMS(0, 4, 5, 5));
    det_tensor *filters = det_ones(DET_F32, DET_DIMS(4, 4, 3, 3)),
               *matrix = det_ones(DET_F32, DET_DIMS(4, 4));
    det_tensor *const leaves[] = {w, b, x, images, filters, matrix};
    for (size_t i = 0; i < N_OF(leaves); i++)
        det_requires_grad(leaves[i], true);
    det_tensor *const norm[] = {w, b}, *const conv_params[] = {filters, b},
                      *const linear[] = {matrix, b};
    assert_zero_grads(det_layer_norm(x, 1, w, b, 0), norm, 2);
    assert_zero_grads(det_rms_norm(x, 1, w, 0), norm, 1);
    assert_zero_grads(det_group_norm(images, 2, w, b, 0), norm, 2);
    assert_zero_grads(det_batch_norm(x, .weight = w, .bias = b, .training = true), norm, 2);
    assert_zero_grads(det_relu(det_batch_norm(images, .weight = w, .bias = b, .training = true)),
                      norm, 2);
    assert_zero_grads(det_conv2d(images, filters, b), conv_params, 2);
    assert_zero_grads(det_conv_transpose2d(images, filters, b), conv_params, 2);
    assert_zero_grads(det_relu(det_max_pool2d(det_conv2d(images, filters, b), .kernel = {2, 2})),
                      conv_params, 2);
    assert_zero_grads(det_gelu(det_linear(x, matrix, b)), linear, 2);
    assert_zero_grads(det_embedding(det_zeros(DET_I64, DET_DIMS(0)), matrix, -1), linear, 1);
    assert_zero_grads(det_avg_pool2d(images, .kernel = {2, 2}), &images, 1);
    assert_zero_grads(det_attention(images, images, images), &images, 1);
    assert_zero_grads(det_softmax(x, 1), &x, 1);
}

static void test_empty_tensors__have_strides_that_can_be_counted(void **state)
{
    (void)state;
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(0, 1 << 20, 1 << 20));
    assert_shape_of(det_reshape(x, DET_DIMS(1 << 20, 0, 1 << 20)), DET_DIMS(1 << 20, 0, 1 << 20));
    assert_null(det_zeros(DET_F32, DET_DIMS(0, 1ll << 40, 1ll << 40)));
    assert_raised(DET_ESHAPE, "is negative or too large");
}

static void test_empty_batch__leaves_running_statistics_alone(void **state)
{
    (void)state;
    det_tensor *mean = det_zeros(DET_F32, DET_DIMS(2)), *var = det_ones(DET_F32, DET_DIMS(2));
    det_batch_norm(det_zeros(DET_F32, DET_DIMS(0, 2)), .running_mean = mean, .running_var = var,
                   .training = true);
    assert_values(mean, 0, 0);
    assert_values(var, 1, 1);
}

static void *linear_of_no_features(void *arg)
{
    static const det_dtype types[] = {DET_BF16, DET_F32, DET_F64};
    bool *ok = arg;
    *ok = true;
    det_scope_begin();
    for (size_t i = 0; i < N_OF(types); i++) {
        det_tensor *x = det_zeros(types[i], DET_DIMS(1, 0)),
                   *w = det_zeros(types[i], DET_DIMS(3, 0));
        det_tensor *y = det_linear(x, w, three(types[i], 1, 2, 3)), *z = det_linear(x, w, NULL);
        const float *v = det_data_f32(det_to(y, DET_F32)), *zero = det_data_f32(det_to(z, DET_F32));
        for (int k = 0; k < 3; k++)
            *ok = *ok && v && zero && v[k] == (float)(k + 1) && zero[k] == 0;
    }
    *ok = *ok && !det_check(NULL);
    det_scope_end();
    return NULL;
}

// By a thread that has computed nothing yet, and so has no memory to compute in.
static void test_linear__of_no_features_is_the_bias(void **state)
{
    (void)state;
    pthread_t thread;
    bool ok;
    assert_int_equal(pthread_create(&thread, NULL, linear_of_no_features, &ok), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(ok);
}

static void test_embedding_bag__of_empty_bags_gives_a_gradient_of_zero(void **state)
{
    (void)state;
    det_tensor *w = det_ones(DET_F32, DET_DIMS(4, 1));
    det_requires_grad(w, true);
    det_tensor *y = det_embedding_bag(det_zeros(DET_I64, DET_DIMS(0)), w, .mode = DET_BAG_MAX,
                                      .offsets = det_zeros(DET_I64, DET_DIMS(2)));
    assert_values(y, 0, 0);
    det_backward(det_sum(y));
    assert_values(det_grad(w), 0, 0, 0, 0);
}

static void test_cumprod__of_single_numbers_passes_the_gradient_on_even_for_nan(void **state)
{
    (void)state;
    det_tensor *x = det_full(DET_F32, DET_DIMS(2, 1), NAN);
    det_requires_grad(x, true);
    det_backward(det_sum(det_mul_scalar(det_cumprod(x, 1), 3)));
    assert_values(det_grad(x), 3, 3);
}

RUN_TESTS(TEST(test_max_pool__pads_one_side_only_if_told_so),
          TEST(test_pools__take_a_second_0_of_kernel_and_stride_for_the_first),
          TEST(test_batch_norm__with_momentum_0_leaves_the_statistics_alone),
          TEST(test_batch_norm__with_eps_0_divides_by_the_deviation_itself),
          TEST(test_pools__in_ceil_mode_take_a_window_larger_than_the_image),
          TEST(test_images__may_come_alone), TEST(test_conv1d__takes_a_single_sequence),
          TEST(test_where__promotes_as_torch),
          TEST(test_where__of_two_types_gives_each_a_gradient_in_its_own),
          TEST(test_rounding__of_integers_keeps_their_type),
          TEST(test_questions__about_integers_have_answers),
          TEST(test_mul_in_place__multiplies_integers_by_whole_numbers),
          TEST(test_clamp__takes_the_upper_bound_if_the_bounds_contradict),
          TEST(test_clamp__of_integers_is_exact_and_keeps_their_type),
          TEST(test_remainder__by_infinity_is_as_torch),
          TEST(test_remainder__of_a_large_quotient_is_exact),
          TEST(test_remainder__of_integers_rounds_down_and_never_traps),
          TEST(test_remainder__passes_a_gradient_to_an_infinite_divisor),
          TEST(test_indices__may_be_i32), TEST(test_indices__of_i32_let_gradients_through),
          TEST(test_empty_batch__gives_parameters_a_gradient_of_zero),
          TEST(test_empty_tensors__have_strides_that_can_be_counted),
          TEST(test_empty_batch__leaves_running_statistics_alone),
          TEST(test_embedding_bag__of_empty_bags_gives_a_gradient_of_zero),
          TEST(test_cumprod__of_single_numbers_passes_the_gradient_on_even_for_nan),
          TEST(test_linear__of_no_features_is_the_bias))
