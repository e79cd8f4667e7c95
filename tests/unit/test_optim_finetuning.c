// Freezing parts of a model, and averaging its weights.
#include "support/tensors.h"

#include "det/finetuning.h"
#include "det/optim.h"

// Groups: 0 linear, 1 (linear, batch norm), 2 relu, 3 batch norm, 4 linear.
static det_module *grouped(void)
{
    return det_nn_sequential(det_nn_linear(2, 3),
                             det_nn_sequential(det_nn_linear(3, 3), det_nn_batch_norm1d(3)),
                             det_nn_relu(), det_nn_batch_norm1d(3), det_nn_linear(3, 2));
}

// One letter per layer: f frozen, t trainable, - without parameters.
static const char *picture(const det_freezer *f)
{
    static char text[16];
    for (int i = 0; i < det_freezer_n_layers(f); i++) {
        det_module *m = det_freezer_layer(f, i);
        bool has = det_module_n_params(m) > 0;
        text[i] = !has ? '-' : det_has_requires_grad(det_module_param(m, 0)) ? 't' : 'f';
    }
    text[det_freezer_n_layers(f)] = '\0';
    return text;
}

static void assert_frozen(int from, int to, bool with_batch_norms, const char *expected)
{
    det_module *m = grouped();
    det_module_requires_grad(m, false);
    det_freezer *f = det_freezer_new(m, with_batch_norms);
    assert_string_equal(picture(f), "ttt-tt");
    det_freezer_freeze(f, from, to, false);
    assert_string_equal(picture(f), expected);
    det_freezer_free(f);
    det_module_free(m);
}

static void test_freeze__takes_ranges_of_groups(void **state)
{
    (void)state;
    assert_frozen(0, 2, false, "fft-tt");
    assert_frozen(0, 2, true, "fff-tt");
    assert_frozen(0, 4, false, "fft-tf");
    assert_frozen(0, 4, true, "fff-ff");
    assert_frozen(1, 3, false, "tft-tt");
    assert_frozen(1, 3, true, "tff-ft");
}

static void test_freeze__counts_from_both_ends(void **state)
{
    (void)state;
    assert_frozen(4, 0, true, "fff-ff");
    assert_frozen(-2, -1, true, "ttt-ff");
    assert_frozen(0, -2, true, "fff-ft");
}

static void test_freeze__refuses_groups_that_are_not_there(void **state)
{
    (void)state;
    det_module *m = grouped();
    det_freezer *f = det_freezer_new(m, false);
    det_freezer_freeze(f, 0, 5, false);
    assert_raised(DET_EINVAL, "groups 0 to 5 of 5");
    assert_null(det_freezer_unfreeze(f, -6, 0, false));
    assert_raised(DET_EINVAL, "groups -6 to 0 of 5");
    assert_string_equal(picture(f), "ttt-tt");
    det_freezer_free(f);
    det_module_free(m);
    assert_null(det_freezer_new(NULL, false));
    assert_raised(DET_EINVAL, "the model is NULL");
}

static void test_freeze__sets_the_mode_if_asked(void **state)
{
    (void)state;
    det_module *m = grouped();
    det_freezer *f = det_freezer_new(m, false);
    det_freezer_freeze(f, 0, 1, false);
    assert_true(det_module_training(det_freezer_layer(f, 0)));
    det_freezer_freeze(f, 0, 1, true);
    assert_false(det_module_training(det_freezer_layer(f, 0)));
    assert_true(det_module_training(det_freezer_layer(f, 2))); // the batch norm is left alone
    det_value_free(det_freezer_unfreeze(f, 0, 0, false));
    assert_false(det_module_training(det_freezer_layer(f, 0)));
    det_value_free(det_freezer_unfreeze(f, 0, 0, true));
    assert_true(det_module_training(det_freezer_layer(f, 0)));
    det_freezer_free(f);
    det_module_free(m);
}

