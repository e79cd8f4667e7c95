// tests/support/sgd.h: a module and its optimizer for tests of schedules, new for each test.
#pragma once

#include "det/optim.h"
#include "support/tensors.h"

static det_module *module;
static det_optimizer *opt;

static int sgd_setup(void **state)
{
    scope_setup(state);
    module = det_nn_linear(1, 1);
    opt = det_optim_sgd(module, .lr = SGD_LR);
    return 0;
}

static int sgd_teardown(void **state)
{
    det_optim_free(opt);
    det_module_free(module);
    return scope_teardown(state);
}

#define SGD_TEST(function) cmocka_unit_test_setup_teardown(function, sgd_setup, sgd_teardown)
