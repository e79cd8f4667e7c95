// Results and gradients at the borders of the operations: NaN, zero, nothing, unusual shapes and
// types. All numbers were printed by torch.
#include "support/tensors.h"

static det_tensor *leaf(const float *values, int64_t n)
{
    return det_requires_grad(det_from(DET_F32, DET_DIMS(n), values), true);
}

static void assert_is_nan(det_tensor *t, int64_t i)
{
    const float *v = det_data_f32(t);
    assert_fine();
    assert_true(isnan(v[i]));
}

// The gradients of all elements of x through y, for a gradient of ones.
static void backward_from_ones(det_tensor *y)
{
    det_backward(det_sum(y));
    assert_fine();
}

// --- NaN

static void test_relu__lets_the_gradient_of_nan_through(void **state)
{
    (void)state;
    det_tensor *x = leaf((float[]){NAN, -1, 2}, 3);
    backward_from_ones(det_relu(x));
    assert_values(det_grad(x), 1, 0, 1);
}

static void test_relu__behind_linear_lets_the_gradient_of_nan_through(void **state)
{
    (void)state;
    det_tensor *x = det_reshape(det_from(DET_F32, DET_DIMS(2), (float[]){1, 2}), DET_DIMS(2, 1));
    det_tensor *w = det_from(DET_F32, DET_DIMS(2, 1), (float[]){NAN, 1});
    det_tensor *b = leaf((float[]){0, -1.5f}, 2);
    backward_from_ones(det_relu(det_linear(x, w, b)));
    assert_values(det_grad(b), 2, 1);
}

static void test_relu__behind_convolution_and_norm_lets_the_gradient_of_nan_through(void **state)
{
    (void)state;
    det_tensor *x = det_full(DET_F32, DET_DIMS(2, 1, 4, 4), NAN);
    det_tensor *w = det_ones(DET_F32, DET_DIMS(1, 1, 1, 1)), *b = leaf((float[]){0}, 1);
    backward_from_ones(det_relu(det_conv2d(x, w, b)));
    assert_values(det_grad(b), 32);
    det_zero_grad(b);
    backward_from_ones(det_relu(det_max_pool2d(det_conv2d(x, w, b), .kernel = {2, 2})));
    assert_values(det_grad(b), 8);
    det_zero_grad(b);
    backward_from_ones(det_relu(det_batch_norm(x, .bias = b, .training = true)));
    assert_values(det_grad(b), 32);
}

static void test_maximum__gives_both_sides_the_gradient_next_to_nan(void **state)
{
    (void)state;
    det_tensor *a = leaf((float[]){NAN, 1, 2, 5}, 4), *b = leaf((float[]){1, NAN, 2, 3}, 4);
    backward_from_ones(det_maximum(a, b));
    assert_values(det_grad(a), 1, 1, 0.5f, 1);
    assert_values(det_grad(b), 1, 1, 0.5f, 0);
    det_zero_grad(a);
    backward_from_ones(det_minimum(a, b));
    assert_values(det_grad(a), 1, 1, 0.5f, 0);
}

static void test_norm__largest_of_nan_passes_no_gradient(void **state)
{
    (void)state;
    det_tensor *x = leaf((float[]){NAN, 3, -1}, 3);
    det_tensor *y = det_norm(x, INFINITY);
    assert_is_nan(y, 0);
    backward_from_ones(y);
    assert_values(det_grad(x), 0, 0, 0);
}

static void test_l1_loss__passes_no_gradient_at_nan(void **state)
{
    (void)state;
    det_tensor *x = leaf((float[]){NAN, 3, -1}, 3);
    det_tensor *t = det_from(DET_F32, DET_DIMS(3), (float[]){1, 1, 1});
    backward_from_ones(det_l1_loss(x, t, .reduction = DET_REDUCTION_SUM));
    assert_values(det_grad(x), 0, 1, -1);
}

// --- zero

static void test_pow__to_zero_has_no_slope(void **state)
{
    (void)state;
    det_tensor *x = leaf((float[]){0, 2}, 2);
    backward_from_ones(det_pow_scalar(x, 0));
    assert_values(det_grad(x), 0, 0);
}

