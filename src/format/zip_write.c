// Unit zip_write.c: writes zip archives. Called by pth_write.c.
//
// Times and attributes are constant, so the same content gives the same bytes.
#include "format/zip.h"

#include "base/assert.h"
#include "format/array.h"
#include "format/bytes.h"
#include <zlib.h>

enum {
    LOCAL_BYTES = 30,
    VERSION = 20,
    VERSION_64 = 45, // a reader must know 64-bit fields
    DATE = 0x21,     // 1980-01-01, the first day there is
    EXTRA_64 = 1,
    EXTRA_PADDING = 'F' | 'B' << 8, // as torch names it
    CENTRAL_MAX = 1 << 30,
};

static const uint64_t max_32 = UINT32_MAX, max_16 = UINT16_MAX; // as a field: see the 64-bit one

static void put_sizes(struct buf *b, const struct zip_entry *e, bool wide)
{
    put_u32(b, e->crc);
    put_u32(b, wide ? max_32 : e->packed);
    put_u32(b, wide ? max_32 : e->size);
}

static bool is_wide(const struct zip_entry *e)
{
    return e->packed >= max_32 || e->size >= max_32;
}

void zip_put_local(struct buf *b, struct zip_entry *e)
{
    bool wide = is_wide(e);
    size_t extra = wide ? 20 : 0;
    uint64_t end = e->header_at + LOCAL_BYTES + e->name.len + extra + 4; // 4: header of the padding
    size_t padding = (size_t)(-end % ARRAY_ALIGN);
    e->data_at = end + padding;
    put_u32(b, 0x04034b50);
    put_u16(b, wide ? VERSION_64 : VERSION);
    put_u16(b, 0); // flags
    put_u16(b, e->method);
    put_u16(b, 0); // time
    put_u16(b, DATE);
    put_sizes(b, e, wide);
    put_u16(b, e->name.len);
    put_u16(b, extra + 4 + padding);
    buf_add(b, e->name.ptr, e->name.len);
    if (wide) {
        put_u16(b, EXTRA_64);
        put_u16(b, 16);
        put_u64(b, e->size);
        put_u64(b, e->packed);
    }
    put_u16(b, EXTRA_PADDING);
    put_u16(b, padding);
    for (size_t i = 0; i < padding; i++)
        buf_addc(b, 0);
}

void zip_put_central(struct buf *b, const struct zip_entry *e)
{
    bool wide = is_wide(e), far = e->header_at >= max_32;
    size_t extra = (wide ? 16u : 0u) + (far ? 8u : 0u);
    put_u32(b, 0x02014b50);
    put_u16(b, VERSION_64);
    put_u16(b, extra ? VERSION_64 : VERSION);
    put_u16(b, 0); // flags
    put_u16(b, e->method);
    put_u16(b, 0); // time
    put_u16(b, DATE);
    put_sizes(b, e, wide);
    put_u16(b, e->name.len);
    put_u16(b, extra ? 4 + extra : 0);
    put_u16(b, 0); // comment
    put_u16(b, 0); // disk
    put_u16(b, 0); // internal attributes
    put_u32(b, 0); // external attributes
    put_u32(b, far ? max_32 : e->header_at);
    buf_add(b, e->name.ptr, e->name.len);
    if (extra) {
        put_u16(b, EXTRA_64);
        put_u16(b, extra);
    }
    if (wide) {
        put_u64(b, e->size);
        put_u64(b, e->packed);
    }
    if (far) put_u64(b, e->header_at);
}

static void put_end_64(struct buf *b, uint64_t n_entries, uint64_t central_at,
                       uint64_t central_bytes)
{
    put_u32(b, 0x06064b50);
    put_u64(b, 44); // bytes of this record from here on
    put_u16(b, VERSION_64);
    put_u16(b, VERSION_64);
    put_u32(b, 0); // disk
    put_u32(b, 0);
    put_u64(b, n_entries);
    put_u64(b, n_entries);
    put_u64(b, central_bytes);
    put_u64(b, central_at);
    put_u32(b, 0x07064b50);
    put_u32(b, 0);
    put_u64(b, central_at + central_bytes);
    put_u32(b, 1); // disks
}

void zip_put_end(struct buf *b, uint64_t n_entries, uint64_t central_at, uint64_t central_bytes)
{
    if (n_entries >= max_16 || central_at >= max_32 || central_bytes >= max_32)
        put_end_64(b, n_entries, central_at, central_bytes);
    put_u32(b, 0x06054b50);
    put_u16(b, 0); // disk
    put_u16(b, 0);
    put_u16(b, MIN(n_entries, max_16));
    put_u16(b, MIN(n_entries, max_16));
    put_u32(b, MIN(central_bytes, max_32));
    put_u32(b, MIN(central_at, max_32));
    put_u16(b, 0); // comment
}

void zip_writer_init(struct zip_writer *w, struct fs_writer *file, struct buf *memory)
{
    *w = (struct zip_writer){.file = file, .memory = memory, .central = BUF_INIT(CENTRAL_MAX)};
}

void zip_writer_done(struct zip_writer *w)
{
    if (w) buf_done(&w->central);
}

static int put_bytes(struct zip_writer *w, const void *bytes, size_t n, det_err *err)
{
    w->n_bytes += n;
    if (w->file) return fs_writer_add(w->file, bytes, n, err);
    buf_add(w->memory, bytes, n);
    if (buf_ok(w->memory)) return 0;
    return det_fail(err, DET_ELIMIT, "an archive of more than %zu bytes", w->memory->max);
}

int zip_add(struct zip_writer *w, const char *name, const void *data, size_t size, det_err *err)
{
    struct zip_entry e = {.name = str_from(name),
                          .header_at = w->n_bytes,
                          .packed = size,
                          .size = size,
                          .crc = (uint32_t)crc32_z(0, data, size),
                          .method = ZIP_STORED};
    struct buf header = BUF_INIT(UINT16_MAX);
    zip_put_local(&header, &e);
    zip_put_central(&w->central, &e);
    w->n_entries++;
    int rc = put_bytes(w, header.ptr, header.len, err);
    if (!rc) rc = put_bytes(w, data, size, err);
    buf_done(&header);
    return rc;
}

int zip_finish(struct zip_writer *w, det_err *err)
{
    uint64_t at = w->n_bytes, n_bytes = w->central.len;
    zip_put_end(&w->central, w->n_entries, at, n_bytes);
    if (!buf_ok(&w->central))
        return det_fail(err, DET_ELIMIT, "too many entries for one archive (%llu)",
                        (unsigned long long)w->n_entries);
    return put_bytes(w, w->central.ptr, w->central.len, err);
}
