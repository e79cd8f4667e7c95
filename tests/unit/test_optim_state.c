// State dicts of optimizers: exact resume, and what is refused. That torch accepts them is checked
// in tests/parity.
#include "det/optim.h"
#include "support/tensors.h"

static det_optimizer *sgd(det_module *m)
{
    return det_optim_sgd(m, .lr = 0.1, .momentum = 0.9, .dampening = 0.1);
}

static det_optimizer *adam(det_module *m)
{
    return det_optim_adam(m, .lr = 0.1, .amsgrad = true);
}

static det_optimizer *rmsprop(det_module *m)
{
    return det_optim_rmsprop(m, .momentum = 0.5, .centered = true);
}

static det_optimizer *adagrad(det_module *m)
{
    return det_optim_adagrad(m, .initial_accumulator_value = 0.1);
}

static det_optimizer *lion(det_module *m)
{
    return det_optim_lion(m, .lr = 0.01);
}

static void train(det_module *m, det_optimizer *opt, int steps)
{
    for (int i = 0; i < steps; i++) {
        det_tensor *x = det_randn(DET_F32, DET_DIMS(4, 3));
        det_backward(det_sum(det_square(det_forward(m, x))));
        det_optim_step(opt);
        det_optim_zero_grad(opt);
    }
}

static det_module *net_new(void)
{
    return det_nn_sequential(det_nn_linear(3, 5), det_nn_tanh(), det_nn_linear(5, 2));
}

static void resume_with(det_optimizer *(*make)(det_module *m))
{
    det_module *a = net_new(), *b = net_new();
    det_optimizer *whole = make(a), *part = make(b);
    train(a, whole, 3);
    det_value *weights = det_module_state_dict(a), *state = det_optim_state_dict(whole);
    det_err err;
    train(b, part, 1); // has a state of its own, which must go
    assert_int_equal(det_module_load_state_dict(b, weights, true, &err), 0);
    if (det_optim_load_state_dict(part, state, &err)) fail_msg("%s", err.msg);
    det_rng_state rng = det_get_rng_state();
    train(a, whole, 3);
    det_set_rng_state(rng);
    train(b, part, 3);
    for (int i = 0; i < det_module_n_params(a); i++)
        assert_memory_equal(det_data(det_module_param(a, i)), det_data(det_module_param(b, i)),
                            (size_t)det_numel(det_module_param(a, i)) * sizeof(float));
    det_value_free(weights);
    det_value_free(state);
    det_optim_free(whole);
    det_optim_free(part);
    det_module_free(a);
    det_module_free(b);
    assert_fine();
}

static void test_optim_state__resumes_bit_for_bit(void **state)
{
    (void)state;
    resume_with(sgd);
    resume_with(adam);
    resume_with(rmsprop);
    resume_with(adagrad);
    resume_with(lion);
}

static void test_optim_state__is_empty_before_the_first_step(void **state)
{
    (void)state;
    det_module *m = net_new();
    det_optimizer *opt = adam(m), *eager = adagrad(m);
    det_value *dict = det_optim_state_dict(opt), *eager_dict = det_optim_state_dict(eager);
    assert_int_equal(det_value_len(det_value_get(dict, "state")), 0);
    assert_int_equal(det_value_len(det_value_get(eager_dict, "state")), 4);
    det_value *first = det_value_get_int(det_value_get(eager_dict, "state"), 0);
    assert_near(det_item(det_value_as_tensor(det_value_get(first, "step"))), 0, 0);
    det_value_free(dict);
    det_value_free(eager_dict);
    det_optim_free(opt);
    det_optim_free(eager);
    det_module_free(m);
}

static void assert_keys(const det_value *dict, const char *expected)
{
    char keys[512] = "";
    for (int i = 0, n = 0; i < det_value_len(dict); i++)
        n += snprintf(keys + n, sizeof keys - (size_t)n, "%s%s", i ? " " : "",
                      det_value_key(dict, i, NULL));
    assert_string_equal(keys, expected);
}

static void layout_with(det_optimizer *(*make)(det_module *m), const char *group, const char *state)
{
    det_module *m = net_new();
    det_optimizer *opt = make(m);
    train(m, opt, 1);
    det_value *dict = det_optim_state_dict(opt);
    assert_keys(dict, "state param_groups");
    assert_keys(det_value_at(det_value_get(dict, "param_groups"), 0), group);
    assert_keys(det_value_get_int(det_value_get(dict, "state"), 3), state);
    det_value_free(dict);
    det_optim_free(opt);
    det_module_free(m);
}

