// Attention and recurrent layers: dropout, long sequences, layout, mixed precision, threads. Values
// and gradients are compared with torch by tests/parity.
#include "support/tensors.h"

static int settings_teardown(void **state)
{
    det_set_grad_enabled(true);
    det_set_autocast(false);
    det_set_threads(2);
    return scope_teardown(state);
}

static det_tensor *leaf(const int64_t *shape, int ndim)
{
    bool old = det_set_grad_enabled(false);
    det_tensor *t = det_randn(DET_F32, shape, ndim);
    det_set_grad_enabled(old);
    return det_requires_grad(t, true);
}

static void assert_alike(det_tensor *a, det_tensor *b, double tolerance)
{
    const double *va = det_data(det_to(a, DET_F64)), *vb = det_data(det_to(b, DET_F64));
    assert_non_null(va);
    assert_non_null(vb);
    for (int64_t i = 0; i < det_numel(a); i++)
        if (!(fabs(va[i] - vb[i]) < tolerance)) fail_msg("%d: %g, %g", (int)i, va[i], vb[i]);
}

static void assert_same(det_tensor *a, det_tensor *b)
{
    const void *va = det_data(a), *vb = det_data(b);
    assert_non_null(va);
    assert_non_null(vb);
    assert_memory_equal(va, vb, (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a)));
}

// --- attention

// With equal scores and the identity as v the result is the matrix of weights itself.
static void test_attention__drops_weights_and_drops_the_same_ones_in_backward(void **state)
{
    (void)state;
    enum { N = 70 };
    for (int type = 0; type < 3; type++) {
        static const det_dtype types[] = {DET_F32, DET_F64, DET_BF16};
        det_tensor *q = det_zeros(types[type], DET_DIMS(N, 4));
        det_tensor *v = det_requires_grad(det_eye(types[type], N), true);
        det_tensor *y = det_attention(q, q, v, .dropout = 0.3);
        det_backward(y, .grad = det_eye(types[type], N));
        det_tensor *again = det_attention(q, q, v, .dropout = 0.3);
        const double *w = det_data(det_to(y, DET_F64)), *other = det_data(det_to(again, DET_F64));
        const double *g = det_data(det_to(det_grad(v), DET_F64));
        assert_non_null(g);
        int dropped = 0, differ = 0;
        for (int i = 0; i < N * N; i++) {
            dropped += w[i] == 0;
            differ += w[i] != other[i];
            if (w[i] != 0) assert_true(fabs(w[i] - 1 / (0.7 * N)) < 1e-4);
            assert_true(fabs(g[i % N * N + i / N] - w[i]) < 1e-6);
        }
        assert_in_range(dropped, (int)(0.26 * N * N), (int)(0.34 * N * N));
        assert_true(differ > N * N / 4); // every call draws anew
    }
    assert_fine();
}

static void test_attention__long_sequences_agree_with_f64(void **state)
{
    (void)state;
    det_tensor *in[2][3], *y[2], *g = det_randn(DET_F64, DET_DIMS(1, 150, 9));
    for (int i = 0; i < 3; i++) {
        in[0][i] = leaf(DET_DIMS(1, i ? 4500 : 150, i < 2 ? 12 : 9));
        det_set_grad_enabled(false);
        det_tensor *copy = det_to(in[0][i], DET_F64);
        det_set_grad_enabled(true);
        in[1][i] = det_requires_grad(copy, true);
    }
    for (int k = 0; k < 2; k++) {
        y[k] = det_attention(in[k][0], in[k][1], in[k][2]);
        det_backward(y[k], .grad = det_to(g, k ? DET_F64 : DET_F32));
    }
    assert_alike(y[0], y[1], 1e-5);
    for (int i = 0; i < 3; i++)
        assert_alike(det_grad(in[0][i]), det_grad(in[1][i]), 1e-4);
    assert_fine();
}

