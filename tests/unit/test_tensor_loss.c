// Losses and their options through the public interface; all numbers were printed by torch. (The
// losses that are rows of the operation table are compared with torch by tests/parity, too.)
#include "support/test.h"

#include "det/tensor.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static det_err err;
static det_tensor *x, *z, *probabilities, *weight, *labels, *signs; // (2, 3), weight (3)

static det_tensor *matrix(const float *values)
{
    return det_from(DET_F32, DET_DIMS(2, 3), values);
}

static int setup(void **state)
{
    (void)state;
    det_scope_begin();
    x = det_requires_grad(matrix((float[]){0.5f, -1, 2, 1.5f, 0.25f, -0.75f}), true);
    z = det_requires_grad(matrix((float[]){0.25f, -0.5f, 1, 2, -0.25f, 0.75f}), true);
    probabilities = det_requires_grad(matrix((float[]){0.2f, 0.3f, 0.5f, 0.1f, 0.7f, 0.2f}), true);
    weight = det_from(DET_F32, DET_DIMS(3), (float[]){1, 2, 0.5f});
    labels = matrix((float[]){1, 0, 1, 0, 1, 0.25f});
    signs = matrix((float[]){1, -1, 1, -1, 1, -1});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    det_check(NULL);
    det_set_autocast(false);
    det_scope_end();
    return 0;
}

static void assert_all_close(det_tensor *t, const double *expected, int n)
{
    const float *v = det_data_f32(t);
    if (!v) {
        det_check(&err);
        fail_msg("%s", err.msg);
    }
    assert_int_equal(det_numel(t), n);
    for (int i = 0; i < n; i++)
        if (!(fabs(v[i] - expected[i]) < 2e-5)) fail_msg("%d: %g, not %g", i, v[i], expected[i]);
}

