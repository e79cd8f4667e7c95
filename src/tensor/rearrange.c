// Unit rearrange.c: operations that move elements and are made of others: repeat, roll, chunk,
// pixel_shuffle, padding with elements of the tensor itself, glu.
#include "tensor/ops.h"

static bool is_list(const char *what, const int64_t *list, int n)
{
    if (n >= 0 && n <= DET_MAX_DIMS && (list || !n)) return true;
    det_raise(DET_ESHAPE, "%s: %d numbers; wants 0 to %d", what, n, DET_MAX_DIMS);
    return false;
}

det_tensor *det_repeat(det_tensor *x, const int64_t *times, int n)
{
    if (!x || sticky_failed() || !is_list("repeat", times, n)) return OP_APPLY0(&op_reshape, x);
    if (n < x->ndim) {
        det_raise(DET_ESHAPE, "repeat: %d numbers for %s; wants one for each dim", n,
                  TENSOR_TEXT(x));
        return NULL;
    }
    bool copied = false;
    while (x && x->ndim < n)
        x = det_unsqueeze(x, 0);
    for (int d = 0; d < n && x; d++) {
        int64_t shape[DET_MAX_DIMS + 1], size = x->shape[d];
        if (times[d] < 0) {
            det_raise(DET_EINVAL, "repeat: %lld times", (long long)times[d]);
            return NULL;
        }
        if (times[d] == 1) continue;
        memcpy(shape, x->shape, sizeof x->shape);
        shape[d] = times[d];
        // one element is repeated by looking at it again; several have to be laid out
        if (size == 1) {
            x = det_expand(x, shape, n);
            continue;
        }
        if (n == DET_MAX_DIMS) { // no room for another dim
            det_raise(DET_ESHAPE, "repeat: %s has %d dims", TENSOR_TEXT(x), n);
            return NULL;
        }
        memmove(shape + d + 1, x->shape + d, (size_t)(n - d) * sizeof *shape);
        x = det_flatten(det_expand(det_unsqueeze(x, d), shape, n + 1), d, d + 1);
        copied = true;
    }
    return copied ? det_contiguous(x) : det_clone(det_contiguous(x));
}

// Along one dim: the last `shift` elements come first.
static det_tensor *roll_dim(det_tensor *x, int64_t shift, int dim)
{
    int64_t size = det_size(x, dim);
    if (!x || sticky_failed() || size < 2) return x;
    int64_t cut = size - ((shift % size) + size) % size;
    if (cut == size) return x;
    det_tensor *part[] = {det_slice(x, dim, cut, size, 1), det_slice(x, dim, 0, cut, 1)};
    return det_concat(part, 2, dim);
}

det_tensor *det_roll(det_tensor *x, const int64_t *shifts, const int64_t *dims, int n)
{
    if (!x || sticky_failed() || !is_list("roll", shifts, n)) return OP_APPLY0(&op_reshape, x);
    if (!dims) { // of all elements in a row
        if (n != 1) {
            det_raise(DET_EINVAL, "roll: %d shifts without dims; wants 1", n);
            return NULL;
        }
        det_tensor *flat = roll_dim(det_flatten(x, 0, -1), shifts[0], 0);
        return det_clone(det_reshape(flat, x->shape, x->ndim));
    }
    det_tensor *y = x;
    for (int i = 0; i < n && !sticky_failed(); i++) {
        int64_t d = dims[i] < 0 ? dims[i] + x->ndim : dims[i];
        if (d < 0 || d >= x->ndim)
            det_raise(DET_ESHAPE, "roll: dim %lld of %s", (long long)dims[i], TENSOR_TEXT(x));
        else
            y = roll_dim(y, shifts[i], (int)d);
    }
    return det_clone(y);
}

int det_chunk(det_tensor *x, int64_t chunks, int dim, det_tensor **out, int max_out)
{
    if (!x || sticky_failed()) return DET_ESTATE;
    if (chunks < 1) {
        det_raise(DET_EINVAL, "chunk: %lld pieces; wants 1 or more", (long long)chunks);
        return DET_EINVAL;
    }
    int64_t size = det_size(x, dim);
    return det_split(x, MAX(divide_up(size, chunks), (int64_t)1), dim, out, max_out);
}

// --- pixels

static bool is_image(const char *what, const det_tensor *x, int64_t factor)
{
    if (x->ndim < 3)
        det_raise(DET_ESHAPE, "%s: input is %s, wants (..., C, H, W)", what, TENSOR_TEXT(x));
    else if (x->ndim > DET_MAX_DIMS - 2)
        det_raise(DET_ESHAPE, "%s: input is %s, wants %d dims at most", what, TENSOR_TEXT(x),
                  DET_MAX_DIMS - 2);
    else if (factor < 1)
        det_raise(DET_EINVAL, "%s: factor %lld, wants 1 or more", what, (long long)factor);
    return !sticky_failed();
}

