// Unit op_write.c: writing in place. A write is checked, done at once, counted (storage.version)
// and, if a gradient can flow through it, recorded as a node that gives the written tensor another
// history (history.c).
#include "tensor/elementwise.h"
#include "tensor/ops.h"

#include <math.h>

// --- the node: base = write(base, from), where only the part of base that is AUX_PART changes

// The part becomes keep * itself + take * from. That it is replaced is not the same as keep = 0:
// zero times an infinite gradient is NaN.
struct write_attr {
    bool replaces;
    double keep, take;
};

enum { IN_BASE, IN_FROM };
enum { AUX_PART };

static bool has_strides_of(const det_tensor *g, const det_tensor *base)
{
    for (int d = 0; d < base->ndim; d++)
        if (base->shape[d] > 1 && g->stride[d] != base->stride[d]) return false;
    return true;
}

// t with elements that lie at one place taken as one: for writing the same number everywhere.
static det_tensor without_repeats(const det_tensor *t)
{
    det_tensor once = *t;
    for (int d = 0; d < t->ndim; d++) {
        if (t->stride[d] || t->shape[d] < 2) continue;
        once.numel /= t->shape[d];
        once.shape[d] = 1;
    }
    return once;
}

// g with the strides of base, so that a part of base is found at the same place of g, and if
// somebody is going to write, held by nobody else. Takes and gives references.
static det_tensor *grad_in_place(det_tensor *g, const det_tensor *base, bool to_write)
{
    bool is_shared = g->refs > 1 || g->storage->refs > 1;
    if (has_strides_of(g, base) && !(to_write && is_shared)) return g;
    struct tensor_layout layout = {.dtype = (det_dtype)g->dtype, .ndim = base->ndim};
    memcpy(layout.shape, base->shape, sizeof layout.shape);
    memcpy(layout.stride, base->stride, sizeof layout.stride);
    int64_t extent = tensor_extent(base->shape, base->stride, base->ndim);
    struct storage *s = storage_new((size_t)extent * dtype_size((det_dtype)g->dtype));
    det_tensor *copy = s ? tensor_over(s, &layout) : NULL;
    storage_unref(s);
    if (copy) ew_copy(copy, g);
    tensor_release(g);
    return copy;
}

static det_tensor part_of(det_tensor *g, const struct node *n)
{
    const det_tensor *part = n->aux[AUX_PART], *base = n->out[0];
    det_tensor view = *part;
    view.storage = g->storage;
    view.data = (char *)g->data + ((char *)part->data - (char *)base->data);
    return view;
}

static det_tensor *times(det_tensor *g, double factor)
{
    det_tensor *c = tensor_new((det_dtype)g->dtype, g->shape, g->ndim);
    if (!c) return NULL;
    if (factor == 1)
        ew_copy(c, g);
    else
        ew_run(ew_unary(UNARY_mul_scalar, (det_dtype)g->dtype), (det_tensor *const[]){c, g}, 2,
               (double[]){factor, 0});
    return c;
}

static int write_backward(struct node *n)
{
    const struct write_attr *a = NODE_ATTR(n, struct write_attr);
    det_tensor *base = n->out[0], *g = base->grad;
    base->grad = NULL; // what it gets now is the gradient of its value before the write
    base->grad_valid = false;
    bool changes = wants_grad(n, IN_BASE) && (a->replaces || a->keep != 1);
    g = grad_in_place(g, base, changes);
    if (!g) return node_fail(n, DET_ENOMEM, "no memory for the gradient of %s", TENSOR_TEXT(base));
    det_tensor part = part_of(g, n);
    if (wants_grad(n, IN_FROM)) {
        bool as_it_is = n->aux[AUX_PART] == base && a->take == 1 && !changes;
        det_tensor *taken = as_it_is ? tensor_ref(g) : times(&part, a->take);
        give_grad(n, IN_FROM, sum_to_shape(taken, n->in[IN_FROM]));
    }
    if (!wants_grad(n, IN_BASE)) {
        tensor_release(g);
        return 0;
    }
    if (a->replaces) {
        det_tensor once = without_repeats(&part);
        ew_fill(&once, 0);
    } else if (changes) {
        ew_run(ew_unary(UNARY_mul_scalar, (det_dtype)g->dtype), (det_tensor *const[]){&part, &part},
               2, (double[]){a->keep, 0});
    }
    give_grad(n, IN_BASE, g);
    return 0;
}

// Not in the table: it is recorded by what follows, never called.
static const struct op op_write = {
    .name = "write", .min_in = 1, .max_in = 2, .backward = write_backward};

// --- may it be written

static bool broadcasts_to(const det_tensor *from, const det_tensor *to)
{
    if (from->ndim > to->ndim) return false;
    for (int i = 1; i <= from->ndim; i++) {
        int64_t a = from->shape[from->ndim - i], b = to->shape[to->ndim - i];
        if (a != b && a != 1) return false;
    }
    return true;
}

