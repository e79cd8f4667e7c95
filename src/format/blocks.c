// Unit blocks.c: sorts tensors by address and joins those that overlap. Called by pth_write.c.
#include "format/blocks.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/array.h"

struct span {
    uintptr_t start, end; // addresses of the elements of a tensor; both 0 if it has none
    det_dtype dtype;
    uint32_t tensor;
};

static int by_address(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

static int span_of(det_tensor *t, struct span *out, det_err *err)
{
    out->dtype = det_dtype_of(t);
    out->start = out->end = 0;
    int64_t extent = tensor_extent(det_shape(t), det_stride(t), det_ndim(t));
    if (extent == 0) return 0;
    const void *first = array_first(t, err);
    if (!first) return err->code;
    out->start = (uintptr_t)first;
    out->end = out->start + (size_t)extent * det_dtype_size(out->dtype);
    return 0;
}

static bool joins(const struct span *s, const struct span *block)
{
    return s->dtype == block->dtype && s->start < block->end &&
           (s->start - block->start) % det_dtype_size(s->dtype) == 0;
}

// Walks over sorted spans. spans[i] becomes the i-th block; block_of[tensor] is the number of its
// block.
static uint32_t join_spans(struct span *spans, uint32_t n, uint32_t *block_of)
{
    uint32_t n_blocks = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct span s = spans[i];
        if (n_blocks && joins(&s, &spans[n_blocks - 1]))
            spans[n_blocks - 1].end = MAX(spans[n_blocks - 1].end, s.end);
        else
            spans[n_blocks++] = s;
        block_of[s.tensor] = n_blocks - 1;
    }
    return n_blocks;
}

// Addresses differ from run to run; the order of the tensors does not.
static void number_blocks(struct block_plan *plan, const struct span *spans,
                          const uint32_t *block_of, uint32_t n)
{
    uint32_t *number = xcalloc(plan->n_blocks, sizeof *number); // 1 + place in plan->blocks
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct span *s = &spans[block_of[i]];
        uint32_t *at = &number[block_of[i]];
        if (!*at) {
            *at = ++used;
            plan->blocks[used - 1] = (struct block){
                .start = (const char *)s->start, .n_bytes = s->end - s->start, .dtype = s->dtype};
        }
        plan->views[i].block = *at - 1;
    }
    free(number);
}

int blocks_plan(struct block_plan *plan, det_tensor *const *tensors, uint32_t n, det_err *err)
{
    struct span *spans = xcalloc(n, sizeof *spans);
    uint32_t *block_of = xcalloc(n, sizeof *block_of);
    int rc = 0;
    *plan = (struct block_plan){.views = xcalloc(n, sizeof *plan->views)};
    for (uint32_t i = 0; i < n && !rc; i++) {
        spans[i].tensor = i;
        rc = span_of(tensors[i], &spans[i], err);
        plan->views[i].offset = (int64_t)spans[i].start; // an address until the block is known
    }
    if (rc) goto out;
    qsort(spans, n, sizeof *spans, by_address);
    plan->n_blocks = join_spans(spans, n, block_of);
    plan->blocks = xcalloc(plan->n_blocks, sizeof *plan->blocks);
    number_blocks(plan, spans, block_of, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct block *b = &plan->blocks[plan->views[i].block];
        plan->views[i].offset -= (int64_t)(uintptr_t)b->start;
        plan->views[i].offset /= (int64_t)det_dtype_size(b->dtype);
    }
out:
    if (rc) blocks_done(plan);
    free(spans);
    free(block_of);
    return rc;
}

void blocks_done(struct block_plan *plan)
{
    if (!plan) return;
    free(plan->blocks);
    free(plan->views);
    *plan = (struct block_plan){0};
}
