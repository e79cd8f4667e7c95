// Optimizers: settings, groups, what a step touches and what it leaves alone. Formulas are compared
// with torch in tests/parity.
#include "det/optim.h"
#include "support/tensors.h"

// A module with parameters of the given sizes, all elements equal to value.
static det_module *params_new(const int64_t *sizes, int n, double value)
{
    det_module *m = det_module_new("Params", 0, NULL);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        det_module_add_param(m, name, det_full(DET_F32, DET_DIMS(sizes[i]), value));
    }
    return m;
}

// Gives every parameter whose bit is set the gradient value.
static void give_grads(det_module *m, unsigned which, double value)
{
    for (int i = 0; i < det_module_n_params(m); i++)
        if (which >> i & 1) det_backward(det_mul_scalar(det_sum(det_module_param(m, i)), value));
}

static void test_optim__has_the_defaults_of_torch(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){3}, 1, 0);
    struct {
        det_optimizer *opt;
        const char *field;
        double value;
    } rows[] = {
        {det_optim_sgd(m, .lr = 0.5), "lr", 0.5},
        {det_optim_sgd(m, .lr = 0.5), "momentum", 0},
        {det_optim_sgd(m, .lr = 0.5, .momentum = 0.9, .nesterov = true), "nesterov", 1},
        {det_optim_sgd(m, .lr = 0.5, .dampening = 0.25), "dampening", 0.25},
        {det_optim_adam(m), "lr", 1e-3},
        {det_optim_adam(m), "beta1", 0.9},
        {det_optim_adam(m), "beta2", 0.999},
        {det_optim_adam(m), "eps", 1e-8},
        {det_optim_adam(m), "weight_decay", 0},
        {det_optim_adam(m, .beta2 = 0.5), "beta2", 0.5},
        {det_optim_adamw(m), "weight_decay", 1e-2},
        {det_optim_adamw(m, .weight_decay = 0.2), "weight_decay", 0.2},
        {det_optim_adamw(m, .weight_decay = 0), "weight_decay", 0},
        {det_optim_adamw(m, .amsgrad = true), "amsgrad", 1},
        {det_optim_rmsprop(m), "lr", 1e-2},
        {det_optim_rmsprop(m), "alpha", 0.99},
        {det_optim_rmsprop(m), "eps", 1e-8},
        {det_optim_rmsprop(m, .centered = true), "centered", 1},
        {det_optim_adagrad(m), "lr", 1e-2},
        {det_optim_adagrad(m), "eps", 1e-10},
        {det_optim_adagrad(m, .lr_decay = 0.1), "lr_decay", 0.1},
        {det_optim_lion(m), "lr", 1e-4},
        {det_optim_lion(m), "beta1", 0.9},
        {det_optim_lion(m), "beta2", 0.99},
        {det_optim_adam(m, .lr = 0), "lr", 0},
        {det_optim_adam(m, .beta1 = 0), "beta1", 0},
        {det_optim_rmsprop(m, .eps = 0), "eps", 0},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        assert_near(det_optim_get(rows[i].opt, 0, rows[i].field), rows[i].value, 0);
        det_optim_free(rows[i].opt);
    }
    assert_fine();
    det_module_free(m);
}

static void test_optim__refuses_bad_settings(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){3}, 1, 0);
    assert_null(det_optim_sgd(m));
    assert_raised(DET_EINVAL, "SGD: lr must be given");
    assert_null(det_optim_sgd(m, .lr = -1));
    assert_raised(DET_EINVAL, "SGD: lr must be >= 0, got -1");
    assert_null(det_optim_sgd(m, .lr = 1, .nesterov = true));
    assert_raised(DET_EINVAL, "SGD: nesterov needs momentum > 0 and dampening 0");
    assert_null(det_optim_adam(m, .beta1 = 1));
    assert_raised(DET_EINVAL, "Adam: beta1 must be >= 0 and < 1, got 1");
    assert_null(det_optim_adamw(m, .lr = NAN));
    assert_raised(DET_EINVAL, "AdamW: lr must be given, and be a number");
    det_module *empty = det_nn_relu();
    assert_null(det_optim_adam(empty));
    assert_raised(DET_EINVAL, "Adam: no parameters");
    det_module_free(empty);
    det_module_free(m);
    assert_null(det_optim_adam(NULL));
    assert_raised(DET_EINVAL, "Adam: the module is NULL");
    det_optim_step(NULL);
    det_optim_zero_grad(NULL);
    det_optim_free(NULL);
    assert_int_equal(det_optim_n_groups(NULL), 0);
}

