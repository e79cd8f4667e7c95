// Unit attention.c: attention in f32 (bf16 is converted block by block). Called by op_attention.c.
//
// A piece of work is some blocks of query rows of one batch item (one head). The scores of a block
// against all its keys stay in the cache, so the whole matrix of scores never exists; backward
// computes them again from the saved largest score and sum of each row.
#include "tensor/attention.h"

#include "sys/pool.h"
#include "tensor/panels.h"

enum {
    BLOCK_ROWS = 48, // of queries: whole tiles on every processor
    MIN_BLOCK_ROWS = 16,
    BLOCK_SCORES = 96 << 10, // floats; fewer rows when there are very many keys
    WANTED_PIECES = 16,
    WORTH_THREADS = 128 << 10, // multiply-adds
};

// What all pieces of a call share.
struct attention_job {
    const struct attention *a;
    int64_t block_rows, n_blocks, n_groups; // groups of blocks of one batch item: a piece each
    int64_t ld;                             // of scores
    int64_t scratch_floats;
    float *partial; // several groups: (batch, groups, keys, d + e), gradients of k and v
    int rc;
};

int64_t attention_offset(const struct attention *a, const det_tensor *t, int64_t batch)
{
    int64_t offset = 0;
    for (int i = 3; i <= a->q->ndim; i++) { // from the innermost batch dim
        int64_t size = a->q->shape[a->q->ndim - i];
        if (i <= t->ndim && t->shape[t->ndim - i] != 1)
            offset += batch % size * t->stride[t->ndim - i];
        batch /= size;
    }
    return offset;
}

int64_t attention_mask_stride(const struct attention *a)
{
    const det_tensor *m = a->mask;
    return m && m->ndim > 1 && m->shape[m->ndim - 2] != 1 ? m->stride[m->ndim - 2] : 0;
}

struct attention_dropout attention_dropout_of(const struct attention *a)
{
    return (struct attention_dropout){.p = a->attr->dropout,
                                      .seed = a->attr->seed,
                                      .stream = a->attr->stream,
                                      .row_blocks = (a->keys + 3) / 4};
}

static struct attention_job job_new(const struct attention *a)
{
    struct attention_job j = {.a = a};
    int lanes = kernels->gemm_lanes();
    j.ld = round_up(a->keys, lanes);
    j.block_rows = MAX(MIN_BLOCK_ROWS, MIN(BLOCK_ROWS, BLOCK_SCORES / j.ld / 8 * 8));
    j.n_blocks = (a->queries + j.block_rows - 1) / j.block_rows;
    int64_t groups = (WANTED_PIECES + a->n_batch - 1) / a->n_batch;
    j.n_groups = MAX((int64_t)1, MIN(groups, j.n_blocks));
    return j;
}

// --- rows in and out

// Rows of floats somewhere in memory.
struct float_rows {
    float *data;
    int64_t stride;
};

static int64_t row_stride(const det_tensor *t)
{
    return t->stride[t->ndim - 2];
}

// Rows [row, row + n) of batch item `offset` of t: in place, or converted into memory.
static struct float_rows rows_in(const det_tensor *t, int64_t offset, int64_t row, int64_t n,
                                 float *memory)
{
    int64_t width = t->shape[t->ndim - 1], stride = row_stride(t), at = offset + row * stride;
    if (t->dtype == DET_F32) return (struct float_rows){(float *)t->data + at, stride};
    ew_fn convert = kernels->cast(DET_F32, DET_BF16);
    for (int64_t i = 0; i < n; i++)
        convert(width, (void *[]){memory + i * width, (uint16_t *)t->data + at + i * stride},
                (const int64_t[]){4, 2}, NULL);
    return (struct float_rows){memory, width};
}

// Where rows of t are to be written as floats: in place, or in memory until rows_out.
static struct float_rows rows_target(const det_tensor *t, int64_t offset, int64_t row,
                                     float *memory)
{
    if (t->dtype == DET_F32)
        return (struct float_rows){(float *)t->data + offset + row * row_stride(t), row_stride(t)};
    return (struct float_rows){memory, t->shape[t->ndim - 1]};
}

