// base/arena.h: memory for everything that dies together: one parsed document, one request.
//   ARENA_INIT  arena_done  arena_alloc  arena_array  arena_strndup  arena_strdup  arena_printf
#pragma once

#include "base/banned.h"
#include <stdarg.h>
#include <stddef.h>

struct arena {
    struct arena_block *block; // the one being filled; older ones hang behind it
};

#define ARENA_INIT ((struct arena){NULL})

void arena_done(struct arena *a); // frees everything; a can be used again

// Zeroed, aligned for any type, valid until arena_done. Never NULL.
void *arena_alloc(struct arena *a, size_t n_bytes) __attribute__((malloc, returns_nonnull));
void *arena_array(struct arena *a, size_t n, size_t size) __attribute__((malloc, returns_nonnull));

char *arena_strndup(struct arena *a, const char *s, size_t n)
    __attribute__((malloc, returns_nonnull));
char *arena_strdup(struct arena *a, const char *s) __attribute__((malloc, returns_nonnull));
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));
char *arena_vprintf(struct arena *a, const char *fmt, va_list args)
    __attribute__((returns_nonnull));
