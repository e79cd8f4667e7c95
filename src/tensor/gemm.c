// Unit gemm.c: cuts a matrix product into blocks that fit the caches and shares them out.
//
// A long k is cut into slices, multiplied one after the other. In a slice B is packed into panels
// as wide as a register tile; then blocks of rows times panels are independent pieces of work. Each
// element of C is summed by one piece in the order of k, so the result does not depend on the
// number of threads. bf16 products without instructions for them are f32 products of rounded
// panels.
#include "tensor/gemm.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"
#include "tensor/gemm_bf16.h"
#include "tensor/gemm_sparse.h"
#include "tensor/node.h"

enum {
    TINY = 4096,                // multiply-adds; below, plain loops are faster than blocking
    WORTH_THREADS = 256 << 10,  // multiply-adds; below, sharing costs more than it gives
    WORTH_PACKERS = 16 << 10,   // floats of B; below, one thread packs them
    ROW_BLOCK = 96,             // rows of A per piece
    TURNED_ROW_BLOCK = 48,      // the same where C is turned by the piece
    K_SLICE = 512,              // at least; a block of rows that long, packed or not, stays near
    PIECES = 16,                // per thread, so that none waits long for the last one
    PACKING_PIECES = 4,         // the same where each piece has to pack its A
    PIECE_WORK = 512 << 10,     // multiply-adds that make a piece worth its own claim
    PACK_MAX = 4 << 20,         // floats of B packed at a time
    TURNED_MIN = 32,            // rows that are worth turning
    OWN_PANELS_ROWS = 176,      // of a thread, that are worth packing panels for it alone,
    OWN_PANELS_MAX = 128 << 10, // and floats of those
};

struct job {
    const struct gemm *g;
    const void *a, *b; // of this batch item
    bool turned;       // C is computed as its transpose
    bool own_panels;   // every thread packs all of them for itself
    uint64_t id;
    bool rounded; // to bf16
    char *c, *slope;
    float *packed;
    int *rc;                   // a failure in any piece; all write the same value
    int64_t first_col, n_cols; // columns packed now
    int n_panels, panel_width;
    int tile_rows;
    int64_t n_row_blocks;
    int panel_group, n_panel_groups; // panels per piece
};

static int panel_columns(const struct job *j, int panel)
{
    return (int)MIN(j->n_cols - (int64_t)panel * j->panel_width, (int64_t)j->panel_width);
}

// Panels before the last are full, so they lie panel_width * k apart.
static int64_t panel_offset(const struct job *j, int panel)
{
    return (int64_t)panel * j->panel_width * j->g->k;
}

static void pack_panel(const struct job *j, int panel, float *to)
{
    const struct matrix *b = &j->g->b;
    int64_t col = j->first_col + (int64_t)panel * j->panel_width;
    int width = panel_columns(j, panel), lanes = kernels->gemm_lanes();
    kernels->gemm_pack(matrix_at(b, j->b, 0, col), b->dtype == DET_BF16, b->rs, b->cs, j->g->k,
                       width, to);
    if (j->rounded) kernels->gemm_round(to, j->g->k * round_up(width, lanes));
}

static void pack_piece(void *ctx, int panel)
{
    const struct job *j = ctx;
    pack_panel(j, panel, j->packed + panel_offset(j, panel));
}

uint64_t gemm_new_id(void)
{
    static _Atomic uint64_t n_products;
    return ++n_products;
}

// All panels, packed by this thread for itself. NULL: no memory.
static const float *own_panels(const struct job *j)
{
    static THREAD_LOCAL uint64_t owner; // the job whose panels SCRATCH_A holds
    int64_t floats = (int64_t)j->n_panels * j->panel_width * j->g->k;
    float *to = scratch(SCRATCH_A, (size_t)floats * sizeof *to);
    if (!to || owner == j->id) return to;
    owner = j->id;
    for (int panel = 0; panel < j->n_panels; panel++)
        pack_panel(j, panel, to + panel_offset(j, panel));
    return to;
}

