// What the operation table cannot say about its operations: exactness of long sums, defaults and
// combinations of the public functions.
#include "support/test.h"

#include "det/tensor.h"
#include <math.h>
#include <string.h>

static det_err err;

static int setup(void **state)
{
    (void)state;
    det_scope_begin();
    det_manual_seed(1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    det_check(NULL);
    det_scope_end();
    return 0;
}

static void assert_same(det_tensor *a, det_tensor *b)
{
    const void *va = det_data(a), *vb = det_data(b);
    assert_non_null(va);
    assert_non_null(vb);
    assert_int_equal(det_numel(a), det_numel(b));
    assert_memory_equal(va, vb, (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a)));
}

static void assert_message(int code, const char *part)
{
    assert_int_equal(det_check(&err), code);
    if (!strstr(err.msg, part)) fail_msg("'%s' does not contain '%s'", err.msg, part);
}

// --- sums

static void test_sum__of_many_f32_is_accurate(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(1000, 3000));
    const float *v = det_data_f32(x);
    double exact = 0;
    for (int64_t i = 0; i < det_numel(x); i++)
        exact += v[i];
    double by_rows = det_item(det_sum(det_sum_over(x, DET_DIMS(1), false)));
    double by_columns = det_item(det_sum(det_sum_over(x, DET_DIMS(0), false)));
    assert_true(fabs(det_item(det_sum(x)) / exact - 1) < 1e-6);
    assert_true(fabs(by_rows / exact - 1) < 1e-6);
    assert_true(fabs(by_columns / exact - 1) < 1e-6);
}

static void test_sum__of_a_long_column_or_row_is_accurate(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(400000, 3));
    det_tensor *columns = det_sum_over(x, DET_DIMS(0), false);
    det_tensor *exact = det_sum_over(det_to(x, DET_F64), DET_DIMS(0), false);
    det_tensor *rows = det_sum_over(det_contiguous(det_transpose(x, 0, 1)), DET_DIMS(1), false);
    const float *c = det_data_f32(columns), *r = det_data_f32(rows);
    const double *e = det_data(exact);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(c[i] / e[i] - 1) < 1e-6 && fabs(r[i] / e[i] - 1) < 1e-6);
}

// Squares of distances may be too large or too small for f32 where the result is not.
static void test_std__of_f32_holds_for_any_size_of_the_values(void **state)
{
    (void)state;
    static const float sizes[] = {1e30f, 1, 1e-30f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const float values[] = {sizes[i], 2 * sizes[i], 3 * sizes[i], 4 * sizes[i]};
        for (int columns = 1; columns <= 4; columns += 3) {
            det_tensor *x = det_from(DET_F32, DET_DIMS(4 / columns, columns), values);
            det_requires_grad(x, true);
            det_tensor *y = det_std_over(x, DET_DIMS(columns == 4), 1, false);
            det_backward(det_sum(y));
            assert_true(fabs(det_item(y) / (double)sizes[i] - sqrt(5. / 3)) < 1e-6);
            assert_true(fabs(det_data_f32(det_grad(x))[3] - 0.5 / sqrt(5. / 3)) < 1e-6);
        }
    }
}

static void test_sum__of_integers_is_exact_and_wide(void **state)
{
    (void)state;
    det_tensor *bytes = det_full(DET_U8, DET_DIMS(100, 1000), 255);
    assert_int_equal(det_dtype_of(det_sum(bytes)), DET_I64);
    assert_int_equal(*det_data_i64(det_sum(bytes)), 25500000);
    det_tensor *big = det_full(DET_I64, DET_DIMS(3), 0x1p62);
    int64_t wrapped = *det_data_i64(det_sum(big));
    assert_int_equal(wrapped, (int64_t)(3 * (1ull << 62)));
    assert_int_equal(det_dtype_of(det_max(bytes)), DET_U8);
    assert_null(det_mean(bytes));
    assert_message(DET_EDTYPE, "mean: input is u8, wants floats");
}

