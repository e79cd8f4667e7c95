// Unit reduce.c: brings reductions into one of two shapes and shares them out to the pool.
#include "tensor/reduce.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"

det_dtype fold_dtype(det_dtype dtype)
{
    if (dtype == DET_BF16) return DET_F32;
    return dtype_is_float(dtype) ? dtype : DET_I64;
}

// --- the two shapes
// ---------------------------------------------------------------------------------

static void add_kept(struct axes *a, const det_tensor *x, unsigned dims)
{
    for (int d = x->ndim - 1; d >= 0; d--)
        if (!(dims >> d & 1)) axes_add(a, x->shape[d], x->stride[d]);
    if (!a->n) *a = (struct axes){.n = 1, .size = {1}};
}

// In order of stride: for the result it does not matter which element comes first.
static void add_reduced(struct axes *a, const det_tensor *x, unsigned dims)
{
    int order[DET_MAX_DIMS], n = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (!(dims >> d & 1)) continue;
        int at = n++;
        for (; at && x->stride[order[at - 1]] > x->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = 0; i < n; i++)
        axes_add(a, x->shape[order[i]], x->stride[order[i]]);
    if (!a->n) *a = (struct axes){.n = 1, .size = {1}, .stride = {1}};
}

// A dense copy with the kept dims first and the reduced dims last.
static det_tensor *copy_as_rows(det_tensor *x, unsigned dims, det_dtype dtype)
{
    det_tensor view = *x;
    int n = 0;
    for (int reduced = 0; reduced < 2; reduced++)
        for (int d = 0; d < x->ndim; d++) {
            if ((int)(dims >> d & 1) != reduced) continue;
            view.shape[n] = x->shape[d];
            view.stride[n++] = x->stride[d];
        }
    det_tensor *copy = tensor_new(dtype, view.shape, view.ndim);
    if (copy) ew_copy(copy, &view);
    return copy;
}

// Runs of memory are folded on their own and merged one after the other. Many short ones would
// round as often as there are runs, so they are put together first.
static bool is_scattered(const struct reduction *r)
{
    enum { SHORT_RUN = 128, MANY_RUNS = 256 };
    int64_t run = r->reduced.size[0];
    return run > 0 && run < SHORT_RUN && r->n_reduced / run > MANY_RUNS;
}

int reduction_init(struct reduction *r, det_tensor *x, unsigned dims)
{
    *r = (struct reduction){.n_kept = 1, .n_reduced = 1};
    for (int d = 0; d < x->ndim; d++)
        *(dims >> d & 1 ? &r->n_reduced : &r->n_kept) *= x->shape[d];
    add_kept(&r->kept, x, dims);
    add_reduced(&r->reduced, x, dims);
    r->columns = r->kept.stride[0] == 1;
    det_dtype dtype = dtype_is_float((det_dtype)x->dtype) ? (det_dtype)x->dtype : DET_I64;
    bool walkable = r->columns || r->reduced.stride[0] == 1;
    if (dtype == x->dtype && walkable && !is_scattered(r)) {
        r->x = tensor_ref(x);
        return 0;
    }
    r->x = copy_as_rows(x, dims, dtype);
    r->columns = false;
    r->kept = (struct axes){.n = 1, .size = {r->n_kept}, .stride = {r->n_reduced}};
    r->reduced = (struct axes){.n = 1, .size = {r->n_reduced}, .stride = {1}};
    return r->x ? 0 : DET_ENOMEM;
}

void reduction_done(struct reduction *r)
{
    tensor_release(r->x);
    r->x = NULL;
}

// --- walking
// ------------------------------------------------------------------------------------------

struct cursor {
    int64_t at[DET_MAX_DIMS], offset; // offset in elements
};

static struct cursor cursor_at(const struct axes *a, int64_t position)
{
    struct cursor c = {0};
    for (int i = 0; i < a->n && position; i++) {
        c.at[i] = position % a->size[i];
        position /= a->size[i];
        c.offset += c.at[i] * a->stride[i];
    }
    return c;
}

// n positions on, at most to the end of the innermost axis.
static void cursor_advance(struct cursor *c, const struct axes *a, int64_t n)
{
    c->at[0] += n;
    c->offset += n * a->stride[0];
    for (int i = 0; i + 1 < a->n && c->at[i] == a->size[i]; i++) {
        c->offset += a->stride[i + 1] - a->size[i] * a->stride[i];
        c->at[i] = 0;
        c->at[i + 1]++;
    }
}

struct job {
    const struct reduction *r;
    enum fold_id id;
    const struct fold_args *args;
    char *out;                 // accumulators: n_kept for each split
    int64_t out_step, in_step; // kept and reduced positions of a piece
    int64_t n_out_pieces, n_splits;
};

static void fold(enum fold_id id, det_dtype dtype, bool columns, const struct fold_block *b)
{
    if (dtype == DET_F64)
        fold_f64(id, columns, b);
    else if (dtype == DET_I64)
        fold_i64(id, columns, b);
    else if (columns)
        kernels->fold_columns(id, dtype == DET_BF16, b);
    else
        kernels->fold_rows(id, dtype == DET_BF16, b);
}

