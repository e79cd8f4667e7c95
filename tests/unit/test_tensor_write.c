// Writing in place: what it does to gradients, what is refused, what it waits for. Random programs
// of writes are compared with torch by tests/parity/write_parity.py.
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

// Elements 0, 1, 2 of a gradient are these times the factors of the loss.
static void backward_with_factors(det_tensor *t)
{
    det_backward(det_sum(det_mul(t, vec(1, 10, 100))));
}

// --- history

static void test_write__into_a_plain_tensor_gives_it_the_history_of_the_source(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(4, 5, 6), *y = vec(0, 0, 0);
    det_copy_(y, det_mul_scalar(w, 2));
    det_add_(x, w, 3);
    assert_values(y, 2, 4, 6);
    assert_values(x, 7, 11, 15);
    assert_true(det_has_requires_grad(x));
    backward_with_factors(det_add(x, y));
    assert_values(det_grad(w), 5, 50, 500);
    assert_fine();
}

static void test_write__into_a_view_gives_its_base_the_history(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(4, 5, 6);
    det_copy_(det_slice(x, 0, 0, 2, 1), det_slice(w, 0, 1, 3, 1));
    det_add_(det_select(x, 0, 2), det_select(w, 0, 0), 2);
    assert_values(x, 2, 3, 8);
    backward_with_factors(x);
    assert_values(det_grad(w), 200, 1, 10);
    assert_fine();
}

static void test_write__into_a_base_is_seen_by_the_views_made_before(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(0, 0, 0);
    det_tensor *column = det_view(x, DET_DIMS(3, 1)), *part = det_slice(column, 0, 1, 3, 1);
    det_copy_(x, w);
    assert_true(det_has_requires_grad(part));
    det_backward(det_sum(part));
    assert_values(det_grad(w), 0, 1, 1);
    assert_fine();
}

static void test_write__into_a_view_is_seen_by_the_other_views(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2);
    det_tensor *first = det_slice(y, 0, 0, 2, 1), *last = det_slice(y, 0, 1, 3, 1);
    det_mul_(first, 10);
    det_backward(det_sum(last));
    assert_values(det_grad(w), 0, 20, 2);
    assert_fine();
}

static void test_write__into_the_pieces_of_a_split_is_fine(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *piece[3];
    assert_int_equal(det_split(y, 1, 0, piece, 3), 3);
    det_mul_(piece[1], 10);
    det_fill_(piece[2], 7);
    assert_values(y, 2, 40, 7);
    det_backward(det_sum(y));
    assert_values(det_grad(w), 2, 20, 0);
    assert_fine();
}

static void test_write__into_a_result_changes_its_gradient(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2);
    det_mul_(y, 3);
    det_add_(y, w, 0.5);
    assert_values(y, 6.5, 13, 19.5);
    backward_with_factors(y);
    assert_values(det_grad(w), 6.5, 65, 650);
    assert_fine();
}

static void test_write__what_is_overwritten_gets_a_gradient_of_zero(void **state)
{
    (void)state;
    det_tensor *u = leaf(1, 2, 3), *v = leaf(4, 5, 6), *w = leaf(7, 8, 9);
    det_tensor *a = det_mul_scalar(u, 2), *b = det_mul_scalar(v, 2), *c = det_mul_scalar(w, 2);
    det_fill_(a, 1);
    det_copy_(det_slice(b, 0, 0, 2, 1), det_zeros(DET_F32, DET_DIMS(2)));
    det_write(c, (float[]){1, 2, 3});
    det_backward(det_sum(det_add(det_add(a, b), c)));
    assert_values(det_grad(u), 0, 0, 0);
    assert_values(det_grad(v), 0, 0, 2);
    assert_values(det_grad(w), 0, 0, 0);
    assert_fine();
}

