// Results and gradients are the same bits for any number of threads: each expression below is large
// enough to be shared out, and is computed with 1, 2 and 5 threads.
#include "support/test.h"

#include "det/tensor.h"
#include <string.h>

static det_err err;

static det_tensor *sum_of_all(det_tensor *x)
{
    return det_sum(x);
}

static det_tensor *sum_of_rows(det_tensor *x)
{
    return det_sum_over(x, DET_DIMS(1), false);
}

static det_tensor *sum_of_columns(det_tensor *x)
{
    return det_sum_over(x, DET_DIMS(0), false);
}

static det_tensor *sum_of_long_columns(det_tensor *x)
{
    return det_sum_over(det_reshape(x, DET_DIMS(-1, 30)), DET_DIMS(0), false);
}

static det_tensor *sum_of_channels(det_tensor *x)
{
    return det_sum_over(det_reshape(x, DET_DIMS(5, 30, -1)), DET_DIMS(0, 2), false);
}

static det_tensor *sum_of_transposed(det_tensor *x)
{
    return det_sum_over(det_permute(det_reshape(x, DET_DIMS(10, 30, -1)), DET_DIMS(2, 0, 1)),
                        DET_DIMS(1), false);
}

static det_tensor *variance(det_tensor *x)
{
    return det_var_over(x, DET_DIMS(0), 1, false);
}

static det_tensor *log_of_sum(det_tensor *x)
{
    return det_logsumexp(x);
}

static det_tensor *length(det_tensor *x)
{
    return det_norm(x, 2);
}

static det_tensor *biased(det_tensor *x)
{
    return det_linear(det_reshape(x, DET_DIMS(-1, 30)), det_ones(DET_F32, DET_DIMS(40, 30)),
                      det_requires_grad(det_ones(DET_F32, DET_DIMS(40)), true));
}

static det_tensor *softened(det_tensor *x)
{
    return det_softmax(x, 1);
}

static det_tensor *squared_error(det_tensor *x)
{
    return det_mse_loss(x, det_mul_scalar(det_detach(x), 0.5));
}

static det_tensor *surprise(det_tensor *x)
{
    return det_cross_entropy(x, det_argmax(det_detach(x), 1, false), .label_smoothing = 0.1);
}

static det_tensor *embedded(det_tensor *x)
{
    det_manual_seed(3);
    return det_embedding(det_randint(0, 300, DET_DIMS(900)), x, -1);
}

static const struct {
    const char *name;
    det_tensor *(*run)(det_tensor *x);
} expressions[] = {
    {"sum", sum_of_all},
    {"sum of rows", sum_of_rows},
    {"sum of columns", sum_of_columns},
    {"sum of long columns", sum_of_long_columns},
    {"sum of channels", sum_of_channels},
    {"sum of transposed", sum_of_transposed},
    {"var", variance},
    {"logsumexp", log_of_sum},
    {"norm", length},
    {"linear with bias", biased},
    {"softmax", softened},
    {"mse_loss", squared_error},
    {"cross_entropy", surprise},
    {"embedding", embedded},
};

static size_t bytes_of(const det_tensor *t)
{
    return (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t));
}

// Result and gradient of one expression, kept beyond the scope.
static void run(int which, int n_threads, det_tensor **y, det_tensor **g)
{
    det_set_threads(n_threads);
    det_manual_seed(1);
    det_scope_begin();
    det_tensor *x = det_requires_grad(det_randn(DET_F32, DET_DIMS(300, 1500)), true);
    *y = det_ref(expressions[which].run(x));
    det_backward(det_sum(*y));
    *g = det_ref(det_grad(x));
    if (det_check(&err)) fail_msg("%s: %s", expressions[which].name, err.msg);
    det_scope_end();
}

static void test_threads__do_not_change_any_bit(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof expressions / sizeof *expressions); i++) {
        det_tensor *y1, *g1;
        run(i, 1, &y1, &g1);
        for (int threads = 2; threads <= 5; threads += 3) {
            det_tensor *y, *g;
            run(i, threads, &y, &g);
            det_scope_begin();
            if (memcmp(det_data(y), det_data(y1), bytes_of(y)) ||
                memcmp(det_data(g), det_data(g1), bytes_of(g)))
                fail_msg("%s differs between 1 and %d threads", expressions[i].name, threads);
            det_scope_end();
            det_unref(y);
            det_unref(g);
        }
        det_unref(y1);
        det_unref(g1);
    }
}

RUN_TESTS(cmocka_unit_test(test_threads__do_not_change_any_bit))