static void test_optim__fields_have_names(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){3}, 1, 0);
    det_optimizer *opt = det_optim_adam(m);
    det_optim_set(opt, 0, "beta1", 0);
    assert_near(det_optim_get(opt, 0, "beta1"), 0, 0);
    det_optim_set(opt, 0, "amsgrad", 1);
    assert_near(det_optim_get(opt, 0, "amsgrad"), 1, 0);
    assert_fine();
    det_optim_set(opt, 0, "momentum", 1);
    assert_raised(DET_EINVAL, "Adam has no field 'momentum'; it has lr, beta1, beta2, eps, "
                              "weight_decay, amsgrad, maximize");
    assert_true(isnan(det_optim_get(opt, 0, "foreach")));
    assert_raised(DET_EINVAL, "Adam has no field 'foreach'");
    det_optim_set(opt, 0, "beta2", 1.5);
    assert_raised(DET_EINVAL, "Adam: beta2 must be >= 0 and < 1, got 1.5");
    det_optim_set_lr(opt, 1, 0.5);
    assert_raised(DET_EINVAL, "group 1 of 1");
    det_optim_free(opt);
    det_module_free(m);
}

static void test_optim__leaves_parameters_without_gradient_alone(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){2, 20, 3}, 3, 1);
    det_optimizer *opt = det_optim_sgd(m, .lr = 0.5, .weight_decay = 0.1);
    give_grads(m, 5, 1); // not the middle one
    det_optim_step(opt);
    assert_values(det_module_param(m, 0), 0.45f, 0.45f);
    assert_near(det_item(det_sum(det_module_param(m, 1))), 20, 0);
    assert_values(det_module_param(m, 2), 0.45f, 0.45f, 0.45f);
    det_optim_zero_grad(opt);
    assert_null(det_grad(det_module_param(m, 0)));
    det_optim_step(opt);
    assert_values(det_module_param(m, 0), 0.45f, 0.45f);
    det_optim_free(opt);
    det_module_free(m);
    assert_fine();
}

// Adam's first step is lr whatever the gradient; a parameter that joins later has its own first
// step.
static void test_optim__counts_steps_of_each_parameter(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){1, 1}, 2, 0);
    det_optimizer *opt = det_optim_adam(m, .lr = 0.5);
    for (int i = 0; i < 3; i++) {
        give_grads(m, 1, 7);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
    }
    give_grads(m, 3, 7);
    det_optim_step(opt);
    assert_values(det_module_param(m, 0), -2);
    assert_values(det_module_param(m, 1), -0.5f);
    det_optim_free(opt);
    det_module_free(m);
}

static void test_optim__accumulates_gradients(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){2}, 1, 0);
    det_optimizer *opt = det_optim_sgd(m, .lr = 1);
    give_grads(m, 1, 1);
    give_grads(m, 1, 2);
    assert_values(det_grad(det_module_param(m, 0)), 3, 3);
    det_optim_zero_grad(opt);
    give_grads(m, 1, 4);
    assert_values(det_grad(det_module_param(m, 0)), 4, 4);
    det_optim_free(opt);
    det_module_free(m);
}

static void test_optim__groups_have_their_own_settings(void **state)
{
    (void)state;
    det_module *a = params_new((int64_t[]){1}, 1, 0), *b = params_new((int64_t[]){1}, 1, 0);
    det_optimizer *opt = det_optim_sgd(a, .lr = 1, .momentum = 0.5);
    det_optim_set_lr(opt, 0, 3);
    assert_int_equal(det_optim_add_group(opt, b), 1);
    assert_int_equal(det_optim_n_groups(opt), 2);
    assert_near(det_optim_lr(opt, 1), 1, 0); // the optimizer's, not the first group's
    assert_near(det_optim_get(opt, 1, "momentum"), 0.5, 0);
    give_grads(a, 1, 1);
    give_grads(b, 1, 1);
    det_optim_step(opt);
    assert_values(det_module_param(a, 0), -3);
    assert_values(det_module_param(b, 0), -1);
    assert_fine();
    assert_int_equal(det_optim_add_group(opt, b), DET_EINVAL);
    assert_raised(DET_EINVAL, "SGD: a parameter is in two groups");
    det_tensor *twice[] = {det_scalar(1), NULL};
    twice[1] = twice[0];
    assert_int_equal(det_optim_add_params(opt, twice, 2), DET_EINVAL);
    assert_raised(DET_EINVAL, "twice in one");
    det_tensor *whole = det_zeros(DET_I64, DET_DIMS(2));
    assert_int_equal(det_optim_add_params(opt, &whole, 1), DET_EDTYPE);
    assert_raised(DET_EDTYPE, "SGD: parameter 0 (2,) is not contiguous f32");
    assert_int_equal(det_optim_n_groups(opt), 2);
    det_optim_free(opt);
    det_module_free(a);
    det_module_free(b);
}

static void test_optim__may_outlive_its_module(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){4}, 1, 0);
    det_optimizer *opt = det_optim_adam(m);
    give_grads(m, 1, 1);
    det_module_free(m);
    det_optim_step(opt);
    det_optim_free(opt);
    assert_fine();
}

