// Normalisation: running statistics, merging, precision. Values and gradients are compared with
// torch by tests/parity.
#include "support/test.h"

#include "det/tensor.h"
#include <math.h>
#include <string.h>

static det_err err;

#define assert_no_error()                             \
    do {                                              \
        if (det_check(&err)) fail_msg("%s", err.msg); \
    } while (0)

static int scope_setup(void **state)
{
    (void)state;
    det_scope_begin();
    det_manual_seed(1);
    return 0;
}

static int scope_teardown(void **state)
{
    (void)state;
    det_check(NULL);
    det_set_threads(2);
    det_scope_end();
    return 0;
}

static void assert_values(det_tensor *t, const double *want)
{
    const float *v = det_data_f32(t);
    assert_non_null(v);
    for (int64_t i = 0; i < det_numel(t); i++)
        if (!(fabs((double)v[i] - want[i]) < 1e-5))
            fail_msg("element %d is %g, wanted %g", (int)i, (double)v[i], want[i]);
}

static void assert_same(det_tensor *a, det_tensor *b)
{
    const void *va = det_data(a), *vb = det_data(b);
    assert_non_null(va);
    assert_non_null(vb);
    assert_memory_equal(va, vb, (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a)));
}

static det_tensor *floats(const int64_t *shape, int ndim, const float *v)
{
    return det_from(DET_F32, shape, ndim, v);
}

// Running statistics 0.5, -0.5 and 2, 3; two batches. torch's numbers.
struct bn {
    det_tensor *mean, *var, *x1, *x2;
};

static const double after_one_mean[] = {0.55, -0.36666664}, after_one_var[] = {2.2, 3.60833311};
static const double after_two_mean[] = {0.595, -0.03}, after_two_var[] = {2.18, 4.04749966};

static struct bn bn_new(void)
{
    return (struct bn){
        .mean = floats(DET_DIMS(2), (float[]){0.5f, -0.5f}),
        .var = floats(DET_DIMS(2), (float[]){2, 3}),
        .x1 = floats(DET_DIMS(3, 2), (float[]){1, -2, 3, 0.5f, -1, 4}),
        .x2 = floats(DET_DIMS(2, 2), (float[]){0, 1, 2, 5}),
    };
}

static det_tensor *train(const struct bn *b, det_tensor *x)
{
    return det_batch_norm(x, .running_mean = b->mean, .running_var = b->var, .training = true);
}

static void test_batch_norm__updates_running_statistics_as_torch(void **state)
{
    (void)state;
    struct bn b = bn_new();
    det_tensor *y = train(&b, b.x1);
    assert_values(b.mean, after_one_mean); // before anybody looks at y
    assert_values(b.var, after_one_var);
    assert_values(y, (double[]){0, -1.15138435, 1.22474253, -0.13545698, -1.22474253, 1.28684127});
    assert_values(b.mean, after_one_mean);
    b = bn_new();
    det_batch_norm(b.x1, .running_mean = b.mean, .running_var = b.var, .training = true,
                   .momentum = 0.3);
    assert_values(b.mean, (double[]){0.65, -0.1});
    assert_values(b.var, (double[]){2.6, 4.82499981});
    assert_no_error();
}

static void test_batch_norm__updates_once_when_a_merged_result_is_read_later(void **state)
{
    (void)state;
    struct bn b = bn_new();
    det_tensor *y = train(&b, b.x1), *z = det_relu(y);
    assert_values(z, (double[]){0, 0, 1.22474253, 0, 0, 1.28684127});
    assert_values(y, (double[]){0, -1.15138435, 1.22474253, -0.13545698, -1.22474253, 1.28684127});
    assert_values(b.mean, after_one_mean);
    assert_values(b.var, after_one_var);
    assert_no_error();
}

static void test_batch_norm__updates_in_the_order_of_the_calls(void **state)
{
    (void)state;
    struct bn b = bn_new();
    det_tensor *y1 = train(&b, b.x1), *z1 = det_relu(y1), *y2 = train(&b, b.x2);
    assert_values(y2, (double[]){-0.999995, -0.9999987, 0.999995, 0.9999988});
    assert_non_null(det_data(z1));
    assert_non_null(det_data(y1)); // merged, and running statistics have changed since
    assert_values(b.mean, after_two_mean);
    assert_values(b.var, after_two_var);
    assert_no_error();
}

static void test_batch_norm__evaluates_with_the_statistics_of_the_time_of_the_call(void **state)
{
    (void)state;
    struct bn b = bn_new();
    det_tensor *y = det_batch_norm(b.x1, .running_mean = b.mean, .running_var = b.var);
    train(&b, b.x2);
    double want[6];
    const float *x = det_data_f32(b.x1);
    for (int i = 0; i < 6; i++)
        want[i] = ((double)x[i] - (i % 2 ? -0.5 : 0.5)) / sqrt((i % 2 ? 3 : 2) + 1e-5);
    assert_values(y, want);
    assert_no_error();
}

static det_tensor *image(void)
{
    static const int64_t order[] = {0, 3, 1, 2}; // channels fastest in memory
    return det_permute(det_randn(DET_F32, DET_DIMS(5, 7, 9, 20)), order, 4);
}