static void test_attention__heads_cut_from_one_tensor_come_back_side_by_side(void **state)
{
    (void)state;
    det_tensor *qkv = leaf(DET_DIMS(2, 10, 3 * 4 * 8)), *part[3];
    assert_int_equal(det_split(qkv, 32, 2, part, 3), 3);
    for (int i = 0; i < 3; i++)
        part[i] = det_transpose(det_reshape(part[i], DET_DIMS(2, 10, 4, 8)), 1, 2);
    det_tensor *y = det_transpose(det_attention(part[0], part[1], part[2]), 1, 2);
    assert_true(det_is_contiguous(y)); // so (B, T, C) is a view of it
    assert_non_null(det_view(y, DET_DIMS(2, 10, 32)));
    assert_fine();
}

static void test_attention__batches_broadcast(void **state)
{
    (void)state;
    det_tensor *q = leaf(DET_DIMS(2, 3, 5, 4)), *k = leaf(DET_DIMS(3, 6, 4)),
               *v = leaf(DET_DIMS(1, 6, 4));
    det_tensor *y = det_attention(q, k, v);
    det_tensor *full = det_expand(k, DET_DIMS(2, 3, 6, 4)),
               *w = det_expand(v, DET_DIMS(2, 3, 6, 4));
    assert_alike(y, det_attention(q, full, w), 1e-6);
    det_backward(det_sum(y));
    assert_int_equal(det_size(det_grad(v), 0), 1);
    assert_fine();
    assert_null(det_attention(q, leaf(DET_DIMS(2, 6, 4)), v));
    det_check(NULL);
    assert_null(det_attention(q, k, leaf(DET_DIMS(3, 7, 4))));
    assert_raised(DET_ESHAPE,
                  "attention: q (2, 3, 5, 4), k (2, 3, 6, 4), v (2, 3, 7, 4) do not fit");
}

static void test_attention__gives_bf16_under_autocast(void **state)
{
    (void)state;
    det_tensor *q = leaf(DET_DIMS(2, 40, 16)), *f32 = det_attention(q, q, q);
    det_set_autocast(true);
    det_tensor *y = det_attention(q, q, q);
    det_set_autocast(false);
    assert_int_equal(det_dtype_of(y), DET_BF16);
    assert_alike(y, f32, 3e-2);
    det_backward(det_sum(y));
    assert_int_equal(det_dtype_of(det_grad(q)), DET_F32);
    assert_fine();
}

static void test_attention__over_no_keys_is_zero(void **state)
{
    (void)state;
    det_tensor *q = leaf(DET_DIMS(2, 3)), *none = leaf(DET_DIMS(0, 3));
    det_tensor *y = det_attention(q, none, none);
    assert_alike(y, det_zeros(DET_F32, DET_DIMS(2, 3)), 1e-9);
    det_backward(det_sum(y));
    assert_alike(det_grad(q), det_zeros(DET_F32, DET_DIMS(2, 3)), 1e-9);
    assert_fine();
}

struct call {
    det_tensor *q, *k, *v, *mask, *y;
};

static det_tensor *leaf_of(det_dtype dtype, det_tensor *t)
{
    return det_requires_grad(det_to(det_detach(det_clone(t)), dtype), true);
}

static struct call attend(det_dtype dtype, det_tensor *q, det_tensor *kv, det_tensor *mask)
{
    struct call c = {leaf_of(dtype, q), leaf_of(dtype, kv), leaf_of(dtype, kv), mask, NULL};
    c.y = det_attention(c.q, c.k, c.v, .mask = mask);
    det_backward(c.y, .grad = det_ones(dtype, det_shape(c.y), det_ndim(c.y)));
    assert_fine();
    return c;
}

