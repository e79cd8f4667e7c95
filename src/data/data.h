// data/data.h: readers of the file formats, for tests and fuzzers; what users need is in
// det/data.h.
//   idx_parse  gunzip
#pragma once

#include "base/str.h"
#include "det/err.h"
#include <stdint.h>

struct storage;

// An idx file of bytes, the format of MNIST: its dims, and its elements behind them.
enum { IDX_MAX_DIMS = 3 };
struct idx {
    int ndim;
    int64_t shape[IDX_MAX_DIMS];
    const uint8_t *data; // in bytes
};
int idx_parse(struct str bytes, struct idx *out, det_err *err);

// Unpacks a .gz of one member into *block (storage_unref), of which *out is the content.
int gunzip(struct str packed, struct storage **block, struct str *out, det_err *err);
