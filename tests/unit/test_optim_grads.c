// Clipping and scaling gradients, and loss scaling.
#include "det/optim.h"
#include "support/tensors.h"

static det_tensor *p; // the one parameter of the module below, (2)
static det_module *module;
static det_optimizer *opt;

static int one_param_setup(void **state)
{
    scope_setup(state);
    module = det_module_new("Param", 0, NULL);
    p = det_module_add_param(module, "p", det_zeros(DET_F32, DET_DIMS(2)));
    opt = det_optim_sgd(module, .lr = 1);
    return 0;
}

static int one_param_teardown(void **state)
{
    det_optim_free(opt);
    det_module_free(module);
    return scope_teardown(state);
}

#define PARAM_TEST(function) \
    cmocka_unit_test_setup_teardown(function, one_param_setup, one_param_teardown)

static void set_grad(float a, float b)
{
    det_optim_zero_grad(opt);
    det_backward(det_sum(det_mul(p, det_from(DET_F32, DET_DIMS(2), (float[]){a, b}))));
}

static void test_grads__norm_is_clipped(void **state)
{
    (void)state;
    assert_near(det_optim_grad_norm(opt), 0, 0); // none at all
    set_grad(3, -4);
    assert_near(det_optim_grad_norm(opt), 5, 1e-12);
    assert_near(det_optim_clip_grad_norm(opt, 10), 5, 1e-12);
    assert_values(det_grad(p), 3, -4);
    assert_near(det_optim_clip_grad_norm(opt, 1), 5, 1e-12);
    assert_values(det_grad(p), 0.6f, -0.8f);
    assert_true(isnan(det_optim_grad_norm(NULL)));
}

static void test_grads__clipping_spreads_what_is_not_finite(void **state)
{
    (void)state;
    set_grad(3, INFINITY);
    assert_true(isinf(det_optim_clip_grad_norm(opt, 1)));
    assert_true(det_data_f32(det_grad(p))[0] == 0 && isnan(det_data_f32(det_grad(p))[1]));
    set_grad(3, NAN);
    assert_true(isnan(det_optim_clip_grad_norm(opt, 1)));
    assert_true(isnan(det_data_f32(det_grad(p))[0]));
}

static void test_grads__values_are_clipped_and_scaled(void **state)
{
    (void)state;
    set_grad(3, -0.25f);
    det_optim_clip_grad_value(opt, 0.5);
    assert_values(det_grad(p), 0.5f, -0.25f);
    det_optim_scale_grads(opt, -4);
    assert_values(det_grad(p), -2, 1);
    det_optim_clip_grad_value(opt, 0.5);
    assert_values(det_grad(p), -0.5f, 0.5f);
    det_optim_zero_grad(opt);
    det_optim_scale_grads(opt, 2);
    assert_null(det_grad(p));
}

static void test_scaler__scales_and_unscales(void **state)
{
    (void)state;
    det_scaler *s = det_scaler_new(.init_scale = 8);
    det_backward(det_scaler_scale(s, det_sum(p)));
    assert_values(det_grad(p), 8, 8);
    det_scaler_unscale(s, opt);
    assert_values(det_grad(p), 1, 1);
    assert_true(det_scaler_step(s, opt));
    assert_values(p, -1, -1);
    det_scaler_update(s);
    det_optim_zero_grad(opt);
    det_backward(det_scaler_scale(s, det_sum(p)));
    assert_true(det_scaler_step(s, opt)); // unscales by itself
    assert_values(p, -2, -2);
    det_scaler_free(s);
    assert_fine();
}

// One iteration with a gradient that overflowed or not. Returns whether the optimizer stepped.
static bool iterate(det_scaler *s, bool overflow)
{
    set_grad(1, overflow ? INFINITY : 1);
    bool stepped = det_scaler_step(s, opt);
    det_scaler_update(s);
    return stepped;
}

static void test_scaler__backs_off_and_grows(void **state)
{
    (void)state;
    det_scaler *s = det_scaler_new(.init_scale = 4, .growth_interval = 3);
    assert_false(iterate(s, true));
    assert_values(p, 0, 0);
    assert_near(det_scaler_scale_value(s), 2, 0);
    assert_true(iterate(s, false));
    assert_true(iterate(s, false));
    assert_false(iterate(s, true)); // the count starts again
    assert_near(det_scaler_scale_value(s), 1, 0);
    for (int i = 0; i < 3; i++)
        assert_true(iterate(s, false));
    assert_near(det_scaler_scale_value(s), 2, 0);
    det_scaler_free(s);
    s = det_scaler_new(.init_scale = 0x1p127, .growth_interval = 1);
    iterate(s, false);
    assert_near(det_scaler_scale_value(s), 0x1p127, 0); // not to infinity
    det_scaler_free(s);
}

