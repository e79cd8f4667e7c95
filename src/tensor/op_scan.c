// Unit op_scan.c: running sums and products along one dim.
#include "tensor/ops.h"
#include "tensor/rows.h"
#include "tensor/share.h"

static const struct attr_field scan_attrs[] = {{"dim", ATTR_INT, 0}, {NULL, 0, 0}};

static int scan_infer(struct node *n)
{
    const det_tensor *x = n->in[0];
    int64_t *dim = NODE_ATTR(n, int64_t);
    int d, rc = node_dim(n, *dim, x->ndim, &d);
    if (rc) return rc;
    *dim = d;
    bool is_float = dtype_is_float((det_dtype)x->dtype);
    return node_out_like(n, is_float ? (det_dtype)x->dtype : DET_I64, x);
}

// The sums of floats are f64, whatever the elements are; integers wrap around.
static det_dtype work_type(const det_tensor *x)
{
    det_dtype dtype = (det_dtype)x->dtype;
    return dtype == DET_F32 ? DET_F32 : dtype_is_float(dtype) ? DET_F64 : DET_I64;
}

// --- sums

#define SUM_ROW(fn, T, SUM)                            \
    static void fn(const T *x, T *y, int64_t n)        \
    {                                                  \
        SUM sum = 0;                                   \
        for (int64_t i = 0; i < n; i++)                \
            y[i] = (T)(sum += (SUM)x[i]);              \
    }                                                  \
    static void fn##_back(const T *x, T *y, int64_t n) \
    {                                                  \
        SUM sum = 0;                                   \
        for (int64_t i = n; i-- > 0;)                  \
            y[i] = (T)(sum += (SUM)x[i]);              \
    }
SUM_ROW(sum_f32, float, double)
SUM_ROW(sum_f64, double, double)
SUM_ROW(sum_i64, int64_t, uint64_t)

// --- products

#define PRODUCT_ROW(fn, T, PRODUCT)               \
    static void fn(const T *x, T *y, int64_t n)   \
    {                                             \
        PRODUCT product = 1;                      \
        for (int64_t i = 0; i < n; i++)           \
            y[i] = (T)(product *= (PRODUCT)x[i]); \
    }
PRODUCT_ROW(product_f32, float, double)
PRODUCT_ROW(product_f64, double, double)
PRODUCT_ROW(product_i64, int64_t, uint64_t)

// gx[i] = sum over j >= i of g[j] * (x[0] * ... * x[j] without x[i]). Before the first zero that
// product is y[j] / x[i]; at the zero it has to be made anew; behind it there is nothing but zeros.
#define PRODUCT_GRAD(fn, T)                                              \
    static void fn(const T *x, const T *y, const T *g, T *gx, int64_t n) \
    {                                                                    \
        int64_t zero = 0;                                                \
        double sum = 0;                                                  \
        while (zero < n && x[zero] != 0)                                 \
            zero++;                                                      \
        for (int64_t i = zero; i-- > 0;) {                               \
            sum += (double)g[i] * (double)y[i];                          \
            gx[i] = (T)(sum / (double)x[i]);                             \
        }                                                                \
        memset(gx + zero, 0, (size_t)(n - zero) * sizeof *gx);           \
        if (zero == n) return;                                           \
        double product = zero ? (double)y[zero - 1] : 1;                 \
        sum = (double)g[zero] * product;                                 \
        for (int64_t i = zero + 1; i < n; i++) {                         \
            product *= (double)x[i];                                     \
            sum += (double)g[i] * product;                               \
        }                                                                \
        gx[zero] = (T)sum;                                               \
    }
PRODUCT_GRAD(product_grad_f32, float)
PRODUCT_GRAD(product_grad_f64, double)

// --- rows of any type, shared out

enum scan_id { SCAN_SUM, SCAN_SUM_BACK, SCAN_PRODUCT, SCAN_PRODUCT_GRAD };

struct scan_job {
    enum scan_id id;
    det_dtype dtype;
    struct rows x, y, g, out;
};

#define SCAN_ROWS(fn, T, sum, product)                   \
    static void fn(const struct scan_job *j, int64_t at) \
    {                                                    \
        const T *x = (const T *)j->x.data + at;          \
        T *out = (T *)j->out.data + at;                  \
        if (j->id == SCAN_SUM)                           \
            sum(x, out, j->x.n);                         \
        else if (j->id == SCAN_SUM_BACK)                 \
            sum##_back(x, out, j->x.n);                  \
        else                                             \
            product(x, out, j->x.n);                     \
    }
SCAN_ROWS(scan_f32, float, sum_f32, product_f32)
SCAN_ROWS(scan_f64, double, sum_f64, product_f64)
SCAN_ROWS(scan_i64, int64_t, sum_i64, product_i64)

