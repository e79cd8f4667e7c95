// Operations on views: whatever the strides, an operation gives what it gives for a dense copy, and
// reads nothing outside of the view. The views lie in memory of exactly their extent, so that the
// address sanitizer sees a read past the end.
#include "support/tensors.h"

#include "base/rng.h"
#include "tensor/node.h"

enum { N_VIEWS = 300, SMALL = 5, LARGE = 40 }; // large: more than a vector

// --- random views

struct view {
    det_tensor *t;
    float *memory;
};

struct dice {
    uint64_t seed, n;
};

static int64_t roll(struct dice *d, int64_t below)
{
    return (int64_t)(rng_u64(d->seed, 0, d->n++) % (uint64_t)below);
}

// Dims in random order of stride, some with gaps, some expanded, some of size 1 with any stride.
static void random_layout(struct dice *d, struct tensor_layout *l)
{
    int order[DET_MAX_DIMS];
    l->ndim = 2 + (int)roll(d, 4);
    for (int i = 0; i < l->ndim; i++) {
        int at = (int)roll(d, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    bool keep_order = roll(d, 3) > 0;
    int64_t stride = 1;
    for (int i = l->ndim - 1; i >= 0; i--) {
        int dim = keep_order ? i : order[i];
        l->shape[dim] = roll(d, 3) ? 1 + roll(d, roll(d, 6) ? SMALL : LARGE) : 1;
        l->stride[dim] = l->shape[dim] == 1 ? roll(d, 9) : roll(d, 8) ? stride : 0;
        if (l->stride[dim] || l->shape[dim] == 1) stride *= l->shape[dim] + (roll(d, 4) == 0);
    }
}

static struct view random_view(uint64_t seed)
{
    struct dice d = {.seed = seed};
    struct tensor_layout l = {.dtype = DET_F32};
    random_layout(&d, &l);
    int64_t extent = tensor_extent(l.shape, l.stride, l.ndim);
    float *memory = malloc((size_t)extent * sizeof *memory);
    assert_non_null(memory);
    for (int64_t i = 0; i < extent; i++)
        memory[i] = (float)(roll(&d, 2001) - 1000) / 1000;
    struct storage *s = storage_borrow(memory, (size_t)extent * sizeof *memory);
    det_tensor *t = tensor_over(s, &l);
    storage_unref(s);
    return (struct view){t, memory};
}

static void view_done(struct view *v)
{
    det_unref(v->t);
    free(v->memory);
}

// --- operations to try

static det_tensor *some(const int64_t *shape, int ndim)
{
    return det_sub_scalar(det_rand(DET_F32, shape, ndim), 0.5);
}

static det_tensor *by_linear(det_tensor *x)
{
    int64_t n = det_size(x, -1);
    return det_linear(x, some(DET_DIMS(3, n)), some(DET_DIMS(3)));
}

static det_tensor *by_linear_relu(det_tensor *x)
{
    return det_relu(det_linear(x, some(DET_DIMS(4, det_size(x, -1))), NULL));
}

static det_tensor *as_weight(det_tensor *x)
{
    if (det_ndim(x) != 2) return NULL;
    return det_linear(some(DET_DIMS(3, det_size(x, 1))), x, NULL);
}

static det_tensor *matmul_left(det_tensor *x)
{
    return det_matmul(x, some(DET_DIMS(det_size(x, -1), 3)));
}

static det_tensor *matmul_right(det_tensor *x)
{
    return det_matmul(some(DET_DIMS(3, det_size(x, -2))), x);
}

static det_tensor *matmul_self(det_tensor *x)
{
    return det_matmul(x, det_transpose(x, -1, -2));
}

static det_tensor *attention_self(det_tensor *x)
{
    return det_ndim(x) > 2 ? det_attention(x, x, x) : NULL;
}

static det_tensor *sum_first(det_tensor *x)
{
    return det_sum_over(x, DET_DIMS(0), false);
}

static det_tensor *sum_last_two(det_tensor *x)
{
    return det_sum_over(x, DET_DIMS(-1, -2), true);
}

static det_tensor *var_outer(det_tensor *x)
{
    return det_var_over(x, DET_DIMS(0, -1), 0, false);
}

static det_tensor *max_first(det_tensor *x)
{
    return det_max_along(x, 0, false, NULL);
}

static det_tensor *cumsum_first(det_tensor *x)
{
    return det_cumsum(x, 0);
}

static det_tensor *sort_second(det_tensor *x)
{
    return det_sort(x, 1, false, NULL);
}

static det_tensor *softmax_first(det_tensor *x)
{
    return det_softmax(x, 0);
}

static det_tensor *softmax_last(det_tensor *x)
{
    return det_log_softmax(x, -1);
}

static det_tensor *layer_norm_last(det_tensor *x)
{
    return det_layer_norm(x, 1, NULL, NULL, 0);
}

static det_tensor *group_norm_one(det_tensor *x)
{
    return det_group_norm(x, 1, NULL, NULL, 0);
}

static det_tensor *flattened(det_tensor *x)
{
    return det_flatten(x, 0, -1);
}

static det_tensor *front_flattened(det_tensor *x)
{
    return det_flatten(x, 0, -2);
}

static det_tensor *squeezed(det_tensor *x)
{
    return det_squeeze_all(x);
}

static det_tensor *joined(det_tensor *x)
{
    return det_concat((det_tensor *const[]){x, x, x}, 3, 1);
}

static det_tensor *padded(det_tensor *x)
{
    return det_pad(x, DET_DIMS(1, 2, 0, 1), 0.5);
}

static det_tensor *flipped(det_tensor *x)
{
    return det_flip(x, DET_DIMS(0, 1));
}

static det_tensor *selected(det_tensor *x)
{
    return det_index_select(x, 1, det_zeros(DET_I64, DET_DIMS(2)));
}

static det_tensor *multiplied(det_tensor *x)
{
    return det_mul(x, det_transpose(det_transpose(x, 0, 1), 0, 1));
}

static det_tensor *by_loss(det_tensor *x)
{
    return det_mse_loss(x, det_zeros(DET_F32, det_shape(x), det_ndim(x)));
}

static det_tensor *by_conv(det_tensor *x)
{
    if (det_ndim(x) != 4) return NULL;
    return det_conv2d(x, some(DET_DIMS(5, det_size(x, 1), 3, 3)), NULL, .padding = {1, 1});
}

static det_tensor *by_pool(det_tensor *x)
{
    if (det_ndim(x) != 4) return NULL;
    return det_max_pool2d(x, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1});
}

#define FUNCTION(name) \
    {                  \
#name, name    \
    }
static const struct function {
    const char *name;
    det_tensor *(*call)(det_tensor *x); // NULL: not for tensors of that many dims
} functions[] = {
    FUNCTION(by_linear),       FUNCTION(by_linear_relu), FUNCTION(as_weight),
    FUNCTION(matmul_left),     FUNCTION(matmul_right),   FUNCTION(matmul_self),
    FUNCTION(attention_self),  FUNCTION(sum_first),      FUNCTION(sum_last_two),
    FUNCTION(var_outer),       FUNCTION(max_first),      FUNCTION(cumsum_first),
    FUNCTION(sort_second),     FUNCTION(softmax_first),  FUNCTION(softmax_last),
    FUNCTION(layer_norm_last), FUNCTION(group_norm_one), FUNCTION(flattened),
    FUNCTION(front_flattened), FUNCTION(squeezed),       FUNCTION(joined),
    FUNCTION(padded),          FUNCTION(flipped),        FUNCTION(selected),
    FUNCTION(multiplied),      FUNCTION(by_loss),        FUNCTION(by_conv),
    FUNCTION(by_pool),
};

// --- comparing

static void assert_close(const struct function *f, const struct view *v, const char *what,
                         det_tensor *got, det_tensor *expected)
{
    const float *a = det_data_f32(got), *b = det_data_f32(expected);
    if (!a || !b || !same_shape(got, expected)) fail_msg("%s: no %s", f->name, what);
    for (int64_t i = 0; i < det_numel(got); i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i]))))
            fail_msg("%s of %s with strides %s: %s %lld is %g, of a dense copy it is %g", f->name,
                     TENSOR_TEXT(v->t), shape_text(v->t->stride, v->t->ndim), what, (long long)i,
                     (double)a[i], (double)b[i]);
}

