// Unit npy.c: one array behind a header that is a Python dict in a fixed form. NumPy's "NPY format"
// document defines it:
//
//     \x93NUMPY <major> <minor> <length: u16, from version 2 on u32>
//     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }<spaces>\n
#include "format/format.h"

#include "base/assert.h"
#include "format/array.h"
#include "format/bytes.h"

enum { HEADER_MAX = 1 << 20 };

static const char magic[] = "\x93NUMPY";

static const char *const descr_names[DET_N_DTYPES] =
    {
        [DET_F32] = "<f4", [DET_F64] = "<f8", [DET_I64] = "<i8",
        [DET_I32] = "<i4", [DET_U8] = "|u1",  [DET_BOOL] = "|b1",
        [DET_F16] = "<f2", [DET_I16] = "<i2", [DET_I8] = "|i1"}; // NumPy has no bf16

// --- reading the header

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, ALL_KEYS = 7 };

struct header {
    struct str text;
    size_t at, base; // next character; byte of the file where text begins
    struct tensor_layout layout;
    bool column_major;
    unsigned keys; // that were there
    det_err *err;
};

static int header_fail(const struct header *h, int code, const char *what)
{
    return det_fail(h->err, code, "header, byte %zu: %s", h->base + h->at, what);
}

static void skip_space(struct header *h)
{
    while (h->at < h->text.len && (h->text.ptr[h->at] == ' ' || h->text.ptr[h->at] == '\n'))
        h->at++;
}

// Moves behind what comes next if that is it.
static bool accept(struct header *h, struct str what)
{
    skip_space(h);
    struct str rest = {h->text.ptr + h->at, h->text.len - h->at};
    if (!str_starts(rest, what)) return false;
    h->at += what.len;
    return true;
}

static int expect(struct header *h, const char *what)
{
    if (accept(h, str_from(what))) return 0;
    return det_fail(h->err, DET_ECORRUPT, "header, byte %zu: expected \"%s\"", h->base + h->at,
                    what);
}

// A string in single or double quotes, without escapes.
static int read_quoted(struct header *h, struct str *out)
{
    skip_space(h);
    char quote = h->at < h->text.len ? h->text.ptr[h->at] : 0;
    if (quote != '\'' && quote != '"') return header_fail(h, DET_ECORRUPT, "expected a string");
    const char *start = h->text.ptr + h->at + 1;
    const char *end = memchr(start, quote, h->text.len - h->at - 1);
    if (!end) return header_fail(h, DET_ECORRUPT, "the string does not end");
    *out = (struct str){start, (size_t)(end - start)};
    h->at += out->len + 2;
    return 0;
}

static int read_descr(struct header *h)
{
    struct str name = {0};
    if (accept(h, STR("["))) return header_fail(h, DET_EUNSUPPORTED, "an array of structures");
    int rc = read_quoted(h, &name);
    if (rc) return rc;
    for (int i = 0; i < DET_N_DTYPES; i++)
        if (descr_names[i] && str_eqz(name, descr_names[i])) {
            h->layout.dtype = (det_dtype)i;
            return 0;
        }
    return det_fail(h->err, DET_EUNSUPPORTED,
                    "header: elements of type '%.*s'; det reads <f4, <f8, <i8, <i4, |u1 and |b1",
                    (int)MIN(name.len, 20u), name.ptr);
}

static int read_size(struct header *h, int64_t *out)
{
    size_t start = h->at;
    *out = 0;
    for (; h->at < h->text.len && h->text.ptr[h->at] >= '0' && h->text.ptr[h->at] <= '9'; h->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, h->text.ptr[h->at] - '0', out))
            return header_fail(h, DET_ECORRUPT, "a size beyond 64 bits");
    return h->at > start ? 0 : header_fail(h, DET_ECORRUPT, "expected a size");
}

// (), (3,), (3, 4) or (3, 4, )
static int read_shape(struct header *h)
{
    int rc = expect(h, "(");
    bool comma = true;
    while (!rc && !accept(h, STR(")"))) {
        if (!comma) return header_fail(h, DET_ECORRUPT, "expected a comma or \")\"");
        if (h->layout.ndim == DET_MAX_DIMS)
            return header_fail(h, DET_EUNSUPPORTED, "more dimensions than det has (8)");
        rc = read_size(h, &h->layout.shape[h->layout.ndim++]);
        comma = accept(h, STR(","));
    }
    if (!rc && h->layout.ndim == 1 && !comma)
        return header_fail(h, DET_ECORRUPT, "the shape is a number, not a tuple");
    return rc;
}

static int read_order(struct header *h)
{
    h->column_major = accept(h, STR("True"));
    return h->column_major ? 0 : expect(h, "False");
}

static int read_item(struct header *h)
{
    static const struct {
        const char *name;
        unsigned key;
        int (*read)(struct header *h);
    } rows[] = {{"descr", KEY_DESCR, read_descr},
                {"fortran_order", KEY_ORDER, read_order},
                {"shape", KEY_SHAPE, read_shape}};
    struct str name = {0};
    int rc = read_quoted(h, &name);
    if (!rc) rc = expect(h, ":");
    if (rc) return rc;
    for (size_t i = 0; i < STATIC_LEN(rows); i++) {
        if (!str_eqz(name, rows[i].name)) continue;
        if (h->keys & rows[i].key) return header_fail(h, DET_ECORRUPT, "a key for the second time");
        h->keys |= rows[i].key;
        return rows[i].read(h);
    }
    return header_fail(h, DET_ECORRUPT, "a key that is none of descr, fortran_order and shape");
}

