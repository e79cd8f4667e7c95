// Unit gemm_bf16.c: products by instructions that multiply pairs of bf16 (see gemm_bf16_x86.c):
// panels of B are packed in pairs of k.
#include "tensor/gemm_bf16.h"

#include "sys/pool.h"
#include "tensor/node.h"

enum { ROW_BLOCK = 96, WORTH_THREADS = 256 << 10 };

struct job {
    const struct gemm *g;
    const struct bf16_unit *unit;
    const void *a, *b;
    char *c, *slope;
    uint16_t *packed;
    int64_t k_padded;
    int n_panels;
    int64_t row_block, n_row_blocks;
    int panel_group;
    int *rc;
};

static int panel_columns(const struct job *j, int panel)
{
    return (int)MIN(j->g->n - (int64_t)panel * j->unit->width, (int64_t)j->unit->width);
}

static int padded_columns(const struct job *j, int panel)
{
    return (panel_columns(j, panel) + 15) / 16 * 16;
}

static uint16_t *panel_memory(const struct job *j, int panel)
{
    return j->packed + (int64_t)panel * j->unit->width * j->k_padded;
}

static void pack_piece(void *ctx, int panel)
{
    const struct job *j = ctx;
    const struct matrix *b = &j->g->b;
    const void *at = matrix_at(b, j->b, 0, (int64_t)panel * j->unit->width);
    j->unit->pack_b(b, at, j->g->k, panel_columns(j, panel), panel_memory(j, panel));
}

// Rows of A as bf16 with padded k: in place if they are so already.
static const uint16_t *rows_of_a(const struct job *j, int64_t row, int64_t m, int64_t *stride)
{
    const struct matrix *a = &j->g->a;
    const void *at = matrix_at(a, j->a, row, 0);
    *stride = a->rs;
    if (a->dtype == DET_BF16 && a->cs == 1 && j->k_padded == j->g->k && m % 16 == 0) return at;
    int64_t m_padded = (m + 15) / 16 * 16;
    uint16_t *out = scratch(SCRATCH_B, (size_t)(m_padded * j->k_padded) * sizeof *out);
    if (!out) return NULL;
    j->unit->pack_a(a, at, m, j->g->k, out);
    memset(out + m * j->k_padded, 0, (size_t)((m_padded - m) * j->k_padded) * sizeof *out);
    *stride = j->k_padded;
    return out;
}

static void multiply_block(const struct job *j, int64_t row, int64_t m, int panel,
                           const uint16_t *a, int64_t a_stride)
{
    const struct gemm *g = j->g;
    int64_t col = (int64_t)panel * j->unit->width;
    float block[ROW_BLOCK * GEMM_MAX_WIDTH];
    struct gemm_panel_bf16 p = {.m = m,
                                .k = j->k_padded,
                                .a = a,
                                .a_stride = a_stride,
                                .b = panel_memory(j, panel),
                                .width = panel_columns(j, panel),
                                .b_width = padded_columns(j, panel),
                                .c = block,
                                .ldc = GEMM_MAX_WIDTH};
    bool direct = g->c_dtype == DET_F32 && !gemm_finishes(g);
    size_t at = (size_t)(row * g->ldc + col) * dtype_size(g->c_dtype);
    if (direct) {
        p.c = (float *)(void *)(j->c + at);
        p.ldc = g->ldc;
        p.accumulate = g->accumulate;
    }
    j->unit->panel(&p);
    if (direct) return;
    gemm_finish_block(g, &(struct gemm_block){row, m, col, p.width, block, GEMM_MAX_WIDTH}, j->c,
                      j->slope);
}

static void multiply_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    int64_t row = piece % j->n_row_blocks * j->row_block, m = MIN(j->g->m - row, j->row_block);
    int64_t stride;
    const uint16_t *a = rows_of_a(j, row, m, &stride);
    if (!a) {
        __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    int first = (int)(piece / j->n_row_blocks) * j->panel_group;
    for (int panel = first; panel < MIN(first + j->panel_group, j->n_panels); panel++)
        multiply_block(j, row, m, panel, a, stride);
}

int gemm_bf16(const struct gemm *g, const void *a, const void *b, char *c, char *slope, bool shared)
{
    int rc = 0;
    const struct bf16_unit *unit = bf16_unit();
    struct job j = {.g = g, .unit = unit, .a = a, .b = b, .c = c, .slope = slope, .rc = &rc};
    j.k_padded = (g->k + unit->k_round - 1) / unit->k_round * unit->k_round;
    j.n_panels = (int)divide_up(g->n, unit->width);
    j.packed =
        scratch(SCRATCH_A, (size_t)(j.n_panels * unit->width * j.k_padded) * sizeof *j.packed);
    if (!j.packed) return DET_ENOMEM;
    shared = shared && g->m * g->n * g->k > WORTH_THREADS;
    j.n_row_blocks = (g->m + ROW_BLOCK - 1) / ROW_BLOCK;
    j.row_block = ((g->m + j.n_row_blocks - 1) / j.n_row_blocks + 15) / 16 * 16;
    j.n_row_blocks = (g->m + j.row_block - 1) / j.row_block;
    int64_t wanted = shared ? 4 * pool_threads() : 1;
    int64_t groups = MAX(1, MIN((wanted + j.n_row_blocks - 1) / j.n_row_blocks, j.n_panels));
    j.panel_group = (int)divide_up(j.n_panels, groups);
    groups = (j.n_panels + j.panel_group - 1) / j.panel_group;
    pool_run_if(shared && g->n * g->k > WORTH_THREADS / 16, j.n_panels, pack_piece, &j);
    pool_run_if(shared, (int)(j.n_row_blocks * groups), multiply_piece, &j);
    return rc;
}
