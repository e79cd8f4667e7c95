// Initial values: the distributions of torch 1.13.
#include "det/nn.h"
#include "support/tensors.h"

struct stats {
    double mean, std, min, max;
};

static struct stats stats_of(det_tensor *t)
{
    const float *v = det_data_f32(t);
    int64_t n = det_numel(t);
    struct stats s = {0, 0, INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        s.mean += v[i] / (double)n;
        s.min = fmin(s.min, v[i]);
        s.max = fmax(s.max, v[i]);
    }
    for (int64_t i = 0; i < n; i++)
        s.std += (v[i] - s.mean) * (v[i] - s.mean) / (double)n;
    s.std = sqrt(s.std);
    return s;
}

// Tensors below have thousands of elements, so the estimates are within a few percent.
static void assert_uniform(det_tensor *t, double bound)
{
    struct stats s = stats_of(t);
    assert_true(s.min >= -bound && s.max <= bound);
    assert_near(s.min, -bound, 0.02 * bound);
    assert_near(s.max, bound, 0.02 * bound);
    assert_near(s.mean, 0, 0.05 * bound);
    assert_near(s.std, bound / sqrt(3), 0.05 * bound);
}

static void assert_normal(det_tensor *t, double std)
{
    struct stats s = stats_of(t);
    assert_near(s.mean, 0, 0.05 * std);
    assert_near(s.std, std, 0.05 * std);
    assert_true(s.max > 2.5 * std && s.min < -2.5 * std);
}

static void test_init__linear_is_kaiming_uniform(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(100, 400);
    assert_uniform(det_module_find_param(m, "weight"), 1 / sqrt(100));
    struct stats bias = stats_of(det_module_find_param(m, "bias"));
    assert_true(bias.max <= 0.1 && bias.max > 0.09 && bias.min >= -0.1 && bias.min < -0.09);
    det_module_free(m);
}

static void test_init__convolutions_count_their_window(void **state)
{
    (void)state;
    det_module *m = det_nn_conv2d(16, 64, .kernel = 5, .groups = 2);
    assert_uniform(det_module_find_param(m, "weight"), 1 / sqrt(8 * 25));
    det_module_free(m);
    m = det_nn_conv_transpose2d(32, 64, .kernel = 3); // torch takes the second dim for the inputs
    assert_uniform(det_module_find_param(m, "weight"), 1 / sqrt(64 * 9));
    det_module_free(m);
    m = det_nn_conv1d(16, 64, .kernel = 5);
    assert_uniform(det_module_find_param(m, "weight"), 1 / sqrt(16 * 5));
    det_module_free(m);
}

static void test_init__recurrent_weights_depend_on_the_hidden_size(void **state)
{
    (void)state;
    det_module *m = det_nn_lstm(30, 64, .num_layers = 2, .bidirectional = true);
    assert_uniform(det_module_find_param(m, "weight_ih_l0"), 1.0 / 8);
    assert_uniform(det_module_find_param(m, "weight_hh_l1_reverse"), 1.0 / 8);
    struct stats bias = stats_of(det_module_find_param(m, "bias_hh_l1"));
    assert_near(bias.std, 0.125 / sqrt(3), 0.01);
    det_module_free(m);
}

static void test_init__embedding_is_normal_but_for_the_padding(void **state)
{
    (void)state;
    det_module *m = det_nn_embedding(200, 50, .use_padding_idx = true, .padding_idx = -1);
    det_tensor *w = det_module_find_param(m, "weight");
    assert_normal(det_slice(w, 0, 0, 199, 1), 1);
    struct stats padding = stats_of(det_select(w, 0, 199));
    assert_true(padding.min == 0 && padding.max == 0);
    det_module_free(m);
}

static void test_init__attention_is_xavier(void **state)
{
    (void)state;
    det_module *m = det_nn_multihead_attention(64, 4);
    assert_uniform(det_module_find_param(m, "in_proj_weight"), sqrt(6.0 / (64 + 192)));
    assert_uniform(det_module_find_param(m, "out_proj.weight"), 1 / sqrt(64));
    assert_true(stats_of(det_module_find_param(m, "in_proj_bias")).max == 0);
    assert_true(stats_of(det_module_find_param(m, "out_proj.bias")).max == 0);
    det_module_reset_parameters(m); // children first: the bias of out_proj is zero again
    struct stats bias = stats_of(det_module_find_param(m, "out_proj.bias"));
    assert_true(bias.max == 0 && bias.min == 0);
    det_module_free(m);
}

static void test_init__norms_start_as_identity(void **state)
{
    (void)state;
    det_module *m = det_nn_batch_norm2d(2);
    assert_values(det_module_find_param(m, "weight"), 1, 1);
    assert_values(det_module_find_param(m, "bias"), 0, 0);
    assert_values(det_module_find_param(m, "running_mean"), 0, 0);
    assert_values(det_module_find_param(m, "running_var"), 1, 1);
    assert_near(det_item(det_module_find_param(m, "num_batches_tracked")), 0, 0);
    det_module_free(m);
    m = det_nn_rms_norm(2);
    assert_values(det_module_find_param(m, "weight"), 1, 1);
    assert_null(det_module_find_param(m, "bias"));
    det_module_free(m);
}