#define assert_loss(loss, ...)                      \
    assert_all_close(loss, (double[]){__VA_ARGS__}, \
                     sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define assert_grad(t, ...) assert_all_close(det_grad(t), (double[]){__VA_ARGS__}, 6)

static det_tensor *classes(int64_t a, int64_t b)
{
    return det_from(DET_I64, DET_DIMS(2), (int64_t[]){a, b});
}

// --- classes

static void test_cross_entropy__means_over_the_targets_that_count(void **state)
{
    (void)state;
    det_tensor *loss = det_cross_entropy(x, classes(2, 0));
    det_backward(loss);
    assert_loss(loss, 0.285992);
    assert_grad(x, 0.087645, 0.019556, -0.107201, -0.14078, 0.102918, 0.037862);
    det_zero_grad(x);
    loss = det_cross_entropy(x, classes(2, -100)); // ignored unless told otherwise
    det_backward(loss);
    assert_loss(loss, 0.241311);
    assert_grad(x, 0.17529, 0.039113, -0.214403, 0, 0, 0);
    loss = det_cross_entropy(x, classes(2, 0), .use_ignore_index = true, .ignore_index = 0);
    assert_loss(loss, 0.241311);
    assert_true(isnan(det_item(det_cross_entropy(x, classes(-100, -100)))));
}

static void test_cross_entropy__takes_distributions_as_targets(void **state)
{
    (void)state;
    det_tensor *loss = det_cross_entropy(x, probabilities);
    det_backward(loss);
    assert_loss(loss, 1.548492);
    assert_grad(x, -0.012355, -0.130444, 0.142799, 0.30922, -0.247082, -0.062138);
    assert_grad(probabilities, 0.870656, 1.620656, 0.120656, 0.165336, 0.790336, 1.290336);
    det_zero_grad(x);
    loss = det_cross_entropy(x, probabilities, .weight = weight, .label_smoothing = 0.1,
                             .reduction = DET_REDUCTION_SUM);
    det_backward(loss);
    assert_loss(loss, 4.809272);
    assert_grad(x, -0.027233, -0.565142, 0.592375, 0.995039, -1.006248, 0.011209);
    assert_loss(det_cross_entropy(x, probabilities, .reduction = DET_REDUCTION_NONE), 1.441311,
                1.655673);
}

static void test_nll_loss__means_over_weights(void **state)
{
    (void)state;
    det_tensor *loss = det_nll_loss(x, classes(2, 0), .weight = weight);
    det_backward(loss);
    assert_loss(loss, -1.666667);
    assert_grad(x, 0, 0, -0.333333, -0.666667, 0, 0);
}

static void assert_message(int code, const char *part)
{
    assert_int_equal(det_check(&err), code);
    if (!strstr(err.msg, part)) fail_msg("'%s' does not contain '%s'", err.msg, part);
}

static void test_class_losses__name_a_target_out_of_range(void **state)
{
    (void)state;
    assert_null(det_cross_entropy(x, classes(1, 3)));
    assert_message(DET_EINVAL, "cross_entropy: target 1 is 3; there are 3 classes");
    assert_null(det_nll_loss(x, classes(-1, 0)));
    assert_message(DET_EINVAL, "nll_loss: target 0 is -1; there are 3 classes");
    assert_null(det_cross_entropy(x, det_zeros(DET_I64, DET_DIMS(3))));
    assert_message(DET_ESHAPE, "cross_entropy: input is (2, 3), target (3,)");
    assert_null(det_cross_entropy(x, det_zeros(DET_F32, DET_DIMS(3))));
    assert_message(DET_ESHAPE, "cross_entropy: input is (2, 3), target (3,)");
}

// Exponentials of large logits must neither overflow nor lose the difference between them.
static void test_cross_entropy__is_exact_for_large_logits(void **state)
{
    (void)state;
    det_tensor *large = matrix((float[]){1000, 1001, 900, -3000, -3001, -3002});
    det_requires_grad(large, true);
    det_tensor *loss = det_cross_entropy(large, classes(0, 2), .reduction = DET_REDUCTION_NONE);
    assert_loss(loss, 1.313262, 2.407606);
    det_backward(det_sum(loss));
    assert_grad(large, -0.731059, 0.731059, 0, 0.665241, 0.244728, -0.909969);
}

// --- two classes

static void test_bce__takes_weights(void **state)
{
    (void)state;
    det_tensor *q = det_requires_grad(matrix((float[]){0.2f, 0.9f, 0.5f, 0.1f, 0.7f, 0.4f}), true);
    det_tensor *loss = det_bce_loss(q, labels, .weight = weight);
    det_backward(loss);
    assert_loss(loss, 1.280998);
    assert_grad(q, -0.833333, 3.333333, -0.166667, 0.185185, -0.47619, 0.052083);
    assert_null(det_bce_loss(x, labels));
    assert_message(DET_EINVAL, "bce_loss: input has values from -1 to 2, wants 0 .. 1");
}

static void test_bce_with_logits__takes_weights_of_elements_and_positives(void **state)
{
    (void)state;
    assert_loss(det_bce_with_logits_loss(x, labels, .weight = weight), 0.717424);
    det_tensor *loss = det_bce_with_logits_loss(x, labels, .pos_weight = weight);
    det_backward(loss);
    assert_loss(loss, 0.689393);
    assert_grad(x, -0.062923, 0.044824, -0.009934, 0.136262, -0.145941, 0.025953);
    assert_loss(det_bce_with_logits_loss(x, labels, .pos_weight = weight, .weight = weight,
                                         .reduction = DET_REDUCTION_SUM),
                5.353634);
}

// --- distances and margins

static void test_kl_div__can_mean_over_the_batch(void **state)
{
    (void)state;
    det_tensor *loss = det_kl_div_loss(x, probabilities, .batch_mean = true);
    det_backward(loss);
    assert_loss(loss, -1.403236);
    assert_grad(x, -0.1, -0.15, -0.25, -0.05, -0.35, -0.1);
    assert_loss(det_kl_div_loss(x, probabilities, .batch_mean = true, .log_target = true),
                -0.282702);
}

static void test_smooth_l1_and_huber__have_a_default_width_of_one(void **state)
{
    (void)state;
    assert_loss(det_smooth_l1_loss(x, z), 0.317708);
    assert_loss(det_smooth_l1_loss(x, z, .beta = 1), 0.317708);
    assert_loss(det_huber_loss(x, z), 0.317708);
    assert_loss(det_huber_loss(x, z, .beta = 0.5), 0.234375);
}

static void test_hinge_embedding__has_a_default_margin_of_one(void **state)
{
    (void)state;
    det_tensor *loss = det_hinge_embedding_loss(x, signs);
    det_backward(loss);
    assert_loss(loss, 1.083333);
    assert_grad(x, 0.166667, -0.166667, 0.166667, 0, 0.166667, -0.166667);
    assert_loss(det_hinge_embedding_loss(x, signs, .margin = 2, .reduction = DET_REDUCTION_NONE),
                0.5, 3, 2, 0.5, 0.25, 2.75);
}

static void test_margin_ranking__compares_two_inputs(void **state)
{
    (void)state;
    det_tensor *loss = det_margin_ranking_loss(x, z, signs, .margin = 0.5);
    det_backward(loss);
    assert_loss(loss, 0.041667);
    assert_grad(x, -0.166667, 0.166667, 0, 0.166667, -0.166667, 0);
    assert_grad(z, 0.166667, -0.166667, 0, -0.166667, 0.166667, 0);
}

static void test_cosine__similarity_and_embedding_loss(void **state)
{
    (void)state;
    assert_loss(det_cosine_similarity(x, z, 1, 1e-8), 1, 0.651312);
    det_tensor *similarity = det_cosine_similarity(x, z, 0, 1e-8);
    det_backward(det_sum(similarity));
    assert_loss(similarity, 0.980581, 0.759257, 0.538389);
    assert_grad(x, -0.11767, -0.153127, 0.138525, 0.039223, -0.61251, 0.369401);
    det_zero_grad(x);
    det_tensor *y = det_from(DET_F32, DET_DIMS(2), (float[]){1, -1});
    det_tensor *loss = det_cosine_embedding_loss(x, z, y, .margin = 0.1);
    det_backward(loss);
    assert_loss(loss, 0.275656);
    assert_grad(x, 0, 0, 0, 0.104329, -0.062597, 0.187792);
}

static void test_losses__compute_in_f32_under_autocast(void **state)
{
    (void)state;
    det_tensor *half = det_to(x, DET_BF16), *target = det_to(labels, DET_BF16);
    assert_int_equal(det_dtype_of(det_mse_loss(half, target)), DET_BF16);
    det_set_autocast(true);
    assert_int_equal(det_dtype_of(det_mse_loss(half, target)), DET_F32);
    assert_int_equal(det_dtype_of(det_cross_entropy(half, classes(1, 2))), DET_F32);
    assert_int_equal(det_dtype_of(det_nll_loss(half, classes(1, 2))), DET_F32);
    assert_int_equal(det_dtype_of(det_softmax(half, 1)), DET_F32);
    assert_int_equal(det_dtype_of(det_log_softmax(half, 1)), DET_F32);
    assert_int_equal(det_dtype_of(det_hinge_embedding_loss(half, signs)), DET_F32);
    assert_int_equal(det_dtype_of(det_margin_ranking_loss(half, half, signs)), DET_F32);
    assert_int_equal(det_check(&err), 0);
}

// --- shapes that only broadcast

static char warned[512];
static int n_warned;

static void keep_warning(const char *text, void *user)
{
    snprintf(warned, sizeof warned, "%s", text);
    ++*(int *)user;
}

static void test_losses__warn_once_per_place_of_shapes_that_only_broadcast(void **state)
{
    (void)state;
    det_warning_handler old =
        det_set_warning_handler((det_warning_handler){keep_warning, &n_warned});
    det_tensor *input = det_requires_grad(det_rand(DET_F32, DET_DIMS(64, 1)), true),
               *target = det_rand(DET_F32, DET_DIMS(64));
    n_warned = 0;
    int line = 0;
    for (int i = 0; i < 3; i++) {
        line = __LINE__ + 1;
        det_tensor *loss = det_mse_loss(input, target);
        det_backward(loss);
        assert_int_equal(n_warned, 1);
    }
    char place[256];
    snprintf(place, sizeof place,
             "test_tensor_loss.c:%d: mse_loss: the input is (64, 1), the target (64,)", line);
    if (!strstr(warned, place)) fail_msg("'%s' has no '%s'", warned, place);
    det_mse_loss(input, target, .reduction = DET_REDUCTION_SUM); // another place
    assert_int_equal(n_warned, 2);
    det_l1_loss(input, target);
    det_smooth_l1_loss(input, target);
    det_huber_loss(input, target);
    det_kl_div_loss(input, target);
    det_hinge_embedding_loss(input, target);
    assert_int_equal(n_warned, 7);
    det_mse_loss(input, det_reshape(target, DET_DIMS(64, 1)));
    assert_int_equal(n_warned, 7);
    det_set_warning_handler(old);
    assert_int_equal(det_check(&err), 0);
}

// A loss that is called by a pointer has no place: its text tells.
static void test_losses__without_a_place_warn_once_per_text(void **state)
{
    (void)state;
    det_warning_handler old =
        det_set_warning_handler((det_warning_handler){keep_warning, &n_warned});
    n_warned = 0;
    for (int i = 0; i < 3; i++)
        det_mse_loss_with(det_ones(DET_F32, DET_DIMS(5, 1)), det_ones(DET_F32, DET_DIMS(5)),
                          (det_loss_opts){0});
    assert_int_equal(n_warned, 1);
    assert_ptr_equal(strstr(warned, "mse_loss: the input is (5, 1), the target (5,)"), warned);
    det_set_warning_handler(old);
}

static void test_bce__refuses_shapes_that_only_broadcast(void **state)
{
    (void)state;
    det_tensor *column = det_full(DET_F32, DET_DIMS(4, 1), 0.5),
               *row = det_full(DET_F32, DET_DIMS(4), 0.5);
    assert_null(det_bce_loss(column, row));
    assert_int_equal(det_check(&err), DET_ESHAPE);
    assert_string_equal(err.msg, "bce_loss: input is (4, 1), target (4,); wants one shape");
    assert_null(det_bce_with_logits_loss(column, row));
    assert_int_equal(det_check(&err), DET_ESHAPE);
    assert_null(det_bce_with_logits_loss(column, row, .pos_weight = det_scalar(2)));
    assert_int_equal(det_check(&err), DET_ESHAPE);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
RUN_TESTS(TEST(test_cross_entropy__means_over_the_targets_that_count),
          TEST(test_cross_entropy__takes_distributions_as_targets),
          TEST(test_cross_entropy__is_exact_for_large_logits),
          TEST(test_nll_loss__means_over_weights),
          TEST(test_class_losses__name_a_target_out_of_range), TEST(test_bce__takes_weights),
          TEST(test_bce_with_logits__takes_weights_of_elements_and_positives),
          TEST(test_kl_div__can_mean_over_the_batch),
          TEST(test_smooth_l1_and_huber__have_a_default_width_of_one),
          TEST(test_hinge_embedding__has_a_default_margin_of_one),
          TEST(test_margin_ranking__compares_two_inputs),
          TEST(test_cosine__similarity_and_embedding_loss),
          TEST(test_losses__compute_in_f32_under_autocast),
          TEST(test_losses__warn_once_per_place_of_shapes_that_only_broadcast),
          TEST(test_losses__without_a_place_warn_once_per_text),
          TEST(test_bce__refuses_shapes_that_only_broadcast))