static int read_dict(struct header *h)
{
    int rc = expect(h, "{");
    bool comma = true;
    while (!rc && !accept(h, STR("}"))) {
        if (!comma) return header_fail(h, DET_ECORRUPT, "expected a comma or \"}\"");
        rc = read_item(h);
        comma = accept(h, STR(","));
    }
    if (rc) return rc;
    skip_space(h);
    if (h->at != h->text.len) return header_fail(h, DET_ECORRUPT, "something follows the dict");
    if (h->keys != ALL_KEYS)
        return header_fail(h, DET_ECORRUPT, "descr, fortran_order or shape is missing");
    return 0;
}

// --- reading the file

// Finds the text of the header; *data is what follows it.
static int find_header(struct str bytes, struct header *h, struct str *data)
{
    enum { MAGIC = 6, PREFIX_1 = 10, PREFIX_2 = 12 };
    if (bytes.len < PREFIX_2 || !str_starts(bytes, STR(magic)))
        return det_fail(h->err, DET_ECORRUPT, "not a .npy file: it does not start with \\x93NUMPY");
    int major = (unsigned char)bytes.ptr[MAGIC], minor = (unsigned char)bytes.ptr[MAGIC + 1];
    if (major < 1 || major > 3 || minor != 0)
        return det_fail(h->err, DET_EUNSUPPORTED,
                        "version %d.%d of the format; det reads 1.0 to 3.0", major, minor);
    uint32_t len = major == 1 ? get_u16(bytes.ptr + 8) : get_u32(bytes.ptr + 8);
    h->base = major == 1 ? PREFIX_1 : PREFIX_2;
    if (len > HEADER_MAX || len > bytes.len - h->base)
        return det_fail(h->err, DET_ECORRUPT, "a header of %u bytes in a file of %zu", len,
                        bytes.len);
    h->text = (struct str){bytes.ptr + h->base, len};
    *data = (struct str){h->text.ptr + len, bytes.len - h->base - len};
    return 0;
}

det_tensor *npy_parse(struct str bytes, det_err *err)
{
    det_err local;
    struct header h = {.err = err ? err : &local};
    struct str data = {0};
    if (find_header(bytes, &h, &data) || read_dict(&h)) return NULL;
    int64_t n_bytes = array_bytes(h.layout.dtype, h.layout.shape, h.layout.ndim);
    if (n_bytes < 0 || (uint64_t)n_bytes != data.len) {
        det_fail(h.err, DET_ECORRUPT, "the shape stands for %lld bytes, %zu follow the header",
                 (long long)n_bytes, data.len);
        return NULL;
    }
    array_strides(&h.layout, h.column_major);
    return array_read(&h.layout, data.ptr, h.err);
}

det_tensor *det_npy_load(const char *path, det_err *err)
{
    struct str bytes;
    if (fs_map(path, &bytes, err)) return NULL;
    det_tensor *t = npy_parse(bytes, err);
    if (!t) det_wrap(err, "'%s'", path);
    fs_unmap(bytes);
    return t;
}

// --- writing

static void put_header(struct buf *b, const det_tensor *t)
{
    struct buf text = BUF_INIT(UINT16_MAX);
    buf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
               descr_names[det_dtype_of(t)]);
    for (int i = 0; i < det_ndim(t); i++)
        buf_printf(&text, i ? ", %lld" : "%lld", (long long)det_shape(t)[i]);
    buf_addz(&text, det_ndim(t) == 1 ? ",), }" : "), }");
    buf_add(b, magic, 6);
    buf_add(b, "\1\0", 2);
    size_t end = b->len + 2 + text.len + 1;
    size_t padding = (ARRAY_ALIGN - end % ARRAY_ALIGN) % ARRAY_ALIGN;
    put_u16(b, text.len + padding + 1);
    buf_add(b, text.ptr, text.len);
    buf_printf(b, "%*s\n", (int)padding, "");
    buf_done(&text);
}

int det_npy_save(const char *path, det_tensor *t, det_err *err)
{
    if (!t) return det_fail(err, DET_EINVAL, "cannot save '%s': the tensor is NULL", path);
    if (!descr_names[det_dtype_of(t)])
        return det_fail(err, DET_EDTYPE,
                        "cannot save '%s': NumPy has no %s; convert it to f32 first", path,
                        det_dtype_name(det_dtype_of(t)));
    struct fs_writer w;
    struct buf header = BUF_INIT(2 * UINT16_MAX);
    int rc = fs_writer_open(&w, path, err);
    if (rc) return rc;
    put_header(&header, t);
    rc = fs_writer_add(&w, header.ptr, header.len, err);
    if (!rc) rc = array_write(&w, t, err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    buf_done(&header);
    return rc;
}
