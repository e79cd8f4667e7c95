// Unit vmem.c: mmap with huge-page alignment.
#include "sys/vmem.h"

#include <stdint.h>
#include <sys/mman.h>

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void *map_pages(size_t n_bytes)
{
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *vmem_map(size_t n_bytes, size_t n_used)
{
    if (n_bytes > SIZE_MAX / 4) return NULL;
    size_t len = round_up(n_bytes, 4096);
    if (len < VMEM_ALIGN) return map_pages(len);
    char *p = map_pages(len + VMEM_ALIGN);
    if (!p) return NULL;
    char *start = (char *)round_up((uintptr_t)p, VMEM_ALIGN);
    size_t before = (size_t)(start - p), after = VMEM_ALIGN - before;
    if (before) munmap(p, before);
    if (after) munmap(start + len, after);
    size_t huge = n_used / VMEM_ALIGN * VMEM_ALIGN; // the rest of a huge page would be lost
    if (huge) madvise(start, huge, MADV_HUGEPAGE);  // a hint; without, it is only slower
    return start;
}

void vmem_unmap(void *p, size_t n_bytes)
{
    if (p) munmap(p, round_up(n_bytes, 4096));
}
