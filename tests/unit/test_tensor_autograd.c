// Gradients by some tensors only, hooks on gradients, functions with a gradient of their own.
#include "support/tensors.h"

static det_tensor *leaf(float a, float b, float c)
{
    return det_requires_grad(det_from(DET_F32, DET_DIMS(3), (float[]){a, b, c}), true);
}

// --- det_grad_of

static void test_grad_of__gives_gradients_and_leaves_those_of_leaves_alone(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *w = leaf(4, 5, 6), *out[2];
    det_backward(det_sum(x)); // what is there stays
    det_tensor *y = det_sum(det_mul(det_square(x), w));
    assert_int_equal(det_grad_of(y, ((det_tensor *[]){w, x}), 2, out), 0);
    assert_values(out[0], 1, 4, 9);
    assert_values(out[1], 8, 20, 36);
    assert_values(det_grad(x), 1, 1, 1);
    assert_null(det_grad(w));
    assert_fine();
}

static void test_grad_of__knows_tensors_that_are_no_leaves(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *h = det_square(x), *out[1];
    det_tensor *y = det_sum(det_add(det_square(h), h));
    det_grad_of(y, &h, 1, out, .retain_graph = true);
    assert_values(out[0], 3, 9, 19); // 2 h + 1
    assert_null(det_grad(x));
    det_grad_of(y, &y, 1, out, .retain_graph = true);
    assert_near(det_item(out[0]), 1, 0);
    det_backward(y); // the graph was kept, and what it wants is as before
    assert_values(det_grad(x), 6, 36, 114);
    assert_fine();
}

static void test_grad_of__a_part_of_the_graph_is_enough(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *w = leaf(4, 5, 6), *out[1];
    det_tensor *used = det_exp(x); // leads to x only
    det_tensor *y = det_sum(det_mul(used, w));
    det_grad_of(y, &w, 1, out);
    assert_values(out[0], expf(1), expf(2), expf(3));
    det_backward(det_sum(used)); // nobody went through it
    assert_values(det_grad(x), expf(1), expf(2), expf(3));
    assert_fine();
}

static void test_grad_of__says_what_is_not_used(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *w = leaf(4, 5, 6), *out[1];
    det_tensor *y = det_sum(det_square(x));
    assert_true(det_grad_of(y, &w, 1, out, .retain_graph = true) < 0);
    assert_raised(DET_ESTATE, "does not depend on input 0 (3,); pass .allow_unused");
    assert_int_equal(det_grad_of(y, &w, 1, out, .allow_unused = true), 0);
    assert_null(out[0]);
    det_tensor *plain = det_ones(DET_F32, DET_DIMS(3));
    det_grad_of(det_sum(det_mul(x, plain)), &plain, 1, out);
    assert_raised(DET_ESTATE, "input 0 (3,) does not require a gradient");
    det_grad_of(det_sum(plain), &x, 1, out);
    assert_raised(DET_ESTATE, "does not depend on anything");
    det_grad_of(det_square(x), &x, 1, out);
    assert_raised(DET_ESHAPE, "pass its gradient with .grad");
    det_tensor *g = det_from(DET_F32, DET_DIMS(3), (float[]){1, 0, 2});
    det_grad_of(det_square(x), &x, 1, out, .grad = g);
    assert_values(out[0], 2, 0, 12);
    assert_fine();
}

static void test_grad_of__writes_in_place_count(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *h = det_mul_scalar(x, 2), *out[1];
    det_mul_(h, 3);
    det_grad_of(det_sum(det_square(h)), &x, 1, out);
    assert_values(out[0], 72, 144, 216);
    assert_fine();
}

// --- hooks

static det_tensor *doubled(det_tensor *grad, void *user)
{
    ++*(int *)user;
    return det_mul_scalar(grad, 2);
}

static det_tensor *seen(det_tensor *grad, void *user)
{
    *(double *)user = det_item(det_sum(grad));
    return NULL;
}

static void test_hook__changes_the_gradient_on_its_way(void **state)
{
    (void)state;
    int calls = 0;
    det_tensor *x = leaf(1, 2, 3), *h = det_square(x);
    int id = det_add_hook(h, doubled, &calls);
    det_tensor *y = det_add(det_sum(h), det_sum(det_mul_scalar(h, 3))); // two readers, one call
    det_backward(y, .retain_graph = true);
    assert_int_equal(calls, 1);
    assert_values(det_grad(x), 16, 32, 48); // 2 * (1 + 3) * 2 x
    det_remove_hook(h, id);
    det_zero_grad(x);
    det_backward(y);
    assert_int_equal(calls, 1);
    assert_values(det_grad(x), 8, 16, 24);
    assert_fine();
}