static void test_pow__of_zero_to_something_negative_has_an_infinite_slope(void **state)
{
    (void)state;
    det_tensor *a = det_zeros(DET_F32, DET_DIMS(2)), *b = leaf((float[]){-1, 2}, 2);
    backward_from_ones(det_pow(a, b));
    assert_true(det_item(det_select(det_grad(b), 0, 0)) == -INFINITY);
    assert_near(det_item(det_select(det_grad(b), 0, 1)), 0, 0);
}

static void test_kl_div__target_of_zero_counts_what_the_input_says(void **state)
{
    (void)state;
    det_tensor *x = leaf((float[]){-INFINITY, -2}, 2);
    det_tensor *t = det_zeros(DET_F32, DET_DIMS(2));
    det_tensor *y = det_kl_div_loss(x, t, .reduction = DET_REDUCTION_NONE);
    assert_is_nan(y, 0);
    assert_near(det_item(det_select(y, 0, 1)), 0, 0);
}

// --- nothing

static void test_linear__without_outputs_gives_a_gradient_of_zeros(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_ones(DET_F32, DET_DIMS(2, 3)), true);
    det_tensor *w = det_requires_grad(det_ones(DET_F32, DET_DIMS(0, 3)), true);
    backward_from_ones(det_relu(det_linear(x, w, NULL)));
    assert_values(det_grad(x), 0, 0, 0, 0, 0, 0);
}

static void test_split__of_nothing_is_one_empty_piece(void **state)
{
    (void)state;
    det_tensor *piece[2] = {0};
    assert_int_equal(det_split(det_zeros(DET_F32, DET_DIMS(0, 3)), 2, 0, piece, 2), 1);
    assert_int_equal(det_size(piece[0], 0), 0);
    assert_int_equal(det_size(piece[0], 1), 3);
}

// --- shapes and types

static void test_backward__converts_a_gradient_of_another_type(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_ones(DET_F64, DET_DIMS(3)), true);
    det_tensor *g = det_from(DET_F32, DET_DIMS(3), (float[]){1, 2, 3});
    det_backward(det_mul_scalar(x, 2), .grad = g);
    assert_values(det_to(det_grad(x), DET_F32), 2, 4, 6);
}

static void test_cosine_similarity__broadcasts_vectors_before_it_measures_them(void **state)
{
    (void)state;
    det_tensor *a = det_from(DET_F32, DET_DIMS(4), (float[]){1, 1, 1, 1});
    det_tensor *one = det_from(DET_F32, DET_DIMS(1), (float[]){3});
    assert_values(det_cosine_similarity(a, one, 0, 1e-8), 1);
}

static void test_index_select__of_a_number_is_the_number(void **state)
{
    (void)state;
    det_tensor *x = det_scalar(5), *zero = det_zeros(DET_I64, DET_DIMS(1));
    det_tensor *y = det_index_select(x, 0, zero);
    assert_int_equal(det_ndim(y), 0);
    assert_values(y, 5);
}

static void test_losses__that_torch_does_not_broadcast_want_one_shape(void **state)
{
    (void)state;
    det_tensor *x = det_full(DET_F32, DET_DIMS(4, 1), 0.5), *t = det_ones(DET_F32, DET_DIMS(4));
    det_bce_loss(x, t);
    assert_raised(DET_ESHAPE, "bce_loss: input is (4, 1), target (4,); wants one shape");
    det_bce_with_logits_loss(x, t);
    assert_raised(DET_ESHAPE, "bce_with_logits_loss: input is (4, 1), target (4,)");
    det_margin_ranking_loss(x, x, t);
    assert_raised(DET_ESHAPE, "margin_ranking_loss: (4, 1), (4, 1) and (4,)");
}

static void test_dropout__probability_is_checked_while_nothing_is_dropped_too(void **state)
{
    (void)state;
    det_dropout(det_ones(DET_F32, DET_DIMS(2)), 1.5, false);
    assert_raised(DET_EINVAL, "dropout");
}

// --- sums

