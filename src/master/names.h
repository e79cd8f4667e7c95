// master/names.h: which names an archive has used, and whether for a file or a directory.
#pragma once

#include "base/hash.h"
#include "base/str.h"
#include "det/err.h"
#include <stdbool.h>

// Only hashes are kept, keyed at random.
struct names {
    struct hash_key key;
    uint64_t *items; // open addressing; 0: free. The lowest bit says that it is a directory.
    size_t n, cap;
};

void names_init(struct names *s);
void names_done(struct names *s);

// A plain path, and with it the directories above it. DET_EINVAL: some name is that of a file and
// of something else.
int names_add(struct names *s, struct str path, bool folder, det_err *err);