static void test_scaler__looks_at_each_optimizer(void **state)
{
    (void)state;
    det_module *other = det_nn_linear(1, 1, .no_bias = true);
    det_optimizer *second = det_optim_sgd(other, .lr = 1);
    det_scaler *s = det_scaler_new(.init_scale = 4);
    set_grad(1, NAN);
    det_backward(det_sum(det_module_param(other, 0)));
    assert_false(det_scaler_step(s, opt));
    assert_true(det_scaler_step(s, second));
    det_scaler_update(s);
    assert_near(det_scaler_scale_value(s), 2, 0);
    det_scaler_free(s);
    det_optim_free(second);
    det_module_free(other);
}

static void test_scaler__wants_the_right_order(void **state)
{
    (void)state;
    det_scaler *s = det_scaler_new();
    assert_near(det_scaler_scale_value(s), 65536, 0);
    det_scaler_update(s);
    assert_raised(DET_ESTATE, "no optimizer was unscaled or stepped");
    det_scaler_unscale(s, opt);
    det_scaler_unscale(s, opt);
    assert_raised(DET_ESTATE, "det_scaler_unscale: done already");
    assert_true(det_scaler_step(s, opt));
    assert_false(det_scaler_step(s, opt));
    assert_raised(DET_ESTATE, "det_scaler_step: done already");
    det_scaler_unscale(s, opt);
    assert_raised(DET_ESTATE, "det_scaler_unscale: done already");
    det_scaler_free(s);
    assert_null(det_scaler_new(.growth_factor = -1));
    assert_raised(DET_EINVAL, "GradScaler: growth_factor must be");
}

static void test_scaler__may_be_off(void **state)
{
    (void)state;
    det_scaler *s = det_scaler_new(.enabled = false);
    det_tensor *loss = det_sum(p);
    assert_ptr_equal(det_scaler_scale(s, loss), loss);
    assert_near(det_scaler_scale_value(s), 1, 0);
    set_grad(1, INFINITY);
    det_scaler_unscale(s, opt);
    assert_true(det_scaler_step(s, opt));
    det_scaler_update(s);
    det_value *dict = det_scaler_state_dict(s);
    assert_int_equal(det_value_len(dict), 0);
    assert_int_equal(det_scaler_load_state_dict(s, dict, NULL), 0);
    det_value_free(dict);
    det_scaler_free(s);
    assert_fine();
}

static void test_scaler__saves_its_state(void **state)
{
    (void)state;
    det_scaler *a = det_scaler_new(.init_scale = 4, .growth_interval = 3), *b = det_scaler_new();
    iterate(a, false);
    iterate(a, false);
    det_value *dict = det_scaler_state_dict(a);
    static const char *const keys[] = {"scale", "growth_factor", "backoff_factor",
                                       "growth_interval", "_growth_tracker"};
    assert_int_equal(det_value_len(dict), N_OF(keys));
    for (int i = 0; i < (int)N_OF(keys); i++)
        assert_string_equal(det_value_key(dict, i, NULL), keys[i]);
    det_err err;
    assert_int_equal(det_scaler_load_state_dict(b, dict, &err), 0);
    iterate(b, false);
    assert_near(det_scaler_scale_value(b), 8, 0);
    det_value_set(dict, "growth_factor", det_value_str("two"));
    assert_int_equal(det_scaler_load_state_dict(b, dict, &err), DET_EINVAL);
    assert_err(err, DET_EINVAL, "GradScaler state dict: growth_factor: str where a number");
    assert_near(det_scaler_scale_value(b), 8, 0);
    det_value *empty = det_value_dict();
    assert_int_equal(det_scaler_load_state_dict(b, empty, &err), DET_EINVAL);
    det_value_free(empty);
    det_value_free(dict);
    det_scaler_free(a);
    det_scaler_free(b);
}

RUN_TESTS(PARAM_TEST(test_grads__norm_is_clipped),
          PARAM_TEST(test_grads__clipping_spreads_what_is_not_finite),
          PARAM_TEST(test_grads__values_are_clipped_and_scaled),
          PARAM_TEST(test_scaler__scales_and_unscales),
          PARAM_TEST(test_scaler__backs_off_and_grows),
          PARAM_TEST(test_scaler__looks_at_each_optimizer),
          PARAM_TEST(test_scaler__wants_the_right_order), PARAM_TEST(test_scaler__may_be_off),
          PARAM_TEST(test_scaler__saves_its_state))
