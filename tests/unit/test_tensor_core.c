// How tensors behave as a whole: scopes, sticky errors, gradients, views, types.
#include "support/tensors.h"

#include <unistd.h>

#if defined(DET_EMULATE_AVX512)
enum { HAS_EMULATED_BF16 = true };
#else
enum { HAS_EMULATED_BF16 = false };
#endif

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

static void assert_content(det_tensor *t, double a, double b, double c)
{
    const float *v = det_data_f32(t);
    assert_non_null(v);
    assert_close(v[0], a);
    assert_close(v[1], b);
    assert_close(v[2], c);
}

// --- mixed precision

// Must be the first test: a process says it once.
static void test_autocast__says_once_if_it_cannot_be_faster(void **state)
{
    (void)state;
    char text[512] = "";
    int before = dup(STDERR_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stderr);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        det_set_autocast(true);
    det_set_autocast(false);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    close(before);
    bool has_bf16 = strstr(det_isa(), "+") || HAS_EMULATED_BF16;
    if (has_bf16) {
        assert_int_equal(n, 0);
        return;
    }
    assert_true(n > 0);
    assert_non_null(strstr(text, "no faster than f32"));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1); // one line
}

// --- errors

static void test_error__the_first_failure_is_kept_and_later_calls_do_nothing(void **state)
{
    (void)state;
    det_tensor *bad = det_add(vec(1, 2, 3), det_ones(DET_F32, DET_DIMS(4)));
    assert_null(bad);
    det_tensor *later = det_relu(det_matmul(bad, vec(1, 2, 3)));
    assert_null(later);
    assert_null(det_data(later));
    assert_true(isnan(det_item(later)));
    det_backward(later);
    assert_raised(DET_ESHAPE, "add: (3,) and (4,) do not broadcast");
    assert_content(det_relu(vec(-1, 2, 3)), 0, 2, 3);
    assert_fine();
}

static void test_error__null_arguments_are_named(void **state)
{
    (void)state;
    assert_null(det_mul(vec(1, 2, 3), NULL));
    assert_raised(DET_EINVAL, "mul: input 1 is NULL");
}

static void test_error__user_code_can_raise_too(void **state)
{
    (void)state;
    det_raise(DET_EINVAL, "learning rate %d", -1);
    det_raise(DET_EIO, "second");
    assert_raised(DET_EINVAL, "learning rate -1");
    assert_fine();
}

static void test_error__memory_that_does_not_exist_is_reported_not_fatal(void **state)
{
    (void)state;
    assert_null(det_zeros(DET_F32, DET_DIMS(1 << 20, 1 << 20)));
    assert_raised(DET_ENOMEM, "no memory");
    assert_null(det_zeros(DET_F32, DET_DIMS(INT64_MAX, 2)));
    assert_raised(DET_ESHAPE, "too large");
    det_tensor *x = det_ones(DET_F32, DET_DIMS(1 << 20, 1));
    assert_null(det_add(x, det_ones(DET_F32, DET_DIMS(1, 1 << 20))));
    assert_raised(DET_ENOMEM, "add");
    assert_content(vec(1, 2, 3), 1, 2, 3);
}

// --- scopes

static void test_scope__a_kept_tensor_outlives_it_without_history(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3);
    det_scope_begin();
    det_tensor *y = det_ref(det_mul_scalar(w, 2)),
               *lazy = det_ref(det_linear(w, det_eye(DET_F32, 3), NULL));
    det_scope_end();
    assert_content(y, 2, 4, 6);
    assert_content(lazy, 1, 2, 3);
    assert_false(det_has_requires_grad(y));
    det_unref(y);
    det_unref(lazy);
    assert_fine();
}

static void test_scope__an_end_too_many_is_an_error(void **state)
{
    (void)state;
    det_scope_end();
    det_scope_end();
    assert_raised(DET_ESTATE, "det_scope_end without det_scope_begin");
    det_scope_begin();
}

static void test_scope__memory_of_a_repeated_step_is_reused(void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_randn(DET_F32, DET_DIMS(300, 300)), true);
    size_t after_warm_up = 0;
    det_set_threads(1); // with several, a worker may get its first piece of some kind late
    for (int step = 0; step < 20; step++) {
        det_scope_begin();
        det_tensor *x = det_ones(DET_F32, DET_DIMS(100, 300));
        det_backward(det_sum(det_square(det_relu(det_matmul(x, w)))));
        det_zero_grad(w);
        det_scope_end();
        if (step == 2) after_warm_up = det_memory_stats().mapped_bytes;
    }
    assert_fine();
    assert_int_equal(det_memory_stats().mapped_bytes, after_warm_up);
    det_set_threads(2);
}

