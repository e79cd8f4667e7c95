// Unit tensor.c: makes, describes and reads tensors. Knows nothing of operations beyond copying.
#include "tensor/node.h"

#include "tensor/elementwise.h"
#include <inttypes.h>
#include <math.h>

size_t det_dtype_size(det_dtype dtype)
{
    return (unsigned)dtype < DET_N_DTYPES ? dtype_size(dtype) : 0;
}

const char *det_dtype_name(det_dtype dtype)
{
    static const char *const name[] = {"f32", "f64",  "bf16", "i64", "i32",
                                       "u8",  "bool", "f16",  "i16", "i8"};
    return (unsigned)dtype < DET_N_DTYPES ? name[dtype] : "unknown";
}

bool det_dtype_is_float(det_dtype dtype)
{
    return (unsigned)dtype < DET_N_DTYPES && dtype_is_float(dtype);
}

// --- shapes

const char *shape_text(const int64_t *shape, int ndim)
{
    enum { ROTATING = 4, LEN = 160 };
    static _Thread_local char text[ROTATING][LEN];
    static _Thread_local int turn;
    char *out = text[turn++ % ROTATING];
    int n = snprintf(out, LEN, "(");
    for (int i = 0; i < ndim && n < LEN - 24; i++)
        n += snprintf(out + n, (size_t)(LEN - n), "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + n, (size_t)(LEN - n), ndim == 1 ? ",)" : ")");
    return out;
}

bool same_shape(const det_tensor *a, const det_tensor *b)
{
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d]) return false;
    return true;
}

// Dense in the given order: order[0] is the slowest dim.
static bool dense_in_order(const det_tensor *t, const int *order)
{
    int64_t expected = 1;
    for (int i = t->ndim; i-- > 0;) {
        int d = order[i];
        if (t->shape[d] != 1 && t->stride[d] != expected) return false;
        expected *= t->shape[d];
    }
    return true;
}

static const int channels_last[] = {0, 2, 3, 1};

bool tensor_is_channels_last(const det_tensor *t)
{
    return t->ndim == 4 && dense_in_order(t, channels_last);
}

// Dims from slowest to fastest by stride. Those of size 1 come first: their stride says nothing.
static void stride_order(const det_tensor *t, int *order)
{
    int n = 0;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] == 1) order[n++] = d;
    int n_ones = n;
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 1) continue;
        int at = n++;
        for (; at > n_ones && t->stride[order[at - 1]] < t->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

bool tensor_is_dense_in_some_order(const det_tensor *t)
{
    int order[DET_MAX_DIMS];
    stride_order(t, order);
    return dense_in_order(t, order);
}

static void set_strides(det_tensor *t, const int *order)
{
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0;) {
        int d = order[i];
        t->stride[d] = stride;
        stride *= MAX(t->shape[d], 1);
    }
}

// t is row-major and gets the order of like, if that is dense.
static void order_strides_like(det_tensor *t, const det_tensor *like)
{
    if (tensor_is_row_major(like)) return;
    int order[DET_MAX_DIMS];
    stride_order(like, order);
    if (dense_in_order(like, order)) set_strides(t, order);
}

// --- headers and memory

// Number of elements, or -1 if sizes are negative or too many to address. Strides of an empty
// tensor are made of its other sizes, so those must fit, too.
static int64_t count_elements(const int64_t *shape, int ndim)
{
    int64_t n = 1, is_full = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] <= 0) {
            if (shape[i] < 0) return -1;
            is_full = 0;
        } else if (__builtin_mul_overflow(n, shape[i], &n)) {
            return -1;
        }
    }
    return n <= INT64_MAX / 16 ? n * is_full : -1;
}

// A header without memory, row-major; numel is that of the shape.
static det_tensor *describe(det_dtype dtype, const int64_t *shape, int ndim, int64_t numel)
{
    det_tensor *t = header_new();
    t->dtype = (uint8_t)dtype;
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    int64_t stride = 1;
    for (int d = ndim; d-- > 0; stride *= MAX(shape[d], 1)) {
        t->shape[d] = shape[d];
        t->stride[d] = stride;
    }
    return t;
}

