// The tree of modules: registering, walking, running, freeing.
#include "det/nn.h"
#include "support/tensors.h"

struct block {
    det_module *fc1, *fc2;
};

static det_tensor *block_forward(det_module *m, det_tensor *x)
{
    struct block *b = det_module_self(m);
    return det_add(x, det_forward(b->fc2, det_relu(det_forward(b->fc1, x))));
}

static det_module *block_new(int64_t d)
{
    det_module *m = det_module_new("Block", sizeof(struct block), block_forward);
    struct block *b = det_module_self(m);
    b->fc1 = det_module_add(m, "fc1", det_nn_linear(d, 2 * d));
    b->fc2 = det_module_add(m, "fc2", det_nn_linear(2 * d, d));
    return m;
}

static det_module *encoder_new(void)
{
    det_module *m = det_module_new("Encoder", 0, NULL);
    det_module_add(m, "encoder", det_nn_sequential(block_new(784), det_nn_relu()));
    return m;
}

static void test_module__knows_its_tree(void **state)
{
    (void)state;
    det_module *m = encoder_new(), *fc1 = det_module_find(m, "encoder.0.fc1");
    assert_non_null(fc1);
    assert_string_equal(det_module_type(fc1), "Linear");
    assert_string_equal(det_module_name(fc1), "fc1");
    assert_null(det_module_name(m));
    assert_ptr_equal(det_module_find(m, ""), m);
    assert_null(det_module_find(m, "encoder.2"));
    assert_null(det_module_find(m, "encoder.0.fc1.weight"));
    assert_int_equal(det_module_n_children(m), 1);
    assert_ptr_equal(det_module_child(det_module_child(m, 0), 0), det_module_find(m, "encoder.0"));
    assert_null(det_module_child(m, 1));
    assert_ptr_equal(det_module_find_param(m, "encoder.0.fc1.bias"), det_module_param(m, 1));
    assert_null(det_module_find_param(m, "encoder.0.fc1.nothing"));
    assert_int_equal(det_module_n_params(m), 4);
    assert_null(det_module_param(m, 4));
    assert_int_equal(det_module_numel(m), 784 * 1568 * 2 + 784 + 1568);
    det_module_free(m);
    assert_fine();
}

static void test_module__describes_itself(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(3, 4), det_nn_relu(), block_new(4));
    char *text = det_module_describe(m);
    assert_string_equal(text, "Sequential: 92 parameters\n"
                              "  (0) Linear: 16 parameters\n"
                              "  (1) ReLU\n"
                              "  (2) Block: 76 parameters\n"
                              "    (fc1) Linear: 40 parameters\n"
                              "    (fc2) Linear: 36 parameters\n");
    free(text);
    det_module_free(m);
}

static void test_module__names_its_path_in_errors(void **state)
{
    (void)state;
    det_module *m = encoder_new();
    det_forward(det_module_find(m, "encoder"), det_zeros(DET_F32, DET_DIMS(64, 783)));
    assert_raised(DET_ESHAPE,
                  "linear 'encoder.0.fc1': input is (64, 783), weight wants 784 in its last dim");
    det_forward(m, det_zeros(DET_F32, DET_DIMS(64, 784)));
    assert_raised(DET_EUNSUPPORTED, "Encoder: has no forward of its own");
    det_module_free(m);
}

static void test_module__leaves_no_path_behind(void **state)
{
    (void)state;
    det_module *m = block_new(2);
    det_forward(m, det_zeros(DET_F32, DET_DIMS(1, 2)));
    det_matmul(det_zeros(DET_F32, DET_DIMS(1, 2)), det_zeros(DET_F32, DET_DIMS(3, 1)));
    assert_raised(DET_ESHAPE, "matmul: ");
    det_module_free(m);
}

static void test_module__trains_and_evaluates_as_a_tree(void **state)
{
    (void)state;
    det_module *m = encoder_new(), *relu = det_module_find(m, "encoder.1");
    assert_true(det_module_training(relu));
    det_module_train(m, false);
    assert_false(det_module_training(m));
    assert_false(det_module_training(relu));
    det_module_train(relu, true);
    assert_true(det_module_training(relu));
    assert_false(det_module_training(m));
    det_module_free(m);
}