void gemm_finish_block(const struct gemm *g, const struct gemm_block *b, void *c, void *slope)
{
    size_t at = (size_t)(b->row * g->ldc + b->col) * dtype_size(g->c_dtype);
    kernels->gemm_finish(&(struct gemm_finish){.m = b->n_rows,
                                               .width = (int)b->n_cols,
                                               .c = b->sums,
                                               .ldc = b->ld,
                                               .bias = g->bias ? g->bias + b->col : NULL,
                                               .act = g->act,
                                               .out = (char *)c + at,
                                               .slope = g->slope ? (char *)slope + at : NULL,
                                               .ld_out = g->ldc,
                                               .bf16 = g->c_dtype == DET_BF16});
}

struct gemm gemm_turned(const struct gemm *g)
{
    struct gemm t = *g;
    t.m = g->n;
    t.n = g->m;
    t.a = (struct matrix){g->b.data, g->b.dtype, g->b.cs, g->b.rs};
    t.b = (struct matrix){g->a.data, g->a.dtype, g->a.cs, g->a.rs};
    return t;
}

static void store_block(const struct gemm *g, const struct gemm_block *b, float *c, float *slope)
{
    float *at = c + b->row * g->ldc + b->col;
    struct gemm_block whole = *b;
    if (g->accumulate) {
        for (int64_t i = 0; i < b->n_rows; i++)
            add_floats(at + i * g->ldc, b->sums + i * b->ld, b->n_cols);
        whole.sums = at;
        whole.ld = g->ldc;
    }
    if (!g->accumulate || gemm_finishes(g)) gemm_finish_block(g, &whole, c, slope);
}

int gemm_store_block(const struct gemm *g, bool turned, const struct gemm_block *b, float *c,
                     float *slope)
{
    if (!turned) {
        store_block(g, b, c, slope);
        return 0;
    }
    int64_t ld = round_up(b->n_rows, kernels->gemm_lanes());
    if (!g->accumulate && !gemm_finishes(g) && ld == b->n_rows) {
        float *to = c + b->col * g->ldc + b->row;
        kernels->gemm_turn(b->sums, b->ld, (int)b->n_rows, b->n_cols, to, g->ldc);
        return 0;
    }
    float *sums = scratch(SCRATCH_C, (size_t)(b->n_cols * ld) * sizeof *sums);
    if (!sums) return DET_ENOMEM;
    kernels->gemm_pack(b->sums, false, 1, b->ld, b->n_cols, (int)b->n_rows, sums);
    store_block(g, &(struct gemm_block){b->col, b->n_cols, b->row, b->n_rows, sums, ld}, c, slope);
    return 0;
}

// Rows that a piece multiplies, and their sums: all its columns.
struct row_range {
    int64_t first, n;
    float *sums;
    int64_t ld;
};

static bool packs_a(const struct job *j)
{
    return j->g->a.cs != 1 || j->rounded;
}

// Rows in tiles, as the kernels want an A that does not lie in rows. NULL: no memory.
static const float *pack_a(const struct job *j, const struct row_range *r, int tile_rows)
{
    const struct gemm *g = j->g;
    int64_t floats = divide_up(r->n, tile_rows) * gemm_tile_floats(tile_rows, g->k);
    float *to = scratch(SCRATCH_B, (size_t)floats * sizeof *to);
    if (!to) return NULL;
    kernels->gemm_pack_a(matrix_at(&g->a, j->a, r->first, 0), g->a.dtype == DET_BF16, g->a.rs,
                         g->a.cs, r->n, g->k, tile_rows, to);
    if (j->rounded) kernels->gemm_round(to, floats);
    return to;
}

