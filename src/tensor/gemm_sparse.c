// Unit gemm_sparse.c: matrix products with many zeros on one side: what comes out of a ReLU or of
// dropout, and every gradient that goes back through them.
//
// Zeros of A are skipped: for each element that is not zero the row of B that belongs to it is
// added to sums in registers, as many columns as these hold. Blocks of k keep those rows of B in
// the first-level cache. If the zeros are in B, the same is done for the turned product and its
// blocks are turned back. Sums run in the order of k as in gemm.c, and nothing is left out but
// products that are zero: results have the same bits. (So the other side must be finite: zero times
// infinity is not zero.)
#include "tensor/gemm_sparse.h"

#include "sys/pool.h"
#include "tensor/node.h"

enum {
    MIN_ROWS = 32,           // below, lists and panels cost more than they save
    MIN_WORK = 1 << 20,      // multiply-adds
    SAMPLES = 16,            // rows, and columns, that are looked at
    MIN_ZEROS = 3 * 256 / 8, // of the samples
    ROW_BLOCK = 64,          // rows of A per piece
    MAX_COLUMNS = 128,       // of a panel; GEMM_SPARSE_K rows stay in the first-level cache
};

struct job {
    const struct gemm *g; // zeros are in A, C may be turned
    const float *a, *b;
    float *c, *slope;
    bool turned;
    int64_t width, n_panels; // columns of a panel
    float *packed;           // B, panel after panel, each [k][columns]
    float *rows;             // A, if it had to be turned: [row][k]
    int *rc;
    bool *finite;
};

static bool has_zeros(const struct matrix *x, const void *data, int64_t m, int64_t k)
{
    int zeros = 0;
    if (m < MIN_ROWS || k < SAMPLES) return false;
    for (int64_t i = 0; i < SAMPLES; i++)
        for (int64_t j = 0; j < SAMPLES; j++)
            zeros += *(const float *)matrix_at(x, data, i * m / SAMPLES, j * k / SAMPLES) == 0;
    return zeros >= MIN_ZEROS;
}

enum sparse_side sparse_side(const struct gemm *g, const void *a, const void *b)
{
    const struct gemm turned = gemm_turned(g);
    const bool f32 = g->a.dtype == DET_F32 && g->b.dtype == DET_F32 && g->c_dtype == DET_F32;
    if (!f32 || g->bf16 || g->m * g->n * g->k < MIN_WORK) return SPARSE_NONE;
    if (has_zeros(&g->a, a, g->m, g->k)) return SPARSE_A;
    if (!gemm_finishes(g) && has_zeros(&turned.a, b, g->n, g->k)) return SPARSE_B;
    return SPARSE_NONE;
}

static int64_t padded(int64_t columns)
{
    return round_up(columns, kernels->gemm_lanes());
}

static int64_t panel_columns(const struct job *j, int64_t panel)
{
    return MIN(j->g->n - panel * j->width, j->width);
}

static float *panel_memory(const struct job *j, int64_t panel)
{
    return j->packed + panel * j->width * j->g->k;
}

static void *scratch_or_fail(const struct job *j, enum scratch_slot slot, int64_t floats)
{
    void *p = scratch(slot, (size_t)floats * sizeof(float));
    if (!p) __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
    return p;
}

static void pack_piece(void *ctx, int panel)
{
    const struct job *j = ctx;
    const struct matrix *b = &j->g->b;
    int64_t columns = panel_columns(j, panel);
    float *to = panel_memory(j, panel);
    kernels->gemm_pack(matrix_at(b, j->b, 0, panel * j->width), false, b->rs, b->cs, j->g->k,
                       (int)columns, to);
    if (!kernels->all_finite(to, j->g->k * padded(columns)))
        __atomic_store_n(j->finite, false, __ATOMIC_RELAXED);
}

static void turn_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct gemm *g = j->g;
    int64_t row = (int64_t)piece * ROW_BLOCK, m = MIN(g->m - row, (int64_t)ROW_BLOCK);
    kernels->gemm_pack(matrix_at(&g->a, j->a, row, 0), false, g->a.rs, g->a.cs, m, (int)g->k,
                       j->rows + row * padded(g->k));
}