static void rows_out(const det_tensor *t, int64_t offset, int64_t row, int64_t n,
                     struct float_rows from)
{
    int64_t width = t->shape[t->ndim - 1], at = offset + row * row_stride(t);
    float *in_place = (float *)t->data + at;
    if (t->dtype == DET_F32 && from.data == in_place) return;
    int64_t size = (int64_t)dtype_size((det_dtype)t->dtype);
    ew_fn convert = kernels->cast((det_dtype)t->dtype, DET_F32);
    for (int64_t i = 0; i < n; i++)
        convert(width,
                (void *[]){(char *)t->data + (at + i * row_stride(t)) * size,
                           from.data + i * from.stride},
                (const int64_t[]){size, 4}, NULL);
}

// Scratch memory handed out piece by piece; without a base it only counts.
struct carver {
    float *base;
    int64_t used; // floats
};

static float *carve(struct carver *c, int64_t n)
{
    float *p = c->base ? c->base + c->used : NULL;
    c->used += round_up(n, 16);
    return p;
}

static struct panels carve_panels(struct carver *c, int64_t k, int64_t n)
{
    struct panels p = {.k = k, .n = n, .dtype = DET_F32};
    p.data = carve(c, (int64_t)(panels_bytes(&p) / sizeof(float)));
    return p;
}

// B = rows, or its transpose.
static void pack_rows(const struct panels *p, struct float_rows r)
{
    panels_pack(p, &(struct matrix){r.data, DET_F32, r.stride, 1});
}

static void pack_transposed(const struct panels *p, struct float_rows r)
{
    panels_pack(p, &(struct matrix){r.data, DET_F32, 1, r.stride});
}

// --- a block of query rows

struct block {
    int64_t batch, row, rows, keys; // keys that any of the rows sees
};

static struct block block_of(const struct attention_job *j, int64_t batch, int64_t index)
{
    const struct attention *a = j->a;
    struct block b = {.batch = batch, .row = index * j->block_rows};
    b.rows = MIN(j->block_rows, a->queries - b.row);
    b.keys = a->attr->causal ? MIN(a->keys, b.row + b.rows) : a->keys;
    return b;
}

static struct attention_rows score_rows(const struct attention_job *j, const struct block *b,
                                        float *score)
{
    const struct attention *a = j->a;
    float *largest = (float *)a->rows->data + b->batch * a->queries + b->row;
    struct attention_rows r = {.rows = b->rows,
                               .keys = b->keys,
                               .ld = j->ld,
                               .causal = a->attr->causal,
                               .first_query = b->row,
                               .scale = (float)a->attr->scale,
                               .mask_stride = attention_mask_stride(a),
                               .score = score,
                               .largest = largest,
                               .sum = largest + a->n_batch * a->queries};
    if (!a->mask) return r;
    int64_t at = attention_offset(a, a->mask, b->batch) + b->row * r.mask_stride;
    if (a->mask->dtype == DET_BOOL)
        r.allowed = (const uint8_t *)a->mask->data + at;
    else
        r.bias = (const float *)a->mask->data + at;
    return r;
}

static void drop(const struct attention_job *j, const struct block *b, float *weights)
{
    const struct attention *a = j->a;
    if (!a->attr->dropout) return;
    struct attention_dropout d = attention_dropout_of(a);
    for (int64_t i = 0; i < b->rows; i++)
        kernels->attention_drop(&d, b->batch * a->queries + b->row + i, weights + i * j->ld,
                                b->keys);
}

// C[m x n] = A[m x k] B
static void block_product(const struct panels *p, int64_t m, int64_t k, int64_t n,
                          struct float_rows a, struct float_rows c)
{
    panels_multiply(p, &(struct panels_product){.m = m,
                                                .k = k,
                                                .n = n,
                                                .a = a.data,
                                                .a_stride = a.stride,
                                                .c = c.data,
                                                .ldc = c.stride});
}

// C += A^T B, where A is a block of scores or of their gradients
static void add_transposed_product(const struct panels *p, const struct block *b,
                                   struct float_rows scores, struct float_rows c)
{
    panels_multiply(p, &(struct panels_product){.m = b->keys,
                                                .k = b->rows,
                                                .n = p->n,
                                                .a = scores.data,
                                                .a_stride = scores.stride,
                                                .a_columns = true,
                                                .c = c.data,
                                                .ldc = c.stride,
                                                .accumulate = true});
}

static void run_pieces(struct attention_job *j, int64_t n, pool_fn fn)
{
    const struct attention *a = j->a;
    if (a->n_batch * a->queries * a->keys * (a->d + a->e) >= WORTH_THREADS)
        pool_run((int)n, fn, j);
    else
        for (int i = 0; i < n; i++)
            fn(j, i);
}

// --- forward