static void test_reductions__name_what_is_wrong_with_dims(void **state)
{
    (void)state;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(2, 3));
    assert_null(det_sum_over(x, DET_DIMS(2), false));
    assert_message(DET_ESHAPE, "sum: dim 2 is not in -2 .. 1");
    assert_null(det_mean_over(x, DET_DIMS(1, -1), false));
    assert_message(DET_ESHAPE, "mean: dim 1 is named twice");
    assert_null(det_sum_over(x, NULL, 3, false));
    assert_message(DET_ESHAPE, "sum: 3 dims");
    assert_null(det_max(det_ones(DET_F32, DET_DIMS(0, 3))));
    assert_message(DET_ESHAPE, "max: no elements to choose from in dim 0 of (0, 3)");
    assert_null(det_max_over(det_ones(DET_I64, DET_DIMS(0, 0)), DET_DIMS(1), false));
    assert_message(DET_ESHAPE, "max: no elements to choose from in dim 1 of (0, 0)");
}

// --- softmax

static void test_softmax__is_exact_for_large_inputs(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_F32, DET_DIMS(3), (float[]){10000, 10001, 9000});
    const float *p = det_data_f32(det_softmax(x, 0)), *l = det_data_f32(det_log_softmax(x, 0));
    assert_true(fabs(p[0] - 0.268941) < 1e-6 && fabs(p[1] - 0.731059) < 1e-6 && p[2] == 0);
    assert_true(fabs(l[0] + 1.313262) < 1e-5 && fabs(l[1] + 0.313262) < 1e-6);
    assert_true(fabs(l[2] + 1001.313262) < 1e-3);
}

// --- choosing

static void test_topk__takes_the_first_of_equal_elements(void **state)
{
    (void)state;
    det_tensor *x = det_from(DET_F32, DET_DIMS(7), (float[]){1, 3, 2, 3, 3, 0, 2}), *at;
    const float *v = det_data_f32(det_topk(x, 3, 0, true, &at));
    const int64_t *i = det_data_i64(at);
    assert_true(v[0] == 3 && v[1] == 3 && v[2] == 3);
    assert_true(i[0] == 1 && i[1] == 3 && i[2] == 4);
    assert_null(det_topk(x, 8, 0, true, NULL));
    assert_message(DET_EINVAL, "topk: 8 elements of dim 0 of (7,)");
}

static void test_sort__backward_is_not_confused_by_writes_into_its_indices(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_from(DET_F32, DET_DIMS(3), (float[]){3, 1, 2}), true),
               *at;
    det_tensor *y = det_sort(x, 0, false, &at);
    det_fill_(at, 1e9);
    det_backward(det_sum(det_mul(y, det_from(DET_F32, DET_DIMS(3), (float[]){10, 20, 30}))));
    const float *g = det_data_f32(det_grad(x));
    assert_true(g[0] == 30 && g[1] == 10 && g[2] == 20);
}

// --- joining

static void test_stack__makes_a_new_dim(void **state)
{
    (void)state;
    det_tensor *a = det_requires_grad(det_from(DET_F32, DET_DIMS(2), (float[]){1, 2}), true);
    det_tensor *b = det_from(DET_F32, DET_DIMS(2), (float[]){3, 4});
    const float rows[] = {1, 2, 3, 4}, columns[] = {1, 3, 2, 4};
    det_tensor *const both[] = {a, b};
    det_tensor *last = det_stack(both, 2, -1);
    assert_memory_equal(det_data_f32(det_stack(both, 2, 0)), rows, sizeof rows);
    assert_memory_equal(det_data_f32(last), columns, sizeof columns);
    det_backward(det_sum(det_mul(last, last)));
    const float *g = det_data_f32(det_grad(a));
    assert_true(g[0] == 2 && g[1] == 4);
    det_tensor *const uneven[] = {a, det_ones(DET_F32, DET_DIMS(3))};
    assert_null(det_stack(uneven, 2, 0));
    assert_message(DET_ESHAPE, "stack: input 1 is (3,), input 0 (2,)");
    assert_null(det_stack(NULL, 0, 0));
    assert_message(DET_EINVAL, "stack: 0 tensors");
}

