// Unit events.c: TensorBoard's files: protocol buffers of type Event, in records with checksums.
//
//     record = u64 length, u32 checksum of it, bytes, u32 checksum of them      (little-endian)
//     Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//     } Summary { repeated Value value = 1; }   Value { string tag = 1; float simple_value = 2; }
#include "runner/events.h"

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <unistd.h>

enum { EVENT_MAX_BYTES = 64 << 10 };

struct events {
    FILE *file;
    char *path;
    struct buf event, summary, value; // reused
};

// The wire types of protocol buffers.
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(struct buf *b, int field, int wire_type)
{
    buf_addc(b, (char)(field << 3 | wire_type));
}

static void put_varint(struct buf *b, uint64_t n)
{
    for (; n >= 128; n >>= 7)
        buf_addc(b, (char)(n | 128));
    buf_addc(b, (char)n);
}

static void put_little_endian(struct buf *b, uint64_t n, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        buf_addc(b, (char)(n >> 8 * i));
}

static void put_bytes(struct buf *b, int field, struct str bytes)
{
    put_key(b, field, BYTES);
    put_varint(b, bytes.len);
    buf_add(b, bytes.ptr, bytes.len);
}

static void put_double(struct buf *b, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(b, field, FIXED64);
    put_little_endian(b, bits, 8);
}

static void put_float(struct buf *b, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(b, field, FIXED32);
    put_little_endian(b, bits, 4);
}

// A checksum of data that holds checksums is weak; so theirs are turned and shifted.
static uint32_t masked(struct str bytes)
{
    uint32_t crc = crc32c_add(0, bytes.ptr, bytes.len);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void write_event(struct events *e)
{
    struct buf record = BUF_INIT(EVENT_MAX_BYTES + 16);
    put_little_endian(&record, e->event.len, 8);
    put_little_endian(&record, masked(buf_str(&record)), 4);
    buf_add(&record, e->event.ptr, e->event.len);
    put_little_endian(&record, masked(buf_str(&e->event)), 4);
    fwrite(record.ptr, 1, record.len, e->file);
    buf_done(&record);
}

static void begin_event(struct events *e)
{
    buf_clear(&e->event);
    put_double(&e->event, 1, (double)clock_unix_us() * 1e-6);
}

static char *file_path(const char *dir)
{
    char host[256] = "localhost";
    struct buf path = BUF_INIT(8192);
    gethostname(host, sizeof host - 1);
    buf_printf(&path, "%s/events.out.tfevents.%lld.%s.%ld", dir,
               (long long)(clock_unix_us() / 1000000), host, (long)getpid());
    return buf_take(&path);
}

struct events *events_open(const char *dir, det_err *err)
{
    int fd;
    if (dir_open(dir, DIR_CREATE, &fd, err)) return NULL;
    close(fd);
    char *path = file_path(dir);
    FILE *file = fopen(path, "wbe");
    if (!file) {
        fs_fail(err, "create", path);
        free(path);
        return NULL;
    }
    struct events *e = xcalloc(1, sizeof *e);
    *e = (struct events){file, path, BUF_INIT(EVENT_MAX_BYTES), BUF_INIT(EVENT_MAX_BYTES),
                         BUF_INIT(EVENT_MAX_BYTES)};
    begin_event(e);
    put_bytes(&e->event, 3, STR("brain.Event:2"));
    write_event(e);
    return e;
}

void events_scalar(struct events *e, const char *tag, int64_t step, double value)
{
    buf_clear(&e->value);
    put_bytes(&e->value, 1, str_from(tag));
    put_float(&e->value, 2, (float)value);
    buf_clear(&e->summary);
    put_bytes(&e->summary, 1, buf_str(&e->value));
    begin_event(e);
    put_key(&e->event, 2, VARINT);
    put_varint(&e->event, (uint64_t)step);
    put_bytes(&e->event, 5, buf_str(&e->summary));
    write_event(e);
}

int events_flush(struct events *e, det_err *err)
{
    if (fflush(e->file) == 0 && !ferror(e->file)) return det_ok(err);
    return fs_fail(err, "write", e->path);
}

void events_close(struct events *e)
{
    if (!e) return;
    fclose(e->file);
    free(e->path);
    buf_done(&e->event);
    buf_done(&e->summary);
    buf_done(&e->value);
    free(e);
}
