// Unit resample.c: applies a weighted window per axis to images. Called by pooling and
// interpolation.
#include "tensor/resample.h"

#include "tensor/kernels/kernels.h"
#include "tensor/share.h"

// A sparse matrix with one run of weights per row.
struct run {
    int64_t first, count;
    double weight[];
};

struct runs {
    det_tensor *memory; // rows of 2 + width numbers of 8 bytes
    int64_t n, width;
};

static struct run *run_at(const struct runs *r, int64_t i)
{
    return (struct run *)(void *)((char *)r->memory->data + i * (r->width + 2) * 8);
}

static struct runs runs_new(int64_t n, int64_t width)
{
    return (struct runs){tensor_new(DET_I64, (const int64_t[]){n, width + 2}, 2), n, width};
}

static struct runs runs_forward(const struct axis *a, axis_fn fn)
{
    struct runs r = runs_new(a->n_out, a->most);
    for (int64_t o = 0; r.memory && o < r.n; o++) {
        struct run *run = run_at(&r, o);
        run->count = fn(a, o, &run->first, run->weight);
    }
    return r;
}

static int64_t widest(const struct run *used, int64_t n)
{
    int64_t width = 0;
    for (int64_t i = 0; i < n; i++)
        width = MAX(width, used[i].count);
    return width;
}

// Which outputs each input takes part in; they are neighbours.
static void transposed_extent(const struct runs *r, struct run *used, int64_t n_in)
{
    memset(used, 0, (size_t)n_in * sizeof *used);
    for (int64_t o = 0; o < r->n; o++) {
        const struct run *run = run_at(r, o);
        for (int64_t i = run->first; i < run->first + run->count; i++) {
            if (!used[i].count) used[i].first = o;
            used[i].count = o - used[i].first + 1;
        }
    }
}

static struct runs runs_transposed(const struct axis *a, axis_fn fn)
{
    struct runs r = runs_forward(a, fn), t = {0};
    struct run *used = scratch(SCRATCH_D, (size_t)a->n_in * sizeof *used);
    if (!r.memory || !used) goto out;
    transposed_extent(&r, used, a->n_in);
    t = runs_new(a->n_in, widest(used, a->n_in));
    if (!t.memory) goto out;
    memset(t.memory->data, 0, t.memory->storage->n_bytes);
    for (int64_t i = 0; i < a->n_in; i++)
        memcpy(run_at(&t, i), &used[i], sizeof used[i]);
    for (int64_t o = 0; o < r.n; o++) {
        const struct run *run = run_at(&r, o);
        for (int64_t k = 0; k < run->count; k++) {
            struct run *to = run_at(&t, run->first + k);
            to->weight[o - to->first] += run->weight[k];
        }
    }
out:
    tensor_release(r.memory);
    return t;
}

// --- the walk

struct walk {
    const det_tensor *x;
    det_tensor *y;
    struct runs h, w;
};

static void sum_f64(const struct window *w, double *out)
{
    for (int64_t j = 0; j < w->c; j++) {
        out[j] = 0;
        for (int64_t h = 0; h < w->n_h; h++)
            for (int64_t k = 0; k < w->n_w; k++)
                out[j] += w->weight_h[h] * w->weight_w[k] *
                          ((const double *)w->x)[h * w->row_stride + k * w->c + j];
    }
}

// Rows of pixels of the result, all images behind one another.
static void walk_rows(void *ctx, int64_t from, int64_t to)
{
    const struct walk *k = ctx;
    int64_t c = k->x->shape[1], in_h = k->x->shape[2], in_w = k->x->shape[3],
            out_h = k->y->shape[2];
    int64_t size = (int64_t)dtype_size((det_dtype)k->x->dtype);
    struct window win = {.c = c, .row_stride = in_w * c, .bf16 = k->x->dtype == DET_BF16};
    char *y = (char *)k->y->data + from * k->w.n * c * size;
    for (int64_t row = from; row < to; row++) {
        const struct run *h = run_at(&k->h, row % out_h);
        const char *x =
            (const char *)k->x->data + (row / out_h * in_h + h->first) * win.row_stride * size;
        win.n_h = h->count;
        win.weight_h = h->weight;
        for (int64_t col = 0; col < k->w.n; col++, y += c * size) {
            const struct run *w = run_at(&k->w, col);
            win.n_w = w->count;
            win.weight_w = w->weight;
            win.x = x + w->first * c * size;
            if (k->x->dtype == DET_F64)
                sum_f64(&win, (double *)(void *)y);
            else
                kernels->window_sum(&win, y);
        }
    }
}

static void walk_run(struct walk *k)
{
    int64_t rows = k->y->shape[0] * k->y->shape[2];
    int64_t pixels = MAX(k->x->numel, k->y->numel) / MAX(rows, (int64_t)1);
    if (k->y->numel) share_rows(rows, pixels, walk_rows, k);
}

static struct axis axis_of(const struct node *n, int which, int64_t most)
{
    return (struct axis){n->attr, which, n->in[0]->shape[2 + which], n->out[0]->shape[2 + which],
                         most};
}

int resample_forward(struct node *n, axis_fn fn, const int64_t *most)
{
    struct axis h = axis_of(n, 0, most[0]), w = axis_of(n, 1, most[1]);
    det_tensor *x = tensor_converted(n->in[0], (det_dtype)n->in[0]->dtype, CHANNELS_LAST);
    struct walk k = {x, n->out[0], runs_forward(&h, fn), runs_forward(&w, fn)};
    bool ok = x && k.h.memory && k.w.memory;
    if (ok) walk_run(&k);
    tensor_release(x);
    tensor_release(k.h.memory);
    tensor_release(k.w.memory);
    return ok ? 0 : DET_ENOMEM;
}

int resample_backward(struct node *n, axis_fn fn, const int64_t *most)
{
    struct axis h = axis_of(n, 0, most[0]), w = axis_of(n, 1, most[1]);
    det_tensor *g = tensor_converted(out_grad(n, 0), (det_dtype)n->in[0]->dtype, CHANNELS_LAST),
               *gx = tensor_new_ordered((det_dtype)n->in[0]->dtype, n->in[0]->shape, 4,
                                        CHANNELS_LAST);
    struct walk k = {g, gx, runs_transposed(&h, fn), runs_transposed(&w, fn)};
    bool ok = g && gx && k.h.memory && k.w.memory;
    if (ok) walk_run(&k);
    if (ok) give_grad(n, 0, tensor_ref(gx));
    tensor_release(g);
    tensor_release(gx);
    tensor_release(k.h.memory);
    tensor_release(k.w.memory);
    return ok ? 0 : DET_ENOMEM;
}

int resample_infer(struct node *n, int64_t out_h, int64_t out_w, int64_t least)
{
    const det_tensor *x = n->in[0];
    if (!dtype_is_float((det_dtype)x->dtype))
        return node_fail(n, DET_EDTYPE, "input is %s, wants floats",
                         det_dtype_name((det_dtype)x->dtype));
    if (x->ndim != 4 || !x->shape[2] || !x->shape[3])
        return node_fail(n, DET_ESHAPE, "input is %s, wants (N, C, H, W)", TENSOR_TEXT(x));
    if (out_h < least || out_w < least)
        return node_fail(n, DET_ESHAPE, "%s would become %lld x %lld", TENSOR_TEXT(x),
                         (long long)out_h, (long long)out_w);
    return node_out_channels_last(n, (det_dtype)x->dtype,
                                  (const int64_t[]){x->shape[0], x->shape[1], out_h, out_w});
}
