// Unit channel_blocks.c: blocks of rows for normalisation per channel. Called by channel_norm.c.
#include "tensor/channel_norm.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"

enum { BLOCK = 8 << 10, WORTH_THREADS = 32 << 10 }; // elements

// --- memory order

// Strides of (N, C, ...) with the channel fastest.
void channel_strides(const int64_t *shape, int ndim, int64_t *stride)
{
    int64_t s = MAX(shape[1], (int64_t)1);
    stride[1] = 1;
    for (int d = ndim - 1; d >= 2; s *= MAX(shape[d], (int64_t)1), d--)
        stride[d] = s;
    stride[0] = s;
}

det_tensor *channel_rows_new(const det_tensor *like)
{
    det_tensor *t = tensor_new((det_dtype)like->dtype, like->shape, like->ndim);
    if (t) channel_strides(t->shape, t->ndim, t->stride);
    return t;
}

// t, or a copy with the channel fastest. Release it.
det_tensor *channel_rows(det_tensor *t)
{
    int64_t stride[DET_MAX_DIMS];
    channel_strides(t->shape, t->ndim, stride);
    bool fits = true;
    for (int d = 0; d < t->ndim; d++)
        fits = fits && (t->shape[d] == 1 || t->stride[d] == stride[d]);
    if (fits) return tensor_ref(t);
    det_tensor *copy = channel_rows_new(t);
    if (copy) ew_copy(copy, t);
    return copy;
}

// --- blocks of rows

static int64_t block_rows(const struct sets *s, int64_t pooled_line)
{
    int64_t unit = pooled_line ? 2 * pooled_line : 1;
    return MAX(MIN(BLOCK / s->c, s->rows) / unit, (int64_t)1) * unit;
}

struct channel_job channel_job_new(const struct sets *s, bool bf16, int64_t pooled_line)
{
    struct channel_job j = {.sets = *s, .block_rows = block_rows(s, pooled_line)};
    j.n_blocks = (s->rows + j.block_rows - 1) / j.block_rows;
    j.k = (struct channel_norm){.c = s->c, .bf16 = bf16, .pooled_line = pooled_line};
    return j;
}

static const void *skip_elements(const void *p, bool bf16, int64_t n)
{
    return p ? (const char *)p + n * (bf16 ? 2 : 4) : NULL;
}

static const float *of_set(const float *p, int64_t offset)
{
    return p ? p + offset : NULL;
}

// The arguments for one block.
static struct channel_norm block_of(const struct channel_job *j, int piece)
{
    struct channel_norm k = j->k;
    int64_t set = piece / j->n_blocks, row = piece % j->n_blocks * j->block_rows;
    int64_t at = (set * j->sets.rows + row) * k.c, out = k.pooled_line ? at / 4 : at;
    k.rows = MIN(j->block_rows, j->sets.rows - row);
    k.x = skip_elements(k.x, k.bf16, at);
    k.skip = skip_elements(k.skip, k.bf16, at);
    k.g = skip_elements(k.g, k.bf16, out);
    k.y = (void *)(uintptr_t)skip_elements(k.y, k.bf16, out);
    if (k.winner) k.winner += out;
    k.gx = (void *)(uintptr_t)skip_elements(k.gx, k.bf16, at);
    k.g_skip = (void *)(uintptr_t)skip_elements(k.g_skip, k.bf16, at);
    k.mean = of_set(k.mean, set * k.c);
    k.scale = of_set(k.scale, set * k.c);
    k.bias = of_set(k.bias, set * k.c);
    k.shift = of_set(k.shift, set * k.c);
    k.slope = of_set(k.slope, set * k.c);
    return k;
}

static void stats_piece(void *ctx, int piece)
{
    const struct channel_job *j = ctx;
    struct channel_norm k = block_of(j, piece);
    kernels->channel_stats(k.x, k.bf16, k.rows, k.c, j->work + 2 * piece * k.c,
                           j->first + piece * k.c, j->second + piece * k.c);
}

static void forward_piece(void *ctx, int piece)
{
    struct channel_norm k = block_of(ctx, piece);
    kernels->channel_forward(&k);
}

static void sums_piece(void *ctx, int piece)
{
    const struct channel_job *j = ctx;
    struct channel_norm k = block_of(j, piece);
    kernels->channel_sums(&k, &(struct channel_sums){.g = j->first + piece * k.c,
                                                     .gx = j->second + piece * k.c,
                                                     .work = j->work + 2 * piece * k.c});
}

static void backward_piece(void *ctx, int piece)
{
    struct channel_norm k = block_of(ctx, piece);
    kernels->channel_backward(&k);
}

static void run_blocks(struct channel_job *j, pool_fn fn)
{
    int n = (int)(j->sets.n * j->n_blocks);
    if (j->sets.n * j->sets.rows * j->sets.c >= WORTH_THREADS)
        pool_run(n, fn, j);
    else
        for (int i = 0; i < n; i++)
            fn(j, i);
}

bool channel_job_alloc(struct channel_job *j)
{
    int64_t n = j->sets.n * j->n_blocks * j->sets.c;
    j->first = scratch(SCRATCH_C, (size_t)n * (2 * sizeof *j->first + 2 * sizeof *j->work));
    if (!j->first) return false;
    j->second = j->first + n;
    j->work = (float *)(void *)(j->second + n);
    return true;
}

void channel_job_stats(struct channel_job *j)
{
    run_blocks(j, stats_piece);
}

void channel_job_forward(struct channel_job *j)
{
    run_blocks(j, forward_piece);
}

void channel_job_sums(struct channel_job *j)
{
    run_blocks(j, sums_piece);
}

void channel_job_backward(struct channel_job *j)
{
    run_blocks(j, backward_piece);
}
