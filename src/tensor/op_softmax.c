// Unit op_softmax.c: softmax and its logarithm along one dim.
#include "tensor/kernels/kernels.h"
#include "tensor/ops.h"
#include "tensor/rows.h"
#include "tensor/share.h"

#include <math.h>

struct softmax_attr {
    int64_t dim;
};

static const struct attr_field softmax_attrs[] = {
    {"dim", ATTR_INT, offsetof(struct softmax_attr, dim)}, {NULL, 0, 0}};

static int softmax_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    struct softmax_attr *a = NODE_ATTR(n, struct softmax_attr);
    int d, rc = node_dim(n, a->dim, x->ndim, &d);
    if (rc) return rc;
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    a->dim = d;
    return node_out_like(n, (det_dtype)x->dtype, x);
}

// --- f64, one row

static void softmax_f64(const double *x, int64_t n, double *y, bool log_of_it)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - max);
    for (int64_t i = 0; i < n; i++)
        y[i] = log_of_it ? x[i] - max - log(sum) : exp(x[i] - max) / sum;
}

static void softmax_grad_f64(const double *y, const double *g, int64_t n, double *gx,
                             bool log_of_it)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += log_of_it ? g[i] : g[i] * y[i];
    for (int64_t i = 0; i < n; i++)
        gx[i] = log_of_it ? g[i] - exp(y[i]) * sum : y[i] * (g[i] - sum);
}

// --- all types

struct softmax_job {
    enum softmax_id id;
    det_dtype dtype;
    struct rows in, g, out;
};

static void softmax_range(void *ctx, int64_t from, int64_t to)
{
    const struct softmax_job *j = ctx;
    int64_t n = j->in.n, at = from * n * (int64_t)dtype_size(j->dtype);
    struct softmax_rows r = {.in = (char *)j->in.data + at, .n_rows = to - from, .n = n};
    r.out = (char *)j->out.data + at;
    if (j->g.data) r.g = (char *)j->g.data + at;
    if (j->dtype != DET_F64) {
        kernels->softmax(j->id, j->dtype == DET_BF16, &r);
        return;
    }
    for (int64_t i = 0; i < r.n_rows * n; i += n) {
        const double *in = (const double *)r.in + i;
        double *out = (double *)r.out + i;
        if (j->g.data)
            softmax_grad_f64(in, (const double *)r.g + i, n, out, j->id == LOG_SOFTMAX_GRAD);
        else
            softmax_f64(in, n, out, j->id == LOG_SOFTMAX);
    }
}

// in: x, or y when there is a gradient g.
static int softmax_run(enum softmax_id id, int dim, det_tensor *in, det_tensor *g, det_tensor *out)
{
    struct softmax_job j = {.id = id, .dtype = (det_dtype)in->dtype};
    int rc = rows_read(&j.in, in, dim, j.dtype);
    if (!rc && g) rc = rows_read(&j.g, g, dim, j.dtype);
    if (!rc) rc = rows_write(&j.out, out, dim, j.dtype);
    if (!rc) share_rows(j.in.n_rows, j.in.n, softmax_range, &j);
    rows_done(&j.in);
    rows_done(&j.g);
    rows_done(&j.out);
    return rc;
}

static int softmax_backward_as(struct node *n, enum softmax_id id)
{
    int dim = (int)NODE_ATTR(n, struct softmax_attr)->dim;
    det_tensor *gx = tensor_new_like(n->out[0]);
    int rc = gx ? softmax_run(id, dim, n->out[0], out_grad(n, 0), gx) : DET_ENOMEM;
    give_grad(n, 0, gx);
    return rc;
}

#define SOFTMAX_ROW(fn, ID, ...)                                 \
    static int fn##_forward(struct node *n)                      \
    {                                                            \
        int dim = (int)NODE_ATTR(n, struct softmax_attr)->dim;   \
        return softmax_run(ID, dim, n->in[0], NULL, n->out[0]);  \
    }                                                            \
    static int fn##_backward(struct node *n)                     \
    {                                                            \
        return softmax_backward_as(n, ID##_GRAD);                \
    }                                                            \
    static const char *const fn##_cases[] = {__VA_ARGS__, NULL}; \
    const struct op op_##fn = {.name = #fn,                      \
                               .min_in = 1,                      \
                               .max_in = 1,                      \
                               .flags = OP_F32,                  \
                               .saves_out = true,                \
                               .infer = softmax_infer,           \
                               .forward = fn##_forward,          \
                               .backward = fn##_backward,        \
                               .attrs = softmax_attrs,           \
                               .cases = fn##_cases};             \
    det_tensor *det_##fn(det_tensor *x, int dim)                 \
    {                                                            \
        struct softmax_attr a = {.dim = dim};                    \
        return OP_APPLY(&op_##fn, a, x);                         \
    }
SOFTMAX_ROW(softmax, SOFTMAX, "x:f[a,b,C]; dim=-1; x.softmax(-1)", "x:f[a,B]; dim=0; x.softmax(0)",
            "x:f[a,B,c]; dim=1; x.softmax(1)", "x:f[]; dim=0; x.softmax(0)",
            "x:n[5,b]; dim=1; x.softmax(1)", "x:f[3,70]; dim=1; x.softmax(1)",
            "x:f[2,5000]; dim=1; x.softmax(1)", "x:f[2,3,4,5]; dim=1; x.softmax(1)",
            "x:f[0,3]; dim=1; x.softmax(1)", "x:f[3,0]; dim=1; x.softmax(1)")
SOFTMAX_ROW(log_softmax, LOG_SOFTMAX, "x:f[a,b,C]; dim=-1; x.log_softmax(-1)",
            "x:f[a,B]; dim=0; x.log_softmax(0)", "x:f[a,B,c]; dim=1; x.log_softmax(1)",
            "x:f[]; dim=0; x.log_softmax(0)", "x:n[5,b]; dim=1; x.log_softmax(1)",
            "x:f[3,70]; dim=1; x.log_softmax(1)", "x:f[2,5000]; dim=1; x.log_softmax(1)",
            "x:f[3,0]; dim=1; x.log_softmax(1)")