// Whether several elements lie at one place. Says yes to strides that it does not see through,
// which no operation makes.
static bool overlaps_itself(const det_tensor *t)
{
    if (tensor_is_row_major(t) || !t->numel) return false;
    int64_t reach = 1; // of the dims that were seen: the next stride must be at least this
    bool seen[DET_MAX_DIMS] = {0};
    for (int round = 0; round < t->ndim; round++) {
        int next = -1;
        for (int d = 0; d < t->ndim; d++)
            if (!seen[d] && (next < 0 || t->stride[d] < t->stride[next])) next = d;
        seen[next] = true;
        if (t->shape[next] == 1) continue;
        if (t->stride[next] < reach) return true;
        reach += (t->shape[next] - 1) * t->stride[next];
    }
    return false;
}

struct write {
    const char *function; // for messages
    det_tensor *to, *base;
    det_tensor *from; // NULL: numbers
    bool tracked;
};

static bool is_parameter(const det_tensor *t)
{
    return t->requires_grad && !t->node;
}

// What a write with a history must not change.
static bool may_renew(const struct write *w)
{
    const char *view = w->to == w->base ? "" : "a view of ";
    if (is_parameter(w->base)) {
        det_raise(DET_ESTATE,
                  "%s: the tensor %s is %sa leaf that requires a gradient; turn gradients off "
                  "(det_set_grad_enabled) to write into it",
                  w->function, TENSOR_TEXT(w->to), view);
        return false;
    }
    for (const det_tensor *t = w->to; t != w->base; t = t->node->in[0]) {
        if (!t->node->no_grad) continue;
        det_raise(DET_ESTATE,
                  "%s: the tensor %s is a view made while gradients were off; make the view again "
                  "with gradients on, or write with gradients off",
                  w->function, TENSOR_TEXT(w->to));
        return false;
    }
    if (!overlaps_itself(w->base)) return true;
    det_raise(DET_ESTATE,
              "%s: elements of %s, which %s looks at, share memory; write into a "
              "det_clone of it",
              w->function, TENSOR_TEXT(w->base), TENSOR_TEXT(w->to));
    return false;
}

static bool source_fits(const struct write *w)
{
    if (!w->from)
        det_raise(DET_EINVAL, "%s: the source is NULL", w->function);
    else if (!broadcasts_to(w->from, w->to))
        det_raise(DET_ESHAPE, "%s: %s does not broadcast to %s", w->function, TENSOR_TEXT(w->from),
                  TENSOR_TEXT(w->to));
    return !sticky_failed();
}

// Whatever was recorded so far must have read the old content before it changes.
static bool write_begin(struct write *w)
{
    struct tape *tape = tape_get();
    if (!w->to || sticky_failed()) return false;
    w->base = tensor_base(w->to);
    if (w->from && !tape->no_grad) view_renew(w->from);
    w->tracked = !tape->no_grad && dtype_is_float((det_dtype)w->to->dtype) &&
                 (w->base->requires_grad || (w->from && w->from->requires_grad));
    if (sticky_failed() || (w->tracked && !may_renew(w))) return false;
    tape_finish(tape);
    tensor_finish(w->to); // it may have been merged into another operation
    if (w->from) tensor_finish(w->from);
    // Nobody asks for results that were merged once the parameters move on.
    if (!sticky_failed() && !is_parameter(w->base)) finish_merged(tape, w->to->storage);
    return !sticky_failed();
}

static bool each_element_once(const struct write *w)
{
    if (!overlaps_itself(w->to)) return true;
    det_raise(DET_ESTATE,
              "%s: elements of the tensor %s share memory (it was expanded), so that there is no "
              "room for a value of each; write into det_contiguous of it",
              w->function, TENSOR_TEXT(w->to));
    return false;
}

// What adds or multiplies: not in the types for storage.
static bool can_compute(const struct write *w)
{
    const det_tensor *stored = dtype_is_stored((det_dtype)w->to->dtype)                ? w->to
                               : w->from && dtype_is_stored((det_dtype)w->from->dtype) ? w->from
                                                                                       : NULL;
    if (!stored) return true;
    det_raise(DET_EDTYPE, "%s: %s is a type for storage; convert it (det_to)", w->function,
              det_dtype_name((det_dtype)stored->dtype));
    return false;
}

static void write_end(const struct write *w, struct write_attr a)
{
    tensor_touch(w->to);
    if (!w->tracked) return;
    w->base->storage->history++;
    struct node *n = tensor_renew(w->base, &op_write, (det_tensor *const[]){w->base, w->from},
                                  w->from ? 2 : 1, &a, sizeof a);
    n->aux[AUX_PART] = tensor_ref(w->to);
}

// --- sources

