// Unit pack.c: trees as bytes. Called by the loop, to send them from rank to rank.
//
// A value is a byte with its kind, and then: numbers as they are in memory; texts and objects as a
// length and bytes; containers as a length and their items; before each item of a dict its key,
// which is a value, too. Writer and reader are the same program on the same machine.
#include "value/value.h"

#include <string.h>

enum { DEPTH_MAX = 256 };

// --- writing

static void put_length(struct buf *out, size_t n)
{
    uint64_t length = n;
    buf_add(out, &length, sizeof length);
}

static void put_text(struct buf *out, const char *text)
{
    buf_addc(out, DET_KIND_STR);
    put_length(out, strlen(text));
    buf_addz(out, text);
}

static void put_int(struct buf *out, int64_t number)
{
    buf_addc(out, DET_KIND_INT);
    buf_add(out, &number, sizeof number);
}

static int put_object(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err)
{
    size_t start = out->len;
    put_length(out, 0);
    int rc = pack(v, out, err);
    if (rc || !buf_ok(out)) return rc;
    uint64_t length = out->len - start - sizeof length;
    memcpy(out->ptr + start, &length, sizeof length);
    return 0;
}

static int put(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err);

static int put_items(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err)
{
    int rc = 0, n = det_value_len(v);
    put_length(out, (size_t)n);
    for (int i = 0; !rc && i < n; i++) {
        int64_t number;
        const char *key = det_value_key(v, i, &number);
        if (key)
            put_text(out, key);
        else if (det_value_kind(v) == DET_KIND_DICT)
            put_int(out, number);
        rc = put(det_value_at(v, i), pack, out, err);
    }
    return rc;
}

static int put(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err)
{
    det_kind kind = det_value_kind(v);
    const char *text;
    int64_t i;
    double f;
    bool b;
    if (kind == DET_KIND_STR && !det_value_as_str(v, &text, err)) {
        put_text(out, text);
        return 0;
    }
    buf_addc(out, (char)kind);
    switch (kind) {
    case DET_KIND_BOOL:
        if (!det_value_as_bool(v, &b, err)) buf_addc(out, b);
        return 0;
    case DET_KIND_INT:
        if (!det_value_as_int(v, &i, err)) buf_add(out, &i, sizeof i);
        return 0;
    case DET_KIND_FLOAT:
        if (!det_value_as_float(v, &f, err)) buf_add(out, &f, sizeof f);
        return 0;
    case DET_KIND_TENSOR:
    case DET_KIND_OBJECT:
        return put_object(v, pack, out, err);
    case DET_KIND_LIST:
    case DET_KIND_TUPLE:
    case DET_KIND_DICT:
        return put_items(v, pack, out, err);
    default:
        return 0;
    }
}

int value_pack(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err)
{
    int rc = put(v, pack, out, err);
    if (!rc && !buf_ok(out)) rc = det_fail(err, DET_ELIMIT, "it has more than %zu bytes", out->max);
    return rc ? rc : det_ok(err);
}

// --- reading

struct reader {
    struct str rest;
    object_unpack_fn unpack;
    det_err *err;
    int depth;
};

static bool get(struct reader *r, void *out, size_t n)
{
    if (r->rest.len < n) return false;
    memcpy(out, r->rest.ptr, n);
    r->rest = (struct str){r->rest.ptr + n, r->rest.len - n};
    return true;
}

static bool get_bytes(struct reader *r, struct str *out)
{
    uint64_t n;
    if (!get(r, &n, sizeof n) || n > r->rest.len) return false;
    *out = (struct str){r->rest.ptr, n};
    r->rest = (struct str){r->rest.ptr + n, r->rest.len - n};
    return true;
}

static det_value *take(struct reader *r);

static bool take_item(struct reader *r, det_value *into)
{
    det_value *key = det_value_kind(into) == DET_KIND_DICT ? take(r) : NULL, *item = take(r);
    const char *text;
    int64_t number;
    bool ok = item != NULL;
    if (det_value_kind(into) != DET_KIND_DICT)
        det_value_push(into, item);
    else if (!det_value_as_str(key, &text, NULL))
        det_value_set(into, text, item);
    else if (!det_value_as_int(key, &number, NULL))
        det_value_set_int(into, number, item);
    else
        ok = false, det_value_free(item);
    det_value_free(key);
    return ok;
}

static det_value *take_items(struct reader *r, det_value *into)
{
    uint64_t n;
    bool ok = r->depth < DEPTH_MAX && get(r, &n, sizeof n);
    r->depth++;
    for (uint64_t i = 0; ok && i < n; i++)
        ok = take_item(r, into);
    r->depth--;
    if (ok) return into;
    det_value_free(into);
    return NULL;
}

static det_value *take(struct reader *r)
{
    char kind;
    int64_t i;
    double f;
    bool b;
    struct str bytes;
    if (!get(r, &kind, 1)) return NULL;
    switch (kind) {
    case DET_KIND_NONE:
        return det_value_none();
    case DET_KIND_BOOL:
        return get(r, &b, sizeof b) ? det_value_bool(b) : NULL;
    case DET_KIND_INT:
        return get(r, &i, sizeof i) ? det_value_int(i) : NULL;
    case DET_KIND_FLOAT:
        return get(r, &f, sizeof f) ? det_value_float(f) : NULL;
    case DET_KIND_STR:
        return get_bytes(r, &bytes) ? det_value_strn(bytes.ptr, bytes.len) : NULL;
    case DET_KIND_TENSOR:
    case DET_KIND_OBJECT:
        return get_bytes(r, &bytes) ? r->unpack(bytes, r->err) : NULL;
    case DET_KIND_LIST:
        return take_items(r, det_value_list());
    case DET_KIND_TUPLE:
        return take_items(r, det_value_tuple());
    case DET_KIND_DICT:
        return take_items(r, det_value_dict());
    default:
        return NULL;
    }
}

det_value *value_unpack(struct str bytes, object_unpack_fn unpack, det_err *err)
{
    struct reader r = {.rest = bytes, .unpack = unpack, .err = err};
    det_ok(err);
    det_value *v = take(&r);
    if (v && !r.rest.len) return v;
    if (!err || !err->code) det_fail(err, DET_ECORRUPT, "these bytes are no packed value");
    det_value_free(v);
    return NULL;
}