// Sums can be made in C itself if nothing else happens to them and its rows are whole vectors.
static bool sums_in_c(const struct job *j, int64_t columns)
{
    return !j->turned && !j->g->accumulate && !gemm_finishes(j->g) && columns == padded(columns);
}

static void multiply_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct gemm *g = j->g;
    // Panel after panel: a thread has those that it has packed.
    int64_t row_blocks = divide_up(g->m, ROW_BLOCK);
    int64_t panel = piece / row_blocks, row = piece % row_blocks * ROW_BLOCK;
    int64_t m = MIN(g->m - row, (int64_t)ROW_BLOCK), n = panel_columns(j, panel);
    int64_t col = panel * j->width, b_stride = padded(n);
    float own[ROW_BLOCK * MAX_COLUMNS];
    bool in_c = sums_in_c(j, n);
    float *sums = in_c ? j->c + row * g->ldc + col : own;
    const struct gemm_block block = {row, m, col, n, sums, in_c ? g->ldc : b_stride};
    int64_t k = 0;
    do // k is not 0: has_zeros()
        kernels->gemm_sparse(&(struct gemm_sparse){.m = m,
                                                   .k = (int)MIN(g->k - k, (int64_t)GEMM_SPARSE_K),
                                                   .a = j->rows ? j->rows + row * padded(g->k) + k
                                                                : j->a + row * g->a.rs + k,
                                                   .a_stride = j->rows ? padded(g->k) : g->a.rs,
                                                   .b = panel_memory(j, panel) + k * b_stride,
                                                   .b_stride = b_stride,
                                                   .width = (int)b_stride,
                                                   .c = sums,
                                                   .ldc = block.ld,
                                                   .accumulate = k > 0});
    while ((k += GEMM_SPARSE_K) < g->k);
    int rc = in_c ? 0 : gemm_store_block(g, j->turned, &block, j->c, j->slope);
    if (rc) __atomic_store_n(j->rc, rc, __ATOMIC_RELAXED);
}

static void plan(struct job *j)
{
    int64_t lanes = kernels->gemm_lanes(), vectors = padded(j->g->n) / lanes;
    int64_t most = MIN((int64_t)GEMM_SPARSE_VECTORS, MAX_COLUMNS / lanes);
    j->n_panels = (vectors + most - 1) / most;
    j->width = (vectors + j->n_panels - 1) / j->n_panels * lanes;
    j->n_panels = (j->g->n + j->width - 1) / j->width;
}

static int multiply(struct job *j, bool shared)
{
    const struct gemm *g = j->g;
    plan(j);
    int64_t row_blocks = (g->m + ROW_BLOCK - 1) / ROW_BLOCK;
    j->packed = scratch_or_fail(j, SCRATCH_A, j->n_panels * j->width * g->k);
    if (g->a.cs != 1) j->rows = scratch_or_fail(j, SCRATCH_B, g->m * padded(g->k));
    if (*j->rc) return *j->rc;
    pool_run_if(shared, (int)j->n_panels, pack_piece, j);
    if (!*j->finite) return 0;
    if (j->rows) pool_run_if(shared, (int)row_blocks, turn_piece, j);
    pool_run_if(shared, (int)(row_blocks * j->n_panels), multiply_piece, j);
    return *j->rc;
}

int gemm_sparse(const struct gemm *g, enum sparse_side side, const void *a, const void *b, void *c,
                void *slope, bool shared, bool *done)
{
    struct gemm turned = gemm_turned(g);
    int rc = 0;
    struct job j = {.g = g, .a = a, .b = b, .c = c, .slope = slope, .rc = &rc, .finite = done};
    *done = true;
    if (side == SPARSE_B) {
        j.g = &turned;
        j.a = b;
        j.b = a;
        j.turned = true;
    }
    return multiply(&j, shared);
}