// --- gradients

static void test_grad__accumulates_until_zeroed(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3);
    assert_null(det_grad(w));
    det_backward(det_sum(det_square(w)));
    assert_content(det_grad(w), 2, 4, 6);
    det_backward(det_sum(det_mul_scalar(w, 10)));
    assert_content(det_grad(w), 12, 14, 16);
    det_zero_grad(w);
    assert_null(det_grad(w));
    det_backward(det_sum(w));
    assert_content(det_grad(w), 1, 1, 1);
    assert_fine();
}

static void test_grad__a_tensor_used_twice_gets_both_contributions(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *a = det_mul_scalar(w, 2);
    det_backward(det_sum(det_add(det_mul(a, a), det_add(a, a))));
    assert_content(det_grad(w), 2 * 2 * 2 + 4, 2 * 2 * 4 + 4, 2 * 2 * 6 + 4);
    assert_fine();
}

static void test_grad__the_same_gradient_sent_to_two_places_is_not_shared(void **state)
{
    (void)state;
    det_tensor *u = leaf(1, 1, 1), *v = leaf(1, 1, 1), *s = det_add(u, v);
    det_backward(det_sum(det_add(s, det_mul_scalar(u, 3))));
    assert_content(det_grad(u), 4, 4, 4);
    assert_content(det_grad(v), 1, 1, 1);
    assert_fine();
}

static void test_grad__a_second_backward_needs_retain_graph(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *loss = det_sum(det_square(w));
    det_backward(loss, .retain_graph = true);
    det_backward(loss);
    assert_content(det_grad(w), 4, 8, 12);
    det_backward(loss);
    assert_raised(DET_ESTATE, "retain_graph");
}

static void test_grad__needs_a_single_number_or_a_gradient(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_square(w);
    det_backward(y);
    assert_raised(DET_ESHAPE, "not a single number");
    det_backward(y, .grad = vec(1, 10, 100));
    assert_content(det_grad(w), 2, 40, 600);
    det_backward(det_sum(vec(1, 2, 3)));
    assert_raised(DET_ESTATE, "does not depend on anything");
    assert_fine();
}

static void test_grad__of_a_leaf_by_itself_is_one(void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_scalar(3), true), *v = leaf(1, 2, 3);
    det_backward(det_to(w, DET_F32)); // the same type: w itself
    det_backward(w);
    assert_close(det_item(det_grad(w)), 2);
    det_backward(v, .grad = vec(4, 5, 6));
    assert_content(det_grad(v), 4, 5, 6);
    det_backward(det_sum(det_to(v, DET_F32)));
    assert_content(det_grad(v), 5, 6, 7);
    assert_fine();
}

static void test_grad__given_in_another_type_is_converted(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3);
    det_backward(det_square(w), .grad = det_to(vec(1, 10, 100), DET_F64));
    assert_content(det_grad(w), 2, 40, 600);
    assert_fine();
}

static void test_grad__is_owed_to_what_required_one_when_it_was_used(void **state)
{
    (void)state;
    det_tensor *u = leaf(1, 2, 3), *v = vec(1, 1, 1), *w = leaf(4, 5, 6);
    det_tensor *loss = det_sum(det_mul(det_add(u, v), w));
    det_requires_grad(v, true);
    det_requires_grad(w, false);
    det_backward(loss);
    assert_content(det_grad(u), 4, 5, 6);
    assert_null(det_grad(v));
    assert_null(det_grad(w));
    assert_fine();
}

static void test_grad__off_means_nothing_is_recorded(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3);
    bool old = det_set_grad_enabled(false);
    assert_true(old);
    det_tensor *y = det_square(w);
    det_set_grad_enabled(old);
    assert_false(det_has_requires_grad(y));
    det_tensor *d = det_detach(det_mul_scalar(w, 5));
    det_backward(det_sum(det_mul(d, w)));
    assert_content(det_grad(w), 5, 10, 15);
    assert_fine();
}

static void test_grad__integers_have_none(void **state)
{
    (void)state;
    det_requires_grad(det_zeros(DET_I64, DET_DIMS(2)), true);
    assert_raised(DET_EDTYPE, "i64");
}

