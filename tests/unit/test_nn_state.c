// State dicts of modules: torch's keys and order, loading, complaints.
#include "det/nn.h"
#include "support/tensors.h"

static void assert_keys(det_module *m, const char *expected)
{
    char keys[1024] = "";
    det_value *state = det_module_state_dict(m);
    for (int i = 0, n = 0; i < det_value_len(state); i++)
        n += snprintf(keys + n, sizeof keys - (size_t)n, "%s%s", i ? " " : "",
                      det_value_key(state, i, NULL));
    assert_string_equal(keys, expected);
    det_value_free(state);
    det_module_free(m);
}

static void test_state__has_the_keys_of_torch(void **state)
{
    (void)state;
    assert_keys(det_nn_batch_norm2d(3), "weight bias running_mean running_var num_batches_tracked");
    assert_keys(det_nn_batch_norm1d(3, .no_affine = true, .no_running_stats = true), "");
    assert_keys(det_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true),
                "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 "
                "weight_ih_l0_reverse weight_hh_l0_reverse bias_ih_l0_reverse bias_hh_l0_reverse "
                "weight_ih_l1 weight_hh_l1 bias_ih_l1 bias_hh_l1 "
                "weight_ih_l1_reverse weight_hh_l1_reverse bias_ih_l1_reverse bias_hh_l1_reverse");
    assert_keys(det_nn_gru(3, 4, .no_bias = true), "weight_ih_l0 weight_hh_l0");
    assert_keys(det_nn_multihead_attention(8, 2),
                "in_proj_weight in_proj_bias out_proj.weight out_proj.bias");
    assert_keys(det_nn_transformer_encoder_layer(8, 2),
                "self_attn.in_proj_weight self_attn.in_proj_bias self_attn.out_proj.weight "
                "self_attn.out_proj.bias linear1.weight linear1.bias linear2.weight linear2.bias "
                "norm1.weight norm1.bias norm2.weight norm2.bias");
    assert_keys(det_nn_sequential(det_nn_conv2d(1, 2, .kernel = 3), det_nn_relu(),
                                  det_nn_sequential(det_nn_linear(2, 3, .no_bias = true))),
                "0.weight 0.bias 2.0.weight");
}

static void test_state__has_the_shapes_of_torch(void **state)
{
    (void)state;
    struct {
        det_module *m;
        const char *key, *shape;
    } rows[] = {
        {det_nn_batch_norm2d(3), "num_batches_tracked", "() i64"},
        {det_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true), "weight_ih_l1", "(16, 8) f32"},
        {det_nn_gru(3, 4), "weight_ih_l0", "(12, 3) f32"},
        {det_nn_rnn(3, 4), "bias_hh_l0", "(4,) f32"},
        {det_nn_multihead_attention(8, 2), "in_proj_weight", "(24, 8) f32"},
        {det_nn_conv1d(4, 6, .kernel = 3, .groups = 2), "weight", "(6, 2, 3) f32"},
        {det_nn_conv2d(4, 6, .kernel_hw = {5, 3}), "weight", "(6, 4, 5, 3) f32"},
        {det_nn_conv_transpose2d(4, 6, .kernel = 3, .groups = 2), "weight", "(4, 3, 3, 3) f32"},
        {det_nn_transformer_encoder_layer(8, 2), "linear1.weight", "(2048, 8) f32"},
        {det_nn_embedding(7, 5), "weight", "(7, 5) f32"},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        char text[64];
        det_describe(det_module_find_param(rows[i].m, rows[i].key), text, sizeof text);
        assert_string_equal(text, rows[i].shape);
        det_module_free(rows[i].m);
    }
    assert_fine();
}

static void test_state__orders_parameters_buffers_children(void **state)
{
    (void)state;
    det_module *m = det_module_new("Mixed", 0, NULL);
    det_module_add(m, "child", det_nn_linear(1, 1, .no_bias = true));
    det_module_add_buffer(m, "buffer", det_zeros(DET_F32, DET_DIMS(1)));
    det_module_add_param(m, "param", det_zeros(DET_F32, DET_DIMS(1)));
    assert_keys(m, "param buffer child.weight");
}

static void test_state__shows_shared_parameters_under_every_key(void **state)
{
    (void)state;
    det_module *m = det_module_new("Tied", 0, NULL);
    det_module_add(m, "wte", det_nn_embedding(5, 3));
    det_module *head = det_module_add(m, "head", det_nn_linear(3, 5, .no_bias = true));
    det_module_add_param(head, "weight", det_module_find_param(m, "wte.weight"));
    det_value *dict = det_module_state_dict(m);
    assert_ptr_equal(det_value_as_tensor(det_value_get(dict, "head.weight")),
                     det_value_as_tensor(det_value_get(dict, "wte.weight")));
    assert_int_equal(det_module_n_params(m), 1);
    det_value_free(dict);
    det_module_free(m);
}

static det_module *net_new(void)
{
    return det_nn_sequential(det_nn_linear(3, 4), det_nn_batch_norm1d(4), det_nn_linear(4, 2));
}