static void test_sum__of_many_short_pieces_of_memory_keeps_its_digits(void **state)
{
    (void)state;
    enum { ROWS = 20000, WIDTH = 8, USED = 3 };
    det_tensor *all = det_rand(DET_F32, DET_DIMS(ROWS, WIDTH));
    det_tensor *part = det_slice(all, 1, 0, USED, 1);
    double expected = det_item(det_sum(det_to(part, DET_F64)));
    assert_near(det_item(det_sum(part)) / expected, 1, 3e-7);
}

// --- what must not reach a gradient

static void test_batch_norm__with_fixed_statistics_has_a_gradient_that_ignores_the_input(
    void **state)
{
    (void)state;
    det_tensor *memory = leaf((float[]){1, INFINITY, 2, NAN}, 4);
    det_tensor *x = det_reshape(memory, DET_DIMS(2, 2));
    det_tensor *w = det_from(DET_F32, DET_DIMS(2), (float[]){2, 3});
    det_tensor *mean = det_zeros(DET_F32, DET_DIMS(2)), *var = det_ones(DET_F32, DET_DIMS(2));
    backward_from_ones(
        det_batch_norm(x, .weight = w, .running_mean = mean, .running_var = var, .eps = 1e-5));
    assert_values(det_grad(memory), 2, 3, 2, 3);
}

static void test_div__of_zero_by_something_tiny_has_no_slope(void **state)
{
    (void)state;
    det_tensor *b = leaf((float[]){1e-30F}, 1), *zero = det_zeros(DET_F32, DET_DIMS(1));
    backward_from_ones(det_mul_scalar(det_div(zero, b), 1e10));
    assert_values(det_grad(b), 0);
}

static void test_var__of_one_number_has_an_infinite_slope(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_scalar(3), true);
    backward_from_ones(det_var(x, 1));
    assert_true(isinf(det_item(det_grad(x))));
}

static void test_concat__skips_what_has_the_shape_of_nothing(void **state)
{
    (void)state;
    det_tensor *nothing = leaf(NULL, 0), *x = leaf((float[]){1, 2}, 2);
    det_tensor *column = det_reshape(x, DET_DIMS(2, 1));
    det_tensor *y = det_concat((det_tensor *[]){nothing, column, nothing, column}, 4, 1);
    assert_values(y, 1, 1, 2, 2);
    backward_from_ones(y);
    assert_values(det_grad(x), 2, 2);
    assert_int_equal(det_numel(det_grad(nothing)), 0);
}

// --- digits

static void test_attention__keeps_its_digits_where_scores_are_large(void **state)
{
    (void)state;
    det_tensor *memory = leaf((float[]){0.5F, 1}, 2), *q = det_reshape(memory, DET_DIMS(2, 1));
    det_tensor *k = det_full(DET_F32, DET_DIMS(3, 1), 0.37);
    det_tensor *v = det_from(DET_F32, DET_DIMS(3, 1), (float[]){1, 2, 5});
    det_tensor *mask = det_full(DET_F32, DET_DIMS(2, 3), -5263.5);
    backward_from_ones(det_attention(q, k, v, .mask = mask));
    assert_values(det_grad(memory), 0, 0);
}

static void test_gelu_tanh__keeps_its_digits_where_it_is_small(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_F32, DET_DIMS(3), (float[]){-4, -4.5F, -5});
    const float *y = det_data_f32(det_gelu_tanh(x));
    const double in_f64[] = {-7.024594819227126e-05, -5.136737411925996e-06,
                             -2.2917961972623857e-07};
    for (int i = 0; i < 3; i++)
        assert_near((double)y[i] / in_f64[i], 1, 1e-5);
}

static void test_std__keeps_its_digits_where_squares_are_tiny(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_F32, DET_DIMS(3), (float[]){1e-21F, 2e-21F, 4e-21F});
    assert_near(det_item(det_std(x, 1)) / 1.52752523e-21, 1, 1e-6);
}

static void test_cosine_similarity__of_two_types_measures_in_the_finer_one(void **state)
{
    (void)state;
    det_tensor *a = leaf((float[]){1, 2, 3}, 3);
    det_tensor *b = det_to(det_from(DET_F32, DET_DIMS(3), (float[]){0.3F, -1.7F, 2.9F}), DET_BF16);
    backward_from_ones(det_cosine_similarity(a, b, 0, 1e-8));
    assert_values(det_grad(a), -0.007915869F, -0.197962999F, 0.134613976F);
}

