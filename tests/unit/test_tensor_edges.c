// What torch does at the edges: mixed types, infinities, empty batches, single images. The expected
// values are torch's.
#include "support/tensors.h"

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

RUN_TESTS(TEST(test_max_pool__pads_one_side_only_if_told_so),
          TEST(test_pools__take_a_second_0_of_kernel_and_stride_for_the_first),
          TEST(test_batch_norm__with_momentum_0_leaves_the_statistics_alone),
          TEST(test_batch_norm__with_eps_0_divides_by_the_deviation_itself),
          TEST(test_pools__in_ceil_mode_take_a_window_larger_than_the_image),
          TEST(test_images__may_come_alone), TEST(test_conv1d__takes_a_single_sequence))