static void test_write__an_infinite_gradient_of_what_is_overwritten_is_gone(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2);
    det_fill_(det_select(y, 0, 0), 0);
    det_backward(det_sum(det_div(y, vec(0, 1, 1))));
    assert_values(det_grad(w), 0, 2, 2);
    assert_fine();
}

static void test_write__from_the_tensor_itself_counts_twice(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2);
    det_add_(y, y, 1);
    assert_values(y, 4, 8, 12);
    det_copy_(det_select(y, 0, 0), det_select(y, 0, 2));
    assert_values(y, 12, 8, 12);
    det_backward(det_sum(y));
    assert_values(det_grad(w), 0, 4, 8);
    assert_fine();
}

static void test_write__reads_a_source_that_shares_memory_first(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3);
    det_copy_(det_slice(x, 0, 1, 3, 1), det_slice(x, 0, 0, 2, 1));
    assert_values(x, 1, 1, 2);
    det_add_(x, det_select(x, 0, 2), 1);
    assert_values(x, 3, 3, 4);
    assert_fine();
}

static void test_write__uses_from_before_keep_their_gradient(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *x = vec(1, 1, 1);
    det_tensor *before = det_add(det_mul_scalar(y, 3), x), *first = det_select(y, 0, 0);
    det_tensor *early = det_mul_scalar(first, 100);
    det_mul_(y, 5);
    det_copy_(x, y); // x was a constant when `before` was made
    det_backward(det_sum(before), .retain_graph = true);
    assert_values(det_grad(w), 6, 6, 6);
    det_zero_grad(w);
    det_backward(det_add(det_sum(x), early));
    assert_values(det_grad(w), 10 + 200, 10, 10);
    assert_fine();
}

static void test_write__broadcasts_and_converts_with_the_gradient(void **state)
{
    (void)state;
    det_tensor *w = det_requires_grad(det_full(DET_F64, DET_DIMS(1), 3), true), *x = vec(1, 2, 3);
    det_copy_(x, w);
    assert_values(x, 3, 3, 3);
    backward_with_factors(x);
    assert_int_equal(det_dtype_of(det_grad(w)), DET_F64);
    assert_close(det_item(det_grad(w)), 111);
    assert_fine();
}

static void test_write__a_buffer_filled_row_by_row_passes_every_gradient_on(void **state)
{
    (void)state;
    enum { N = 50 };
    det_tensor *w = leaf(1, 2, 3), *rows = det_zeros(DET_F32, DET_DIMS(N, 3)), *h = w;
    for (int i = 0; i < N; i++) {
        h = det_mul_scalar(h, 0.5);
        det_copy_(det_select(rows, 0, i), h);
    }
    det_backward(det_sum(rows));
    assert_values(det_grad(w), 1, 1, 1); // 1/2 + 1/4 + ...
    assert_fine();
}

static void test_write__into_a_detached_tensor_leaves_the_history_of_the_other(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *d = det_detach(y);
    det_copy_(d, det_mul_scalar(w, 7));
    assert_values(y, 7, 14, 21); // the same memory
    det_backward(det_sum(y));
    assert_values(det_grad(w), 2, 2, 2);
    det_backward(det_sum(d));
    assert_values(det_grad(w), 9, 9, 9);
    assert_fine();
}

static void test_write__with_gradients_off_is_not_recorded(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(1, 1, 1), *y = det_mul_scalar(w, 2);
    det_set_grad_enabled(false);
    det_fill_(w, 7);
    det_mul_(det_slice(w, 0, 0, 1, 1), 2);
    det_copy_(x, w);
    det_mul_(y, 10);
    det_set_grad_enabled(true);
    assert_values(w, 14, 7, 7);
    assert_values(y, 20, 40, 60);
    assert_false(det_has_requires_grad(x));
    det_backward(det_sum(y));
    assert_values(det_grad(w), 2, 2, 2);
    assert_fine();
}

// --- refusals

