// Unit zip_read.c: reads zip archives that lie in memory. Called by pth_read.c.
//
// Format: PKWARE APPNOTE 6.3. Entries are found through the directory at the end; of an entry's own
// header only the lengths in front of the content are used.
#include "format/zip.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/bytes.h"
#include <zlib.h>

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END_64_BYTES = 56,
    LOCATOR_64_BYTES = 20,
    COMMENT_MAX = 65535,
    FLAG_ENCRYPTED = 1,
    EXTRA_64 = 1,
    EXPANSION_MAX = 100, // of all deflated entries together, times the bytes of the archive
    EXPANSION_FREE = 64 << 20,
    ENTRIES_MAX = 1 << 20,
    PIECE = 256 << 10, // copied and summed at once, so that the second step finds it in the cache
};

struct directory {
    uint64_t at, n_bytes, n_entries;
};

static bool has_mark(struct str bytes, uint64_t at, uint64_t n_bytes, uint32_t mark)
{
    return bytes.len >= n_bytes && at <= bytes.len - n_bytes && get_u32(bytes.ptr + at) == mark;
}

// Where the end record is: it is last, but for a comment of the length it states.
static int find_end(struct str bytes, uint64_t *at, det_err *err)
{
    for (size_t comment = 0; comment <= COMMENT_MAX && comment + END_BYTES <= bytes.len;
         comment++) {
        *at = bytes.len - END_BYTES - comment;
        if (has_mark(bytes, *at, END_BYTES, 0x06054b50) && get_u16(bytes.ptr + *at + 20) == comment)
            return 0;
    }
    return det_fail(err, DET_ECORRUPT,
                    "not a zip archive, or cut off: no end record in the last bytes of %zu",
                    bytes.len);
}

static int find_directory(struct str bytes, struct directory *dir, det_err *err)
{
    uint64_t end = 0;
    int rc = find_end(bytes, &end, err);
    if (rc) return rc;
    const char *p = bytes.ptr + end;
    *dir = (struct directory){
        .n_entries = get_u16(p + 10), .n_bytes = get_u32(p + 12), .at = get_u32(p + 16)};
    if (end >= LOCATOR_64_BYTES && has_mark(bytes, end - LOCATOR_64_BYTES, 4, 0x07064b50)) {
        end = get_u64(p - LOCATOR_64_BYTES + 8);
        if (!has_mark(bytes, end, END_64_BYTES, 0x06064b50))
            return det_fail(err, DET_ECORRUPT, "no 64-bit end record at byte %llu",
                            (unsigned long long)end);
        p = bytes.ptr + end;
        *dir = (struct directory){
            .n_entries = get_u64(p + 32), .n_bytes = get_u64(p + 40), .at = get_u64(p + 48)};
    }
    if (dir->at > end || dir->n_bytes > end - dir->at ||
        dir->n_entries > dir->n_bytes / CENTRAL_BYTES)
        return det_fail(
            err, DET_ECORRUPT,
            "directory of %llu entries, %llu bytes at byte %llu, does not fit in front of "
            "its end record at byte %llu",
            (unsigned long long)dir->n_entries, (unsigned long long)dir->n_bytes,
            (unsigned long long)dir->at, (unsigned long long)end);
    return 0;
}

static int entry_fail(const struct zip_entry *e, det_err *err, int code, const char *what)
{
    return det_fail(err, code, "entry '%.*s' at byte %llu: %s", (int)MIN(e->name.len, 100u),
                    e->name.ptr, (unsigned long long)e->header_at, what);
}

// Replaces the fields that are all ones by those of the 64-bit extra field, which has only them.
static int widen(struct zip_entry *e, struct str extra, det_err *err)
{
    uint64_t *const fields[] = {&e->size, &e->packed, &e->header_at};
    size_t n_wide = 0;
    for (size_t i = 0; i < STATIC_LEN(fields); i++)
        n_wide += *fields[i] == UINT32_MAX;
    if (!n_wide) return 0;
    while (extra.len >= 4) {
        uint16_t id = get_u16(extra.ptr), len = get_u16(extra.ptr + 2);
        if (len > extra.len - 4) break;
        const char *p = extra.ptr + 4;
        if (id == EXTRA_64 && len >= 8 * n_wide) {
            for (size_t i = 0; i < STATIC_LEN(fields); i++) {
                if (*fields[i] != UINT32_MAX) continue;
                *fields[i] = get_u64(p);
                p += 8;
            }
            return 0;
        }
        extra = (struct str){p + len, extra.len - 4 - len};
    }
    return entry_fail(e, err, DET_ECORRUPT, "its 64-bit sizes are missing");
}

