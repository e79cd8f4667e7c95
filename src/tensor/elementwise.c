// Unit elementwise.c: walks several strided tensors in step. Dimensions are sorted and merged
// first, so that most walks are one loop over dense memory; large ones are shared out to the pool.
#include "tensor/elementwise.h"

#include "sys/pool.h"

enum { PIECE = 16 << 10 }; // elements; below two of these the pool costs more than it gives

struct walk {
    int n_operands, ndim; // dim 0 is the innermost
    int64_t size[DET_MAX_DIMS];
    int64_t stride[DET_MAX_DIMS][EW_MAX_OPERANDS]; // bytes
    char *base[EW_MAX_OPERANDS];
    int64_t total;
    ew_fn fn;
    const double *arg;
};

// Dims from the output's fastest to its slowest, those of size 1 left out.
static void walk_dims(struct walk *w, det_tensor *const *t)
{
    const det_tensor *out = t[0];
    int order[DET_MAX_DIMS], n = 0;
    for (int d = out->ndim - 1; d >= 0; d--) {
        if (out->shape[d] == 1) continue;
        int at = n++;
        while (at && out->stride[order[at - 1]] > out->stride[d]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = d;
    }
    w->ndim = n;
    for (int i = 0; i < n; i++) {
        int d = order[i];
        w->size[i] = out->shape[d];
        for (int k = 0; k < w->n_operands; k++) {
            int dk = d - (out->ndim - t[k]->ndim); // shapes align at the last dim
            bool repeated = dk < 0 || t[k]->shape[dk] == 1;
            int64_t bytes = (int64_t)dtype_size((det_dtype)t[k]->dtype);
            w->stride[i][k] = repeated ? 0 : t[k]->stride[dk] * bytes;
        }
    }
}

static bool mergeable(const struct walk *w, int i)
{
    for (int k = 0; k < w->n_operands; k++)
        if (w->stride[i + 1][k] != w->stride[i][k] * w->size[i]) return false;
    return true;
}

static void walk_merge(struct walk *w)
{
    int at = 0;
    for (int i = 1; i < w->ndim; i++) {
        w->size[at + 1] = w->size[i];
        memcpy(w->stride[at + 1], w->stride[i], sizeof w->stride[i]);
        if (mergeable(w, at))
            w->size[at] *= w->size[at + 1];
        else
            at++;
    }
    if (w->ndim) w->ndim = at + 1;
}

// Elements [from, to) in walking order.
static void walk_range(const struct walk *w, int64_t from, int64_t to)
{
    int64_t index[DET_MAX_DIMS] = {0}, rest = from;
    for (int i = 0; i < w->ndim; i++) {
        index[i] = rest % w->size[i];
        rest /= w->size[i];
    }
    while (from < to) {
        void *p[EW_MAX_OPERANDS];
        for (int k = 0; k < w->n_operands; k++) {
            char *q = w->base[k];
            for (int i = 0; i < w->ndim; i++)
                q += index[i] * w->stride[i][k];
            p[k] = q;
        }
        int64_t n = w->ndim ? MIN(w->size[0] - index[0], to - from) : 1;
        w->fn(n, p, w->stride[0], w->arg);
        from += n;
        index[0] = 0;
        for (int i = 1; i < w->ndim && ++index[i] == w->size[i]; i++)
            index[i] = 0;
    }
}

static void walk_piece(void *ctx, int piece)
{
    const struct walk *w = ctx;
    int64_t from = (int64_t)piece * PIECE;
    walk_range(w, from, MIN(from + PIECE, w->total));
}

void ew_run(ew_fn fn, det_tensor *const *t, int n, const double *arg)
{
    static const double no_arg[2];
    struct walk w = {.n_operands = n, .fn = fn, .arg = arg ? arg : no_arg, .total = t[0]->numel};
    if (!w.total) return;
    for (int k = 0; k < n; k++)
        w.base[k] = t[k]->data;
    walk_dims(&w, t);
    walk_merge(&w);
    if (w.total < 2 * PIECE)
        walk_range(&w, 0, w.total);
    else
        pool_run((int)divide_up(w.total, PIECE), walk_piece, &w);
}

void ew_copy(det_tensor *out, det_tensor *in)
{
    ew_fn fn = ew_cast((det_dtype)out->dtype, (det_dtype)in->dtype);
    ew_run(fn, (det_tensor *const[]){out, in}, 2, NULL);
}

void ew_fill(det_tensor *out, double value)
{
    if (out->dtype == DET_F32 && out->numel == 1) {
        *(float *)out->data = (float)value;
        return;
    }
    det_tensor source = {.dtype = DET_F64, .numel = 1, .data = &value};
    ew_copy(out, &source);
}