static void test_init__is_a_function_of_the_seed(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(5, 6), det_nn_linear(6, 5));
    det_tensor *first = det_clone(det_module_param(m, 2));
    det_module_reset_parameters(m);
    assert_true(det_item(det_sum(det_abs(det_sub(first, det_module_param(m, 2))))) > 0.1);
    assert_true(det_has_requires_grad(det_module_param(m, 2)));
    det_manual_seed(1); // as the test began
    det_module_reset_parameters(m);
    assert_true(det_item(det_sum(det_abs(det_sub(first, det_module_param(m, 2))))) == 0);
    det_module_free(m);
}

static void fill_with_three(det_module *m)
{
    det_init_constant(det_module_find_param(m, "fc.bias"), 3);
}

static void test_init__a_module_may_correct_its_children(void **state)
{
    (void)state;
    det_module *m = det_module_new("Own", 0, NULL);
    det_module_add(m, "fc", det_nn_linear(2, 2));
    det_module_on_reset(m, fill_with_three);
    det_module_reset_parameters(m);
    assert_values(det_module_find_param(m, "fc.bias"), 3, 3);
    det_module_free(m);
}

static void test_init__initialisers_have_torchs_scale(void **state)
{
    (void)state;
    det_tensor *t = det_empty(DET_F32, DET_DIMS(40, 50, 4)); // fan in 200, fan out 160
    det_init_uniform(t, -2, 2);
    assert_uniform(t, 2);
    det_init_normal(t, 0, 3);
    assert_normal(t, 3);
    det_init_xavier_uniform(t, 2);
    assert_uniform(t, 2 * sqrt(6.0 / 360));
    det_init_xavier_normal(t, 2);
    assert_normal(t, 2 * sqrt(2.0 / 360));
    det_init_kaiming_uniform(t, 0);
    assert_uniform(t, sqrt(6.0 / 200));
    det_init_kaiming_normal(t, 1);
    assert_normal(t, sqrt(1.0 / 200));
    det_init_normal(t, 5, 0);
    assert_near(stats_of(t).min, 5, 0);
    det_init_kaiming_normal(det_zeros(DET_F32, DET_DIMS(3)), 0);
    assert_raised(DET_ESHAPE, "kaiming_normal: (3,) f32 has fewer than 2 dims");
}

static void test_init__large_tensors_are_drawn_in_pieces(void **state)
{
    (void)state;
    det_tensor *t = det_empty(DET_F32, DET_DIMS(1100, 1000));
    det_init_uniform(t, -1, 1);
    assert_uniform(t, 1);
    const float *v = det_data_f32(t);
    assert_true(memcmp(v, v + (1 << 20), 1000 * sizeof *v) != 0);
    det_tensor *turned = det_transpose(det_zeros(DET_F32, DET_DIMS(1000, 1100)), 0, 1);
    det_init_uniform(turned, -1, 1);
    assert_uniform(det_contiguous(turned), 1);
}

static void assert_orthonormal_rows(det_tensor *t, double gain)
{
    int64_t n = det_size(t, 0);
    det_tensor *product = det_matmul(t, det_transpose(t, 0, 1));
    det_tensor *off = det_sub(product, det_mul_scalar(det_eye(DET_F32, n), gain * gain));
    assert_near(det_item(det_sum(det_abs(off))), 0, 1e-5 * (double)(n * n));
}

static void test_init__orthogonal(void **state)
{
    (void)state;
    det_tensor *wide = det_empty(DET_F32, DET_DIMS(10, 3, 7)),
               *tall = det_empty(DET_F32, DET_DIMS(30, 12));
    det_init_orthogonal(wide, 1);
    assert_orthonormal_rows(det_reshape(wide, DET_DIMS(10, 21)), 1);
    det_init_orthogonal(tall, 2);
    assert_orthonormal_rows(det_transpose(tall, 0, 1), 2);
    assert_fine();
}

RUN_TESTS(TEST(test_init__linear_is_kaiming_uniform),
          TEST(test_init__convolutions_count_their_window),
          TEST(test_init__recurrent_weights_depend_on_the_hidden_size),
          TEST(test_init__embedding_is_normal_but_for_the_padding),
          TEST(test_init__attention_is_xavier), TEST(test_init__norms_start_as_identity),
          TEST(test_init__is_a_function_of_the_seed),
          TEST(test_init__a_module_may_correct_its_children),
          TEST(test_init__initialisers_have_torchs_scale),
          TEST(test_init__large_tensors_are_drawn_in_pieces), TEST(test_init__orthogonal))
