// tensor/share.h: shares rows of work out to the pool. Private to the layer.
#pragma once

#include <stdint.h>

// Rows [from, to).
typedef void (*share_fn)(void *ctx, int64_t from, int64_t to);

// Calls fn for ranges that together are [0, n_rows): here if there is little to do, else in the
// pool. row_work is about the number of elements behind one row. Which ranges come is not
// determined, so what fn does for a row must not depend on the others of its range.
void share_rows(int64_t n_rows, int64_t row_work, share_fn fn, void *ctx);