static void multiply_panel(const struct job *j, const struct row_range *r, int panel, float *c,
                           const float *packed_a, const float *packed_b)
{
    const struct gemm *g = j->g;
    int width = panel_columns(j, panel), lanes = kernels->gemm_lanes();
    kernels->gemm_panel(
        &(struct gemm_panel){.m = r->n,
                             .k = g->k,
                             .n_seg = 1,
                             .a = packed_a ? packed_a : matrix_at(&g->a, j->a, r->first, 0),
                             .a_stride = g->a.rs,
                             .a_tiles = packed_a,
                             .b = packed_b + panel_offset(j, panel),
                             .b_stride = round_up(width, lanes),
                             .width = width,
                             .c = c,
                             .ldc = r->ld,
                             .accumulate = g->accumulate && !j->turned});
}

static int multiply_panels(const struct job *j, const struct row_range *r, int first, int last)
{
    const float *packed_a = NULL, *packed_b = j->own_panels ? own_panels(j) : j->packed;
    int packed_rows = 0;
    if (!packed_b) return DET_ENOMEM;
    for (int panel = first; panel < last; panel++) {
        int tile_rows = kernels->gemm_rows(panel_columns(j, panel));
        if (packs_a(j) && tile_rows != packed_rows) {
            packed_a = pack_a(j, r, tile_rows);
            if (!packed_a) return DET_ENOMEM;
            packed_rows = tile_rows;
        }
        multiply_panel(j, r, panel, r->sums + (int64_t)(panel - first) * j->panel_width, packed_a,
                       packed_b);
    }
    return 0;
}

// First row of a block: blocks of whole tiles, as equal as can be.
static int64_t block_row(const struct job *j, int64_t block)
{
    int64_t tiles = divide_up(j->g->m, j->tile_rows);
    return MIN(block * tiles / j->n_row_blocks * j->tile_rows, j->g->m);
}

static void multiply_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct gemm *g = j->g;
    // A thread has pieces one after the other: with the panels that it has packed, or, if it has
    // them all, with a part of A.
    int64_t block = j->own_panels ? piece / j->n_panel_groups : piece % j->n_row_blocks;
    int64_t group = j->own_panels ? piece % j->n_panel_groups : piece / j->n_row_blocks;
    int first = (int)group * j->panel_group;
    int last = MIN(first + j->panel_group, j->n_panels);
    int64_t start = first * (int64_t)j->panel_width, end = last * (int64_t)j->panel_width;
    int64_t col = j->first_col + start, n_cols = MIN(end, j->n_cols) - start;
    struct row_range r = {.first = block_row(j, block), .ld = g->ldc};
    r.n = block_row(j, block + 1) - r.first;
    r.sums = (float *)j->c + r.first * g->ldc + col;
    bool own_sums = g->c_dtype == DET_BF16 || j->turned; // C is made from them
    if (own_sums) {
        r.ld = n_cols;
        r.sums = scratch(SCRATCH_D, (size_t)(r.n * n_cols) * sizeof *r.sums);
    }
    int rc = r.sums ? multiply_panels(j, &r, first, last) : DET_ENOMEM;
    const struct gemm_block sums = {r.first, r.n, col, n_cols, r.sums, r.ld};
    if (!rc && j->turned)
        rc = gemm_store_block(g, true, &sums, (float *)j->c, (float *)j->slope);
    else if (!rc && (own_sums || gemm_finishes(g)))
        gemm_finish_block(g, &sums, j->c, j->slope);
    if (rc) __atomic_store_n(j->rc, rc, __ATOMIC_RELAXED);
}