static void test_concat__takes_any_number_of_tensors(void **state)
{
    (void)state;
    enum { N = 1000 };
    det_tensor *parts[N];
    for (int i = 0; i < N; i++)
        parts[i] = det_requires_grad(det_full(DET_F32, DET_DIMS(1, 2), i), true);
    det_tensor *all = det_concat(parts, N, 0);
    const float *v = det_data_f32(all);
    assert_int_equal(det_size(all, 0), N);
    for (int i = 0; i < N; i++)
        assert_true(v[2 * i] == (float)i && v[2 * i + 1] == (float)i);
    det_backward(det_sum(det_mul(all, all)));
    for (int i = 0; i < N; i++)
        assert_true(det_data_f32(det_grad(parts[i]))[1] == (float)(2 * i));
}

// --- by index

static void test_one_hot__can_count_the_classes_itself(void **state)
{
    (void)state;
    det_tensor *t = det_one_hot(det_from(DET_I64, DET_DIMS(2), (int64_t[]){0, 2}), -1);
    const int64_t expected[] = {1, 0, 0, 0, 0, 1};
    assert_int_equal(det_size(t, 1), 3);
    assert_memory_equal(det_data_i64(t), expected, sizeof expected);
    assert_null(det_one_hot(det_zeros(DET_I64, DET_DIMS(0)), -1));
    assert_message(DET_EINVAL, "one_hot: n_classes is -1");
}

static void test_indices__out_of_range_are_named(void **state)
{
    (void)state;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(3, 4));
    det_tensor *bad = det_from(DET_I64, DET_DIMS(2), (int64_t[]){1, 3});
    assert_null(det_index_select(x, 0, bad));
    assert_message(DET_EINVAL, "index_select: index 1 is 3; there are 3 elements");
    assert_null(det_embedding(bad, x, -1));
    assert_message(DET_EINVAL, "embedding: index 1 is 3; there are 3 elements");
    assert_null(det_gather(x, 0, det_from(DET_I64, DET_DIMS(1, 1), (int64_t[]){-1})));
    assert_message(DET_EINVAL, "gather: index 0 is -1; there are 3 elements");
    assert_null(det_one_hot(bad, 3));
    assert_message(DET_EINVAL, "one_hot: index 1 is 3; there are 3 elements");
    assert_null(det_gather(x, 0, det_zeros(DET_U8, DET_DIMS(1, 1))));
    assert_message(DET_EDTYPE, "gather: index is u8, wants i64 or i32");
}

// Every second element is zero, as behind a ReLU: such products are computed in another way than
// those of a few rows.
static void check_skipping(int64_t k)
{
    enum { M = 320, N = 130, ROWS = 16 };
    det_tensor *a = det_relu(det_randn(DET_F32, DET_DIMS(M, k)));
    det_tensor *b = det_randn(DET_F32, DET_DIMS(k, N)), *bias = det_randn(DET_F32, DET_DIMS(N));
    det_tensor *zeros_left = det_matmul(a, b), *of_rows[M / ROWS], *finished[M / ROWS];
    det_tensor *columns = det_contiguous(det_transpose(a, 0, 1)); // the same a, turned in memory
    det_tensor *turned = det_matmul(det_transpose(columns, 0, 1), b);
    det_tensor *zeros_right = det_matmul(det_transpose(b, 0, 1), det_transpose(a, 0, 1));
    det_tensor *w = det_transpose(b, 0, 1), *layer = det_gelu(det_linear(a, w, bias));
    for (int i = 0; i < M / ROWS; i++) {
        det_tensor *rows = det_slice(a, 0, i * ROWS, (i + 1) * ROWS, 1);
        of_rows[i] = det_matmul(rows, b);
        finished[i] = det_gelu(det_linear(rows, w, bias));
    }
    det_tensor *want = det_concat(of_rows, M / ROWS, 0);
    assert_same(zeros_left, want);
    assert_same(turned, want);
    assert_same(det_contiguous(det_transpose(zeros_right, 0, 1)), want);
    assert_same(layer, det_concat(finished, M / ROWS, 0));
}

static void test_matmul__has_the_same_bits_whether_zeros_are_skipped_or_not(void **state)
{
    (void)state;
    check_skipping(150);
    check_skipping(2500); // in several slices
}

static void test_matmul__skips_no_zero_that_meets_infinity(void **state)
{
    (void)state;
    enum { M = 64, K = 128, N = 128 };
    det_tensor *a = det_relu(det_randn(DET_F32, DET_DIMS(M, K)));
    det_tensor *b = det_full(DET_F32, DET_DIMS(K, N), INFINITY);
    const float *y = det_data_f32(det_matmul(a, b));
    assert_non_null(y);
    for (int i = 0; i < M * N; i++)
        assert_true(isnan(y[i])); // 0 * inf
}

