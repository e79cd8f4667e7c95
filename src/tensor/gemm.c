// Unit gemm.c: cuts a matrix product into blocks that fit the caches and shares them out.
//
// B is packed into panels as wide as a register tile, all of k at once; then blocks of rows times
// panels are independent pieces of work. Each element of C is summed by one piece in the order of
// k, so the result does not depend on the number of threads. bf16 products without instructions for
// them are f32 products of rounded panels.
#include "tensor/gemm.h"

#include "sys/pool.h"
#include "tensor/gemm_bf16.h"
#include "tensor/gemm_sparse.h"
#include "tensor/node.h"

enum {
    TINY = 4096,               // multiply-adds; below, plain loops are faster than blocking
    WORTH_THREADS = 128 << 10, // multiply-adds; below, waking a thread costs more than it gives
    ROW_BLOCK = 96,            // rows of A per piece
    K_BLOCK = 2048,            // a panel of this depth stays in the second-level cache
    PACK_MAX = 4 << 20,        // floats of B packed at a time
};

struct job {
    const struct gemm *g;
    const void *a, *b; // of this batch item
    bool rounded;      // to bf16
    char *c, *pre;
    float *packed;
    int *rc;                   // a failure in any piece; all write the same value
    int64_t first_col, n_cols; // columns packed now
    int n_panels, panel_width;
    int64_t row_block, n_row_blocks;
    int panel_group, n_panel_groups; // panels per piece
};

static int panel_columns(const struct job *j, int panel)
{
    return (int)MIN(j->n_cols - (int64_t)panel * j->panel_width, (int64_t)j->panel_width);
}

// Panels before the last are full, so they lie panel_width * k apart.
static float *panel_memory(const struct job *j, int panel)
{
    return j->packed + (int64_t)panel * j->panel_width * j->g->k;
}

static void pack_piece(void *ctx, int panel)
{
    const struct job *j = ctx;
    const struct matrix *b = &j->g->b;
    int64_t col = j->first_col + (int64_t)panel * j->panel_width;
    int width = panel_columns(j, panel), lanes = kernels->gemm_lanes();
    float *to = panel_memory(j, panel);
    kernels->gemm_pack(matrix_at(b, j->b, 0, col), b->dtype == DET_BF16, b->rs, b->cs, j->g->k,
                       width, to);
    if (j->rounded) kernels->gemm_round(to, j->g->k * ((width + lanes - 1) / lanes * lanes));
}

void gemm_finish_block(const struct gemm *g, const struct gemm_block *b, void *c, void *pre)
{
    size_t at = (size_t)(b->row * g->ldc + b->col) * det_dtype_size(g->c_dtype);
    kernels->gemm_finish(&(struct gemm_finish){.m = b->n_rows,
                                               .width = (int)b->n_cols,
                                               .c = b->sums,
                                               .ldc = b->ld,
                                               .bias = g->bias ? g->bias + b->col : NULL,
                                               .act = g->act,
                                               .out = (char *)c + at,
                                               .pre = g->pre ? (char *)pre + at : NULL,
                                               .ld_out = g->ldc,
                                               .bf16 = g->c_dtype == DET_BF16});
}

// One block of rows times one panel, all of k. A C of bf16 is finished from sums of its own.
static void multiply_block(const struct job *j, int64_t row, int64_t m, int panel,
                           const float *packed_a)
{
    const struct gemm *g = j->g;
    int width = panel_columns(j, panel), lanes = kernels->gemm_lanes();
    int64_t col = j->first_col + (int64_t)panel * j->panel_width;
    bool own_c = g->c_dtype == DET_BF16;
    float block_c[ROW_BLOCK * GEMM_MAX_WIDTH];
    struct gemm_panel p = {
        .m = m,
        .n_seg = 1,
        .b_stride = (width + lanes - 1) / lanes * lanes,
        .width = width,
        .c = own_c ? block_c : (float *)j->c + row * g->ldc + col,
        .ldc = own_c ? GEMM_MAX_WIDTH : g->ldc,
    };
    int64_t k = 0;
    do { // once for a k of 0: it makes zeros
        p.k = MIN(g->k - k, (int64_t)K_BLOCK);
        p.b = panel_memory(j, panel) + k * p.b_stride;
        p.accumulate = g->accumulate || k > 0;
        if (!packed_a) {
            p.a = matrix_at(&g->a, j->a, row, k);
            p.a_stride = g->a.rs;
            kernels->gemm_panel(&p);
            continue;
        }
        int rows = kernels->gemm_rows(width);
        struct gemm_panel t = p;
        for (int64_t i = 0; i < m; i += rows) {
            t.m = MIN(m - i, (int64_t)rows);
            t.a_columns = true;
            t.a_stride = t.m;
            t.a = packed_a + i * g->k + k * t.m;
            t.c = p.c + i * p.ldc;
            kernels->gemm_panel(&t);
        }
    } while ((k += K_BLOCK) < g->k);
    if (own_c)
        gemm_finish_block(g, &(struct gemm_block){row, m, col, width, p.c, p.ldc}, j->c, j->pre);
}