// Pieces small enough to keep all threads busy to the end: blocks of rows, the same number for
// each thread, cut into groups of panels where they are too few.
static void plan_pieces(struct job *j, bool shared)
{
    const struct gemm *g = j->g;
    int threads = shared ? pool_threads() : 1;
    j->tile_rows = kernels->gemm_rows(j->panel_width);
    int64_t tiles = divide_up(g->m, j->tile_rows);
    int64_t blocks = divide_up(g->m, j->turned ? TURNED_ROW_BLOCK : ROW_BLOCK);
    j->n_row_blocks = MIN(round_up(blocks, threads), tiles);
    int64_t wanted = threads == 1 ? 1 : (packs_a(j) ? PACKING_PIECES : PIECES) * threads;
    wanted = MIN(wanted, MAX(g->m * j->n_cols * g->k / PIECE_WORK, (int64_t)1));
    int64_t groups = MIN(divide_up(wanted, j->n_row_blocks), j->n_panels);
    j->panel_group = (int)divide_up(j->n_panels, groups);
    j->n_panel_groups = (int)divide_up(j->n_panels, j->panel_group);
}

static bool is_rounded(const struct gemm *g)
{
    return g->bf16 || g->a.dtype == DET_BF16 || g->b.dtype == DET_BF16;
}

// Panels of equal width: a narrow one at the end would take as long as a wide one.
static int panel_width(int64_t n)
{
    int64_t n_panels = divide_up(n, kernels->gemm_width());
    return (int)round_up(divide_up(n, n_panels), kernels->gemm_lanes());
}

// Whether a thread that packs a small B for itself loses less than by reading what another one has
// just written: if it multiplies enough with it.
static bool better_own_panels(const struct gemm *g, bool shared)
{
    return g->m >= (int64_t)OWN_PANELS_ROWS * (shared ? pool_threads() : 1) &&
           g->n * g->k <= OWN_PANELS_MAX;
}

// B is packed, A stays where it is. So a B that has to be turned for packing, and is much larger
// than A, is better A: then C comes out turned.
static bool better_turned(const struct gemm *g, bool shared)
{
    const struct gemm turned = gemm_turned(g);
    return !is_rounded(g) && g->c_dtype == DET_F32 && g->b.rs == 1 && g->b.cs != 1 &&
           g->m >= TURNED_MIN && 2 * g->m <= g->n && better_own_panels(&turned, shared);
}

static int gemm_one(const struct gemm *product, const void *a, const void *b, char *c, char *slope,
                    bool shared)
{
    int rc = 0;
    struct gemm turned = gemm_turned(product);
    struct job j = {.g = product, .a = a, .b = b, .c = c, .slope = slope, .rc = &rc};
    j.turned = better_turned(product, shared);
    j.rounded = is_rounded(product);
    j.own_panels = j.turned || (shared && !j.rounded && better_own_panels(product, shared));
    if (j.own_panels) j.id = gemm_new_id();
    if (j.turned) {
        j.g = &turned;
        j.a = b;
        j.b = a;
    }
    const struct gemm *g = j.g;
    j.panel_width = panel_width(g->n);
    int64_t per_panel = g->k * j.panel_width;
    int64_t panels_at_once = MAX((int64_t)1, PACK_MAX / MAX(per_panel, (int64_t)1));
    int64_t cols_at_once = MIN(panels_at_once * j.panel_width, g->n);
    int64_t padded = round_up(cols_at_once, j.panel_width);
    if (!j.own_panels) j.packed = scratch(SCRATCH_A, (size_t)(padded * g->k) * sizeof(float));
    if (!j.own_panels && !j.packed) return DET_ENOMEM;
    for (j.first_col = 0; j.first_col < g->n; j.first_col += cols_at_once) {
        j.n_cols = MIN(cols_at_once, g->n - j.first_col);
        j.n_panels = (int)divide_up(j.n_cols, j.panel_width);
        plan_pieces(&j, shared);
        if (!j.own_panels)
            pool_run_if(shared && j.n_cols * g->k > WORTH_PACKERS, j.n_panels, pack_piece, &j);
        pool_run_if(shared, (int)j.n_row_blocks * j.n_panel_groups, multiply_piece, &j);
    }
    return rc;
}

// --- other ways