struct forward_memory {
    struct panels kt, v;
    float *score, *q, *out;
    int64_t floats; // all of it
};

static struct forward_memory forward_memory(const struct attention_job *j, float *base)
{
    const struct attention *a = j->a;
    struct carver c = {.base = base};
    struct forward_memory m;
    m.kt = carve_panels(&c, a->d, a->keys);
    m.v = carve_panels(&c, a->keys, a->e);
    m.score = carve(&c, MAX(j->block_rows * j->ld, a->keys * MAX(a->d, a->e)));
    m.q = carve(&c, j->block_rows * a->d);
    m.out = carve(&c, j->block_rows * a->e);
    m.floats = c.used;
    return m;
}

static void forward_block(const struct attention_job *j, const struct block *b,
                          const struct forward_memory *m)
{
    const struct attention *a = j->a;
    struct float_rows score = {m->score, j->ld};
    struct float_rows q = rows_in(a->q, attention_offset(a, a->q, b->batch), b->row, b->rows, m->q);
    int64_t offset = attention_offset(a, a->out, b->batch);
    struct float_rows out = rows_target(a->out, offset, b->row, m->out);
    block_product(&m->kt, b->rows, a->d, round_up(b->keys, kernels->gemm_lanes()), q, score);
    struct attention_rows r = score_rows(j, b, m->score);
    kernels->attention_softmax(&r);
    drop(j, b, m->score);
    block_product(&m->v, b->rows, b->keys, a->e, score, out);
    kernels->attention_divide(out.data, out.stride, b->rows, a->e, r.sum);
    rows_out(a->out, offset, b->row, b->rows, out);
}