static bool allocate(det_tensor *t)
{
    t->storage = storage_new((size_t)t->numel * dtype_size((det_dtype)t->dtype));
    if (!t->storage) return false;
    t->data = t->storage->data;
    return true;
}

static det_tensor *allocate_or_fail(det_tensor *t)
{
    if (allocate(t)) return t;
    det_raise(DET_ENOMEM, "no memory for a tensor of shape %s (%.1f MB)", TENSOR_TEXT(t),
              (double)t->numel * (double)dtype_size((det_dtype)t->dtype) / 1e6);
    header_free(t);
    return NULL;
}

det_tensor *tensor_new(det_dtype dtype, const int64_t *shape, int ndim)
{
    return allocate_or_fail(describe(dtype, shape, ndim, count_elements(shape, ndim)));
}

det_tensor *tensor_new_like(const det_tensor *like)
{
    det_tensor *t = describe((det_dtype)like->dtype, like->shape, like->ndim, like->numel);
    order_strides_like(t, like);
    return allocate_or_fail(t);
}

static int check_shape(det_dtype dtype, const int64_t *shape, int ndim)
{
    if ((unsigned)dtype >= DET_N_DTYPES)
        det_raise(DET_EDTYPE, "unknown dtype %d", (int)dtype);
    else if (ndim < 0 || ndim > DET_MAX_DIMS)
        det_raise(DET_ESHAPE, "%d dims; a tensor has 0 to %d", ndim, DET_MAX_DIMS);
    else if (ndim && !shape)
        det_raise(DET_EINVAL, "shape is NULL");
    else if (count_elements(shape, ndim) < 0)
        det_raise(DET_ESHAPE, "shape %s is negative or too large", shape_text(shape, ndim));
    return sticky_failed();
}

int node_out_strided(struct node *n, det_dtype dtype, const int64_t *shape, const int64_t *stride,
                     int ndim)
{
    if (ndim > DET_MAX_DIMS)
        return node_fail(n, DET_ESHAPE, "result has %d dims, more than %d", ndim, DET_MAX_DIMS);
    int64_t numel = count_elements(shape, ndim);
    if (numel < 0)
        return node_fail(n, DET_ESHAPE, "result %s is too large", shape_text(shape, ndim));
    det_tensor *t = describe(dtype, shape, ndim, numel);
    if (stride) memcpy(t->stride, stride, (size_t)ndim * sizeof *stride);
    n->out[n->n_out++] = t;
    return 0;
}

int node_out(struct node *n, det_dtype dtype, const int64_t *shape, int ndim)
{
    return node_out_strided(n, dtype, shape, NULL, ndim);
}

int node_out_like(struct node *n, det_dtype dtype, const det_tensor *like)
{
    int rc = node_out(n, dtype, like->shape, like->ndim);
    if (!rc) order_strides_like(n->out[n->n_out - 1], like);
    return rc;
}

int node_out_channels_last(struct node *n, det_dtype dtype, const int64_t *shape)
{
    int rc = node_out(n, dtype, shape, 4);
    if (!rc) set_strides(n->out[n->n_out - 1], channels_last);
    return rc;
}

int node_allocate(struct node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        det_tensor *t = n->out[i];
        if (t->storage || allocate(t)) continue;
        return node_fail(n, DET_ENOMEM, "no memory for the result %s (%.1f MB)", TENSOR_TEXT(t),
                         (double)t->numel * (double)dtype_size((det_dtype)t->dtype) / 1e6);
    }
    return 0;
}

// --- making

det_tensor *det_empty(det_dtype dtype, const int64_t *shape, int ndim)
{
    if (sticky_failed() || check_shape(dtype, shape, ndim)) return NULL;
    det_tensor *t = tensor_new(dtype, shape, ndim);
    if (t) tape_own(tape_get(), t);
    return t;
}

det_tensor *det_zeros(det_dtype dtype, const int64_t *shape, int ndim)
{
    det_tensor *t = det_empty(dtype, shape, ndim);
    if (t) memset(t->data, 0, t->storage->n_bytes); // 0 is all bits zero in every type
    return t;
}