// f and the gradient of its sum at x.
static det_tensor *call(const struct function *f, det_tensor *x, det_tensor **grad)
{
    det_manual_seed(7);
    det_tensor *leaf = det_requires_grad(det_detach(x), true), *y = f->call(leaf);
    if (!y) return NULL;
    det_backward(det_sum(det_mul(y, y)));
    *grad = det_grad(leaf);
    return y;
}

static void try_view(const struct view *v)
{
    for (size_t i = 0; i < N_OF(functions); i++) {
        det_tensor *grad_of_view, *grad_of_copy;
        det_scope_begin();
        det_tensor *of_view = call(&functions[i], v->t, &grad_of_view);
        assert_fine();
        if (of_view) {
            det_tensor *copy = det_contiguous(det_clone(v->t));
            det_tensor *of_copy = call(&functions[i], copy, &grad_of_copy);
            assert_close(&functions[i], v, "element", of_view, of_copy);
            assert_close(&functions[i], v, "gradient", grad_of_view, grad_of_copy);
        }
        det_scope_end();
    }
}

static void test_views__give_what_dense_copies_give(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_VIEWS; seed++) {
        struct view v = random_view(seed);
        try_view(&v);
        view_done(&v);
    }
}

// --- linear: rows behind a dim of size 1

// y[i] = sum of row i, by the definition.
static void assert_row_sums(det_tensor *x)
{
    int64_t k = det_size(x, -1), rows = det_numel(x) / k;
    const float *y = det_data_f32(det_linear(x, det_ones(DET_F32, DET_DIMS(1, k)), NULL));
    const float *v = det_data_f32(x);
    assert_non_null(y);
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += v[i * k + j];
        assert_near(y[i], sum, 1e-5);
    }
}