// (..., C * r * r, H, W) -> (..., C, H * r, W * r)
det_tensor *det_pixel_shuffle(det_tensor *x, int64_t factor)
{
    const int64_t r = factor;
    if (!x || sticky_failed() || !is_image("pixel_shuffle", x, r)) return OP_APPLY0(&op_reshape, x);
    int lead = x->ndim - 3;
    int64_t shape[DET_MAX_DIMS], order[DET_MAX_DIMS], c = x->shape[lead];
    if (c % (r * r)) {
        det_raise(DET_ESHAPE, "pixel_shuffle: input is %s; its channels are no multiple of %lld",
                  TENSOR_TEXT(x), (long long)(r * r));
        return NULL;
    }
    for (int d = 0; d < lead; d++)
        shape[d] = x->shape[d], order[d] = d;
    const int64_t inner[] = {c / (r * r), r, r, x->shape[lead + 1], x->shape[lead + 2]};
    const int from[] = {0, 3, 1, 4, 2};
    memcpy(shape + lead, inner, sizeof inner);
    for (int i = 0; i < 5; i++)
        order[lead + i] = lead + from[i];
    det_tensor *y = det_permute(det_reshape(x, shape, lead + 5), order, lead + 5);
    shape[lead + 1] = inner[3] * r;
    shape[lead + 2] = inner[4] * r;
    return det_reshape(y, shape, lead + 3);
}

// (..., C, H * r, W * r) -> (..., C * r * r, H, W)
det_tensor *det_pixel_unshuffle(det_tensor *x, int64_t factor)
{
    const int64_t r = factor;
    if (!x || sticky_failed() || !is_image("pixel_unshuffle", x, r))
        return OP_APPLY0(&op_reshape, x);
    int lead = x->ndim - 3;
    int64_t shape[DET_MAX_DIMS], order[DET_MAX_DIMS];
    int64_t c = x->shape[lead], h = x->shape[lead + 1], w = x->shape[lead + 2];
    if (h % r || w % r) {
        det_raise(DET_ESHAPE, "pixel_unshuffle: input is %s; its sizes are no multiples of %lld",
                  TENSOR_TEXT(x), (long long)r);
        return NULL;
    }
    for (int d = 0; d < lead; d++)
        shape[d] = x->shape[d], order[d] = d;
    const int64_t inner[] = {c, h / r, r, w / r, r};
    const int from[] = {0, 2, 4, 1, 3};
    memcpy(shape + lead, inner, sizeof inner);
    for (int i = 0; i < 5; i++)
        order[lead + i] = lead + from[i];
    det_tensor *y = det_permute(det_reshape(x, shape, lead + 5), order, lead + 5);
    shape[lead] = c * r * r;
    shape[lead + 1] = h / r;
    shape[lead + 2] = w / r;
    return det_reshape(y, shape, lead + 3);
}

// --- padding with elements of the tensor

// Where element i of a padded dim comes from, i counted from the first element of the dim itself.
static int64_t padded_from(det_padding mode, int64_t i, int64_t size)
{
    switch (mode) {
    case DET_PADDING_REFLECT:
        return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    case DET_PADDING_CIRCULAR:
        return ((i % size) + size) % size;
    default:
        return MAX((int64_t)0, MIN(i, size - 1));
    }
}

static bool can_pad(det_padding mode, const det_tensor *x, int dim, int64_t before, int64_t after)
{
    int64_t size = x->shape[dim], most = mode == DET_PADDING_REFLECT    ? size - 1
                                         : mode == DET_PADDING_CIRCULAR ? size
                                                                        : INT32_MAX;
    bool fits = before <= most && after <= most && size > 0 && size + before + after > 0;
    if (!fits)
        det_raise(DET_ESHAPE, "pad: dim %d of %s cannot be padded by %lld and %lld of its elements",
                  dim, TENSOR_TEXT(x), (long long)before, (long long)after);
    return fits;
}

static det_tensor *pad_dim(det_tensor *x, int dim, int64_t before, int64_t after, det_padding mode)
{
    if (!x || sticky_failed() || (!before && !after) || !can_pad(mode, x, dim, before, after))
        return x;
    int64_t size = x->shape[dim];
    det_tensor *index = det_empty(DET_I64, DET_DIMS(size + before + after));
    for (int64_t i = 0; index && i < index->numel; i++)
        ((int64_t *)index->data)[i] = padded_from(mode, i - before, size);
    return det_index_select(x, dim, index);
}

det_tensor *det_pad_mode(det_tensor *x, const int64_t *pads, int n, det_padding mode)
{
    if (mode == DET_PADDING_ZEROS) return det_pad(x, pads, n, 0);
    if (!x || sticky_failed() || !is_list("pad", pads, n)) return OP_APPLY0(&op_reshape, x);
    bool known = mode == DET_PADDING_REFLECT || mode == DET_PADDING_REPLICATE ||
                 mode == DET_PADDING_CIRCULAR;
    if (!known || n % 2 || n / 2 > x->ndim) {
        det_raise(DET_EINVAL, "pad: mode %d with %d numbers for %s", (int)mode, n, TENSOR_TEXT(x));
        return NULL;
    }
    int last = x->ndim - 1;
    for (int i = 0; i < n / 2; i++)
        x = pad_dim(x, last - i, pads[2 * i], pads[2 * i + 1], mode);
    return sticky_failed() ? NULL : x;
}

// --- gated

det_tensor *det_glu(det_tensor *x, int dim)
{
    int64_t size = det_size(x, dim);
    if (!x || sticky_failed()) return NULL;
    if (!x->ndim || size % 2 || !dtype_is_float((det_dtype)x->dtype)) {
        det_raise(DET_ESHAPE, "glu: dim %d of %s %s; wants floats and a size that can be halved",
                  dim, TENSOR_TEXT(x), det_dtype_name((det_dtype)x->dtype));
        return NULL;
    }
    det_tensor *gate = det_slice(x, dim, size / 2, size, 1);
    return det_mul(det_slice(x, dim, 0, size / 2, 1), det_sigmoid(gate));
}