// Everything is as if the query were not there, but its own result, which is NaN.
static void test_attention__a_query_that_sees_no_key_passes_no_gradient(void **state)
{
    (void)state;
    enum { QUERIES = 3, KEYS = 21, D = 4 };
    static const det_dtype types[] = {DET_F32, DET_F64, DET_BF16};
    det_tensor *q = leaf(DET_DIMS(QUERIES, D)), *kv = leaf(DET_DIMS(KEYS, D));
    det_tensor *hidden = det_zeros(DET_F32, DET_DIMS(QUERIES, KEYS));
    det_fill_(det_select(hidden, 0, QUERIES - 1), -INFINITY);
    for (size_t i = 0; i < N_OF(types); i++) {
        det_tensor *masks[] = {det_eq_scalar(hidden, 0), leaf_of(types[i], hidden)};
        struct call others = attend(types[i], det_slice(q, 0, 0, QUERIES - 1, 1), kv, NULL);
        for (size_t m = 0; m < N_OF(masks); m++) {
            struct call c = attend(types[i], q, kv, masks[m]);
            assert_true(isnan(det_item(det_select(det_select(c.y, 0, QUERIES - 1), 0, 0))));
            assert_alike(det_grad(c.k), det_grad(others.k), 1e-6);
            assert_alike(det_grad(c.v), det_grad(others.v), 1e-6);
            assert_alike(det_slice(det_grad(c.q), 0, 0, QUERIES - 1, 1), det_grad(others.q), 1e-6);
            assert_alike(det_select(det_grad(c.q), 0, QUERIES - 1), det_zeros(DET_F32, DET_DIMS(D)),
                         1e-9);
        }
        assert_alike(det_select(det_grad(masks[1]), 0, QUERIES - 1),
                     det_zeros(DET_F32, DET_DIMS(KEYS)), 1e-9);
    }
    assert_fine();
}

// A NaN among hidden keys is no hidden key.
static void test_attention__a_query_of_nan_has_a_gradient_of_nan(void **state)
{
    (void)state;
    static const det_dtype types[] = {DET_F32, DET_F64};
    det_tensor *q = det_full(DET_F32, DET_DIMS(1, 2), NAN), *kv = leaf(DET_DIMS(18, 2));
    for (int64_t seen = 0; seen < 18; seen++) {
        det_tensor *mask = det_eq_scalar(det_arange(DET_I64, 0, 18, 1), (double)seen);
        for (size_t i = 0; i < N_OF(types); i++) {
            struct call c = attend(types[i], q, kv, mask);
            assert_true(isnan(det_item(det_select(det_select(det_grad(c.q), 0, 0), 0, 0))));
        }
    }
}

// --- recurrent layers

static det_rnn_weights weights(int64_t gates, int64_t in, int64_t hidden)
{
    det_set_grad_enabled(false);
    det_rnn_weights w = {
        .w_ih = det_mul_scalar(det_randn(DET_F32, DET_DIMS(gates * hidden, in)), 0.2),
        .w_hh = det_mul_scalar(det_randn(DET_F32, DET_DIMS(gates * hidden, hidden)), 0.2),
        .b_ih = det_randn(DET_F32, DET_DIMS(gates * hidden)),
        .b_hh = det_randn(DET_F32, DET_DIMS(gates * hidden))};
    det_set_grad_enabled(true);
    det_requires_grad(w.w_ih, true);
    det_requires_grad(w.w_hh, true);
    return w;
}

static void test_lstm__gives_the_same_bits_with_any_number_of_threads(void **state)
{
    (void)state;
    det_tensor *x = leaf(DET_DIMS(6, 50, 20)), *g = det_randn(DET_F32, DET_DIMS(6, 50, 40));
    det_rnn_weights w = weights(4, 20, 40);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        det_tensor *y[2], *gx[2], *gw[2];
        for (int t = 0; t < 2; t++) {
            det_set_threads(1 + 2 * t);
            det_zero_grad(x);
            det_zero_grad(w.w_hh);
            det_set_autocast(bf16);
            y[t] = det_lstm(x, w, NULL, NULL, false, NULL, NULL);
            det_set_autocast(false);
            det_backward(y[t], .grad = g);
            gx[t] = det_clone(det_grad(x));
            gw[t] = det_clone(det_grad(w.w_hh));
        }
        assert_same(y[0], y[1]);
        assert_same(gx[0], gx[1]);
        assert_same(gw[0], gw[1]);
    }
    assert_fine();
}