// Two optimizers over the same parameters, as when a second phase of training begins.
static void test_optim__shares_parameters_with_another(void **state)
{
    (void)state;
    det_module *m = params_new((int64_t[]){3, 18}, 2, 1);
    det_optimizer *first = det_optim_sgd(m, .lr = 0.5), *second = det_optim_sgd(m, .lr = 0.25);
    give_grads(m, 3, 1);
    det_optim_step(first);
    det_optim_step(second);
    assert_near(det_item(det_sum(det_module_param(m, 1))), 18 * 0.25, 1e-6);
    det_optim_free(second);
    det_optim_step(first);
    assert_near(det_item(det_sum(det_module_param(m, 1))), -18 * 0.25, 1e-6);
    assert_values(det_module_param(m, 0), -0.25f, -0.25f, -0.25f);
    det_optim_free(first);
    det_module_free(m);
    assert_fine();
}

// linear waits for its user; the step must not change what it will read.
static void test_optim__lets_waiting_operations_read_first(void **state)
{
    (void)state;
    det_module *m = det_nn_linear(2, 1, .no_bias = true);
    det_init_constant(det_module_param(m, 0), 1);
    det_optimizer *opt = det_optim_sgd(m, .lr = 1);
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1, 2));
    det_backward(det_sum(det_forward(m, x)));
    det_requires_grad(x, true); // its gradient needs the weights
    det_tensor *y = det_forward(m, x);
    det_optim_step(opt);
    assert_values(y, 2);
    assert_values(det_forward(m, x), 0);
    det_backward(det_sum(y)); // the weights it was made with are gone
    assert_raised(DET_ESTATE, "was changed in place after it was used");
    det_optim_free(opt);
    det_module_free(m);
}

static det_optimizer *adamw_of(det_module *m)
{
    return det_optim_adamw(m, .lr = 0.01, .amsgrad = true);
}

// Parameters after a few steps from the same start, with the given number of threads.
static det_tensor *train(int threads, double *norm)
{
    det_set_threads(threads);
    det_manual_seed(5);
    det_module *m = det_module_new("Big", 0, NULL);
    det_module_add_param(m, "a", det_randn(DET_F32, DET_DIMS(300, 401)));
    det_module_add_param(m, "b", det_randn(DET_F32, DET_DIMS(70001)));
    det_optimizer *opt = adamw_of(m);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 2; i++)
            det_backward(det_sum(det_square(det_module_param(m, i))));
        *norm = det_optim_clip_grad_norm(opt, 3);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
    }
    bool old = det_set_grad_enabled(false);
    det_tensor *result = det_clone(det_module_param(m, 1));
    det_set_grad_enabled(old);
    det_optim_free(opt);
    det_module_free(m);
    return result;
}

static void test_optim__gives_the_same_bits_for_any_number_of_threads(void **state)
{
    (void)state;
    int threads = det_threads();
    double norm1, norm3;
    det_tensor *one = train(1, &norm1), *three = train(3, &norm3);
    det_set_threads(threads);
    assert_true(norm1 == norm3);
    assert_memory_equal(det_data(one), det_data(three), 70001 * sizeof(float));
    assert_fine();
}

static void count_warning(const char *text, void *n)
{
    if (strstr(text, "a step of Adam changes nothing: none of its 2 parameters")) ++*(int *)n;
}

static void test_optim__warns_once_of_a_step_without_gradients(void **state)
{
    (void)state;
    int n = 0;
    det_warning_handler old = det_set_warning_handler((det_warning_handler){count_warning, &n});
    det_module *m = params_new((int64_t[]){3, 4}, 2, 1);
    det_optimizer *opt = det_optim_adam(m);
    give_grads(m, 1, 2); // one of the two is enough
    det_optim_step(opt);
    assert_int_equal(n, 0);
    det_optim_zero_grad(opt);
    det_optim_step(opt);
    det_optim_step(opt);
    assert_int_equal(n, 1);
    det_set_warning_handler(old);
    det_optim_free(opt);
    det_module_free(m);
    assert_fine();
}

RUN_TESTS(TEST(test_optim__has_the_defaults_of_torch), TEST(test_optim__refuses_bad_settings),
          TEST(test_optim__fields_have_names),
          TEST(test_optim__leaves_parameters_without_gradient_alone),
          TEST(test_optim__warns_once_of_a_step_without_gradients),
          TEST(test_optim__counts_steps_of_each_parameter), TEST(test_optim__accumulates_gradients),
          TEST(test_optim__groups_have_their_own_settings),
          TEST(test_optim__may_outlive_its_module),
          TEST(test_optim__shares_parameters_with_another),
          TEST(test_optim__lets_waiting_operations_read_first),
          TEST(test_optim__gives_the_same_bits_for_any_number_of_threads))