static void test_unfreeze__gives_what_it_changed(void **state)
{
    (void)state;
    det_module *m = grouped();
    det_freezer *f = det_freezer_new(m, true);
    assert_int_equal(det_freezer_n_groups(f), 5);
    det_freezer_freeze(f, 0, -2, false);
    assert_int_equal(det_freezer_n_trainable(f), 2);
    assert_ptr_equal(det_freezer_trainable(f, 0), det_module_find_param(m, "4.weight"));
    assert_null(det_freezer_trainable(f, 2));
    det_optimizer *opt = det_optim_sgd(det_freezer_group(f, 4), .lr = 0.1);
    det_value *changed = det_freezer_unfreeze(f, 1, -1, true);
    assert_int_equal(det_value_len(changed), 2); // groups 1 and 3; 2 has none, 4 was not frozen
    det_value *params = det_value_get(det_value_get_int(changed, 1), "params");
    assert_int_equal(det_value_len(params), 4);
    det_tensor *list[4];
    for (int i = 0; i < 4; i++)
        list[i] = det_value_as_tensor(det_value_at(params, i));
    assert_int_equal(det_optim_add_params(opt, list, 4), 1);
    assert_string_equal(picture(f), "ftt-tt");
    det_value_free(changed);
    det_optim_free(opt);
    det_freezer_free(f);
    det_module_free(m);
}

// --- averages

static void test_ema__follows_the_weights(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(2, 1);
    det_tensor *w = det_module_find_param(m, "weight");
    bool grads = det_set_grad_enabled(false);
    det_fill_(w, 1);
    det_ema *e = det_ema_new(m, .decay = 0.75);
    det_fill_(w, 2);
    det_ema_update(e);
    det_fill_(w, 4);
    det_ema_update(e);
    det_set_grad_enabled(grads);
    det_ema_swap(e);
    assert_values(w, 1.9375, 1.9375); // (1 * .75 + 2 * .25) * .75 + 4 * .25
    det_ema_swap(e);
    assert_values(w, 4, 4);
    det_ema_free(e);
    det_module_free(m);
}

static void test_ema__saves_and_loads(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(2, 2), det_nn_batch_norm1d(2));
    det_ema *a = det_ema_new(m, .decay = 0);
    det_forward(m, det_ones(DET_F32, DET_DIMS(4, 2)));
    det_ema_update(a);
    det_ema *b = det_ema_new(m, .decay = 0);
    det_value *saved = det_ema_state_dict(a);
    assert_int_equal(
        (int64_t)det_item(det_value_as_tensor(det_value_get(saved, "1.num_batches_tracked"))), 1);
    det_err err;
    assert_int_equal(det_ema_load_state_dict(b, saved, &err), 0);
    det_value *again = det_ema_state_dict(b);
    det_tensor *v = det_value_as_tensor(det_value_get(saved, "1.running_var")),
               *u = det_value_as_tensor(det_value_get(again, "1.running_var"));
    assert_memory_equal(det_data(u), det_data(v), 2 * sizeof(float));
    det_value_free(again);
    det_value_free(saved);
    saved = det_value_dict();
    assert_int_not_equal(det_ema_load_state_dict(b, saved, &err), 0);
    assert_err(err, DET_EINVAL, "'0.weight' is missing");
    det_value_free(saved);
    assert_null(det_ema_new(m, .decay = 1));
    assert_raised(DET_EINVAL, "decay must be in 0 .. 1");
    det_ema_free(a);
    det_ema_free(b);
    det_module_free(m);
}

static void test_ema__of_parameters_leaves_buffers_alone(void **state)
{
    (void)state;
    det_module *m = det_nn_sequential(det_nn_linear(2, 2), det_nn_batch_norm1d(2));
    det_ema *e = det_ema_new(m, .decay = 0.5, .buffers = false);
    det_forward(m, det_ones(DET_F32, DET_DIMS(4, 2)));
    det_value *average = det_ema_state_dict(e);
    assert_int_equal(det_value_len(average), 4);
    assert_null(det_value_get(average, "1.running_var"));
    det_value_free(average);
    det_ema_free(e);
    det_module_free(m);
}

RUN_TESTS(TEST(test_ema__of_parameters_leaves_buffers_alone),
          TEST(test_freeze__takes_ranges_of_groups), TEST(test_freeze__counts_from_both_ends),
          TEST(test_freeze__refuses_groups_that_are_not_there),
          TEST(test_freeze__sets_the_mode_if_asked), TEST(test_unfreeze__gives_what_it_changed),
          TEST(test_ema__follows_the_weights), TEST(test_ema__saves_and_loads))