static void test_module__freezes(void **state)
{
    (void)state;
    det_module *m = block_new(3), *fc1 = det_module_find(m, "fc1");
    det_module_requires_grad(fc1, false);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(2, 3));
    det_backward(det_sum(det_forward(m, x)));
    assert_null(det_grad(det_module_find_param(m, "fc1.weight")));
    assert_non_null(det_grad(det_module_find_param(m, "fc2.weight")));
    det_module_zero_grad(m);
    assert_null(det_grad(det_module_find_param(m, "fc2.weight")));
    det_module_requires_grad(fc1, true);
    det_backward(det_sum(det_forward(m, x)));
    assert_non_null(det_grad(det_module_find_param(m, "fc1.weight")));
    assert_fine();
    det_module_free(m);
}

static void test_module__counts_shared_parameters_once(void **state)
{
    (void)state;
    det_module *m = det_module_new("Tied", 0, NULL);
    det_module_add(m, "a", det_nn_linear(4, 4));
    assert_int_equal(det_module_n_params(m), 2);
    det_module *b = det_module_add(m, "b", det_nn_linear(4, 4, .no_bias = true));
    assert_int_equal(det_module_n_params(m), 3);
    det_tensor *shared = det_module_find_param(m, "a.weight");
    assert_ptr_equal(det_module_add_param(b, "weight", shared), shared);
    assert_int_equal(det_module_n_params(m), 2);
    assert_int_equal(det_module_numel(m), 20);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(1, 4)); // the module itself uses the new one
    det_tensor *difference = det_sub(det_forward(b, x), det_linear(x, shared, NULL));
    assert_near(det_item(det_sum(det_abs(difference))), 0, 0);
    det_module_free(m);
    assert_fine();
}

static void test_module__exchanges_a_child(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(2, 3), det_nn_linear(3, 4));
    assert_int_equal(det_module_n_params(m), 4);
    det_module_add(m, "1", det_nn_linear(3, 10, .no_bias = true));
    assert_int_equal(det_module_n_params(m), 3);
    assert_int_equal(det_module_n_children(m), 2);
    det_tensor *y = det_forward(m, det_zeros(DET_F32, DET_DIMS(5, 2)));
    assert_int_equal(det_size(y, 1), 10);
    det_module_free(m);
    assert_fine();
}

static void test_module__refuses_bad_names(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(2, 3);
    assert_null(det_module_add(m, "a.b", det_nn_relu()));
    assert_raised(DET_EINVAL, "Linear: 'a.b' is not a name");
    assert_null(det_module_add_param(m, "", det_zeros(DET_F32, DET_DIMS(1))));
    assert_raised(DET_EINVAL, "is not a name");
    assert_null(det_module_add_buffer(m, "weight", det_zeros(DET_F32, DET_DIMS(1))));
    assert_raised(DET_EINVAL, "'weight' is the name of something else");
    assert_null(det_module_add(m, "bias", det_nn_relu()));
    assert_raised(DET_EINVAL, "'bias' is the name of something else");
    assert_null(det_module_add_param(m, "index", det_zeros(DET_I64, DET_DIMS(1))));
    assert_raised(DET_EDTYPE, "i64 tensors have no gradient");
    assert_int_equal(det_module_n_params(m), 2);
    det_module_free(m);
}

static void test_module__has_one_owner(void **state)
{
    (void)state;
    det_module *inner = det_nn_relu(), *a = det_nn_sequential(inner), *b = det_nn_sequential(a);
    det_module_free(inner);
    assert_raised(DET_ESTATE, "'0' belongs to a Sequential");
    assert_null(det_module_add(b, "again", inner));
    assert_raised(DET_ESTATE, "'again' belongs to a Sequential already");
    assert_null(det_module_add(inner, "loop", b));
    assert_raised(DET_EINVAL, "'loop' would contain itself");
    det_module_free(b);
}

static int n_freed;

static void count_free(det_module *m)
{
    n_freed += det_module_self(m) != NULL;
}

static void test_module__calls_back_when_freed(void **state)
{
    (void)state;
    n_freed = 0;
    det_module *m = det_module_new("Counted", 8, NULL);
    det_module_on_free(m, count_free);
    det_module_free(det_nn_sequential(m, det_nn_relu()));
    assert_int_equal(n_freed, 1);
}

