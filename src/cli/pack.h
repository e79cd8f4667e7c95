// cli/pack.h: a folder as a tar file, without what .detignore names. Private to the layer.
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdint.h>

enum { PACK_MAX_BYTES = 96 << 20 };

// Regular files and folders below dir, in the order of their names, compressed with gzip. Links and
// other kinds are left out. .detignore has a pattern per line, as .gitignore has them: * and ?
// match inside a name, a slash at the end means folders only, one elsewhere means from the top; #
// starts a comment. Compiled Python is always left out. DET_ELIMIT if it gets larger than
// PACK_MAX_BYTES.
struct pack_totals {
    int64_t entries, bytes; // files and folders; content of files
};
int pack_folder(const char *dir, struct buf *out, struct pack_totals *totals, det_err *err);

// Whether a path below the folder is left out by a line of .detignore.
bool pack_pattern_matches(struct str pattern, const char *path, bool is_folder);
