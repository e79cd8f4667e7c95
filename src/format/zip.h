// format/zip.h: zip archives as torch uses them: stored entries, each aligned. Reads deflated ones
// too.
//
// The reader trusts nothing: entries lie inside the archive, do not overlap, have unique names and
// the checksum of their entry; so what a file makes us allocate is bounded by its size (deflated
// entries: by a limit on their expansion).
#pragma once

#include "sys/fs.h"

struct zip_entry {
    struct str name;
    uint64_t header_at, data_at; // in the archive
    uint64_t packed, size;       // bytes in the archive, bytes of content
    uint32_t crc;
    uint16_t method; // enum zip_method
};

enum zip_method { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

// --- reading

struct zip {
    struct str bytes;
    struct zip_entry *entries; // sorted by name
    size_t n_entries;
};

// The archive refers to bytes, which must outlive it.
int zip_open(struct zip *z, struct str bytes, det_err *err);
void zip_close(struct zip *z);

const struct zip_entry *zip_find(const struct zip *z, struct str name); // NULL: no such entry

// Copies the content (e->size bytes) to out and compares its checksum.
int zip_extract(const struct zip *z, const struct zip_entry *e, void *out, det_err *err);

// --- writing

struct zip_writer {
    struct fs_writer *file; // or, if NULL,
    struct buf *memory;
    struct buf central; // the directory that follows the entries
    uint64_t n_bytes, n_entries;
};

void zip_writer_init(struct zip_writer *w, struct fs_writer *file, struct buf *memory);
void zip_writer_done(struct zip_writer *w);
int zip_add(struct zip_writer *w, const char *name, const void *data, size_t size, det_err *err);
int zip_finish(struct zip_writer *w, det_err *err); // after the last entry

// The three records of the format, with 64-bit fields where 32 bits do not suffice. zip_put_local
// pads itself so that content at e->header_at + length of the record is aligned, and sets
// e->data_at.
void zip_put_local(struct buf *b, struct zip_entry *e);
void zip_put_central(struct buf *b, const struct zip_entry *e);
void zip_put_end(struct buf *b, uint64_t n_entries, uint64_t central_at, uint64_t central_bytes);