static void test_module__survives_failed_children(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(2, 3), det_nn_linear(0, 4), det_nn_relu());
    assert_null(m);
    assert_raised(DET_EINVAL, "Linear: in_features must be >= 1, got 0");
    m = det_nn_sequential(det_nn_linear(2, 3), NULL, det_nn_relu());
    assert_null(m);
    assert_raised(DET_EINVAL, "Sequential: module 1 is NULL");
    m = block_new(-1); // a module of one's own stays, incomplete
    assert_non_null(m);
    assert_null(det_forward(m, NULL));
    assert_raised(DET_EINVAL, "Linear: in_features must be >= 1, got -1");
    det_module_free(m);
    assert_null(det_module_add(NULL, "x", det_nn_relu()));
    assert_null(det_forward(NULL, NULL));
    assert_raised(DET_EINVAL, "det_forward: the module is NULL");
    det_module_free(NULL);
    assert_int_equal(det_module_n_params(NULL), 0);
}

static void test_module__refuses_bad_arguments(void **state)
{
    (void)state;
    assert_null(det_nn_conv2d(3, 4));
    assert_raised(DET_EINVAL, "Conv2d: kernel must be >= 1, got 0");
    assert_null(det_nn_conv2d(3, 4, .kernel = 3, .groups = 2));
    assert_raised(DET_EINVAL, "3 to 4 channels are not multiples of 2 groups");
    assert_null(det_nn_conv2d(3, 4, .kernel = 3, .stride = -1));
    assert_raised(DET_EINVAL, "Conv2d: stride must be >= 1, got -1");
    assert_null(det_nn_dropout(1.5));
    assert_raised(DET_EINVAL, "Dropout: p must be in 0 .. 1, got 1.5");
    assert_null(det_nn_embedding(5, 3, .use_padding_idx = true, .padding_idx = 5));
    assert_raised(DET_EINVAL, "padding_idx 5 is not a row of 5");
    assert_null(det_nn_group_norm(4, 6));
    assert_raised(DET_EINVAL, "6 channels are not a multiple of 4 groups");
    assert_null(det_nn_multihead_attention(10, 3));
    assert_raised(DET_EINVAL, "embed_dim 10 is not a multiple of 3 heads");
    assert_null(det_nn_transformer_encoder_layer(10, 3));
    assert_raised(DET_EINVAL, "embed_dim 10 is not a multiple of 3 heads");
    assert_null(det_nn_lstm(3, 4, .num_layers = 1 << 20));
    assert_raised(DET_ELIMIT, "num_layers");
    assert_null(det_nn_upsample(0, DET_INTERPOLATION_NEAREST, false));
    assert_raised(DET_EINVAL, "Upsample: scale");
    assert_null(det_nn_batch_norm_with(3, 5, (det_norm_opts){0}));
    assert_raised(DET_EINVAL, "spatial_dims is 5");
}

static void test_module__special_forwards_want_their_own_kind(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(2, 2);
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(1, 1, 2)), *h = x;
    assert_null(det_rnn_forward(m, x, NULL, NULL, &h, NULL));
    assert_null(h);
    assert_raised(DET_EINVAL, "Linear is not an RNN, LSTM or GRU");
    assert_null(det_mha_forward(m, x, x, x, NULL, false));
    assert_raised(DET_EINVAL, "Linear is not a MultiheadAttention");
    det_module_free(m);
}

static void test_module__checks_shapes_with_its_path(void **state)
{
    (void)state;
    det_module *m =
        det_nn_sequential(det_nn_batch_norm2d(3), det_nn_batch_norm1d(3), det_nn_lstm(4, 5),
                          det_nn_multihead_attention(8, 2), det_nn_layer_norm(6),
                          det_nn_upsample(2, DET_INTERPOLATION_NEAREST, false));
    static const struct {
        int child;
        const char *message;
    } rows[] = {{0, "BatchNorm2d '0': input is (2, 3) f32, wants 4 dims"},
                {2, "LSTM '2': input is (2, 3) f32, wants 3 dims with 4 in the last"},
                {3, "MultiheadAttention '3': query is (2, 3) f32, wants 3 dims with 8 in the last"},
                {4, "LayerNorm '4': input is (2, 3) f32, wants 6 in its last dim"},
                {5, "Upsample '5': input is (2, 3) f32, wants 4 dims"}};
    for (size_t i = 0; i < N_OF(rows); i++) {
        det_forward(det_module_child(m, rows[i].child), det_zeros(DET_F32, DET_DIMS(2, 3)));
        assert_raised(DET_ESHAPE, rows[i].message);
    }
    det_forward(det_module_child(m, 1), det_zeros(DET_F32, DET_DIMS(2, 3, 4, 5)));
    assert_raised(DET_ESHAPE, "BatchNorm1d '1': input is (2, 3, 4, 5) f32, wants 2 or 3 dims");
    det_rnn_forward(det_module_child(m, 2), det_zeros(DET_F32, DET_DIMS(7, 2, 4)),
                    det_zeros(DET_F32, DET_DIMS(1, 2, 4)), NULL, NULL, NULL);
    assert_raised(DET_ESHAPE, "LSTM '2': initial state is (1, 2, 4) f32, wants (1, 2, 5)");
    det_module_free(m);
}

