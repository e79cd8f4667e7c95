// storage/manifest.h: the text of a manifest.json. Private to the layer.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "doc/field.h"
#include "det/err.h"

enum { MANIFEST_MAX_BYTES = 16 << 20 };

struct manifest_file {
    const char *name; // path_is_plain(), valid UTF-8
    int64_t n_bytes, crc32c;
};

struct manifest {
    int64_t version;
    const char *id;
    int64_t trial_id, steps_completed, saved_us;
    LIST_OF(struct manifest_file) files; // sorted by name
    int64_t checksum;                    // CRC-32C of this text with a 0 here
};

// There is one text for one manifest, so a text with any byte changed is not a manifest.
void manifest_encode(const struct manifest *m, struct buf *out); // sets version and checksum
int manifest_parse(struct str text, struct arena *arena, struct manifest *out, det_err *err);
