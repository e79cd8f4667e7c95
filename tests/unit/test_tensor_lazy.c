// Operations that wait for their consumer: merged with it or not, nobody can tell from the numbers.
#include "support/tensors.h"

#define assert_close(a, b) assert_near(a, b, 1e-5)

static int settings_teardown(void **state)
{
    det_set_grad_enabled(true);
    return scope_teardown(state);
}

static det_tensor *vec(double a, double b, double c)
{
    return det_to(det_from(DET_F64, DET_DIMS(3), (double[]){a, b, c}), DET_F32);
}

static det_tensor *leaf(double a, double b, double c)
{
    return det_requires_grad(vec(a, b, c), true);
}

// --- merging

static void test_merge__gives_what_the_parts_give(void **state)
{
    (void)state;
    det_tensor *x = det_randn(DET_F32, DET_DIMS(2, 3, 10, 10));
    det_tensor *w = det_requires_grad(det_randn(DET_F32, DET_DIMS(5, 3, 3, 3)), true);
    det_tensor *conv = det_conv2d(x, w, NULL);
    det_tensor *merged = det_relu(det_max_pool2d(conv, .kernel = {2, 2}));
    det_backward(det_sum(det_square(merged)));
    det_tensor *g = det_clone(det_grad(w));
    det_zero_grad(w);
    det_data(conv); // its own value after all
    det_tensor *again = det_conv2d(x, w, NULL);
    det_data(again); // computed now, so nothing can be merged into it
    det_tensor *apart = det_relu(det_max_pool2d(again, .kernel = {2, 2}));
    det_backward(det_sum(det_square(apart)));
    assert_close(det_item(det_sum(det_abs(det_sub(merged, apart)))), 0);
    assert_close(det_item(det_sum(det_abs(det_sub(conv, again)))), 0);
    double scale = det_item(det_sum(det_abs(g)));
    assert_true(det_item(det_sum(det_abs(det_sub(g, det_grad(w))))) < 1e-5 * scale);
    assert_fine();
}

static void test_merge__a_result_used_elsewhere_still_has_its_gradient(void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_eye(DET_F32, 3), true), *x = vec(-1, 2, 3);
    det_tensor *y = det_linear(x, w, NULL);
    det_tensor *a = det_relu(y),
               *b = det_square(y); // relu took the product in, square needs it alone
    det_backward(det_add(det_sum(a), det_sum(b)));
    const float *g = det_data_f32(det_grad(w));
    assert_close(g[0], (0 + 2 * -1) * -1); // d/dw00 = (relu'(y0) + 2 y0) x0
    assert_close(g[4], (1 + 2 * 2) * 2);
    assert_fine();
}

static void test_merge__results_can_be_written_into(void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_eye(DET_F32, 3), true), *x = vec(-1, 2, 3);
    det_tensor *y = det_linear(x, w, NULL), *z = det_relu(y);
    det_mul_(y, 10); // the product, which relu took in
    assert_values(z, 0, 2, 3);
    assert_values(y, -10, 20, 30);
    det_backward(det_add(det_sum(y), det_sum(z)));
    const float *g = det_data_f32(det_grad(w));
    assert_close(g[0], -10);
    assert_close(g[4], 22);
    assert_fine();
}

// What a separate operation would not need for its gradient, the merged one does not need either.
static void test_merge__results_that_backward_does_not_need_can_be_written_into(void **state)
{
    (void)state;
    det_tensor *x = det_randn(DET_F32, DET_DIMS(2, 3, 10, 10));
    det_tensor *w = det_requires_grad(det_randn(DET_F32, DET_DIMS(5, 3, 3, 3)), true);
    det_tensor *pooled = det_max_pool2d(det_conv2d(x, w, NULL), .kernel = {2, 2});
    det_backward(det_sum(pooled), .retain_graph = true);
    det_tensor *g = det_clone(det_grad(w));
    det_zero_grad(w);
    det_mul_(pooled, 2);
    det_backward(det_sum(pooled));
    assert_close(det_item(det_max(det_abs(det_sub(det_grad(w), det_mul_scalar(g, 2))))), 0);

    det_tensor *v = leaf(1, 2, 3), *h = det_gelu(det_linear(v, det_eye(DET_F32, 3), NULL));
    det_add_(h, vec(1, 1, 1), 1);
    det_backward(det_sum(h));
    det_tensor *again = leaf(1, 2, 3);
    det_backward(det_sum(det_gelu(again)));
    assert_close(det_item(det_max(det_abs(det_sub(det_grad(v), det_grad(again))))), 0);
    assert_fine();
}

// --- writes

static void test_lazy__a_write_waits_for_what_was_put_off(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3), *y = det_linear(x, det_eye(DET_F32, 3), NULL);
    det_fill_(x, 0); // y was asked for before
    assert_values(y, 1, 2, 3);
    assert_fine();
}