static void test_state__goes_from_one_module_to_another(void **state)
{
    (void)state;
    det_module *a = net_new(), *b = net_new();
    det_init_constant(det_module_find_param(a, "1.running_var"), 2.5);
    det_init_constant(det_module_find_param(a, "1.num_batches_tracked"), 7);
    det_value *dict = det_module_state_dict(a);
    det_err err;
    assert_int_equal(det_module_load_state_dict(b, dict, true, &err), 0);
    for (int i = 0; i < det_module_n_params(a); i++) {
        det_tensor *t = det_sub(det_module_param(a, i), det_module_param(b, i));
        assert_near(det_item(det_sum(det_abs(t))), 0, 0);
    }
    assert_values(det_module_find_param(b, "1.running_var"), 2.5f, 2.5f, 2.5f, 2.5f);
    assert_near(det_item(det_module_find_param(b, "1.num_batches_tracked")), 7, 0);
    assert_true(det_has_requires_grad(det_module_param(b, 0)));
    det_value_free(dict);
    det_module_free(a);
    det_module_free(b);
    assert_fine();
}

static void test_state__converts_types(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(2, 1, .no_bias = true);
    det_value *dict = det_value_dict();
    double weights[] = {1.5, -2};
    det_value_set(dict, "weight", det_value_tensor(det_from(DET_F64, DET_DIMS(1, 2), weights)));
    det_err err;
    assert_int_equal(det_module_load_state_dict(m, dict, true, &err), 0);
    assert_values(det_module_param(m, 0), 1.5f, -2);
    det_value_free(dict);
    det_module_free(m);
}

static det_value *wrong_state(void)
{
    det_value *dict = det_value_dict();
    det_value_set(dict, "0.weight", det_value_tensor(det_ones(DET_F32, DET_DIMS(4, 3))));
    det_value_set(dict, "0.bias", det_value_tensor(det_ones(DET_F32, DET_DIMS(5))));
    det_value_set(dict, "2.weight", det_value_int(3));
    det_value_set(dict, "extra", det_value_tensor(det_ones(DET_F32, DET_DIMS(1))));
    det_value_set_int(dict, 5, det_value_none());
    return dict;
}

static void test_state__lists_everything_that_is_wrong(void **state)
{
    (void)state;
    det_module *m = net_new();
    det_value *dict = wrong_state();
    det_tensor *before = det_clone(det_module_param(m, 0));
    det_err err;
    assert_int_equal(det_module_load_state_dict(m, dict, true, &err), DET_EINVAL);
    assert_string_equal(err.msg,
                        "the state dict does not fit: missing: 1.weight, 1.bias, 1.running_mean, "
                        "1.running_var, 1.num_batches_tracked, 2.bias; unexpected: extra, (a "
                        "number); not a tensor: 2.weight; wrong shape: 0.bias is (5,) f32, wants "
                        "(4,) f32");
    det_tensor *change = det_sub(before, det_module_param(m, 0));
    assert_near(det_item(det_sum(det_abs(change))), 0, 0);
    assert_int_equal(det_module_load_state_dict(m, dict, false, &err), DET_EINVAL);
    assert_string_equal(err.msg,
                        "the state dict does not fit: not a tensor: 2.weight; wrong shape: "
                        "0.bias is (5,) f32, wants (4,) f32");
    assert_int_equal(det_module_load_state_dict(m, dict, true, NULL), DET_EINVAL);
    det_value_free(dict);
    det_module_free(m);
}

static void test_state__loads_what_fits_if_not_strict(void **state)
{
    (void)state;
    det_module *m = net_new();
    det_value *dict = det_value_dict();
    det_value_set(dict, "0.weight", det_value_tensor(det_ones(DET_F32, DET_DIMS(4, 3))));
    det_value_set(dict, "extra", det_value_tensor(det_ones(DET_F32, DET_DIMS(1))));
    det_err err;
    assert_int_equal(det_module_load_state_dict(m, dict, false, &err), 0);
    assert_near(det_item(det_sum(det_module_param(m, 0))), 12, 0);
    det_value_free(dict);
    det_module_free(m);
}

static void test_state__clips_long_complaints(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4),
                                      det_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4),
                                      det_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4),
                                      det_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 4));
    det_value *dict = det_value_dict();
    det_err err;
    assert_int_equal(det_module_load_state_dict(m, dict, true, &err), DET_EINVAL);
    assert_string_equal(err.msg + strlen(err.msg) - 4, " ...");
    det_value *list = det_value_list();
    assert_int_equal(det_module_load_state_dict(m, list, true, &err), DET_EINVAL);
    assert_err(err, DET_EINVAL, "wants a dict, got list");
    det_value_free(list);
    det_value_free(dict);
    det_module_free(m);
}

RUN_TESTS(TEST(test_state__has_the_keys_of_torch), TEST(test_state__has_the_shapes_of_torch),
          TEST(test_state__orders_parameters_buffers_children),
          TEST(test_state__shows_shared_parameters_under_every_key),
          TEST(test_state__goes_from_one_module_to_another), TEST(test_state__converts_types),
          TEST(test_state__lists_everything_that_is_wrong),
          TEST(test_state__loads_what_fits_if_not_strict), TEST(test_state__clips_long_complaints))
