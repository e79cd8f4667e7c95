// What layers do beyond the numbers that tests/parity compares: modes, masks, states, randomness.
#include "det/nn.h"
#include "support/tensors.h"

static double difference(det_tensor *a, det_tensor *b)
{
    return det_item(det_sum(det_abs(det_sub(a, b))));
}

static void test_dropout__acts_in_training_only(void **state)
{
    (void)state;
    det_module *m = det_nn_dropout(0.25);
    det_tensor *x = det_ones(DET_F32, DET_DIMS(100, 100));
    const float *y = det_data_f32(det_forward(m, x));
    int n_zero = 0;
    for (int i = 0; i < 10000; i++) {
        n_zero += y[i] == 0;
        if (y[i] != 0) assert_near(y[i], 1 / 0.75, 1e-6);
    }
    assert_in_range(n_zero, 2300, 2700);
    det_module_train(m, false);
    assert_near(difference(det_forward(m, x), x), 0, 0);
    det_module_free(m);
    assert_fine();
}

static void test_dropout2d__drops_whole_channels(void **state)
{
    (void)state;
    det_module *m = det_nn_dropout2d(0.5);
    det_tensor *y = det_forward(m, det_ones(DET_F32, DET_DIMS(20, 50, 3, 3)));
    const float *v = det_data_f32(y);
    int n_zero = 0;
    for (int c = 0; c < 1000; c++) {
        for (int i = 1; i < 9; i++)
            assert_true(v[c * 9 + i] == v[c * 9]);
        n_zero += v[c * 9] == 0;
    }
    assert_in_range(n_zero, 430, 570);
    det_module_free(m);
    assert_fine();
}

static void test_batch_norm__counts_and_averages_in_training_only(void **state)
{
    (void)state;
    det_module *m = det_nn_batch_norm1d(1, .momentum = 0.5);
    float values[] = {1, 3};
    det_tensor *x = det_from(DET_F32, DET_DIMS(2, 1), values);
    assert_values(det_forward(m, x), -0.999995f, 0.999995f);
    assert_values(det_module_find_param(m, "running_mean"), 1);   // half of 0 and 2
    assert_values(det_module_find_param(m, "running_var"), 1.5f); // half of 1 and 2 (unbiased)
    assert_near(det_item(det_module_find_param(m, "num_batches_tracked")), 1, 0);
    det_module_train(m, false);
    assert_values(det_forward(m, x), 0, 2 / sqrtf(1.5f));
    assert_near(det_item(det_module_find_param(m, "num_batches_tracked")), 1, 0);
    det_module_free(m);
    assert_fine();
}

static void test_batch_norm__with_momentum_0_keeps_its_statistics(void **state)
{
    (void)state;
    det_module *m = det_nn_batch_norm1d(1, .momentum = 0);
    det_tensor *x = det_from(DET_F32, DET_DIMS(2, 1), (float[]){1, 3});
    assert_values(det_forward(m, x), -0.999995f, 0.999995f);
    assert_values(det_module_find_param(m, "running_mean"), 0);
    assert_values(det_module_find_param(m, "running_var"), 1);
    det_module_free(m);
    assert_fine();
}

static void test_embedding__gives_the_padding_row_no_gradient(void **state)
{
    (void)state;
    det_module *m = det_nn_embedding(3, 1, .use_padding_idx = true, .padding_idx = 1);
    int64_t index[] = {0, 1, 1, 2, 2};
    det_backward(det_sum(det_forward(m, det_from(DET_I64, DET_DIMS(5), index))));
    assert_values(det_grad(det_module_param(m, 0)), 1, 0, 2);
    det_module_free(m);
    assert_fine();
}