static void test_write__into_a_leaf_with_gradient_or_a_view_of_it_is_refused(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *view = det_slice(w, 0, 0, 2, 1);
    det_fill_(w, 0);
    assert_raised(DET_ESTATE, "det_fill_: the tensor (3,) is a leaf that requires a gradient");
    det_mul_(view, 0);
    assert_raised(DET_ESTATE, "det_mul_: the tensor (2,) is a view of a leaf");
    det_copy_(det_view(view, DET_DIMS(2, 1)), det_zeros(DET_F32, DET_DIMS(2, 1)));
    assert_raised(DET_ESTATE, "det_copy_: the tensor (2, 1) is a view of a leaf");
    assert_values(w, 1, 2, 3);
}

static void test_write__into_a_view_made_with_gradients_off_is_refused(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(4, 5, 6);
    det_set_grad_enabled(false);
    det_tensor *view = det_view(x, DET_DIMS(3, 1));
    det_set_grad_enabled(true);
    det_tensor *part = det_select(view, 1, 0);
    det_copy_(part, w);
    assert_raised(DET_ESTATE, "is a view made while gradients were off");
    det_fill_(part, 1); // nothing to differentiate
    assert_values(x, 1, 1, 1);
    det_copy_(x, w);
    assert_null(det_sum(part));
    assert_raised(DET_ESTATE, "something with a gradient was written into the tensor");
    det_set_grad_enabled(false);
    assert_close(det_item(det_sum(part)), 6);
    assert_fine();
}

static void test_write__into_elements_that_share_memory_is_refused(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3), *many = det_expand(x, DET_DIMS(2, 3));
    det_mul_(many, 2);
    assert_raised(DET_ESTATE, "det_mul_: elements of the tensor (2, 3) share memory");
    det_add_(many, many, 1);
    assert_raised(DET_ESTATE, "share memory");
    det_copy_(many, det_ones(DET_F32, DET_DIMS(3)));
    assert_raised(DET_ESTATE, "share memory");
    det_write(many, (float[6]){0});
    assert_raised(DET_ESTATE, "share memory");
    assert_values(x, 1, 2, 3);
    det_fill_(many, 4); // one number for all is no contradiction
    assert_values(x, 4, 4, 4);
    det_mul_(det_select(many, 0, 1), 2);
    assert_values(x, 8, 8, 8);
    assert_fine();
}

static void test_write__of_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    det_tensor *x = vec(1, 2, 3);
    det_copy_(x, det_ones(DET_F32, DET_DIMS(4)));
    assert_raised(DET_ESHAPE, "det_copy_: (4,) does not broadcast to (3,)");
    det_add_(x, NULL, 1);
    assert_raised(DET_EINVAL, "det_add_: the source is NULL");
    det_write(x, NULL);
    assert_raised(DET_EINVAL, "det_write: data is NULL");
    assert_values(x, 1, 2, 3);
}

static void test_write__integers_take_integers_only_and_have_no_history(void **state)
{
    (void)state;
    det_tensor *w = leaf(1.5, 2.5, 3.5), *i = det_arange(DET_I64, 0, 3, 1);
    det_add_(i, w, 1);
    assert_raised(DET_EDTYPE, "the result is f32 and does not fit a tensor of type i64");
    det_add_(i, i, 0.5);
    assert_raised(DET_EDTYPE, "the result is f32");
    det_mul_(i, 0.5);
    assert_raised(DET_EDTYPE, "det_mul_: the result is f32");
    det_mul_(i, 3);
    det_add_(i, i, 1);
    const int64_t *v = det_data_i64(i);
    assert_int_equal(v[2], 12);
    det_copy_(i, w); // as a conversion
    assert_int_equal(det_data_i64(i)[2], 3);
    assert_false(det_has_requires_grad(i));
    det_tensor *yes = det_ones(DET_BOOL, DET_DIMS(2));
    det_add_(yes, yes, 1);
    assert_int_equal(*(const uint8_t *)det_data(yes), 1);
    det_add_(yes, i, 1);
    assert_raised(DET_ESHAPE, "does not broadcast");
    det_add_(yes, det_select(i, 0, 0), 1);
    assert_raised(DET_EDTYPE, "the result is i64 and does not fit a tensor of type bool");
}