static void test_module__autocasts_itself_only(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(1, 1, .no_bias = true);
    det_init_constant(det_module_find_param(m, "weight"), 1.001);
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1, 1));
    assert_near(det_item(det_forward(m, x)), 1.001, 1e-6);
    det_module_autocast(m, true);
    det_tensor *y = det_forward(m, x);
    assert_int_equal(det_dtype_of(y), DET_F32);
    assert_near(det_item(y), 1, 0); // of 8 bits
    assert_false(det_autocast());
    det_module_free(m);
}

static det_tensor *precise_forward(det_module *m, det_tensor *x)
{
    bool before = det_set_autocast(false);
    det_tensor *y = det_forward(det_module_child(m, 0), x);
    det_set_autocast(before);
    return y;
}

static void test_module__autocasts_parts_that_are_called_alone(void **state)
{
    (void)state;
    det_module *m = det_module_new("Precise", 0, precise_forward);
    det_module *inner = det_module_add(m, "inner", det_nn_linear(1, 1, .no_bias = true));
    det_module *rnn = det_module_add(m, "rnn", det_nn_rnn(1, 1, .no_bias = true, .relu = true));
    det_init_constant(det_module_find_param(m, "inner.weight"), 1.001);
    det_init_constant(det_module_find_param(m, "rnn.weight_ih_l0"), 1.001);
    det_module_autocast(m, true);
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1, 1, 1)), *last;
    assert_near(det_item(det_forward(inner, x)), 1, 0);
    det_tensor *y = det_rnn_forward(rnn, x, NULL, NULL, &last, NULL);
    assert_int_equal(det_dtype_of(y), DET_F32);
    assert_int_equal(det_dtype_of(last), DET_F32);
    assert_near(det_item(y), 1, 0);
    assert_near(det_item(det_forward(m, x)), 1.001, 1e-6); // what a forward switches off stays off
    assert_false(det_autocast());
    det_module_free(m);
}

// The network of the MNIST tutorial, whose size is known: 1040 + 40040 + 32050 + 510.
static void test_module__counts_the_parameters_of_the_tutorial(void **state)
{
    (void)state;
    det_module *m =
        det_nn_sequential(det_nn_conv2d(1, 40, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_conv2d(40, 40, .kernel = 5), det_nn_max_pool2d(2), det_nn_relu(),
                          det_nn_flatten(), det_nn_linear(640, 50), det_nn_relu(),
                          det_nn_dropout2d(0.5), det_nn_linear(50, 10), det_nn_log_softmax(1));
    assert_int_equal(det_module_numel(m), 73640);
    det_module_free(m);
}

RUN_TESTS(TEST(test_module__knows_its_tree), TEST(test_module__describes_itself),
          TEST(test_module__names_its_path_in_errors), TEST(test_module__leaves_no_path_behind),
          TEST(test_module__trains_and_evaluates_as_a_tree), TEST(test_module__freezes),
          TEST(test_module__counts_shared_parameters_once), TEST(test_module__exchanges_a_child),
          TEST(test_module__refuses_bad_names), TEST(test_module__has_one_owner),
          TEST(test_module__calls_back_when_freed), TEST(test_module__survives_failed_children),
          TEST(test_module__refuses_bad_arguments),
          TEST(test_module__special_forwards_want_their_own_kind),
          TEST(test_module__checks_shapes_with_its_path), TEST(test_module__autocasts_itself_only),
          TEST(test_module__autocasts_parts_that_are_called_alone),
          TEST(test_module__counts_the_parameters_of_the_tutorial))