// --- views

static void test_view__shares_memory(void **state)
{
    (void)state;
    det_tensor *x = det_arange(DET_F32, 0, 6, 1), *m = det_view(x, DET_DIMS(2, 3));
    det_fill_(det_select(m, 0, 1), 9);
    const float *v = det_data_f32(x);
    assert_close(v[2], 2);
    assert_close(v[3], 9);
    det_tensor *t = det_transpose(m, 0, 1);
    assert_null(det_view(t, DET_DIMS(6)));
    assert_raised(DET_ESHAPE, "cannot be seen");
    assert_int_equal(det_numel(det_reshape(t, DET_DIMS(6))), 6);
    assert_fine();
}

static void test_view__dims_out_of_range_are_named(void **state)
{
    (void)state;
    det_tensor *x = det_zeros(DET_F32, DET_DIMS(2, 3));
    assert_null(det_transpose(x, 0, 2));
    assert_raised(DET_ESHAPE, "transpose: dim 2 of (2, 3) is not in -2 .. 1");
    assert_null(det_reshape(x, DET_DIMS(4, -1)));
    assert_raised(DET_ESHAPE, "reshape: (2, 3) has 6 elements");
    assert_null(det_reshape(x, DET_DIMS(-1, -1)));
    assert_raised(DET_ESHAPE, "one size may be -1");
    assert_null(det_select(x, 0, 5));
    assert_raised(DET_EINVAL, "select: index 5");
    assert_null(det_expand(x, DET_DIMS(4, 3)));
    assert_raised(DET_ESHAPE, "cannot become");
}

// --- types

static void test_types__promote_as_in_torch(void **state)
{
    (void)state;
    det_tensor *f = det_ones(DET_F32, DET_DIMS(2)), *i = det_ones(DET_I64, DET_DIMS(2));
    det_tensor *u = det_ones(DET_U8, DET_DIMS(2)), *d0 = det_full(DET_F64, DET_SCALAR, 1);
    det_tensor *h = det_ones(DET_BF16, DET_DIMS(2));
    assert_int_equal(det_dtype_of(det_add(f, i)), DET_F32);
    assert_int_equal(det_dtype_of(det_add(u, i)), DET_I64);
    assert_int_equal(det_dtype_of(det_add(f, h)), DET_F32);
    assert_int_equal(det_dtype_of(det_add(f, d0)), DET_F32); // a single number does not widen
    assert_int_equal(det_dtype_of(det_add(i, d0)), DET_F64); // but floats beat integers
    assert_int_equal(det_dtype_of(det_div(i, i)), DET_F32);
    assert_int_equal(det_dtype_of(det_gt(i, i)), DET_BOOL);
    assert_int_equal(det_dtype_of(det_add_scalar(i, 1)), DET_I64);
    assert_int_equal(det_dtype_of(det_add_scalar(i, 0.5)), DET_F32);
    assert_fine();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, settings_teardown)
RUN_TESTS(CASE(test_autocast__says_once_if_it_cannot_be_faster),
          CASE(test_error__the_first_failure_is_kept_and_later_calls_do_nothing),
          CASE(test_error__null_arguments_are_named), CASE(test_error__user_code_can_raise_too),
          CASE(test_error__memory_that_does_not_exist_is_reported_not_fatal),
          CASE(test_scope__a_kept_tensor_outlives_it_without_history),
          CASE(test_scope__an_end_too_many_is_an_error),
          CASE(test_scope__memory_of_a_repeated_step_is_reused),
          CASE(test_grad__accumulates_until_zeroed),
          CASE(test_grad__a_tensor_used_twice_gets_both_contributions),
          CASE(test_grad__the_same_gradient_sent_to_two_places_is_not_shared),
          CASE(test_grad__a_second_backward_needs_retain_graph),
          CASE(test_grad__needs_a_single_number_or_a_gradient),
          CASE(test_grad__of_a_leaf_by_itself_is_one),
          CASE(test_grad__given_in_another_type_is_converted),
          CASE(test_grad__is_owed_to_what_required_one_when_it_was_used),
          CASE(test_grad__off_means_nothing_is_recorded), CASE(test_grad__integers_have_none),
          CASE(test_view__shares_memory), CASE(test_view__dims_out_of_range_are_named),
          CASE(test_types__promote_as_in_torch))