static void test_lazy__a_write_waits_for_what_was_merged(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3), *y = det_linear(x, det_eye(DET_F32, 3), NULL);
    det_tensor *z = det_relu(y);
    det_fill_(det_slice(x, 0, 0, 2, 1), 0);
    assert_values(z, 1, 2, 3);
    assert_values(y, 1, 2, 3);
    assert_fine();
}

// Computing every merged result before each update of the parameters would cost as much as forward.
static void test_lazy__a_merged_result_of_changed_parameters_is_an_error_not_a_wrong_number(
    void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_eye(DET_F32, 3), true), *kept;
    det_scope_begin();
    det_tensor *y = det_linear(vec(1, 2, 3), w, NULL), *z = det_relu(y);
    kept = det_ref(y);
    det_set_grad_enabled(false);
    det_mul_(w, 2);
    det_set_grad_enabled(true);
    assert_values(z, 1, 2, 3);
    assert_null(det_data(y));
    assert_raised(DET_ESTATE, "linear: its value was merged into the next operation");
    det_scope_end();
    assert_fine();
    assert_null(det_data(kept));
    assert_raised(DET_ESTATE, "can no longer be computed");
    assert_null(det_add(kept, kept));
    assert_raised(DET_ESTATE, "can no longer be computed");
    det_unref(kept);
}

static void test_lazy__statistics_that_are_updated_were_read_before(void **state)
{
    (void)state;
    det_tensor *mean = vec(1, 2, 3), *var = vec(1, 1, 1);
    det_tensor *y = det_linear(mean, det_eye(DET_F32, 3), NULL);
    det_tensor *x = det_randn(DET_F32, DET_DIMS(8, 3));
    det_batch_norm(x, .running_mean = mean, .running_var = var, .training = true);
    assert_values(y, 1, 2, 3);
    assert_fine();
}

// --- memory of the user

static void test_lazy__borrowed_memory_is_read_when_the_operation_is_called(void **state)
{
    (void)state;
    float numbers[] = {1, 2, 3};
    det_tensor *x = det_borrow(DET_F32, DET_DIMS(3), numbers), *eye = det_eye(DET_F32, 3);
    det_tensor *y = det_linear(det_view(x, DET_DIMS(1, 3)), eye, NULL), *z = det_relu(y);
    numbers[0] = numbers[1] = numbers[2] = -1;
    assert_values(z, 1, 2, 3);
    assert_values(y, 1, 2, 3);
    det_tensor *late = det_relu(det_linear(x, eye, NULL));
    assert_values(late, 0, 0, 0);
    assert_fine();
}

static void test_lazy__borrowed_weights_and_images_are_read_at_once_too(void **state)
{
    (void)state;
    float image[] = {1, 2, 3, 4}, weight[] = {2};
    det_tensor *x = det_borrow(DET_F32, DET_DIMS(1, 1, 2, 2), image);
    det_tensor *w = det_borrow(DET_F32, DET_DIMS(1, 1, 1, 1), weight);
    det_tensor *y = det_conv2d(x, det_ones(DET_F32, DET_DIMS(1, 1, 1, 1)), NULL);
    det_tensor *z = det_conv2d(det_ones(DET_F32, DET_DIMS(1, 1, 2, 2)), w, NULL);
    image[0] = weight[0] = 100;
    assert_values(y, 1, 2, 3, 4);
    assert_values(z, 2, 2, 2, 2);
    assert_fine();
}

// --- errors

static void test_lazy__what_was_put_off_before_an_error_is_still_good(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3), *y = det_linear(x, det_eye(DET_F32, 3), NULL);
    assert_null(det_add(x, det_ones(DET_F32, DET_DIMS(4))));
    assert_raised(DET_ESHAPE, "do not broadcast");
    assert_values(y, 1, 2, 3);
    assert_values(det_add(y, x), 2, 4, 6);
    assert_fine();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, settings_teardown)
RUN_TESTS(CASE(test_merge__gives_what_the_parts_give),
          CASE(test_merge__a_result_used_elsewhere_still_has_its_gradient),
          CASE(test_merge__results_can_be_written_into),
          CASE(test_merge__results_that_backward_does_not_need_can_be_written_into),
          CASE(test_lazy__a_write_waits_for_what_was_put_off),
          CASE(test_lazy__a_write_waits_for_what_was_merged),
          CASE(test_lazy__a_merged_result_of_changed_parameters_is_an_error_not_a_wrong_number),
          CASE(test_lazy__statistics_that_are_updated_were_read_before),
          CASE(test_lazy__borrowed_memory_is_read_when_the_operation_is_called),
          CASE(test_lazy__borrowed_weights_and_images_are_read_at_once_too),
          CASE(test_lazy__what_was_put_off_before_an_error_is_still_good))