// Root of the mean square of a - b, relative to that of b.
static double relative_error(det_tensor *a, det_tensor *b)
{
    det_tensor *d = det_sub(det_to(a, DET_F64), b);
    return sqrt(det_item(det_sum(det_mul(d, d))) / det_item(det_sum(det_mul(b, b))));
}

// Values like those behind a ReLU. A sum of 1000 products in f32, one after the other, is off by
// about 4e-7; faster ways to compute convolutions may not be much worse.
static void test_convolutions__round_about_as_a_plain_sum(void **state)
{
    (void)state;
    static const struct {
        int64_t kernel, size;
        bool pooled;
    } cases[] = {{5, 12, false}, {5, 12, true}, {3, 16, false}, {3, 16, true}};
    det_manual_seed(7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t size = cases[i].size, kernel = cases[i].kernel;
        det_tensor *x = det_relu(det_randn(DET_F32, DET_DIMS(8, 40, size, size)));
        det_tensor *w = det_randn(DET_F32, DET_DIMS(40, 40, kernel, kernel));
        det_tensor *y = det_conv2d(x, w, NULL);
        det_tensor *exact = det_conv2d(det_to(x, DET_F64), det_to(w, DET_F64), NULL);
        if (cases[i].pooled) {
            y = det_relu(det_max_pool2d(y, .kernel = {2, 2}));
            exact = det_relu(det_max_pool2d(exact, .kernel = {2, 2}));
        }
        double error = relative_error(y, exact);
        if (!(error < 7e-7))
            fail_msg("kernel %d, %s: off by %.2g", (int)kernel,
                     cases[i].pooled ? "pooled" : "not pooled", error);
    }
}

static const struct mixed_case {
    int64_t c, oc, kernel, size, stride, padding;
    bool pooled;
} mixed_cases[] = {
    {32, 32, 3, 16, 1, 1, false}, {64, 48, 3, 9, 1, 0, false},  {24, 40, 3, 7, 1, 2, false},
    {3, 16, 3, 16, 1, 1, false},  {32, 16, 3, 16, 2, 1, false}, {40, 24, 1, 9, 1, 0, false},
    {8, 8, 5, 11, 1, 4, false},   {40, 40, 5, 12, 1, 0, true},  {512, 32, 3, 4, 1, 1, false},
};

static det_tensor *rounded(const int64_t *shape, int ndim)
{
    return det_to(det_to(det_randn(DET_F32, shape, ndim), DET_BF16), DET_F32);
}

static det_tensor *convolved(const struct mixed_case *k, det_tensor *const *in)
{
    det_tensor *y = det_conv2d(in[0], in[1], in[2], .stride = {k->stride, k->stride},
                               .padding = {k->padding, k->padding});
    return k->pooled ? det_relu(det_max_pool2d(y, .kernel = {2, 2})) : y;
}

// Only what is bf16 is rounded, results and gradients of images: products and sums are not.
static void test_convolutions__under_autocast_round_results_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mixed_cases / sizeof *mixed_cases; i++) {
        const struct mixed_case *k = &mixed_cases[i];
        det_tensor *in[] = {rounded(DET_DIMS(6, k->c, k->size, k->size)),
                            rounded(DET_DIMS(k->oc, k->c, k->kernel, k->kernel)),
                            rounded(DET_DIMS(k->oc))};
        det_tensor *exact[3];
        for (int j = 0; j < 3; j++) {
            exact[j] = det_to(in[j], DET_F64);
            det_requires_grad(in[j], true);
            det_requires_grad(exact[j], true);
        }
        det_set_autocast(true);
        det_tensor *y = convolved(k, in), *true_y = NULL;
        det_set_autocast(false);
        assert_int_equal(det_dtype_of(y), DET_BF16);
        det_backward(det_sum(det_to(y, DET_F32)));
        true_y = convolved(k, exact);
        det_backward(det_sum(true_y));
        double limits[] = {2.5e-3, 1e-5, 1e-5}, error = relative_error(y, true_y);
        if (!(error < 2.5e-3)) fail_msg("case %d: off by %.2g", (int)i, error);
        for (int j = 0; j < 3; j++)
            if (!((error = relative_error(det_grad(in[j]), det_grad(exact[j]))) < limits[j]))
                fail_msg("case %d: gradient %d off by %.2g", (int)i, j, error);
    }
}