static void test_optim_state__has_the_keys_of_torch(void **state)
{
    (void)state;
    layout_with(
        sgd, "lr momentum dampening weight_decay nesterov maximize foreach differentiable params",
        "momentum_buffer");
    layout_with(
        adam,
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
        "params",
        "step exp_avg exp_avg_sq max_exp_avg_sq");
    layout_with(
        rmsprop,
        "lr momentum alpha eps centered weight_decay foreach maximize differentiable params",
        "step square_avg momentum_buffer grad_avg");
    layout_with(adagrad,
                "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize params",
                "step sum");
    layout_with(lion, "lr betas weight_decay params", "exp_avg");
}

// Changes something in the saved state of parameter 1 and expects to be told so.
static void refuse(det_optimizer *opt, det_value *dict, const char *message)
{
    det_err err;
    assert_int_not_equal(det_optim_load_state_dict(opt, dict, &err), 0);
    if (!strstr(err.msg, message)) fail_msg("got '%s', expected '%s'", err.msg, message);
    assert_near(det_optim_lr(opt, 0), 0.1, 0);
}

static void test_optim_state__refuses_what_does_not_fit(void **state)
{
    (void)state;
    det_module *m = net_new(), *small = det_nn_linear(3, 1);
    det_optimizer *opt = adam(m), *other = adam(small);
    train(m, opt, 1);
    det_optim_set_lr(opt, 0, 0.7);
    det_value *dict = det_optim_state_dict(opt), *small_dict = det_optim_state_dict(other);
    det_optim_set_lr(opt, 0, 0.1);
    det_value *saved = det_value_get_int(det_value_get(dict, "state"), 1);
    refuse(opt, small_dict, "Adam state dict: group 0: 2 parameters saved, 4 here");
    refuse(opt, NULL, "Adam state dict: 0 groups saved, 1 here");
    det_value_set(saved, "exp_avg", det_value_tensor(det_zeros(DET_F32, DET_DIMS(2))));
    refuse(opt, dict, "group 0: parameter 1: exp_avg is (2,) f32, the parameter (5,) f32");
    det_value_set(saved, "exp_avg", det_value_int(2));
    refuse(opt, dict, "exp_avg is a int, not a tensor");
    det_value_set(saved, "exp_avg", det_value_none());
    det_value_set(saved, "step", det_value_str("one"));
    refuse(opt, dict, "parameter 1: step: str where a number was expected");
    det_value_set(saved, "step", det_value_float(1.5));
    refuse(opt, dict, "step: 1.5 where a count was expected");
    det_value_set(saved, "step", det_value_int(1));
    det_value *group = det_value_at(det_value_get(dict, "param_groups"), 0);
    det_value_set(group, "lr", det_value_float(-1));
    refuse(opt, dict, "group 0: lr: lr must be >= 0, got -1");
    det_value_set(group, "lr", det_value_bool(true));
    refuse(opt, dict, "lr: bool where a number was expected");
    det_value_free(dict);
    det_value_free(small_dict);
    det_optim_free(opt);
    det_optim_free(other);
    det_module_free(m);
    det_module_free(small);
}

static void test_optim_state__reads_groups(void **state)
{
    (void)state;
    det_module *m = net_new();
    det_optimizer *opt = adam(m), *again = det_optim_adam(m);
    det_lr_scheduler *s = det_lr_exponential(opt, 0.5);
    det_lr_scheduler_step(s);
    det_value *dict = det_optim_state_dict(opt);
    assert_near(det_optim_lr(opt, 0), 0.05, 1e-15);
    assert_int_equal(det_optim_load_state_dict(again, dict, NULL), 0);
    assert_near(det_optim_lr(again, 0), 0.05, 1e-15);
    assert_near(det_optim_get(again, 0, "amsgrad"), 1, 0);
    det_lr_scheduler *more = det_lr_exponential(again, 0.5); // initial_lr came along
    det_value *lr_dict = det_lr_scheduler_state_dict(more);
    double base = 0;
    det_value_as_float(det_value_at(det_value_get(lr_dict, "base_lrs"), 0), &base, NULL);
    assert_near(base, 0.1, 0);
    det_value_free(lr_dict);
    det_value_free(dict);
    det_lr_scheduler_free(s);
    det_lr_scheduler_free(more);
    det_optim_free(opt);
    det_optim_free(again);
    det_module_free(m);
    assert_fine();
}

RUN_TESTS(TEST(test_optim_state__resumes_bit_for_bit),
          TEST(test_optim_state__is_empty_before_the_first_step),
          TEST(test_optim_state__has_the_keys_of_torch),
          TEST(test_optim_state__refuses_what_does_not_fit), TEST(test_optim_state__reads_groups))