bool dtype_holds(det_dtype dtype, double value)
{
    switch (dtype) {
    case DET_I64:
        return fabs(value) < 0x1p63 || value == -0x1p63;
    case DET_I32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case DET_U8:
        return fabs(value) <= UINT8_MAX; // negative ones wrap around, as in torch
    case DET_I16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case DET_I8:
        return value >= INT8_MIN && value <= INT8_MAX;
    default:
        return true;
    }
}

det_tensor *det_full(det_dtype dtype, const int64_t *shape, int ndim, double value)
{
    det_tensor *t = det_empty(dtype, shape, ndim);
    if (t && !dtype_holds(dtype, value)) {
        det_raise(DET_EINVAL, "det_full: %g is no %s", value, det_dtype_name(dtype));
        return NULL;
    }
    if (t) ew_fill(t, value);
    return t;
}

det_tensor *det_ones(det_dtype dtype, const int64_t *shape, int ndim)
{
    return det_full(dtype, shape, ndim, 1);
}

det_tensor *det_scalar(double value)
{
    return det_full(DET_F32, DET_SCALAR, value);
}

det_tensor *det_from(det_dtype dtype, const int64_t *shape, int ndim, const void *data)
{
    det_tensor *t = det_empty(dtype, shape, ndim);
    if (t && t->numel) {
        if (data)
            memcpy(t->data, data, t->storage->n_bytes);
        else
            det_raise(DET_EINVAL, "det_from: data is NULL");
    }
    return sticky_failed() ? NULL : t;
}

det_tensor *det_borrow(det_dtype dtype, const int64_t *shape, int ndim, void *data)
{
    if (sticky_failed() || check_shape(dtype, shape, ndim)) return NULL;
    det_tensor *t = describe(dtype, shape, ndim, count_elements(shape, ndim));
    t->storage = storage_borrow(data, (size_t)t->numel * dtype_size(dtype));
    t->data = data;
    tape_own(tape_get(), t);
    if (!t->storage)
        det_raise(DET_ENOMEM, "det_borrow: no memory");
    else if (!data && t->numel)
        det_raise(DET_EINVAL, "det_borrow: data is NULL");
    return sticky_failed() ? NULL : t;
}

det_tensor *det_arange(det_dtype dtype, double start, double end, double step)
{
    double n = ceil((end - start) / step);
    if (!(n >= 0 && n < 0x1p60) || (end - start) * step < 0) {
        det_raise(DET_EINVAL, "arange: from %g to %g by %g is not a range", start, end, step);
        return NULL;
    }
    if (dtype == DET_BOOL) {
        det_raise(DET_EDTYPE, "arange: not for bool");
        return NULL;
    }
    det_tensor *t = det_empty(DET_F64, DET_DIMS((int64_t)n));
    for (int64_t i = 0; t && i < t->numel; i++)
        ((double *)t->data)[i] = start + (double)i * step;
    return det_to(t, dtype);
}

// From both ends, so that the last number is the end.
det_tensor *det_linspace(det_dtype dtype, double start, double end, int64_t steps)
{
    if (dtype == DET_BOOL || steps < 0) {
        det_raise(DET_EINVAL, "linspace: %lld numbers of type %s", (long long)steps,
                  det_dtype_name(dtype));
        return NULL;
    }
    det_tensor *t = det_empty(DET_F64, DET_DIMS(steps));
    double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
    for (int64_t i = 0; t && i < steps; i++)
        ((double *)t->data)[i] = i < steps / 2 || steps == 1 ? start + step * (double)i
                                                             : end - step * (double)(steps - 1 - i);
    return det_to(t, dtype);
}

det_tensor *det_eye(det_dtype dtype, int64_t n)
{
    det_tensor *t = det_zeros(dtype, DET_DIMS(n, n));
    if (!t) return NULL;
    det_tensor *diagonal = tensor_ref(t), view = *t; // the diagonal is a strided vector
    view.ndim = 1;
    view.stride[0] = n + 1;
    view.numel = n;
    det_tensor *one = det_ones(dtype, DET_SCALAR);
    if (one) ew_copy(&view, one);
    tensor_release(diagonal);
    return t;
}