// Finds the content behind the entry's own header; it must end in front of the directory.
static int locate(const struct zip *z, struct zip_entry *e, uint64_t limit, det_err *err)
{
    if (e->header_at > limit || !has_mark(z->bytes, e->header_at, LOCAL_BYTES, 0x04034b50))
        return entry_fail(e, err, DET_ECORRUPT, "there is no entry");
    const char *p = z->bytes.ptr + e->header_at;
    e->data_at = e->header_at + LOCAL_BYTES + get_u16(p + 26) + get_u16(p + 28);
    if (e->data_at > limit || e->packed > limit - e->data_at)
        return entry_fail(e, err, DET_ECORRUPT, "its content does not fit into the archive");
    if (!str_eq(e->name, (struct str){p + LOCAL_BYTES, get_u16(p + 26)}))
        return entry_fail(e, err, DET_ECORRUPT, "the directory calls it by another name");
    return 0;
}

// Reads the directory record at *at and moves *at behind it.
static int read_entry(const struct zip *z, const struct directory *dir, uint64_t *at,
                      struct zip_entry *e, det_err *err)
{
    uint64_t end = dir->at + dir->n_bytes;
    if (!has_mark((struct str){z->bytes.ptr, end}, *at, CENTRAL_BYTES, 0x02014b50))
        return det_fail(err, DET_ECORRUPT, "directory: no entry at byte %llu",
                        (unsigned long long)*at);
    const char *p = z->bytes.ptr + *at;
    size_t name = get_u16(p + 28), extra = get_u16(p + 30), comment = get_u16(p + 32);
    if (name + extra + comment > end - *at - CENTRAL_BYTES)
        return det_fail(err, DET_ECORRUPT, "directory: the entry at byte %llu is cut off",
                        (unsigned long long)*at);
    *at += CENTRAL_BYTES + name + extra + comment;
    *e = (struct zip_entry){.name = {p + CENTRAL_BYTES, name},
                            .method = get_u16(p + 10),
                            .crc = get_u32(p + 16),
                            .packed = get_u32(p + 20),
                            .size = get_u32(p + 24),
                            .header_at = get_u32(p + 42)};
    int rc = widen(e, (struct str){p + CENTRAL_BYTES + name, extra}, err);
    if (rc) return rc;
    if (get_u16(p + 8) & FLAG_ENCRYPTED)
        return entry_fail(e, err, DET_EUNSUPPORTED, "it is encrypted");
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return entry_fail(e, err, DET_EUNSUPPORTED, "compressed by a method that is not deflate");
    if (e->method == ZIP_STORED && e->packed != e->size)
        return entry_fail(e, err, DET_ECORRUPT, "stored, but of two different sizes");
    return locate(z, e, dir->at, err);
}

static int by_place(const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;
    return (x->header_at > y->header_at) - (x->header_at < y->header_at);
}

static int by_name(const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;
    return str_order(x->name, y->name);
}

static int check_overlap(struct zip *z, det_err *err)
{
    qsort(z->entries, z->n_entries, sizeof *z->entries, by_place);
    for (size_t i = 1; i < z->n_entries; i++) {
        const struct zip_entry *before = &z->entries[i - 1];
        if (before->data_at + before->packed > z->entries[i].header_at)
            return entry_fail(before, err, DET_ECORRUPT, "it reaches into the next entry");
    }
    return 0;
}

static int check_expansion(const struct zip *z, det_err *err)
{
    uint64_t total = 0,
             limit = MAX((uint64_t)EXPANSION_FREE, EXPANSION_MAX * (uint64_t)z->bytes.len);
    for (size_t i = 0; i < z->n_entries; i++) {
        const struct zip_entry *e = &z->entries[i];
        if (e->method != ZIP_DEFLATED) continue;
        if (e->size > limit - total)
            return entry_fail(e, err, DET_ELIMIT, "it would expand beyond all measure");
        total += e->size;
    }
    return 0;
}

