// storage/store.h: what the units of the layer share. Private to the layer.
#pragma once

#include "storage/manifest.h"
#include "storage/storage.h"
#include <stdatomic.h>

#define TEMP_PREFIX ".tmp-" // a checkpoint being written
#define GONE_PREFIX ".del-" // a checkpoint being deleted
#define LOCK_NAME ".lock"   // in a .tmp- directory; locked while its writer lives

struct store {
    char *path;
    int dir;
    _Atomic int64_t last_saved_us; // the largest one seen or written
};

// Locks the lock file of an unfinished checkpoint, which is made if it is missing. -1 if it cannot
// be: errno is EWOULDBLOCK when its writer lives.
int lock_unfinished(int dir);

// Size and checksum of an open file, from its beginning.
int sum_file(int fd, struct manifest_file *file, det_err *err);