static void test_hardsigmoid__has_the_slope_of_torch_in_f64_too(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_from(DET_F64, DET_DIMS(1), (double[]){2}), true);
    backward_from_ones(det_hardsigmoid(x));
    assert_near(det_item(det_grad(x)), 0.1666666716337204, 1e-16);
}

// Equal sums of products stay equal when the bias is added, so the first pixel wins.
static void test_conv2d__of_f64_in_front_of_max_pool_lets_the_first_of_equals_win(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_F64, DET_DIMS(1, 2, 1, 2), (double[]){3, 1, 1, 3});
    det_tensor *w = det_ones(DET_F64, DET_DIMS(1, 2, 1, 1));
    det_tensor *b = det_from(DET_F64, DET_DIMS(1), (double[]){-0.0945908325563855});
    det_requires_grad(x, true);
    backward_from_ones(det_max_pool2d(det_conv2d(x, w, b), .kernel = {1, 2}));
    assert_values(det_to(det_grad(x), DET_F32), 1, 0, 1, 0);
}

// --- integers

static void test_conv2d__of_integers_wraps_around(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_U8, DET_DIMS(1, 1, 1, 3), (uint8_t[]){200, 1, 2});
    det_tensor *w = det_from(DET_U8, DET_DIMS(1, 1, 1, 2), (uint8_t[]){2, 3});
    det_tensor *y = det_conv2d(x, w, NULL);
    assert_int_equal(det_dtype_of(y), DET_U8);
    assert_values(det_to(y, DET_F32), 147, 8); // 403 - 256
}

static void test_add___of_bools_is_or_whatever_the_factor(void **state)
{
    (void)state;
    det_tensor *t = det_from(DET_BOOL, DET_DIMS(3), (bool[]){true, false, true});
    det_add_(t, det_from(DET_BOOL, DET_DIMS(3), (bool[]){true, true, false}), -1);
    assert_values(det_to(t, DET_F32), 1, 1, 1);
}

static void test_interpolate__picks_bytes(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_U8, DET_DIMS(1, 1, 1, 2), (uint8_t[]){7, 255});
    det_tensor *y = det_interpolate(x, 1, 4, DET_INTERPOLATION_NEAREST, false);
    assert_int_equal(det_dtype_of(y), DET_U8);
    assert_values(det_to(y, DET_F32), 7, 7, 255, 255);
}

static void test_l1_loss__of_integers_is_one(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_I64, DET_DIMS(2), (int64_t[]){1, 5});
    det_tensor *t = det_from(DET_I64, DET_DIMS(2), (int64_t[]){4, 4});
    det_tensor *y = det_l1_loss(x, t, .reduction = DET_REDUCTION_SUM);
    assert_int_equal(det_dtype_of(y), DET_I64);
    assert_values(det_to(y, DET_F32), 4);
}

// --- shapes

static void test_adaptive_pools__may_have_no_pixels(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_ones(DET_F32, DET_DIMS(1, 1, 2, 2)), true);
    det_tensor *y = det_adaptive_avg_pool2d(x, 3, 0);
    assert_int_equal(det_numel(y), 0);
    backward_from_ones(det_concat((det_tensor *[]){y, det_adaptive_max_pool2d(x, 3, 0)}, 2, 0));
    assert_values(det_grad(x), 0, 0, 0, 0);
}

static void test_linear__takes_one_number_as_bias_of_all_outputs(void **state)
{
    (void)state;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1, 2)), *w = det_ones(DET_F32, DET_DIMS(3, 2));
    det_tensor *b = det_requires_grad(det_scalar(0.5), true);
    det_tensor *y = det_linear(x, w, b);
    assert_values(y, 2.5F, 2.5F, 2.5F);
    backward_from_ones(y);
    assert_values(det_grad(b), 3);
}

// --- losses

