// cli/pack.h: a folder as a tar file, without what .detignore names. Private to the layer.
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { PACK_MAX_BYTES = 96 << 20 };

// Regular files and folders below dir, in the order of their names, compressed with gzip, without
// what .detignore names (sys/ignore.h). Links and other kinds are left out. DET_ELIMIT if it gets
// larger than PACK_MAX_BYTES.
struct pack_totals {
    int64_t entries, bytes; // files and folders; content of files
    bool has_python;        // a file of Python
};
int pack_folder(const char *dir, struct buf *out, struct pack_totals *totals, det_err *err);
