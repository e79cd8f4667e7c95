// Unit gemm_sparse.c: matrix products with many zeros on one side: what comes out of a ReLU or of
// dropout, and every gradient that goes back through them.
//
// Zeros of A are skipped: for each element that is not zero the row of B that belongs to it is
// added to sums in registers, as many columns as these hold. Blocks of k are packed so that those
// rows of B stay in the first-level cache while many rows of A go by. If the zeros are in B, the
// same is done for the turned product and its blocks are turned back. Sums run in the order of k as
// in gemm.c, and nothing is left out but products that are zero: results have the same bits. (Zero
// times infinity is not zero: where B is not finite, nothing is skipped.)
#include "tensor/gemm_sparse.h"

#include "sys/pool.h"
#include "tensor/node.h"

enum {
    MIN_ROWS = 32,           // below, lists and panels cost more than they save
    MIN_WORK = 1 << 20,      // multiply-adds
    SAMPLES = 16,            // rows, and columns, that are looked at
    MIN_ZEROS = 3 * 256 / 8, // of the samples
    ROW_BLOCK = 256,         // rows of A per piece, for which a panel is packed, at most,
    MIN_ROW_BLOCK = 64,      // and at least
    MAX_COLUMNS = 128,       // of a panel; GEMM_SPARSE_K rows stay in the first-level cache
    PIECES = 8,              // per thread, among which it does not matter who has one more
};

struct job {
    const struct gemm *g; // zeros are in A, C may be turned
    const float *a, *b;
    float *c, *slope;
    bool turned;
    int64_t width, n_panels; // columns of a panel
    int64_t row_block;
    uint64_t id;
    int *rc;
};