static void forward_piece(void *ctx, int piece)
{
    struct attention_job *j = ctx;
    const struct attention *a = j->a;
    int64_t batch = piece / j->n_groups, group = piece % j->n_groups;
    float *memory = scratch(SCRATCH_C, (size_t)j->scratch_floats * sizeof *memory);
    if (!memory) {
        __atomic_store_n(&j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    struct forward_memory m = forward_memory(j, memory);
    pack_transposed(&m.kt, rows_in(a->k, attention_offset(a, a->k, batch), 0, a->keys, m.score));
    pack_rows(&m.v, rows_in(a->v, attention_offset(a, a->v, batch), 0, a->keys, m.score));
    for (int64_t i = group * j->n_blocks / j->n_groups; i < (group + 1) * j->n_blocks / j->n_groups;
         i++) {
        struct block b = block_of(j, batch, i);
        forward_block(j, &b, &m);
    }
}

int attention_forward_hot(const struct attention *a)
{
    struct attention_job j = job_new(a);
    j.scratch_floats = forward_memory(&j, NULL).floats;
    run_pieces(&j, a->n_batch * j.n_groups, forward_piece);
    return j.rc;
}

// --- backward

struct backward_memory {
    struct panels kt, vt, k; // k^T, v^T, k
    struct panels q, g;      // of the block
    float *score, *grad, *rows, *out;
    float *gk, *gv;
    int64_t floats; // all of it
};

static struct backward_memory backward_memory(const struct attention_job *j, float *base)
{
    const struct attention *a = j->a;
    struct carver c = {.base = base};
    struct backward_memory m;
    m.kt = carve_panels(&c, a->d, a->keys);
    m.vt = carve_panels(&c, a->e, a->keys);
    m.k = carve_panels(&c, a->keys, a->d);
    m.q = carve_panels(&c, j->block_rows, a->d);
    m.g = carve_panels(&c, j->block_rows, a->e);
    m.score = carve(&c, MAX(j->block_rows * j->ld, a->keys * MAX(a->d, a->e)));
    m.grad = carve(&c, j->block_rows * j->ld);
    m.rows = carve(&c, j->block_rows * MAX(a->d, a->e));
    m.out = carve(&c, j->block_rows * a->d);
    m.gk = carve(&c, a->keys * a->d);
    m.gv = carve(&c, a->keys * a->e);
    m.floats = c.used;
    return m;
}

static void backward_block(const struct attention_job *j, struct block *b,
                           const struct backward_memory *m)
{
    const struct attention *a = j->a;
    int64_t padded_keys = round_up(b->keys, kernels->gemm_lanes());
    struct float_rows score = {m->score, j->ld}, grad = {m->grad, j->ld};
    struct float_rows q =
        rows_in(a->q, attention_offset(a, a->q, b->batch), b->row, b->rows, m->rows);
    struct panels q_panels = m->q, g_panels = m->g;
    q_panels.k = g_panels.k = b->rows;
    pack_rows(&q_panels, q);
    block_product(&m->kt, b->rows, a->d, padded_keys, q, score);
    struct attention_rows r = score_rows(j, b, m->score);
    kernels->attention_weights(&r);

    struct float_rows g =
        rows_in(a->g, attention_offset(a, a->g, b->batch), b->row, b->rows, m->rows);
    pack_rows(&g_panels, g);
    block_product(&m->vt, b->rows, a->e, padded_keys, g, grad);
    drop(j, b, m->grad);
    r.grad = m->grad;
    if (a->g_mask) {
        r.bias_grad = (float *)a->g_mask->data + (b->batch * a->queries + b->row) * a->keys;
        r.bias_grad_stride = a->keys;
    }
    kernels->attention_grad(&r);

    drop(j, b, m->score);
    add_transposed_product(&g_panels, b, score, (struct float_rows){m->gv, a->e});
    add_transposed_product(&q_panels, b, grad, (struct float_rows){m->gk, a->d});
    int64_t offset = attention_offset(a, a->gq, b->batch);
    struct float_rows gq = rows_target(a->gq, offset, b->row, m->out);
    block_product(&m->k, b->rows, b->keys, a->d, grad, gq);
    rows_out(a->gq, offset, b->row, b->rows, gq);
}

static void store_key_grads(const struct attention *a, int64_t batch, float *gk, float *gv)
{
    rows_out(a->gk, attention_offset(a, a->gk, batch), 0, a->keys, (struct float_rows){gk, a->d});
    rows_out(a->gv, attention_offset(a, a->gv, batch), 0, a->keys, (struct float_rows){gv, a->e});
}

static void backward_piece(void *ctx, int piece)
{
    struct attention_job *j = ctx;
    const struct attention *a = j->a;
    int64_t batch = piece / j->n_groups, group = piece % j->n_groups;
    int64_t gk_size = a->keys * a->d, gv_size = a->keys * a->e;
    float *memory = scratch(SCRATCH_C, (size_t)j->scratch_floats * sizeof *memory);
    if (!memory) {
        __atomic_store_n(&j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    struct backward_memory m = backward_memory(j, memory);
    if (j->partial) {
        m.gk = j->partial + piece * (gk_size + gv_size);
        m.gv = m.gk + gk_size;
    }
    struct float_rows k = rows_in(a->k, attention_offset(a, a->k, batch), 0, a->keys, m.score);
    pack_transposed(&m.kt, k);
    pack_rows(&m.k, k);
    pack_transposed(&m.vt, rows_in(a->v, attention_offset(a, a->v, batch), 0, a->keys, m.score));
    memset(m.gk, 0, (size_t)gk_size * sizeof *m.gk);
    memset(m.gv, 0, (size_t)gv_size * sizeof *m.gv);
    for (int64_t i = group * j->n_blocks / j->n_groups; i < (group + 1) * j->n_blocks / j->n_groups;
         i++) {
        struct block b = block_of(j, batch, i);
        backward_block(j, &b, &m);
    }
    if (!j->partial) store_key_grads(a, batch, m.gk, m.gv);
}

// Adds up the gradients of k and v from the groups of one batch item, always in the same order.
static void combine_piece(void *ctx, int batch)
{
    const struct attention_job *j = ctx;
    const struct attention *a = j->a;
    int64_t size = a->keys * (a->d + a->e);
    float *sum = j->partial + (int64_t)batch * j->n_groups * size;
    for (int64_t group = 1; group < j->n_groups; group++)
        for (int64_t i = 0; i < size; i++)
            sum[i] += sum[group * size + i];
    store_key_grads(a, batch, sum, sum + a->keys * a->d);
}

int attention_backward_hot(const struct attention *a)
{
    struct attention_job j = job_new(a);
    det_tensor *partial = NULL;
    if (j.n_groups > 1) {
        partial =
            tensor_new(DET_F32, (const int64_t[]){a->n_batch, j.n_groups, a->keys, a->d + a->e}, 4);
        if (!partial) return DET_ENOMEM;
        j.partial = partial->data;
    }
    j.scratch_floats = backward_memory(&j, NULL).floats;
    run_pieces(&j, a->n_batch * j.n_groups, backward_piece);
    if (!j.rc && partial) run_pieces(&j, a->n_batch, combine_piece);
    tensor_release(partial);
    return j.rc;
}
