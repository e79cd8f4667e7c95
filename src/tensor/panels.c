// Unit panels.c: packed matrices. Called by the recurrent operations and attention.
#include "tensor/panels.h"

#include "tensor/gemm_bf16.h"
#include "tensor/node.h"
#include "tensor/share.h"

// bf16 pairs if the processor multiplies them; else rounded floats.
static const struct bf16_unit *unit_of(const struct panels *b)
{
    return b->bf16 ? bf16_unit() : NULL;
}

static int panel_width(const struct panels *b)
{
    const struct bf16_unit *unit = unit_of(b);
    return unit ? unit->width : kernels->gemm_width();
}

static int64_t padded_k(const struct panels *b)
{
    const struct bf16_unit *unit = unit_of(b);
    return unit ? round_up(b->k, unit->k_round) : b->k;
}

static size_t element_size(const struct panels *b)
{
    return b->dtype == DET_F64 ? sizeof(double) : unit_of(b) ? sizeof(uint16_t) : sizeof(float);
}

size_t panels_bytes(const struct panels *b)
{
    size_t bytes = (size_t)(padded_k(b) * round_up(b->n, panel_width(b))) * element_size(b);
    return (bytes + 63) / 64 * 64;
}

// Panels before this one are full.
static char *panel_at(const struct panels *b, int64_t col)
{
    return (char *)b->data + (size_t)(col * padded_k(b)) * element_size(b);
}

// --- packing

static void pack_f64(const struct panels *p, const struct matrix *b)
{
    double *to = p->data;
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++)
            *to++ = ((const double *)b->data)[k * b->rs + j * b->cs];
}

static void pack_floats(const struct panels *p, const struct matrix *b, const void *at, int width,
                        float *to)
{
    kernels->gemm_pack(at, b->dtype == DET_BF16, b->rs, b->cs, p->k, width, to);
    if (p->bf16) kernels->gemm_round(to, p->k * round_up(width, kernels->gemm_lanes()));
}

struct pack_job {
    const struct panels *p;
    const struct matrix *b;
};

static void pack_range(void *ctx, int64_t from, int64_t to)
{
    const struct pack_job *j = ctx;
    const struct panels *p = j->p;
    const struct bf16_unit *unit = unit_of(p);
    int full = panel_width(p);
    for (int64_t col = from * full; col < MIN(to * full, p->n); col += full) {
        int width = (int)MIN(p->n - col, (int64_t)full);
        const void *at = matrix_at(j->b, j->b->data, 0, col);
        if (unit)
            unit->pack_b(j->b, at, p->k, width, (uint16_t *)(void *)panel_at(p, col));
        else
            pack_floats(p, j->b, at, width, (float *)(void *)panel_at(p, col));
    }
}

void panels_pack(const struct panels *p, const struct matrix *b)
{
    struct pack_job j = {p, b};
    if (p->dtype == DET_F64)
        pack_f64(p, b);
    else
        pack_range(&j, 0, round_up(p->n, panel_width(p)) / panel_width(p));
}

void panels_pack_shared(const struct panels *p, const struct matrix *b)
{
    struct pack_job j = {p, b};
    int width = panel_width(p);
    if (p->dtype == DET_F64)
        pack_f64(p, b);
    else
        share_rows(round_up(p->n, width) / width, p->k * width, pack_range, &j);
}

size_t panels_rows_bytes(const struct panels *b, int64_t m)
{
    if (!b->bf16) return 0;
    return (size_t)(round_up(m, 16) * panels_row_stride(b)) * element_size(b);
}

int64_t panels_row_stride(const struct panels *b)
{
    return padded_k(b);
}

void panels_rows(const struct panels *b, const float *from, int64_t stride, int64_t m, void *to)
{
    const struct bf16_unit *unit = unit_of(b);
    struct matrix a = {from, DET_F32, stride, 1};
    if (unit) {
        unit->pack_a(&a, from, m, b->k, to);
        return;
    }
    float *rows = to;
    for (int64_t i = 0; i < m; i++)
        memcpy(rows + i * b->k, from + i * stride, (size_t)b->k * sizeof *rows);
    kernels->gemm_round(rows, m * b->k);
}

// --- multiplying

static void multiply_f64(const struct panels *b, const struct panels_product *x)
{
    const double *a = x->a, *packed = b->data;
    double *c = x->c;
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            double sum = x->accumulate ? c[i * x->ldc + j] : 0;
            for (int64_t k = 0; k < x->k; k++)
                sum += a[i * x->a_stride + k] * packed[k * b->n + j];
            c[i * x->ldc + j] = sum;
        }
}

static void multiply_pairs(const struct panels *b, const struct panels_product *x)
{
    const struct bf16_unit *unit = unit_of(b);
    for (int64_t col = 0; col < x->n; col += unit->width) {
        int packed = (int)MIN(b->n - col, (int64_t)unit->width);
        unit->panel(&(struct gemm_panel_bf16){.m = x->m,
                                              .k = padded_k(b),
                                              .a = x->a,
                                              .a_stride = x->a_stride,
                                              .b = (const uint16_t *)(const void *)panel_at(b, col),
                                              .width = packed,
                                              .b_width = (int)round_up(packed, 16),
                                              .c = (float *)x->c + col,
                                              .ldc = x->ldc,
                                              .accumulate = x->accumulate});
    }
}

static void multiply_f32(const struct panels *b, const struct panels_product *x)
{
    int full = kernels->gemm_width(), lanes = kernels->gemm_lanes();
    for (int64_t col = 0; col < x->n; col += full) {
        int64_t packed = MIN(b->n - col, (int64_t)full);
        kernels->gemm_panel(&(struct gemm_panel){.m = x->m,
                                                 .k = x->k,
                                                 .n_seg = 1,
                                                 .a = x->a,
                                                 .a_stride = x->a_stride,
                                                 .a_columns = x->a_columns,
                                                 .b = (const float *)(const void *)panel_at(b, col),
                                                 .b_stride = round_up(packed, lanes),
                                                 .width = (int)MIN(x->n - col, (int64_t)full),
                                                 .c = (float *)x->c + col,
                                                 .ldc = x->ldc,
                                                 .accumulate = x->accumulate});
    }
}

void panels_multiply(const struct panels *b, const struct panels_product *x)
{
    if (b->dtype == DET_F64)
        multiply_f64(b, x);
    else if (unit_of(b))
        multiply_pairs(b, x);
    else
        multiply_f32(b, x);
}
