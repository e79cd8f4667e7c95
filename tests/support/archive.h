// tests/support/archive.h: builds zip archives in memory, right or wrong ones.
#pragma once

#include "format/zip.h"
#include <zlib.h>

struct archive {
    struct buf bytes, central;
    uint64_t n_entries;
};

#define ARCHIVE_INIT ((struct archive){.bytes = BUF_INIT(64 << 20), .central = BUF_INIT(64 << 20)})

// An entry with the given directory record; sizes and place are filled in where they are 0.
static inline void archive_add_entry(struct archive *a, struct zip_entry e, struct str content)
{
    if (!e.header_at) e.header_at = a->bytes.len;
    if (!e.packed) e.packed = content.len;
    if (!e.size) e.size = content.len;
    if (!e.crc) e.crc = (uint32_t)crc32_z(0, (const Bytef *)content.ptr, content.len);
    zip_put_local(&a->bytes, &e);
    zip_put_central(&a->central, &e);
    buf_add(&a->bytes, content.ptr, content.len);
    a->n_entries++;
}

static inline void archive_add(struct archive *a, const char *name, struct str content)
{
    archive_add_entry(a, (struct zip_entry){.name = str_from(name)}, content);
}

// Appends the directory and returns the whole.
static inline struct str archive_end(struct archive *a)
{
    uint64_t at = a->bytes.len, n_bytes = a->central.len;
    zip_put_end(&a->central, a->n_entries, at, n_bytes);
    buf_add(&a->bytes, a->central.ptr, a->central.len);
    return buf_str(&a->bytes);
}

static inline void archive_done(struct archive *a)
{
    buf_done(&a->bytes);
    buf_done(&a->central);
}