static void test_batch_norm__merged_with_add_and_relu_gives_what_the_parts_give(void **state)
{
    (void)state;
    det_set_grad_enabled(false);
    det_tensor *x = image(), *skip = image(), *g = image();
    det_tensor *w = det_randn(DET_F32, DET_DIMS(20)), *b = det_randn(DET_F32, DET_DIMS(20));
    det_set_grad_enabled(true);
    det_tensor *in[] = {x, skip, w, b}, *grad[2][4], *y[2];
    for (int apart = 0; apart < 2; apart++) {
        for (int i = 0; i < 4; i++) {
            det_requires_grad(in[i], true);
            det_zero_grad(in[i]);
        }
        det_tensor *norm = det_batch_norm(x, .weight = w, .bias = b, .training = true);
        if (apart) det_data(norm);
        det_tensor *sum = det_add(norm, skip);
        if (apart) det_data(sum);
        y[apart] = det_relu(sum);
        det_backward(y[apart], .grad = g);
        for (int i = 0; i < 4; i++)
            grad[apart][i] = det_clone(det_grad(in[i]));
    }
    assert_same(y[0], y[1]);
    for (int i = 0; i < 4; i++) {
        const float *a = det_data_f32(grad[0][i]), *c = det_data_f32(grad[1][i]);
        for (int64_t k = 0; k < det_numel(grad[0][i]); k++)
            assert_true(fabsf(a[k] - c[k]) < 1e-4f);
    }
    assert_no_error();
}

static void test_batch_norm__wants_more_than_one_value_to_train(void **state)
{
    (void)state;
    assert_null(det_batch_norm(det_ones(DET_F32, DET_DIMS(1, 4)), .training = true));
    assert_int_equal(det_check(&err), DET_ESHAPE);
    assert_non_null(strstr(err.msg, "more than one value"));
    assert_null(det_batch_norm(det_ones(DET_F32, DET_DIMS(1, 4))));
    assert_int_equal(det_check(&err), DET_EINVAL);
}

static void test_norms__keep_their_precision_far_from_zero(void **state)
{
    (void)state;
    det_tensor *noise = det_randn(DET_F32, DET_DIMS(3000, 8));
    det_tensor *far = det_add_scalar(noise, 4096); // the noise keeps 12 of its bits
    det_tensor *near = det_sub_scalar(far, 4096);  // exactly what is left of it
    for (int kind = 0; kind < 3; kind++) {
        det_tensor *a, *b;
        if (kind == 0) {
            a = det_batch_norm(far, .training = true);
            b = det_batch_norm(near, .training = true);
        } else if (kind == 1) {
            a = det_layer_norm(far, 1, NULL, NULL, 0);
            b = det_layer_norm(near, 1, NULL, NULL, 0);
        } else {
            a = det_group_norm(far, 2, NULL, NULL, 0);
            b = det_group_norm(near, 2, NULL, NULL, 0);
        }
        const float *va = det_data_f32(a), *vb = det_data_f32(b);
        for (int64_t i = 0; i < det_numel(a); i++)
            if (!(fabsf(va[i] - vb[i]) < 2e-3f)) fail_msg("norm %d: %g, %g", kind, va[i], vb[i]);
    }
    assert_no_error();
}

static void test_norms__give_the_same_bits_with_any_number_of_threads(void **state)
{
    (void)state;
    det_set_grad_enabled(false);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(3000, 40)),
               *g = det_randn(DET_F32, DET_DIMS(3000, 40));
    det_tensor *w = det_randn(DET_F32, DET_DIMS(40));
    det_set_grad_enabled(true);
    det_requires_grad(x, true);
    det_requires_grad(w, true);
    for (int kind = 0; kind < 2; kind++) {
        det_tensor *y[2], *gx[2], *gw[2];
        for (int t = 0; t < 2; t++) {
            det_set_threads(1 + 2 * t);
            det_zero_grad(x);
            det_zero_grad(w);
            y[t] = kind ? det_layer_norm(x, 1, w, NULL, 0)
                        : det_relu(det_batch_norm(x, .weight = w, .training = true));
            det_backward(y[t], .grad = g);
            gx[t] = det_clone(det_grad(x));
            gw[t] = det_clone(det_grad(w));
        }
        assert_same(y[0], y[1]);
        assert_same(gx[0], gx[1]);
        assert_same(gw[0], gw[1]);
    }
    assert_no_error();
}

static void test_norms__of_nothing_are_nothing(void **state)
{
    (void)state;
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(0, 3, 2, 2));
    assert_int_equal(det_numel(det_batch_norm(x, .training = true)), 0);
    assert_int_equal(det_numel(det_group_norm(x, 3, NULL, NULL, 0)), 0);
    assert_int_equal(det_numel(det_layer_norm(x, 1, NULL, NULL, 0)), 0);
    assert_no_error();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, scope_teardown)

RUN_TESTS(CASE(test_batch_norm__updates_running_statistics_as_torch),
          CASE(test_batch_norm__updates_once_when_a_merged_result_is_read_later),
          CASE(test_batch_norm__updates_in_the_order_of_the_calls),
          CASE(test_batch_norm__evaluates_with_the_statistics_of_the_time_of_the_call),
          CASE(test_batch_norm__merged_with_add_and_relu_gives_what_the_parts_give),
          CASE(test_batch_norm__wants_more_than_one_value_to_train),
          CASE(test_norms__keep_their_precision_far_from_zero),
          CASE(test_norms__give_the_same_bits_with_any_number_of_threads),
          CASE(test_norms__of_nothing_are_nothing))