static void test_write__sums_are_rounded_once(void **state)
{
    (void)state;
    // just more than half of the way from 1 to the next bf16; as a bf16 it would be half of it
    det_tensor *t = det_to(vec(1, 1, 1), DET_BF16), *x = vec(0x1p-8 + 0x1p-20, 0, 0);
    det_add_(t, x, 1);
    assert_close(det_item(det_select(t, 0, 0)), 1 + 0x1p-7);
    assert_fine();
}

// --- what backward still needs

static void test_write__that_breaks_a_gradient_is_noticed(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(4, 5, 6);
    det_tensor *loss = det_sum(det_mul(w, x)), *e = det_exp(w);
    det_add_(x, vec(1, 1, 1), 1);
    det_backward(loss);
    assert_raised(DET_ESTATE, "mul: input 1 (3,) was changed in place");
    det_mul_(e, 2);
    det_backward(det_sum(e));
    assert_raised(DET_ESTATE, "exp: its result (3,) was changed in place");
    det_tensor *s = det_sin(w);
    det_set_grad_enabled(false);
    det_mul_(w, 2);
    det_set_grad_enabled(true);
    det_backward(det_sum(s));
    assert_raised(DET_ESTATE, "sin: input 0 (3,) was changed in place");
}

static void test_write__that_breaks_nothing_is_fine(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(4, 5, 6);
    det_tensor *loss = det_sum(det_add(w, x)); // the gradient of a sum needs neither
    det_mul_(x, 2);
    det_backward(loss);
    assert_values(det_grad(w), 1, 1, 1);
    assert_values(x, 8, 10, 12);
    assert_fine();
}

static void test_write__into_an_operand_that_only_the_others_gradient_needs_is_fine(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *c = vec(4, 5, 6);
    det_tensor *loss = det_sum(det_add(det_mul(y, c), det_div(y, c)));
    det_mul_(y, 10); // c has no gradient, so nobody needs y
    det_backward(loss);
    assert_values(det_grad(w), 8.5, 10.4, 12 + 1 / 3.);
    det_tensor *big = det_maximum(w, det_mul_scalar(w, -1));
    det_mul_(big, 3);
    det_zero_grad(w);
    det_backward(det_sum(big));
    assert_values(det_grad(w), 3, 3, 3);
    assert_fine();
}

static void test_write__a_refused_backward_leaves_nothing_for_the_next_one(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *x = vec(1, 1, 1);
    det_tensor *bad = det_mul(y, x), *loss = det_sum(det_add(bad, y));
    det_mul_(x, 2);
    det_backward(loss);
    assert_raised(DET_ESTATE, "changed in place");
    det_zero_grad(w);
    det_backward(det_sum(y));
    assert_values(det_grad(w), 2, 2, 2);
    assert_fine();
}

// --- scopes

static void test_write__history_from_a_scope_ends_with_it(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *x = vec(0, 0, 0), *part = det_slice(x, 0, 0, 2, 1);
    for (int step = 1; step <= 3; step++) {
        det_scope_begin();
        det_copy_(part, det_slice(det_mul_scalar(w, step), 0, 1, 3, 1));
        det_tensor *view = det_view(x, DET_DIMS(3, 1));
        det_backward(det_sum(view));
        assert_values(det_grad(w), 0, step, step);
        det_zero_grad(w);
        det_scope_end();
        assert_false(det_has_requires_grad(x));
        assert_false(det_has_requires_grad(part));
    }
    assert_values(x, 6, 9, 0);
    det_backward(det_sum(det_mul(w, x)));
    assert_values(det_grad(w), 6, 9, 0);
    assert_fine();
}