static int check_names(struct zip *z, det_err *err)
{
    qsort(z->entries, z->n_entries, sizeof *z->entries, by_name);
    for (size_t i = 1; i < z->n_entries; i++)
        if (str_eq(z->entries[i - 1].name, z->entries[i].name))
            return entry_fail(&z->entries[i], err, DET_ECORRUPT, "there are two of this name");
    return 0;
}

int zip_open(struct zip *z, struct str bytes, det_err *err)
{
    struct directory dir;
    *z = (struct zip){.bytes = bytes};
    int rc = find_directory(bytes, &dir, err);
    if (rc) return rc;
    if (dir.n_entries > ENTRIES_MAX)
        return det_fail(err, DET_ELIMIT, "%llu entries; an archive may have %d",
                        (unsigned long long)dir.n_entries, ENTRIES_MAX);
    z->entries = xcalloc(dir.n_entries, sizeof *z->entries);
    uint64_t at = dir.at;
    for (; !rc && z->n_entries < dir.n_entries; z->n_entries++)
        rc = read_entry(z, &dir, &at, &z->entries[z->n_entries], err);
    if (!rc) rc = check_overlap(z, err);
    if (!rc) rc = check_expansion(z, err);
    if (!rc) rc = check_names(z, err);
    if (rc) zip_close(z);
    return rc;
}

void zip_close(struct zip *z)
{
    if (!z) return;
    free(z->entries);
    *z = (struct zip){0};
}

const struct zip_entry *zip_find(const struct zip *z, struct str name)
{
    struct zip_entry key = {.name = name};
    if (!z->n_entries) return NULL;
    return bsearch(&key, z->entries, z->n_entries, sizeof *z->entries, by_name);
}

static uint32_t copy_stored(const struct zip *z, const struct zip_entry *e, char *out)
{
    const char *from = z->bytes.ptr + e->data_at;
    uLong crc = 0;
    for (uint64_t at = 0; at < e->size; at += PIECE) {
        size_t n = MIN(e->size - at, (uint64_t)PIECE);
        memcpy(out + at, from + at, n);
        crc = crc32_z(crc, (const Bytef *)out + at, n);
    }
    return (uint32_t)crc;
}

// zlib counts in 32 bits, so both sides are handed over in pieces.
static int inflate_entry(const struct zip *z, const struct zip_entry *e, char *out, uint32_t *sum)
{
    z_stream s = {0};
    uint64_t in_left = e->packed, out_left = e->size;
    uLong crc = 0;
    int rc = inflateInit2(&s, -MAX_WBITS);
    s.next_in = (Bytef *)(uintptr_t)(z->bytes.ptr + e->data_at);
    while (rc == Z_OK) {
        uInt in = (uInt)MIN(in_left, (uint64_t)PIECE), room = (uInt)MIN(out_left, (uint64_t)PIECE);
        Bytef end, *to = room ? (Bytef *)out + (e->size - out_left) : &end;
        s.avail_in = in;
        s.next_out = to;
        s.avail_out = room;
        rc = inflate(&s, Z_NO_FLUSH);
        in_left -= in - s.avail_in;
        out_left -= room - s.avail_out;
        crc = crc32_z(crc, to, room - s.avail_out);
    }
    inflateEnd(&s);
    *sum = (uint32_t)crc;
    return rc == Z_STREAM_END && !in_left && !out_left ? 0 : DET_ECORRUPT;
}

int zip_extract(const struct zip *z, const struct zip_entry *e, void *out, det_err *err)
{
    uint32_t crc = 0;
    if (e->method == ZIP_STORED)
        crc = copy_stored(z, e, out);
    else if (inflate_entry(z, e, out, &crc))
        return entry_fail(e, err, DET_ECORRUPT, "its compressed content is damaged");
    if (crc != e->crc) return entry_fail(e, err, DET_ECORRUPT, "its checksum is wrong");
    return 0;
}