static void test_rnn__final_states_are_the_ends_of_the_output(void **state)
{
    (void)state;
    det_module *m = det_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true, .batch_first = true);
    det_tensor *h_n, *c_n, *x = det_randn(DET_F32, DET_DIMS(2, 5, 3));
    det_tensor *y = det_rnn_forward(m, x, NULL, NULL, &h_n, &c_n);
    char text[64];
    assert_string_equal(det_describe(y, text, sizeof text), "(2, 5, 8) f32");
    assert_string_equal(det_describe(h_n, text, sizeof text), "(4, 2, 4) f32");
    assert_string_equal(det_describe(c_n, text, sizeof text), "(4, 2, 4) f32");
    det_tensor *forward_end = det_slice(det_select(y, 1, 4), 1, 0, 4, 1);
    det_tensor *reverse_end = det_slice(det_select(y, 1, 0), 1, 4, 8, 1);
    assert_near(difference(det_select(h_n, 0, 2), forward_end), 0, 0);
    assert_near(difference(det_select(h_n, 0, 3), reverse_end), 0, 0);
    // the second half from the states of the first is the whole
    det_module *one = det_nn_gru(3, 4);
    x = det_randn(DET_F32, DET_DIMS(6, 2, 3));
    det_tensor *h, *whole = det_forward(one, x);
    det_rnn_forward(one, det_slice(x, 0, 0, 3, 1), NULL, NULL, &h, NULL);
    det_tensor *second = det_rnn_forward(one, det_slice(x, 0, 3, 6, 1), h, NULL, NULL, NULL);
    assert_near(difference(second, det_slice(whole, 0, 3, 6, 1)), 0, 1e-6);
    det_module_free(m);
    det_module_free(one);
    assert_fine();
}

static void test_rnn__drops_between_layers_in_training_only(void **state)
{
    (void)state;
    det_module *m = det_nn_rnn(3, 4, .num_layers = 2, .dropout = 0.5);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(6, 2, 3));
    assert_true(difference(det_forward(m, x), det_forward(m, x)) > 1e-3);
    det_module_train(m, false);
    assert_near(difference(det_forward(m, x), det_forward(m, x)), 0, 0);
    det_module_free(m);
    m = det_nn_rnn(3, 4, .dropout = 0.5); // one layer: nothing is between
    assert_near(difference(det_forward(m, x), det_forward(m, x)), 0, 0);
    det_module_free(m);
    assert_fine();
}

static void test_attention__masks(void **state)
{
    (void)state;
    det_module *m = det_nn_multihead_attention(8, 2, .batch_first = true);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(3, 5, 8));
    det_tensor *lower = det_ne_scalar(det_tril(det_ones(DET_F32, DET_DIMS(5, 5)), 0), 0);
    det_tensor *causal = det_mha_forward(m, x, x, x, NULL, true);
    assert_near(difference(det_mha_forward(m, x, x, x, lower, false), causal), 0, 1e-4);
    assert_true(difference(det_forward(m, x), causal) > 1e-2);
    // keys that nobody may see are as if they were not there
    det_tensor *seen = det_ne_scalar(det_arange(DET_F32, 0, 5, 1), 4),
               *short_x = det_slice(x, 1, 0, 4, 1);
    det_tensor *a = det_mha_forward(m, x, x, x, det_reshape(seen, DET_DIMS(1, 1, 1, 5)), false);
    det_tensor *b = det_mha_forward(m, x, short_x, short_x, NULL, false);
    assert_near(difference(a, b), 0, 1e-4);
    det_module_free(m);
    assert_fine();
}

static void test_attention__drops_in_training_only(void **state)
{
    (void)state;
    det_module *m = det_nn_multihead_attention(8, 2, .dropout = 0.5);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(5, 3, 8));
    assert_true(difference(det_forward(m, x), det_forward(m, x)) > 1e-3);
    det_module_train(m, false);
    assert_near(difference(det_forward(m, x), det_forward(m, x)), 0, 0);
    det_module_free(m);
    assert_fine();
}

static void test_transformer__causal_layers_do_not_look_ahead(void **state)
{
    (void)state;
    det_module *m = det_nn_transformer_encoder_layer(
        8, 2, .dim_feedforward = 16, .batch_first = true, .norm_first = true, .causal = true);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(1, 5, 8));
    det_tensor *same = det_slice(x, 1, 0, 3, 1);
    det_tensor *other =
        det_concat((det_tensor *[]){same, det_randn(DET_F32, DET_DIMS(1, 2, 8))}, 2, 1);
    det_tensor *a = det_forward(m, x), *b = det_forward(m, other);
    assert_near(difference(det_slice(a, 1, 0, 3, 1), det_slice(b, 1, 0, 3, 1)), 0, 1e-5);
    assert_true(difference(a, b) > 0.1);
    det_module_free(m);
    assert_fine();
}

static void test_upsample__rounds_down(void **state)
{
    (void)state;
    det_module *m = det_nn_upsample(1.5, DET_INTERPOLATION_BILINEAR, false);
    char text[64];
    det_tensor *y = det_forward(m, det_zeros(DET_F32, DET_DIMS(1, 2, 3, 5)));
    assert_string_equal(det_describe(y, text, sizeof text), "(1, 2, 4, 7) f32");
    det_module_free(m);
    assert_fine();
}

