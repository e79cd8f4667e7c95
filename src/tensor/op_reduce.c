// Unit op_reduce.c: sums over dims.
#include "tensor/elementwise.h"
#include "tensor/ops.h"

struct reduce_attr {
    struct dims dims;
    bool keepdim;
};

static const struct attr_field reduce_attrs[] = {
    {"dims", ATTR_DIMS, offsetof(struct reduce_attr, dims)},
    {"keepdim", ATTR_BOOL, offsetof(struct reduce_attr, keepdim)},
    {NULL, 0, 0},
};

static int sum_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct reduce_attr *a = NODE_ATTR(n, struct reduce_attr);
    unsigned reduced = 0;
    int64_t shape[DET_MAX_DIMS];
    int ndim = 0;
    for (int i = 0; i < a->dims.n; i++) {
        int d, rc = node_dim(n, a->dims.v[i], x->ndim, &d);
        if (rc) return rc;
        reduced |= 1u << d;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (!(reduced >> d & 1))
            shape[ndim++] = x->shape[d];
        else if (a->keepdim)
            shape[ndim++] = 1;
    }
    for (a->dims.n = 0; reduced; reduced &= reduced - 1)
        a->dims.v[a->dims.n++] = __builtin_ctz(reduced);
    return node_out(n, (det_dtype)x->dtype, shape, ndim);
}

// The output seen with the input's shape, reduced dims repeated.
static det_tensor expanded(const det_tensor *out, const det_tensor *x, const struct reduce_attr *a)
{
    det_tensor view = *out;
    view.ndim = x->ndim;
    view.numel = x->numel;
    for (int d = 0, o = 0, r = 0; d < x->ndim; d++) {
        bool reduced = r < a->dims.n && a->dims.v[r] == d;
        view.shape[d] = x->shape[d];
        view.stride[d] = reduced ? 0 : out->stride[o];
        if (reduced) r++;
        if (!reduced || a->keepdim) o++;
    }
    return view;
}

static int sum_forward(struct node *n)
{
    det_tensor *out = n->out[0], view = expanded(out, n->in[0], NODE_ATTR(n, struct reduce_attr));
    memset(out->data, 0, out->storage->n_bytes);
    ew_run(ew_axpy((det_dtype)out->dtype), (det_tensor *const[]){&view, n->in[0]}, 2,
           (double[]){1, 0});
    return 0;
}

static int sum_backward(struct node *n)
{
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    det_tensor view = expanded(out_grad(n, 0), n->in[0], NODE_ATTR(n, struct reduce_attr));
    ew_copy(gx, &view);
    give_grad(n, 0, gx);
    return 0;
}

static const char *const sum_cases[] = {"x:f[a,b,c]; dims=0,2; x.sum((0,2))",
                                        "x:f[a,b,c]; dims=1 keepdim=1; x.sum(1, keepdim=True)",
                                        NULL};
const struct op op_sum = {.name = "sum",
                          .min_in = 1,
                          .max_in = 1,
                          .infer = sum_infer,
                          .forward = sum_forward,
                          .backward = sum_backward,
                          .attrs = reduce_attrs,
                          .cases = sum_cases};

det_tensor *det_sum_over(det_tensor *x, const int64_t *dims, int n, bool keepdim)
{
    struct reduce_attr a = {.keepdim = keepdim};
    if (n < 0 || n > DET_MAX_DIMS) {
        det_raise(DET_ESHAPE, "sum: %d dims", n);
        return NULL;
    }
    a.dims.n = n;
    if (n) memcpy(a.dims.v, dims, (size_t)n * sizeof *dims);
    return OP_APPLY(&op_sum, a, x);
}

det_tensor *det_sum(det_tensor *x)
{
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    return det_sum_over(x, all, det_ndim(x), false);
}