// A block of rows of A and where they are not zero, made by the thread that multiplies them.
struct listed {
    int64_t row, n;
    const float *a; // its first element
    int64_t stride; // from a row to the next
    uint64_t *bits; // [k / GEMM_SPARSE_K][row]
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

static void *scratch_or_fail(const struct job *j, enum scratch_slot slot, int64_t floats)
{
    void *p = scratch(slot, (size_t)floats * sizeof(float));
    if (!p) __atomic_store_n(j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
    return p;
}

static int n_of_k(const struct job *j, int64_t k)
{
    return (int)MIN(j->g->k - k, (int64_t)GEMM_SPARSE_K);
}

// False: no memory. Several pieces of a thread have the same rows, one after the other.
static bool list_rows(const struct job *j, struct listed *l)
{
    static THREAD_LOCAL uint64_t owner; // the job and the row whose lists SCRATCH_B holds
    static THREAD_LOCAL int64_t owner_row;
    const struct gemm *g = j->g;
    const bool turn = g->a.cs != 1;
    int64_t n_bits = j->row_block * divide_up(g->k, GEMM_SPARSE_K);
    l->bits = scratch_or_fail(j, SCRATCH_B, 2 * n_bits + (turn ? l->n * padded(g->k) : 0));
    if (!l->bits) return false;
    float *rows = (float *)(l->bits + n_bits);
    l->a = turn ? rows : matrix_at(&g->a, j->a, l->row, 0);
    l->stride = turn ? padded(g->k) : g->a.rs;
    if (owner == j->id && owner_row == l->row) return true;
    owner = j->id;
    owner_row = l->row;
    if (turn)
        kernels->gemm_pack(matrix_at(&g->a, j->a, l->row, 0), false, g->a.rs, g->a.cs, l->n,
                           (int)g->k, rows);
    uint64_t *bits = l->bits;
    for (int64_t k = 0; k < g->k; k += GEMM_SPARSE_K, bits += l->n)
        kernels->nonzero_bits(l->a + k, l->stride, l->n, n_of_k(j, k), bits);
    return true;
}

// Sums can be made in C itself if nothing else happens to them and its rows are whole vectors.
static bool sums_in_c(const struct job *j, int64_t columns)
{
    return !j->turned && !j->g->accumulate && !gemm_finishes(j->g) && columns == padded(columns);
}

// Adds to the sums of a block of C what GEMM_SPARSE_K rows of B give, from row k; they are packed
// for it.
static void multiply_block(const struct job *j, const struct listed *l, const struct gemm_block *c,
                           float *sums, int64_t k, float *packed)
{
    const struct gemm *g = j->g;
    int64_t width = padded(c->n_cols);
    int n_k = n_of_k(j, k);
    kernels->gemm_pack(matrix_at(&g->b, j->b, k, c->col), false, g->b.rs, g->b.cs, n_k,
                       (int)c->n_cols, packed);
    kernels->gemm_sparse(&(struct gemm_sparse){.m = c->n_rows,
                                               .k = n_k,
                                               .skip = kernels->all_finite(packed, n_k * width),
                                               .a = l->a + k,
                                               .a_stride = l->stride,
                                               .bits = l->bits + k / GEMM_SPARSE_K * l->n,
                                               .b = packed,
                                               .b_stride = width,
                                               .width = (int)width,
                                               .c = sums,
                                               .ldc = c->ld,
                                               .accumulate = k > 0});
}

static void multiply_piece(void *ctx, int piece)
{
    const struct job *j = ctx;
    const struct gemm *g = j->g;
    // Block after block: a thread has rows of C that lie together.
    int64_t panel = piece % j->n_panels, row = piece / j->n_panels * j->row_block;
    int64_t m = MIN(g->m - row, j->row_block), n = panel_columns(j, panel);
    int64_t col = panel * j->width;
    bool in_c = sums_in_c(j, n);
    float *packed = scratch_or_fail(j, SCRATCH_A, GEMM_SPARSE_K * padded(n));
    float *sums = in_c ? j->c + row * g->ldc + col : scratch_or_fail(j, SCRATCH_D, m * padded(n));
    const struct gemm_block block = {row, m, col, n, sums, in_c ? g->ldc : padded(n)};
    struct listed l = {.row = row, .n = m};
    if (!packed || !sums || !list_rows(j, &l)) return;
    for (int64_t k = 0; k < g->k; k += GEMM_SPARSE_K)
        multiply_block(j, &l, &block, sums, k, packed);
    int rc = in_c ? 0 : gemm_store_block(g, j->turned, &block, j->c, j->slope);
    if (rc) __atomic_store_n(j->rc, rc, __ATOMIC_RELAXED);
}

// Few pieces, because each packs its panel, but as many for each thread.
static int plan(struct job *j, int threads)
{
    int64_t lanes = kernels->gemm_lanes(), vectors = padded(j->g->n) / lanes;
    int64_t most = MIN((int64_t)GEMM_SPARSE_VECTORS, MAX_COLUMNS / lanes);
    j->width = divide_up(vectors, divide_up(vectors, most)) * lanes;
    j->n_panels = divide_up(j->g->n, j->width);
    int64_t blocks = divide_up(j->g->m, ROW_BLOCK), most_blocks = divide_up(j->g->m, MIN_ROW_BLOCK);
    while (blocks < most_blocks && blocks * j->n_panels < (int64_t)PIECES * threads &&
           blocks * j->n_panels % threads != 0)
        blocks++;
    j->row_block = divide_up(j->g->m, blocks);
    return (int)divide_up(j->g->m, j->row_block);
}

int gemm_sparse(const struct gemm *g, enum sparse_side side, const void *a, const void *b, void *c,
                void *slope, bool shared)
{
    struct gemm turned = gemm_turned(g);
    int rc = 0;
    struct job j = {.g = g, .a = a, .b = b, .c = c, .slope = slope, .rc = &rc};
    if (side == SPARSE_B) {
        j.g = &turned;
        j.a = b;
        j.b = a;
        j.turned = true;
    }
    j.id = gemm_new_id();
    int row_blocks = plan(&j, shared ? pool_threads() : 1);
    pool_run_if(shared, row_blocks * (int)j.n_panels, multiply_piece, &j);
    return rc;
}