// Gradients of the weights of each kind of convolution, in memory that held something else before.
static void test_convolutions__of_no_images_have_gradients_of_zero(void **state)
{
    (void)state;
    static const struct {
        int64_t c, kernel;
        bool pooled;
    } cases[] = {{3, 5, false}, {32, 3, false}, {40, 1, false}, {40, 5, true}, {1, 5, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        det_tensor *w =
            det_randn(DET_F32, DET_DIMS(32, cases[i].c, cases[i].kernel, cases[i].kernel));
        det_tensor *b = det_randn(DET_F32, DET_DIMS(32));
        det_requires_grad(w, true);
        det_requires_grad(b, true);
        for (int64_t n_images = 2; n_images >= 0; n_images -= 2) {
            det_tensor *x = det_randn(DET_F32, DET_DIMS(n_images, cases[i].c, 12, 12));
            det_tensor *y = det_conv2d(x, w, b);
            if (cases[i].pooled) y = det_relu(det_max_pool2d(y, .kernel = {2, 2}));
            det_zero_grad(w);
            det_zero_grad(b);
            det_backward(det_sum(y));
            double size = det_item(det_norm(det_grad(w), 2)) + det_item(det_norm(det_grad(b), 2));
            assert_int_equal(det_check(NULL), 0);
            assert_true(n_images ? size > 0 : size == 0);
        }
    }
}

// What was merged into pooling can still be looked at, and gradients may come in from there.
static void test_batch_norm__merged_with_relu_and_pooling_keeps_its_value(void **state)
{
    (void)state;
    det_tensor *x = det_requires_grad(det_randn(DET_F32, DET_DIMS(5, 20, 8, 6)), true);
    det_tensor *y = det_relu(det_batch_norm(x, .training = true));
    det_tensor *pooled = det_max_pool2d(y, .kernel = {2, 2});
    det_tensor *merged = det_clone(pooled);
    det_backward(det_add(det_sum(det_mul(pooled, pooled)), det_sum(y)));
    det_tensor *by_merged = det_clone(det_grad(x));
    det_zero_grad(x);
    det_tensor *again = det_relu(det_batch_norm(x, .training = true));
    assert_non_null(det_data_f32(again)); // now it has run on its own
    pooled = det_max_pool2d(again, .kernel = {2, 2});
    det_backward(det_add(det_sum(det_mul(pooled, pooled)), det_sum(again)));
    assert_same(y, again);
    assert_same(merged, pooled);
    assert_true(relative_error(by_merged, det_to(det_grad(x), DET_F64)) < 1e-6);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
RUN_TESTS(TEST(test_sum__of_many_f32_is_accurate),
          TEST(test_sum__of_a_long_column_or_row_is_accurate),
          TEST(test_std__of_f32_holds_for_any_size_of_the_values),
          TEST(test_sum__of_integers_is_exact_and_wide),
          TEST(test_reductions__name_what_is_wrong_with_dims),
          TEST(test_softmax__is_exact_for_large_inputs),
          TEST(test_topk__takes_the_first_of_equal_elements),
          TEST(test_sort__backward_is_not_confused_by_writes_into_its_indices),
          TEST(test_stack__makes_a_new_dim), TEST(test_concat__takes_any_number_of_tensors),
          TEST(test_one_hot__can_count_the_classes_itself),
          TEST(test_indices__out_of_range_are_named),
          TEST(test_matmul__has_the_same_bits_whether_zeros_are_skipped_or_not),
          TEST(test_matmul__skips_no_zero_that_meets_infinity),
          TEST(test_convolutions__round_about_as_a_plain_sum),
          TEST(test_convolutions__under_autocast_round_results_only),
          TEST(test_convolutions__of_no_images_have_gradients_of_zero),
          TEST(test_batch_norm__merged_with_relu_and_pooling_keeps_its_value))