static void test_losses__refuse_weights_that_do_not_broadcast_to_the_input(void **state)
{
    (void)state;
    det_tensor *x = det_full(DET_F32, DET_DIMS(4, 1), 0.5), *w = det_ones(DET_F32, DET_DIMS(4, 2));
    det_bce_loss(x, x, .weight = w);
    assert_raised(DET_ESHAPE, "bce_loss: weight is (4, 2), which does not broadcast to the input");
    det_bce_with_logits_loss(x, x, .pos_weight = w);
    assert_raised(DET_ESHAPE, "bce_with_logits_loss: pos_weight is (4, 2)");
    det_cosine_embedding_loss(x, x, det_ones(DET_F32, DET_DIMS(4, 1)));
    assert_raised(DET_ESHAPE, "cosine_embedding_loss: (4, 1), (4, 1) and targets (4, 1)");
}

static void test_bce_with_logits_loss__takes_weights_of_u8(void **state)
{
    (void)state;
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(1)), *t = det_ones(DET_F32, DET_DIMS(1));
    assert_values(det_bce_with_logits_loss(x, t, .pos_weight = det_zeros(DET_U8, DET_DIMS(1))), 0);
}

static void test_margin_ranking_loss__of_integers_is_a_float(void **state)
{
    (void)state;
    det_tensor *a = det_from(DET_I64, DET_DIMS(2), (int64_t[]){3, 1});
    det_tensor *b = det_from(DET_I64, DET_DIMS(2), (int64_t[]){1, 4});
    det_tensor *one = det_ones(DET_I64, DET_DIMS(2));
    assert_values(det_margin_ranking_loss(a, b, one, .margin = 0.5), 1.75F);
}

RUN_TESTS(TEST(test_batch_norm__with_fixed_statistics_has_a_gradient_that_ignores_the_input),
          TEST(test_div__of_zero_by_something_tiny_has_no_slope),
          TEST(test_var__of_one_number_has_an_infinite_slope),
          TEST(test_concat__skips_what_has_the_shape_of_nothing),
          TEST(test_attention__keeps_its_digits_where_scores_are_large),
          TEST(test_gelu_tanh__keeps_its_digits_where_it_is_small),
          TEST(test_std__keeps_its_digits_where_squares_are_tiny),
          TEST(test_cosine_similarity__of_two_types_measures_in_the_finer_one),
          TEST(test_hardsigmoid__has_the_slope_of_torch_in_f64_too),
          TEST(test_conv2d__of_f64_in_front_of_max_pool_lets_the_first_of_equals_win),
          TEST(test_conv2d__of_integers_wraps_around),
          TEST(test_add___of_bools_is_or_whatever_the_factor), TEST(test_interpolate__picks_bytes),
          TEST(test_l1_loss__of_integers_is_one), TEST(test_adaptive_pools__may_have_no_pixels),
          TEST(test_linear__takes_one_number_as_bias_of_all_outputs),
          TEST(test_losses__refuse_weights_that_do_not_broadcast_to_the_input),
          TEST(test_bce_with_logits_loss__takes_weights_of_u8),
          TEST(test_margin_ranking_loss__of_integers_is_a_float),
          TEST(test_relu__lets_the_gradient_of_nan_through),
          TEST(test_relu__behind_linear_lets_the_gradient_of_nan_through),
          TEST(test_relu__behind_convolution_and_norm_lets_the_gradient_of_nan_through),
          TEST(test_maximum__gives_both_sides_the_gradient_next_to_nan),
          TEST(test_norm__largest_of_nan_passes_no_gradient),
          TEST(test_l1_loss__passes_no_gradient_at_nan), TEST(test_pow__to_zero_has_no_slope),
          TEST(test_pow__of_zero_to_something_negative_has_an_infinite_slope),
          TEST(test_kl_div__target_of_zero_counts_what_the_input_says),
          TEST(test_linear__without_outputs_gives_a_gradient_of_zeros),
          TEST(test_split__of_nothing_is_one_empty_piece),
          TEST(test_backward__converts_a_gradient_of_another_type),
          TEST(test_cosine_similarity__broadcasts_vectors_before_it_measures_them),
          TEST(test_index_select__of_a_number_is_the_number),
          TEST(test_losses__that_torch_does_not_broadcast_want_one_shape),
          TEST(test_dropout__probability_is_checked_while_nothing_is_dropped_too),
          TEST(test_sum__of_many_short_pieces_of_memory_keeps_its_digits))