// --- mixed precision: every layer behind one that gives bf16, backward outside of autocast

static det_tensor *gradients(det_module *m, det_tensor *x, bool autocast)
{
    det_tensor *all[64];
    int n = det_module_n_params(m), n_all = 0;
    assert_in_range(n, 1, 64);
    det_module_zero_grad(m);
    det_set_autocast(autocast);
    det_tensor *y = det_forward(m, x);
    det_set_autocast(false);
    y = det_to(y, DET_F32);
    det_backward(det_mean(det_mul(y, det_tanh(y))));
    assert_fine();
    for (int i = 0; i < n; i++) {
        det_tensor *g = det_grad(det_module_param(m, i));
        if (g) all[n_all++] = det_clone(det_reshape(g, DET_DIMS(-1)));
    }
    return det_concat(all, n_all, 0);
}

static void check_mixed(const char *what, det_tensor *x, det_module *first, det_module *layer)
{
    det_module *m = det_nn_sequential(first, layer);
    det_tensor *exact = gradients(m, x, false), *mixed = gradients(m, x, true);
    double off = det_item(det_norm(det_sub(mixed, exact), 2)) / det_item(det_norm(exact, 2));
    if (!(off < 0.1)) fail_msg("%s: gradients in mixed precision are off by %g", what, off);
    det_module_free(m);
    assert_fine();
}

static void test_autocast__layers_train_behind_others(void **state)
{
    (void)state;
    det_tensor *image = det_randn(DET_F32, DET_DIMS(4, 8, 6, 6));
    det_tensor *text = det_randn(DET_F32, DET_DIMS(4, 6, 8));
#define IMAGE(layer) check_mixed(#layer, image, det_nn_conv2d(8, 8, .kernel = 3), layer)
#define TEXT(layer) check_mixed(#layer, text, det_nn_linear(8, 8), layer)
    IMAGE(det_nn_conv2d(8, 5, .kernel = 3, .padding = 1));
    IMAGE(det_nn_conv2d(8, 16, .kernel = 3));
    IMAGE(det_nn_conv2d(8, 5, .kernel = 1));
    IMAGE(det_nn_conv_transpose2d(8, 5, .kernel = 3, .stride = 2));
    IMAGE(det_nn_batch_norm2d(8));
    IMAGE(det_nn_group_norm(2, 8));
    IMAGE(det_nn_max_pool2d(2));
    IMAGE(det_nn_avg_pool2d(2));
    IMAGE(det_nn_adaptive_avg_pool2d(1, 1));
    IMAGE(det_nn_adaptive_max_pool2d(2, 2));
    IMAGE(det_nn_upsample(2, DET_INTERPOLATION_BILINEAR, false));
    IMAGE(det_nn_softmax(1));
    IMAGE(det_nn_log_softmax(1));
    IMAGE(det_nn_relu());
    IMAGE(det_nn_silu());
    TEXT(det_nn_linear(8, 5));
    TEXT(det_nn_conv1d(6, 5, .kernel = 3));
    TEXT(det_nn_batch_norm1d(6));
    TEXT(det_nn_layer_norm(8));
    TEXT(det_nn_rms_norm(8));
    TEXT(det_nn_gelu());
    TEXT(det_nn_tanh());
    TEXT(det_nn_sigmoid());
    TEXT(det_nn_leaky_relu(0.1));
    TEXT(det_nn_elu(1));
    TEXT(det_nn_rnn(8, 5, .batch_first = true));
    TEXT(det_nn_lstm(8, 5, .batch_first = true, .bidirectional = true));
    TEXT(det_nn_gru(8, 5, .batch_first = true));
    TEXT(det_nn_transformer_encoder_layer(8, 2, .dim_feedforward = 16, .batch_first = true));
}

RUN_TESTS(TEST(test_dropout__acts_in_training_only), TEST(test_dropout2d__drops_whole_channels),
          TEST(test_batch_norm__counts_and_averages_in_training_only),
          TEST(test_batch_norm__with_momentum_0_keeps_its_statistics),
          TEST(test_embedding__gives_the_padding_row_no_gradient),
          TEST(test_rnn__final_states_are_the_ends_of_the_output),
          TEST(test_rnn__drops_between_layers_in_training_only), TEST(test_attention__masks),
          TEST(test_attention__drops_in_training_only),
          TEST(test_transformer__causal_layers_do_not_look_ahead), TEST(test_upsample__rounds_down),
          TEST(test_autocast__layers_train_behind_others))