// --- looking

det_dtype det_dtype_of(const det_tensor *t)
{
    return t ? (det_dtype)t->dtype : DET_F32;
}

int det_ndim(const det_tensor *t)
{
    return t ? t->ndim : 0;
}

const int64_t *det_shape(const det_tensor *t)
{
    static const int64_t none[DET_MAX_DIMS];
    return t ? t->shape : none;
}

const int64_t *det_stride(const det_tensor *t)
{
    static const int64_t none[DET_MAX_DIMS];
    return t ? t->stride : none;
}

int64_t det_size(const det_tensor *t, int dim)
{
    if (!t) return 0;
    int d = dim < 0 ? dim + t->ndim : dim;
    if (d >= 0 && d < t->ndim) return t->shape[d];
    det_raise(DET_ESHAPE, "det_size: dim %d of a tensor %s", dim, TENSOR_TEXT(t));
    return 0;
}

int64_t det_numel(const det_tensor *t)
{
    return t ? t->numel : 0;
}

bool det_is_contiguous(const det_tensor *t)
{
    return !t || tensor_is_row_major(t);
}

const char *det_describe(const det_tensor *t, char *buf, size_t size)
{
    if (!t)
        snprintf(buf, size, "NULL");
    else
        snprintf(buf, size, "%s %s", TENSOR_TEXT(t), det_dtype_name((det_dtype)t->dtype));
    return buf;
}

// --- copies in another order

det_tensor *tensor_new_ordered(det_dtype dtype, const int64_t *shape, int ndim,
                               enum tensor_order order)
{
    det_tensor *t = describe(dtype, shape, ndim, count_elements(shape, ndim));
    if (order == CHANNELS_LAST) {
        ASSERT(ndim == 4);
        set_strides(t, channels_last);
    }
    return allocate_or_fail(t);
}

det_tensor *tensor_converted(det_tensor *t, det_dtype dtype, enum tensor_order order)
{
    bool in_order = order == CHANNELS_LAST ? tensor_is_channels_last(t) : tensor_is_row_major(t);
    tensor_finish(t);
    if (t->dtype == dtype && in_order) return tensor_ref(t);
    det_tensor *c = tensor_new_ordered(dtype, t->shape, t->ndim, order);
    if (c && t->data) ew_copy(c, t);
    return c;
}

const void *det_data(det_tensor *t)
{
    if (!t || sticky_failed()) return NULL;
    tensor_finish(t);
    if (sticky_failed()) return NULL;
    det_tensor *c = tensor_row_major(t);
    if (!c) return NULL;
    if (c == t)
        tensor_release(c);
    else
        tape_own(tape_get(), c);
    return c->data;
}

static const void *data_of_type(det_tensor *t, det_dtype want, const char *function)
{
    if (t && t->dtype != want && !sticky_failed())
        det_raise(DET_EDTYPE, "%s of a tensor of type %s", function,
                  det_dtype_name((det_dtype)t->dtype));
    return det_data(t);
}

const float *det_data_f32(det_tensor *t)
{
    return data_of_type(t, DET_F32, "det_data_f32");
}

const int64_t *det_data_i64(det_tensor *t)
{
    return data_of_type(t, DET_I64, "det_data_i64");
}

double det_item(det_tensor *t)
{
    if (!t || sticky_failed()) return NAN;
    if (t->numel != 1) {
        det_raise(DET_ESHAPE, "det_item: a tensor %s is not a single number", TENSOR_TEXT(t));
        return NAN;
    }
    tensor_finish(t);
    if (!t->data) return NAN;
    if (t->dtype == DET_F32) return *(const float *)t->data;
    double value;
    det_tensor out = {.dtype = DET_F64, .numel = 1, .data = &value};
    det_tensor in = {.dtype = t->dtype, .numel = 1, .data = t->data};
    ew_copy(&out, &in);
    return value;
}

// --- memory

void tensor_touch(det_tensor *t)
{
    t->storage->version++;
}

void *tensor_memory(det_tensor *t)
{
    tensor_finish(t);
    ASSERT(tensor_is_row_major(t));
    return t->data;
}