static void multiply_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct gemm *g = j->g;
    int64_t row = piece % j->n_row_blocks * j->row_block, m = MIN(g->m - row, j->row_block);
    int first = (int)(piece / j->n_row_blocks) * j->panel_group;
    int last = MIN(first + j->panel_group, j->n_panels);
    const float *packed_a = NULL;
    int packed_rows = 0;
    for (int panel = first; panel < last; panel++) {
        int rows = kernels->gemm_rows(panel_columns(j, panel));
        if ((g->a.cs != 1 || j->rounded) && rows != packed_rows) {
            float *to = scratch(SCRATCH_B, (size_t)(m * g->k) * sizeof *to);
            if (!to) {
                __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
                return;
            }
            kernels->gemm_pack_a(matrix_at(&g->a, j->a, row, 0), g->a.dtype == DET_BF16, g->a.rs,
                                 g->a.cs, m, g->k, rows, to);
            if (j->rounded) kernels->gemm_round(to, m * g->k);
            packed_a = to;
            packed_rows = rows;
        }
        multiply_block(j, row, m, panel, packed_a);
    }
    if (g->c_dtype == DET_BF16 || !(g->bias || g->act || g->pre)) return;
    int64_t col = first * (int64_t)j->panel_width, end = last * (int64_t)j->panel_width;
    const struct gemm_block block = {.row = row,
                                     .n_rows = m,
                                     .col = j->first_col + col,
                                     .n_cols = MIN(end, j->n_cols) - col,
                                     .sums = (float *)j->c + row * g->ldc + j->first_col + col,
                                     .ld = g->ldc};
    gemm_finish_block(g, &block, j->c, j->pre);
}

// Pieces large enough to keep the packed panel of A useful, small enough to keep all threads busy.
static void plan_pieces(struct job *j, bool shared)
{
    const struct gemm *g = j->g;
    int threads = shared ? pool_threads() : 1;
    int tile = kernels->gemm_rows(j->panel_width);
    j->n_row_blocks = (g->m + ROW_BLOCK - 1) / ROW_BLOCK;
    j->row_block = (g->m + j->n_row_blocks - 1) / j->n_row_blocks;
    j->row_block = MIN((j->row_block + tile - 1) / tile * tile, (int64_t)ROW_BLOCK);
    j->n_row_blocks = (g->m + j->row_block - 1) / j->row_block;
    int64_t wanted = threads == 1 ? 1 : 4 * threads;
    int64_t groups = MAX(1, MIN((wanted + j->n_row_blocks - 1) / j->n_row_blocks, j->n_panels));
    j->panel_group = (int)((j->n_panels + groups - 1) / groups);
    j->n_panel_groups = (j->n_panels + j->panel_group - 1) / j->panel_group;
}

static bool is_rounded(const struct gemm *g)
{
    return g->bf16 || g->a.dtype == DET_BF16 || g->b.dtype == DET_BF16;
}

static int gemm_one(const struct gemm *g, const void *a, const void *b, char *c, char *pre,
                    bool shared)
{
    int rc = 0;
    struct job j = {
        .g = g, .a = a, .b = b, .c = c, .pre = pre, .rounded = is_rounded(g), .rc = &rc};
    j.panel_width = kernels->gemm_width();
    int64_t per_panel = g->k * j.panel_width;
    int64_t panels_at_once = MAX((int64_t)1, PACK_MAX / MAX(per_panel, (int64_t)1));
    int64_t cols_at_once = MIN(panels_at_once * j.panel_width, g->n);
    int64_t padded = (cols_at_once + j.panel_width - 1) / j.panel_width * j.panel_width;
    j.packed = scratch(SCRATCH_A, (size_t)(padded * g->k) * sizeof(float));
    if (!j.packed) return DET_ENOMEM;
    for (j.first_col = 0; j.first_col < g->n; j.first_col += cols_at_once) {
        j.n_cols = MIN(cols_at_once, g->n - j.first_col);
        j.n_panels = (int)((j.n_cols + j.panel_width - 1) / j.panel_width);
        plan_pieces(&j, shared);
        pool_run_if(shared && j.n_cols * g->k > WORTH_THREADS / 8, j.n_panels, pack_piece, &j);
        pool_run_if(shared, (int)j.n_row_blocks * j.n_panel_groups, multiply_piece, &j);
    }
    return rc;
}