static void test_hook__of_a_leaf_sees_the_sum_of_one_backward(void **state)
{
    (void)state;
    double sum = 0;
    int calls = 0;
    det_tensor *x = leaf(1, 2, 3);
    det_backward(det_sum(x));
    det_add_hook(x, seen, &sum);
    det_add_hook(x, doubled, &calls);
    det_backward(det_add(det_sum(x), det_sum(det_mul_scalar(x, 4))));
    assert_near(sum, 15, 0);
    assert_values(det_grad(x), 11, 11, 11); // 1 of before, 2 * 5
    det_tensor *out[1];
    det_grad_of(det_sum(x), &x, 1, out);
    assert_values(out[0], 2, 2, 2);
    assert_values(det_grad(x), 11, 11, 11);
    assert_int_equal(calls, 2);
    assert_fine();
}

static det_tensor *of_another_shape(det_tensor *grad, void *user)
{
    (void)user;
    return det_sum(grad);
}

static void test_hook__refuses_what_makes_no_sense(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *plain = det_ones(DET_F32, DET_DIMS(3));
    assert_true(det_add_hook(plain, seen, NULL) < 0);
    assert_raised(DET_ESTATE, "does not require a gradient");
    det_add_hook(x, NULL, NULL);
    assert_raised(DET_ESTATE, "NULL");
    det_tensor *h = det_square(x);
    det_add_hook(h, of_another_shape, NULL);
    det_backward(det_sum(h));
    assert_raised(DET_ESHAPE, "a hook gave the gradient () to a tensor (3,)");
    det_remove_hook(h, 99);
    assert_fine();
}

// --- functions

static det_tensor *cube_forward(det_call *c)
{
    det_tensor *x = det_call_input(c, 0);
    det_call_save(c, 0, det_square(x));
    return det_mul(det_square(x), x);
}

static void cube_backward(det_call *c, det_tensor *grad, det_tensor **grad_in)
{
    ++*(int *)det_call_user(c);
    grad_in[0] = det_mul(grad, det_mul_scalar(det_call_saved(c, 0), 3));
}

static const det_function cube = {"cube", cube_forward, cube_backward};

static void test_function__has_the_gradient_it_was_given(void **state)
{
    (void)state;
    int calls = 0;
    det_tensor *x = leaf(1, 2, -3);
    det_tensor *y = det_apply(&cube, &x, 1, &calls);
    assert_values(y, 1, 8, -27);
    det_backward(det_sum(det_mul_scalar(y, 2)));
    assert_values(det_grad(x), 6, 24, 54);
    assert_int_equal(calls, 1);
    det_tensor *plain = det_ones(DET_F32, DET_DIMS(3));
    assert_false(det_has_requires_grad(det_apply(&cube, &plain, 1, &calls)));
    assert_fine();
}

static det_tensor *first_forward(det_call *c)
{
    return det_call_input(c, 0);
}

static void reversed_backward(det_call *c, det_tensor *grad, det_tensor **grad_in)
{
    assert_true(det_call_wants_grad(c, 0));
    assert_false(det_call_wants_grad(c, 1));
    assert_int_equal(det_call_n_inputs(c), 2);
    assert_ptr_equal(det_call_input(c, 7), NULL);
    grad_in[0] = det_neg(grad);
    grad_in[1] = grad; // not wanted: left alone
}

static void test_function__may_pass_its_input_on(void **state)
{
    (void)state;
    const det_function reversed = {"reversed", first_forward, reversed_backward};
    det_tensor *x = leaf(1, 2, 3), *k = det_ones(DET_F32, DET_DIMS(3));
    det_tensor *y = det_apply(&reversed, (det_tensor *[]){x, k}, 2, NULL);
    det_backward(det_sum(det_square(y)));
    assert_values(det_grad(x), -2, -4, -6);
    assert_fine();
}

static det_tensor *null_forward(det_call *c)
{
    (void)c;
    return NULL;
}

static void wide_backward(det_call *c, det_tensor *grad, det_tensor **grad_in)
{
    (void)c;
    grad_in[0] = det_sum(grad);
}

static void output_backward(det_call *c, det_tensor *grad, det_tensor **grad_in)
{
    grad_in[0] = det_mul(grad, det_call_output(c));
}