static void test_linear__of_a_slice_behind_a_dim_of_size_1(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(2, 1, 6, 7));
    assert_row_sums(det_slice(x, 2, 1, 4, 1));
    assert_row_sums(det_slice(x, 2, 0, 6, 2));
}

static void test_linear__of_a_slice_that_leaves_a_dim_of_size_1(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(3, 2, 5, 4));
    assert_row_sums(det_slice(x, 1, 0, 2, 2));
    assert_row_sums(det_slice(x, 2, 4, 5, 1));
}

static void test_linear__of_permuted_and_expanded_dims_of_size_1(void **state)
{
    (void)state;
    det_tensor *x = det_rand(DET_F32, DET_DIMS(3, 1, 4, 5));
    assert_row_sums(det_permute(x, DET_DIMS(1, 2, 0, 3)));
    assert_row_sums(det_permute(x, DET_DIMS(2, 1, 0, 3)));
    assert_row_sums(det_expand(x, DET_DIMS(3, 2, 4, 5)));
    assert_row_sums(det_expand(det_slice(x, 2, 0, 1, 1), DET_DIMS(3, 1, 6, 5)));
}

RUN_TESTS(TEST(test_views__give_what_dense_copies_give),
          TEST(test_linear__of_a_slice_behind_a_dim_of_size_1),
          TEST(test_linear__of_a_slice_that_leaves_a_dim_of_size_1),
          TEST(test_linear__of_permuted_and_expanded_dims_of_size_1))