// What to read: from itself, or a copy where writing would change what is still to be read. Release
// it. NULL after an error.
static det_tensor *source(const struct write *w)
{
    det_tensor *to = w->to, *from = w->from;
    bool in_step = from->data == to->data && same_shape(from, to) && has_strides_of(from, to);
    if (from->storage != to->storage || in_step) return tensor_ref(from);
    det_tensor *copy = tensor_new((det_dtype)from->dtype, from->shape, from->ndim);
    if (copy) ew_copy(copy, from);
    return copy;
}

// torch's rule: a result may lose digits in the tensor that it is written into, but not become an
// integer or a bool.
static bool result_fits(const struct write *w, det_dtype result)
{
    det_dtype to = (det_dtype)w->to->dtype;
    bool fits = dtype_is_float(to) || (!dtype_is_float(result) && (to != DET_BOOL || result == to));
    if (!fits)
        det_raise(DET_EDTYPE, "%s: the result is %s and does not fit a tensor of type %s",
                  w->function, det_dtype_name(result), det_dtype_name(to));
    return fits;
}

// --- the functions

void det_fill_(det_tensor *t, double value)
{
    struct write w = {.function = "det_fill_", .to = t};
    if (!write_begin(&w)) return;
    if (!dtype_holds((det_dtype)t->dtype, value)) {
        det_raise(DET_EINVAL, "det_fill_: %g is no %s", value, det_dtype_name((det_dtype)t->dtype));
        return;
    }
    det_tensor once = without_repeats(t);
    ew_fill(&once, value);
    write_end(&w, (struct write_attr){.replaces = true});
}

void det_write(det_tensor *t, const void *data)
{
    struct write w = {.function = "det_write", .to = t};
    if (!write_begin(&w) || !each_element_once(&w)) return;
    if (!data && t->numel) {
        det_raise(DET_EINVAL, "det_write: data is NULL");
        return;
    }
    det_tensor in = *t;
    int64_t stride = 1;
    for (int d = t->ndim; d-- > 0; stride *= MAX(t->shape[d], 1))
        in.stride[d] = stride;
    in.data = (void *)(uintptr_t)data; // only read
    ew_copy(t, &in);
    write_end(&w, (struct write_attr){.replaces = true});
}

void det_copy_(det_tensor *t, det_tensor *from)
{
    struct write w = {.function = "det_copy_", .to = t, .from = from};
    if (!write_begin(&w) || !source_fits(&w)) return;
    if (t == from) { // as torch: counted, and nothing else
        tensor_touch(t);
        return;
    }
    det_tensor *values = each_element_once(&w) ? source(&w) : NULL;
    if (!values) return;
    ew_copy(t, values);
    tensor_release(values);
    write_end(&w, (struct write_attr){.replaces = true, .take = 1});
}

// t += alpha * other, computed in `type`. False after an error.
static bool add_in_type(det_tensor *t, det_tensor *other, double alpha, det_dtype type)
{
    det_tensor *sum = t->dtype == type ? tensor_ref(t) : tensor_new(type, t->shape, t->ndim);
    det_tensor *operand =
        other->dtype == type ? tensor_ref(other) : tensor_new(type, other->shape, other->ndim);
    bool ok = sum && operand;
    if (ok) {
        if (operand != other) ew_copy(operand, other);
        if (sum != t) ew_copy(sum, t);
        ew_run(ew_axpy(type), (det_tensor *const[]){sum, operand}, 2, (double[]){alpha, 0});
        if (sum != t) ew_copy(t, sum);
    }
    tensor_release(sum);
    tensor_release(operand);
    return ok;
}

void det_add_(det_tensor *t, det_tensor *other, double alpha)
{
    struct write w = {.function = "det_add_", .to = t, .from = other};
    if (!write_begin(&w) || !source_fits(&w) || !can_compute(&w) || !each_element_once(&w)) return;
    det_dtype type = common_type((det_tensor *const[]){t, other}, 2);
    bool fraction = !dtype_is_float(type) && alpha != trunc(alpha);
    if (!result_fits(&w, fraction ? DET_F32 : type)) return;
    det_tensor *values = source(&w);
    bool or = type == DET_BOOL; // which the sum of bools is, whatever the factor
    bool done = values && add_in_type(t, values, or ? alpha != 0 : alpha, or ? DET_I64 : type);
    tensor_release(values);
    if (done) write_end(&w, (struct write_attr){.keep = 1, .take = alpha});
}

void det_mul_(det_tensor *t, double factor)
{
    struct write w = {.function = "det_mul_", .to = t};
    if (!write_begin(&w) || !can_compute(&w) || !each_element_once(&w)) return;
    if (dtype_is_float((det_dtype)t->dtype)) {
        ew_fn fn = ew_unary(UNARY_mul_scalar, (det_dtype)t->dtype);
        ew_run(fn, (det_tensor *const[]){t, t}, 2, (double[]){factor, 0});
    } else {
        det_tensor *product = det_mul_scalar(t, factor);
        if (!product || !result_fits(&w, (det_dtype)product->dtype)) return;
        ew_copy(t, product);
    }
    write_end(&w, (struct write_attr){.keep = factor});
}