// f64 is for checking results, not for speed.
static void loops_f64(const struct gemm *g, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = g->accumulate ? c[i * g->ldc + j] : 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += a[i * g->a.rs + k * g->a.cs] * b[k * g->b.rs + j * g->b.cs];
            c[i * g->ldc + j] = sum;
        }
}

// Integers wrap around; the unsigned detour keeps that defined.
static void loops_i64(const struct gemm *g, const uint64_t *a, const uint64_t *b, uint64_t *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            uint64_t sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += a[i * g->a.rs + k * g->a.cs] * b[k * g->b.rs + j * g->b.cs];
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

static void small_finish(const struct gemm *g, float *c, float *slope)
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
                                  .slope = slope ? slope + col : NULL,
                                  .ld_out = g->ldc});
}

struct batch_job {
    const struct gemm *g;
    int rc; // as in struct job
};

static const char *batch_item(const void *base, int64_t i, int64_t stride, det_dtype dtype)
{
    return base ? (const char *)base + i * stride * (int64_t)dtype_size(dtype) : NULL;
}

static bool is_small(const struct gemm *g)
{
    return !is_rounded(g) && g->c_dtype == DET_F32 && g->m * g->n * g->k <= TINY;
}

static int multiply_slice(const struct gemm *g, const void *a, const void *b, char *c, char *slope,
                          bool shared)
{
    enum sparse_side side = sparse_side(g, a, b);
    if (side) return gemm_sparse(g, side, a, b, c, slope, shared);
    return gemm_one(g, a, b, c, slope, shared && g->m * g->n * g->k > WORTH_THREADS);
}

// C holds the sums so far; the last slice finishes it. bf16 cannot hold them: then k stays whole.
static int multiply_slices(const struct gemm *g, const void *a, const void *b, char *c, char *slope,
                           bool shared)
{
    struct gemm part = *g;
    if (g->c_dtype == DET_BF16) return multiply_slice(g, a, b, c, slope, shared);
    part.bias = NULL;
    part.act = GEMM_ACT_NONE;
    part.slope = NULL;
    part.k = divide_up(g->k, MAX(g->k / K_SLICE, (int64_t)1));
    int64_t k = 0;
    for (; k + part.k < g->k; k += part.k) {
        int rc = multiply_slice(&part, matrix_at(&g->a, a, 0, k), matrix_at(&g->b, b, k, 0), c,
                                NULL, shared);
        if (rc) return rc;
        part.accumulate = true;
    }
    struct gemm last = *g;
    last.k = g->k - k;
    last.accumulate = part.accumulate;
    return multiply_slice(&last, matrix_at(&g->a, a, 0, k), matrix_at(&g->b, b, k, 0), c, slope,
                          shared);
}

static int multiply_item(const struct gemm *g, int64_t i, bool shared)
{
    const char *a = batch_item(g->a.data, i, g->a_batch, g->a.dtype);
    const char *b = batch_item(g->b.data, i, g->b_batch, g->b.dtype);
    char *c = (char *)(uintptr_t)batch_item(g->c, i, g->c_batch, g->c_dtype);
    char *slope = (char *)(uintptr_t)batch_item(g->slope, i, g->c_batch, g->c_dtype);
    if (is_rounded(g) && g->k && bf16_unit()) return gemm_bf16(g, a, b, c, slope, shared);
    if (g->c_dtype == DET_F64) {
        loops_f64(g, (const double *)a, (const double *)b, (double *)c);
        return 0;
    }
    if (g->c_dtype == DET_I64) {
        loops_i64(g, (const uint64_t *)a, (const uint64_t *)b, (uint64_t *)c);
        return 0;
    }
    if (!is_small(g)) return multiply_slices(g, a, b, c, slope, shared);
    small_f32(g, (const float *)a, (const float *)b, (float *)c);
    small_finish(g, (float *)c, (float *)slope);
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
        small_finish(g, g->c, g->slope);
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
