// Unit arena.c: blocks of growing size, filled from the front.
#include "base/arena.h"

#include "base/assert.h"
#include "base/mem.h"
#include <stdalign.h>
#include <stdint.h>

enum { FIRST_BLOCK_BYTES = 1024, LARGEST_BLOCK_BYTES = 1 << 20 };

struct arena_block {
    struct arena_block *older;
    size_t used, cap;
    alignas(max_align_t) char bytes[];
};

void arena_done(struct arena *a)
{
    if (!a) return;
    for (struct arena_block *b = a->block, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    a->block = NULL;
}

static void arena_grow(struct arena *a, size_t n_bytes)
{
    size_t cap = a->block ? MIN(a->block->cap * 2, LARGEST_BLOCK_BYTES) : FIRST_BLOCK_BYTES;
    if (cap < n_bytes) cap = n_bytes;
    struct arena_block *b = xcalloc(1, sizeof *b + cap);
    b->cap = cap;
    b->older = a->block;
    a->block = b;
}

void *arena_alloc(struct arena *a, size_t n_bytes)
{
    ASSERT(n_bytes < SIZE_MAX / 2);
    size_t rounded = (n_bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!a->block || a->block->cap - a->block->used < rounded) arena_grow(a, rounded);
    void *p = a->block->bytes + a->block->used;
    a->block->used += rounded;
    return p;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
    size_t n_bytes = 0;
    ASSERT(!__builtin_mul_overflow(n, size, &n_bytes));
    return arena_alloc(a, n_bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *copy = arena_alloc(a, n + 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    ASSERT(n >= 0);
    char *text = arena_alloc(a, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = arena_vprintf(a, fmt, args);
    va_end(args);
    return text;
}