static void test_function__mistakes_get_words_with_its_name(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3);
    det_apply(NULL, &x, 1, NULL);
    assert_raised(DET_EINVAL, "wants a forward");
    const det_function gives_nothing = {"nothing", null_forward, NULL};
    assert_null(det_apply(&gives_nothing, &x, 1, NULL));
    assert_raised(DET_EINVAL, "nothing: its forward gave NULL");
    const det_function bad = {"bad", cube_forward, wide_backward};
    det_backward(det_sum(det_apply(&bad, &x, 1, NULL)));
    assert_raised(DET_ESHAPE, "bad: its backward gave the gradient () for input 0 (3,)");
    const det_function by_output = {"by_output", cube_forward, output_backward};
    det_tensor *y = det_apply(&by_output, &x, 1, NULL), *z = det_mul_scalar(y, 2);
    det_set_grad_enabled(false);
    det_mul_(y, 3);
    det_set_grad_enabled(true);
    det_backward(det_sum(z));
    assert_raised(DET_ESTATE, "by_output: output 0 (3,) was changed in place");
}

// --- types for storage

static void test_stored_types__are_converted_moved_and_written(void **state)
{
    (void)state;
    float numbers[] = {0, 1, -2.5f, 65504, 1e6f, 6e-8f, NAN, 0.1f};
    det_tensor *x = det_from(DET_F32, DET_DIMS(2, 4), numbers), *h = det_to(x, DET_F16);
    const float *back = det_data_f32(det_to(det_transpose(h, 0, 1), DET_F32));
    assert_true(back[1] == INFINITY && back[2] == 1 && isnan(back[5]));
    assert_near(back[3], 0x1p-24, 0);
    assert_near(back[7], 0.0999755859375, 0);
    det_tensor *i = det_to(det_from(DET_I64, DET_DIMS(3), (int64_t[]){300, -1, 127}), DET_I8);
    assert_values(det_to(i, DET_F32), 44, -1, 127);
    det_fill_(i, -5);
    det_copy_(det_slice(i, 0, 0, 1, 1), det_from(DET_I16, DET_DIMS(1), (int16_t[]){7}));
    assert_values(det_to(i, DET_F32), 7, -5, -5);
    det_tensor *both[] = {i, det_zeros(DET_U8, DET_DIMS(1))};
    assert_int_equal(det_dtype_of(det_concat(both, 2, 0)), DET_I16);
    assert_fine();
}

static void test_stored_types__are_refused_by_what_computes(void **state)
{
    (void)state;
    det_tensor *h = det_ones(DET_F16, DET_DIMS(3));
    det_add(h, h);
    assert_raised(DET_EDTYPE, "add: input 0 is f16, a type for storage; convert it (det_to)");
    det_mul_(h, 2);
    assert_raised(DET_EDTYPE, "det_mul_: f16 is a type for storage");
    det_requires_grad(h, true);
    assert_raised(DET_EDTYPE, "f16 tensors have no gradient");
    det_full(DET_I8, DET_SCALAR, 200);
    assert_raised(DET_EINVAL, "200 is no i8");
}

static void test_stored_types__let_gradients_through(void **state)
{
    (void)state;
    det_tensor *x = leaf(1, 2, 3), *h = det_to(x, DET_F16);
    det_tensor *y = det_add(det_to(h, DET_F32), det_mul_scalar(det_to(h, DET_F32), 2));
    det_backward(det_sum(y));
    assert_values(det_grad(x), 3, 3, 3);
    assert_fine();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, scope_teardown)
RUN_TESTS(CASE(test_grad_of__gives_gradients_and_leaves_those_of_leaves_alone),
          CASE(test_grad_of__knows_tensors_that_are_no_leaves),
          CASE(test_grad_of__a_part_of_the_graph_is_enough),
          CASE(test_grad_of__says_what_is_not_used), CASE(test_grad_of__writes_in_place_count),
          CASE(test_hook__changes_the_gradient_on_its_way),
          CASE(test_hook__of_a_leaf_sees_the_sum_of_one_backward),
          CASE(test_hook__refuses_what_makes_no_sense),
          CASE(test_function__has_the_gradient_it_was_given),
          CASE(test_function__may_pass_its_input_on),
          CASE(test_function__mistakes_get_words_with_its_name),
          CASE(test_stored_types__are_converted_moved_and_written),
          CASE(test_stored_types__are_refused_by_what_computes),
          CASE(test_stored_types__let_gradients_through))