// --- other ways

// f64 is for checking results, not for speed.
static void loops_f64(const struct gemm *g, const double *a, const double *b, double *c,
                      double *pre)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->accumulate ? c[i * g->ldc + j] : 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += a[i * g->a.rs + k * g->a.cs] * b[k * g->b.rs + j * g->b.cs];
            if (pre) pre[i * g->ldc + j] = sum;
            c[i * g->ldc + j] = sum;
        }
}

static void small_f32(const struct gemm *g, const float *a, const float *b, float *c)
{
    kernels->gemm_small(&(struct gemm_small){.m = g->m,
                                             .n = g->n,
                                             .k = g->k,
                                             .a = a,
                                             .b = b,
                                             .a_rs = g->a.rs,
                                             .a_cs = g->a.cs,
                                             .b_rs = g->b.rs,
                                             .b_cs = g->b.cs,
                                             .c = c,
                                             .ldc = g->ldc,
                                             .bias = g->bias,
                                             .accumulate = g->accumulate});
}

static void small_finish(const struct gemm *g, float *c, float *pre)
{
    if (!g->act) return;
    for (int64_t col = 0; col < g->n; col += GEMM_MAX_WIDTH)
        kernels->gemm_finish(
            &(struct gemm_finish){.m = g->m,
                                  .width = (int)MIN(g->n - col, (int64_t)GEMM_MAX_WIDTH),
                                  .c = c + col,
                                  .ldc = g->ldc,
                                  .act = g->act,
                                  .out = c + col,
                                  .pre = pre ? pre + col : NULL,
                                  .ld_out = g->ldc});
}

struct batch_job {
    const struct gemm *g;
    int rc; // as in struct job
};

static const char *batch_item(const void *base, int64_t i, int64_t stride, det_dtype dtype)
{
    return base ? (const char *)base + i * stride * (int64_t)det_dtype_size(dtype) : NULL;
}

static bool is_small(const struct gemm *g)
{
    return !is_rounded(g) && g->c_dtype == DET_F32 && g->m * g->n * g->k <= TINY;
}

static int multiply_item(const struct gemm *g, int64_t i, bool shared)
{
    const char *a = batch_item(g->a.data, i, g->a_batch, g->a.dtype);
    const char *b = batch_item(g->b.data, i, g->b_batch, g->b.dtype);
    char *c = (char *)(uintptr_t)batch_item(g->c, i, g->c_batch, g->c_dtype);
    char *pre = (char *)(uintptr_t)batch_item(g->pre, i, g->c_batch, g->c_dtype);
    if (is_rounded(g) && g->k && bf16_unit()) return gemm_bf16(g, a, b, c, pre, shared);
    if (g->c_dtype == DET_F64) {
        loops_f64(g, (const double *)a, (const double *)b, (double *)c, (double *)pre);
        return 0;
    }
    if (!is_small(g)) {
        enum sparse_side side = sparse_side(g, a, b);
        bool done = false;
        int rc = side ? gemm_sparse(g, side, a, b, c, pre, shared, &done) : 0;
        if (rc || done) return rc;
        return gemm_one(g, a, b, c, pre, shared && g->m * g->n * g->k > WORTH_THREADS);
    }
    small_f32(g, (const float *)a, (const float *)b, (float *)c);
    small_finish(g, (float *)c, (float *)pre);
    return 0;
}

static void batch_piece(void *ctx, int piece)
{
    struct batch_job *j = ctx;
    int rc = multiply_item(j->g, piece, false);
    if (rc) __atomic_store_n(&j->rc, rc, __ATOMIC_RELAXED);
}

int gemm(const struct gemm *g)
{
    int64_t n_batch = g->n_batch ? g->n_batch : 1;
    if (!g->m || !g->n) return 0;
    if (n_batch == 1 && is_small(g)) {
        small_f32(g, g->a.data, g->b.data, g->c);
        small_finish(g, g->c, g->pre);
        return 0;
    }
    if (n_batch == 1) return multiply_item(g, 0, true);
    struct batch_job j = {.g = g};
    if (n_batch * g->m * g->n * g->k > WORTH_THREADS && n_batch <= INT32_MAX) {
        pool_run((int)n_batch, batch_piece, &j);
        return j.rc;
    }
    for (int64_t i = 0; i < n_batch && !j.rc; i++)
        j.rc = multiply_item(g, i, false);
    return j.rc;
}