static void fold_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct reduction *r = j->r;
    det_dtype dtype = (det_dtype)r->x->dtype;
    int64_t bytes = (int64_t)dtype_size(dtype), acc = (int64_t)dtype_size(fold_dtype(dtype));
    int64_t split = piece / j->n_out_pieces, k = piece % j->n_out_pieces * j->out_step, width, rows;
    int64_t k_end = MIN(k + j->out_step, r->n_kept);
    int64_t i_end = MIN((split + 1) * j->in_step, r->n_reduced);
    struct cursor out = cursor_at(&r->kept, k);
    for (; k < k_end; k += width, cursor_advance(&out, &r->kept, width)) {
        width = MIN(r->kept.size[0] - out.at[0], k_end - k);
        int64_t i = split * j->in_step;
        struct cursor in = cursor_at(&r->reduced, i);
        struct fold_block b = {.out = j->out + (split * r->n_kept + k) * acc,
                               .power = j->args->power};
        if (j->args->centre) b.centre = (const char *)j->args->centre + k * acc;
        for (; i < i_end; i += rows, cursor_advance(&in, &r->reduced, rows)) {
            rows = MIN(r->reduced.size[0] - in.at[0], i_end - i);
            b.src = (const char *)r->x->data + (out.offset + in.offset) * bytes;
            b.rows = r->columns ? rows : width;
            b.width = r->columns ? width : rows;
            b.ld = r->columns ? r->reduced.stride[0] : r->kept.stride[0];
            fold(j->id, dtype, r->columns, &b);
        }
    }
}

// --- sharing out
// ----------------------------------------------------------------------------------------

enum {
    PIECE = 32 << 10,   // elements
    COLUMN_PIECE = 512, // outputs: long runs of memory
    ENOUGH_PIECES = 64, // beyond this, outputs alone keep all threads busy
    MIN_SPLIT = 128,    // reduced positions
};

static int64_t pieces(int64_t total, int64_t step)
{
    return (total + step - 1) / step;
}

static void plan(struct job *j)
{
    const struct reduction *r = j->r;
    j->out_step = r->n_kept;
    j->in_step = r->n_reduced;
    j->n_out_pieces = j->n_splits = 1;
    if (r->x->numel < 2 * PIECE) return;
    j->out_step = MAX(PIECE / r->n_reduced, r->columns ? COLUMN_PIECE : 1);
    j->n_out_pieces = pieces(r->n_kept, j->out_step);
    if (j->n_out_pieces >= ENOUGH_PIECES) return;
    j->in_step = MAX(PIECE / MIN(j->out_step, r->n_kept), MIN_SPLIT);
    j->n_splits = pieces(r->n_reduced, j->in_step);
}

static enum fold_id fold_merges_by(enum fold_id id)
{
    static const uint8_t merge_id[N_FOLDS] = {
#define FOLD(name, merge, start, value) [FOLD_##name] = FOLD_##merge,
#define FLOAT_FOLD FOLD
#include "tensor/kernels/folds.def"
#undef FOLD
#undef FLOAT_FOLD
    };
    return (enum fold_id)merge_id[id];
}

int reduce(const struct reduction *r, enum fold_id id, const struct fold_args *args, void *out)
{
    static const struct fold_args no_args;
    struct job j = {.r = r, .id = id, .args = args ? args : &no_args, .out = out};
    det_dtype dtype = fold_dtype((det_dtype)r->x->dtype);
    if (!j.args->accumulate) fold_start(id, dtype, out, r->n_kept);
    if (!r->x->numel) return 0;
    plan(&j);
    if (j.n_splits == 1) {
        pool_run((int)j.n_out_pieces, fold_piece, &j);
        return 0;
    }
    det_tensor *parts = tensor_new(dtype, (int64_t[]){j.n_splits, r->n_kept}, 2);
    if (!parts) return DET_ENOMEM;
    fold_start(id, dtype, parts->data, parts->numel);
    j.out = parts->data;
    pool_run((int)(j.n_out_pieces * j.n_splits), fold_piece, &j);
    fold(fold_merges_by(id), dtype, true,
         &(struct fold_block){.src = parts->data,
                              .rows = j.n_splits,
                              .width = r->n_kept,
                              .ld = r->n_kept,
                              .out = out});
    tensor_release(parts);
    return 0;
}

// All but the last dim of a small row-major tensor, such as the gradient of a bias: there is
// nothing to plan.
static bool sum_small(const det_tensor *g, unsigned dims, bool accumulate, void *out)
{
    det_dtype dtype = (det_dtype)g->dtype;
    bool leading = g->ndim && dims == (1u << (g->ndim - 1)) - 1;
    if (!leading || !g->numel || g->numel >= PIECE || !tensor_is_row_major(g)) return false;
    int64_t width = g->shape[g->ndim - 1];
    struct fold_block b = {.src = g->data, .rows = 1, .width = g->numel, .out = out};
    if (width > 1) b.rows = g->numel / width, b.width = b.ld = width;
    if (!accumulate) fold_start(FOLD_sum, fold_dtype(dtype), out, width);
    fold(FOLD_sum, dtype, width > 1, &b);
    return true;
}

static void sum_any(det_tensor *g, unsigned dims, const struct fold_args *args, void *out)
{
    struct reduction r;
    if (!reduction_init(&r, g, dims)) reduce(&r, FOLD_sum, args, out);
    reduction_done(&r);
}

void give_sum(struct node *n, int i, det_tensor *g, unsigned dims)
{
    if (!wants_grad(n, i)) return;
    det_tensor *t = n->in[i];
    bool in_place = fold_dtype((det_dtype)g->dtype) == t->dtype && tensor_is_row_major(t);
    struct fold_args args = {0};
    det_tensor *sum = in_place ? grad_target(n, i, &args.accumulate)
                               : tensor_new(fold_dtype((det_dtype)g->dtype), t->shape, t->ndim);
    if (sum && !sum_small(g, dims, args.accumulate, sum->data)) sum_any(g, dims, &args, sum->data);
    if (!in_place) give_grad(n, i, sum);
}
