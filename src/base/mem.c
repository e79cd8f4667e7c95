// Unit mem.c: allocation that cannot fail, and the end of the program when an ASSERT does.
#include "base/mem.h"

#include "base/assert.h"

_Noreturn void assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "det: bug: %s:%d: %s is not true\n", file, line, cond);
    abort();
}

static _Noreturn void out_of_memory(size_t n_bytes)
{
    fprintf(stderr, "det: out of memory (%zu bytes wanted)\n", n_bytes);
    abort();
}

void *xmalloc(size_t n_bytes)
{
    void *p = malloc(n_bytes ? n_bytes : 1);
    if (!p) out_of_memory(n_bytes);
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p) out_of_memory(n * size);
    return p;
}

void *xrealloc(void *p, size_t n_bytes)
{
    p = realloc(p, n_bytes ? n_bytes : 1);
    if (!p) out_of_memory(n_bytes);
    return p;
}

char *xstrndup(const char *s, size_t n)
{
    char *copy = xmalloc(n + 1);
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}