static void test_write__a_result_of_an_outer_scope_loses_its_history_with_the_inner_one(
    void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3), *y = det_mul_scalar(w, 2), *used = det_select(y, 0, 0);
    det_tensor *view = det_slice(y, 0, 0, 2, 1), *before = det_sum(y);
    det_scope_begin();
    det_mul_(y, 3);
    assert_true(det_has_requires_grad(used));
    det_scope_end();
    assert_values(y, 6, 12, 18);
    assert_false(det_has_requires_grad(y));
    assert_false(det_has_requires_grad(used));
    assert_false(det_has_requires_grad(view)); // it was not used in that scope
    det_backward(det_sum(det_mul(w, y)));
    assert_values(det_grad(w), 6, 12, 18);
    det_zero_grad(w);
    det_backward(before);
    assert_values(det_grad(w), 2, 2, 2);
    assert_fine();
}

static void test_write__a_kept_tensor_outlives_its_scope_without_history(void **state)
{
    (void)state;
    det_tensor *w = leaf(1, 2, 3);
    det_scope_begin();
    det_tensor *x = det_ref(vec(0, 0, 0)), *part = det_ref(det_select(x, 0, 1));
    det_copy_(part, det_select(w, 0, 2));
    det_add_(x, w, 1);
    det_scope_end();
    assert_values(x, 1, 5, 3);
    assert_close(det_item(part), 5);
    assert_false(det_has_requires_grad(x));
    assert_false(det_has_requires_grad(part));
    det_copy_(part, det_select(w, 0, 0)); // no longer known to be a part of x
    assert_false(det_has_requires_grad(x));
    assert_values(x, 1, 1, 3);
    det_unref(x);
    det_unref(part);
    assert_fine();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, settings_teardown)
RUN_TESTS(CASE(test_write__into_a_plain_tensor_gives_it_the_history_of_the_source),
          CASE(test_write__into_a_view_gives_its_base_the_history),
          CASE(test_write__into_a_base_is_seen_by_the_views_made_before),
          CASE(test_write__into_a_view_is_seen_by_the_other_views),
          CASE(test_write__into_the_pieces_of_a_split_is_fine),
          CASE(test_write__into_a_result_changes_its_gradient),
          CASE(test_write__what_is_overwritten_gets_a_gradient_of_zero),
          CASE(test_write__an_infinite_gradient_of_what_is_overwritten_is_gone),
          CASE(test_write__from_the_tensor_itself_counts_twice),
          CASE(test_write__reads_a_source_that_shares_memory_first),
          CASE(test_write__uses_from_before_keep_their_gradient),
          CASE(test_write__broadcasts_and_converts_with_the_gradient),
          CASE(test_write__a_buffer_filled_row_by_row_passes_every_gradient_on),
          CASE(test_write__into_a_detached_tensor_leaves_the_history_of_the_other),
          CASE(test_write__with_gradients_off_is_not_recorded),
          CASE(test_write__into_a_leaf_with_gradient_or_a_view_of_it_is_refused),
          CASE(test_write__into_a_view_made_with_gradients_off_is_refused),
          CASE(test_write__into_elements_that_share_memory_is_refused),
          CASE(test_write__of_what_does_not_fit_is_refused),
          CASE(test_write__integers_take_integers_only_and_have_no_history),
          CASE(test_write__sums_are_rounded_once),
          CASE(test_write__that_breaks_a_gradient_is_noticed),
          CASE(test_write__that_breaks_nothing_is_fine),
          CASE(test_write__into_an_operand_that_only_the_others_gradient_needs_is_fine),
          CASE(test_write__a_refused_backward_leaves_nothing_for_the_next_one),
          CASE(test_write__history_from_a_scope_ends_with_it),
          CASE(test_write__a_result_of_an_outer_scope_loses_its_history_with_the_inner_one),
          CASE(test_write__a_kept_tensor_outlives_its_scope_without_history))