// torch gives the type of x back for lstm and gru, bf16 for the plain cells.
static void test_rnn__computes_in_bf16_under_autocast(void **state)
{
    (void)state;
    det_tensor *x = leaf(DET_DIMS(9, 21, 13)), *h[2], *c[2];
    det_rnn_weights w = weights(4, 13, 24), plain = weights(1, 13, 24);
    det_tensor *y[2];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        det_set_autocast(bf16);
        y[bf16] = det_lstm(x, w, NULL, NULL, true, &h[bf16], &c[bf16]);
    }
    det_tensor *p = det_rnn_tanh(x, plain, NULL, false, NULL);
    det_tensor *b = det_lstm(det_to(x, DET_BF16), w, NULL, NULL, false, NULL, NULL);
    det_set_autocast(false);
    assert_int_equal(det_dtype_of(y[1]), DET_F32);
    assert_int_equal(det_dtype_of(c[1]), DET_F32);
    assert_int_equal(det_dtype_of(p), DET_BF16);
    assert_int_equal(det_dtype_of(b), DET_BF16);
    assert_alike(y[0], y[1], 3e-2);
    assert_alike(c[0], c[1], 6e-2);
    assert_alike(p, det_rnn_tanh(x, plain, NULL, false, NULL), 6e-2);
    det_backward(det_sum(y[1]));
    assert_int_equal(det_dtype_of(det_grad(w.w_hh)), DET_F32);
    assert_fine();
}

static void test_rnn__last_states_are_the_last_ones_walked(void **state)
{
    (void)state;
    det_tensor *x = leaf(DET_DIMS(4, 3, 5)), *h;
    det_rnn_weights w = weights(3, 5, 6);
    det_tensor *y = det_gru(x, w, NULL, false, &h);
    assert_same(det_contiguous(det_select(y, 0, 3)), h);
    y = det_gru(x, w, NULL, true, &h);
    assert_same(det_contiguous(det_select(y, 0, 0)), h);
    assert_fine();
}

static void test_rnn__shapes_that_do_not_fit_are_named(void **state)
{
    (void)state;
    det_rnn_weights w = weights(4, 5, 6);
    det_tensor *h;
    assert_null(det_lstm(leaf(DET_DIMS(4, 3, 7)), w, NULL, NULL, false, &h, NULL));
    assert_null(h);
    assert_raised(DET_ESHAPE, "lstm: w_ih is (24, 5), wants (24, 7)");
    assert_null(det_gru(leaf(DET_DIMS(4, 3, 5)), w, NULL, false, NULL));
    assert_raised(DET_ESHAPE, "gru: w_hh is (24, 6), wants (3 H, H)");
    assert_null(det_lstm(leaf(DET_DIMS(0, 3, 5)), w, NULL, NULL, false, NULL, NULL));
    assert_raised(DET_ESHAPE, "at least one step");
    assert_null(
        det_lstm(leaf(DET_DIMS(4, 3, 5)), w, leaf(DET_DIMS(2, 6)), NULL, false, NULL, NULL));
    assert_raised(DET_ESHAPE, "h0 is (2, 6), wants (3, 6)");
    assert_int_equal(det_numel(det_lstm(leaf(DET_DIMS(4, 0, 5)), w, NULL, NULL, false, NULL, NULL)),
                     0);
    assert_fine();
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scope_setup, settings_teardown)

RUN_TESTS(CASE(test_attention__drops_weights_and_drops_the_same_ones_in_backward),
          CASE(test_attention__long_sequences_agree_with_f64),
          CASE(test_attention__heads_cut_from_one_tensor_come_back_side_by_side),
          CASE(test_attention__batches_broadcast), CASE(test_attention__gives_bf16_under_autocast),
          CASE(test_attention__over_no_keys_is_zero),
          CASE(test_attention__a_query_that_sees_no_key_passes_no_gradient),
          CASE(test_attention__a_query_of_nan_has_a_gradient_of_nan),
          CASE(test_lstm__gives_the_same_bits_with_any_number_of_threads),
          CASE(test_rnn__computes_in_bf16_under_autocast),
          CASE(test_rnn__last_states_are_the_last_ones_walked),
          CASE(test_rnn__shapes_that_do_not_fit_are_named))