static void product_grad_row(const struct scan_job *j, int64_t at)
{
    if (j->dtype == DET_F32)
        product_grad_f32((const float *)j->x.data + at, (const float *)j->y.data + at,
                         (const float *)j->g.data + at, (float *)j->out.data + at, j->x.n);
    else
        product_grad_f64((const double *)j->x.data + at, (const double *)j->y.data + at,
                         (const double *)j->g.data + at, (double *)j->out.data + at, j->x.n);
}

static void scan_range(void *ctx, int64_t from, int64_t to)
{
    const struct scan_job *j = ctx;
    for (int64_t row = from; row < to; row++) {
        int64_t at = row * j->x.n;
        if (j->id == SCAN_PRODUCT_GRAD)
            product_grad_row(j, at);
        else if (j->dtype == DET_F32)
            scan_f32(j, at);
        else if (j->dtype == DET_F64)
            scan_f64(j, at);
        else
            scan_i64(j, at);
    }
}

// y and g are for the gradient of products; else NULL.
static int scan(enum scan_id id, det_tensor *x, det_tensor *y, det_tensor *g, det_tensor *out,
                int dim)
{
    struct scan_job j = {.id = id, .dtype = work_type(x)};
    int rc = rows_read(&j.x, x, dim, j.dtype);
    if (!rc && y) rc = rows_read(&j.y, y, dim, j.dtype);
    if (!rc && g) rc = rows_read(&j.g, g, dim, j.dtype);
    if (!rc) rc = rows_write(&j.out, out, dim, j.dtype);
    if (!rc) share_rows(j.x.n_rows, j.x.n, scan_range, &j);
    rows_done(&j.x);
    rows_done(&j.y);
    rows_done(&j.g);
    rows_done(&j.out);
    return rc;
}

// --- the operations

static int cumsum_forward(struct node *n)
{
    return scan(SCAN_SUM, n->in[0], NULL, NULL, n->out[0], (int)*NODE_ATTR(n, int64_t));
}

static int cumsum_backward(struct node *n)
{
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    int rc = scan(SCAN_SUM_BACK, out_grad(n, 0), NULL, NULL, gx, (int)*NODE_ATTR(n, int64_t));
    give_grad(n, 0, gx);
    return rc;
}

static int cumprod_forward(struct node *n)
{
    return scan(SCAN_PRODUCT, n->in[0], NULL, NULL, n->out[0], (int)*NODE_ATTR(n, int64_t));
}

static int cumprod_backward(struct node *n)
{
    int dim = (int)*NODE_ATTR(n, int64_t);
    if (!n->in[0]->ndim || n->in[0]->shape[dim] == 1) { // a number is its own product, NaN as well
        give_grad(n, 0, tensor_ref(out_grad(n, 0)));
        return 0;
    }
    det_tensor *gx = tensor_new_like(n->in[0]);
    if (!gx) return DET_ENOMEM;
    int rc = scan(SCAN_PRODUCT_GRAD, n->in[0], n->out[0], out_grad(n, 0), gx, dim);
    give_grad(n, 0, gx);
    return rc;
}

static const char *const cumsum_cases[] = {
    "x:f[a,B,c]; dim=1; x.cumsum(1)", "x:f[a,B]; dim=-1; x.cumsum(-1)",
    "x:f[A,b]; dim=0; x.cumsum(0)",   "x:i9[a,B]; dim=1; x.cumsum(1)",
    "x:b[a,B]; dim=1; x.cumsum(1)",   "x:n[a,B]; dim=1; x.cumsum(1)",
    "x:f[]; dim=0; x.cumsum(0)",      NULL};
const struct op op_cumsum = {.name = "cumsum",
                             .min_in = 1,
                             .max_in = 1,
                             .infer = scan_infer,
                             .forward = cumsum_forward,
                             .backward = cumsum_backward,
                             .attrs = scan_attrs,
                             .cases = cumsum_cases};

static const char *const cumprod_cases[] = {
    "x:f[a,B,c]; dim=1; x.cumprod(1)", "x:p[a,B]; dim=-1; x.cumprod(-1)",
    "x:i3[a,B]; dim=1; x.cumprod(1)",  "x:b[a,B]; dim=1; x.cumprod(1)",
    "x:f[]; dim=0; x.cumprod(0)",      NULL};
const struct op op_cumprod = {.name = "cumprod",
                              .min_in = 1,
                              .max_in = 1,
                              .saves_in = 1,
                              .saves_out = true,
                              .infer = scan_infer,
                              .forward = cumprod_forward,
                              .backward = cumprod_backward,
                              .attrs = scan_attrs,
                              .cases = cumprod_cases};

det_tensor *det_cumsum(det_tensor *x, int dim)
{
    int64_t d = dim;
    return OP_APPLY(&op_cumsum, d, x);
}

det_tensor *det_cumprod(det_tensor *x, int dim)
{
    int64_t d = dim;
    return OP_APPLY(&op_cumprod, d, x);
}
