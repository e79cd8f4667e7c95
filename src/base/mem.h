// base/mem.h: small allocations. They abort when memory is out, so nobody writes dead error paths;
// large, user-sized buffers (tensors, files) do not come from here and report DET_ENOMEM instead.
//   xmalloc xcalloc xrealloc xstrdup xstrndup   THREAD_LOCAL
#pragma once

#include "base/banned.h"
#include <stddef.h>

void *xmalloc(size_t n_bytes) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull)); // zeroed
void *xrealloc(void *p, size_t n_bytes) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));

// For numbers and pointers that are asked for all the time: as fast in a shared library as in a
// program. Not for more: room for such variables is limited when a library is loaded later.
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
