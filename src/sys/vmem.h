// sys/vmem.h: large pieces of memory straight from the system.
#pragma once

#include <stddef.h>

enum { VMEM_ALIGN = 2 << 20 }; // one huge page; mappings of at least this size start on it

// Zeroed, readable and writable; the first n_used <= n_bytes, which are sure to be used, are backed
// by huge pages where the system gives them. NULL when there is no memory: sizes come from users,
// so this is an error to report and not the end.
void *vmem_map(size_t n_bytes, size_t n_used);
void vmem_unmap(void *p, size_t n_bytes); // n_bytes as given to vmem_map; NULL is allowed
