// Unit safetensors.c: a dict of row-major tensors behind a JSON header. The library of that name
// defines the format: u64 length of the header, the header, then the data; offsets count from the
// end of the header.
//
//     {"__metadata__": {"k": "v"}, "fc.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//     [0, 24]}}
//
// Written in this order: header entries as the dict has them; data by size of element, largest
// first, so that every tensor is aligned without gaps (which the format forbids), else as the dict
// has them.
#include "format/format.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/array.h"
#include "format/bytes.h"
#include <jansson.h>

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 * 1000 * 1000 };

static const char metadata_key[] = "__metadata__";

static const char *const dtype_names[DET_N_DTYPES] = {
    [DET_F32] = "F32", [DET_F64] = "F64", [DET_BF16] = "BF16", [DET_I64] = "I64",
    [DET_I32] = "I32", [DET_U8] = "U8",   [DET_BOOL] = "BOOL", [DET_F16] = "F16",
    [DET_I16] = "I16", [DET_I8] = "I8"};

// A tensor of the file.
struct slot {
    const char *name;
    struct tensor_layout layout;
    int64_t begin, end; // bytes of the data
};

// --- reading

static int read_dtype(const json_t *info, det_dtype *out, det_err *err)
{
    const char *name = json_string_value(json_object_get(info, "dtype"));
    if (!name) return det_fail(err, DET_ECORRUPT, "dtype is not a string");
    for (int i = 0; i < DET_N_DTYPES; i++)
        if (str_eqz(str_from(name), dtype_names[i])) {
            *out = (det_dtype)i;
            return 0;
        }
    return det_fail(err, DET_EUNSUPPORTED,
                    "dtype '%.20s'; det has F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL",
                    name);
}

// At most max non-negative integers.
static int read_numbers(const json_t *info, const char *key, int64_t *out, int max, int *n,
                        det_err *err)
{
    const json_t *list = json_object_get(info, key);
    if (!json_is_array(list)) return det_fail(err, DET_ECORRUPT, "%s is not a list", key);
    size_t len = json_array_size(list);
    if (len > (size_t)max)
        return det_fail(err, DET_EUNSUPPORTED, "%s has %zu items; det reads %d", key, len, max);
    for (size_t i = 0; i < len; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return det_fail(err, DET_ECORRUPT, "item %zu of %s is not a number from 0 on", i, key);
        out[i] = json_integer_value(item);
    }
    *n = (int)len;
    return 0;
}

static int read_slot(const json_t *info, struct slot *s, det_err *err)
{
    int64_t range[2];
    int n = 0;
    if (!json_is_object(info) || json_object_size(info) != 3)
        return det_fail(err, DET_ECORRUPT, "it is not {dtype, shape, data_offsets}");
    int rc = read_dtype(info, &s->layout.dtype, err);
    if (!rc) rc = read_numbers(info, "shape", s->layout.shape, DET_MAX_DIMS, &s->layout.ndim, err);
    if (!rc) rc = read_numbers(info, "data_offsets", range, 2, &n, err);
    if (rc) return rc;
    if (n != 2) return det_fail(err, DET_ECORRUPT, "data_offsets are not [begin, end]");
    int64_t bytes = array_bytes(s->layout.dtype, s->layout.shape, s->layout.ndim);
    if (bytes < 0) return det_fail(err, DET_ECORRUPT, "the shape is too large");
    s->begin = range[0];
    s->end = range[1];
    if (s->end < s->begin || s->end - s->begin != bytes)
        return det_fail(err, DET_ECORRUPT, "data_offsets [%lld, %lld] for a shape of %lld bytes",
                        (long long)s->begin, (long long)s->end, (long long)bytes);
    array_strides(&s->layout, false);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct slot *const *x = a, *const *y = b;
    if ((*x)->begin != (*y)->begin) return (*x)->begin < (*y)->begin ? -1 : 1;
    return ((*x)->end > (*y)->end) - ((*x)->end < (*y)->end);
}

// The tensors must cover the data exactly.
static int check_cover(const struct slot *slots, size_t n, size_t data_bytes, det_err *err)
{
    const struct slot **sorted = xcalloc(n, sizeof *sorted);
    int64_t end = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &slots[i];
    qsort(sorted, n, sizeof *sorted, by_place);
    for (size_t i = 0; i < n && !rc; i++) {
        if (sorted[i]->begin != end)
            rc = det_fail(err, DET_ECORRUPT,
                          "tensor '%.100s' begins at byte %lld of the data, not %lld",
                          sorted[i]->name, (long long)sorted[i]->begin, (long long)end);
        end = sorted[i]->end;
    }
    if (!rc && (uint64_t)end != data_bytes)
        rc = det_fail(err, DET_ECORRUPT, "the tensors have %lld bytes, the file %zu",
                      (long long)end, data_bytes);
    free(sorted);
    return rc;
}

// Fills slots (room for one per entry) in the order of the header.
static int read_header(json_t *header, struct slot *slots, size_t *n, det_err *err)
{
    const char *name;
    json_t *info;
    *n = 0;
    json_object_foreach(header, name, info)
    {
        if (str_eqz(str_from(name), metadata_key)) continue;
        struct slot *s = &slots[(*n)++];
        *s = (struct slot){.name = name};
        if (read_slot(info, s, err)) return det_wrap(err, "tensor '%.100s'", name);
    }
    return 0;
}

static det_value *read_tensors(json_t *header, struct str data, det_err *err)
{
    struct slot *slots = xcalloc(json_object_size(header), sizeof *slots);
    det_value *tensors = det_value_dict();
    size_t n;
    int rc = read_header(header, slots, &n, err);
    if (!rc) rc = check_cover(slots, n, data.len, err);
    for (size_t i = 0; i < n && !rc; i++) {
        det_tensor *t = array_read(&slots[i].layout, data.ptr + slots[i].begin, err);
        if (t)
            det_value_set(tensors, slots[i].name, det_value_tensor(t));
        else
            rc = det_wrap(err, "tensor '%.100s'", slots[i].name);
        det_unref(t);
    }
    free(slots);
    if (!rc) return tensors;
    det_value_free(tensors);
    return NULL;
}

static det_value *read_metadata(json_t *header, det_err *err)
{
    json_t *map = json_object_get(header, metadata_key), *item;
    det_value *metadata = det_value_dict();
    const char *key;
    if (!map) return metadata;
    bool ok = json_is_object(map);
    json_object_foreach(map, key, item)
    {
        ok = ok && json_is_string(item);
        if (ok) det_value_set(metadata, key, det_value_str(json_string_value(item)));
    }
    if (ok) return metadata;
    det_fail(err, DET_ECORRUPT, "%s is not a map of strings", metadata_key);
    det_value_free(metadata);
    return NULL;
}

// Cuts bytes into header and data, and parses the header.
static json_t *parse_header(struct str bytes, struct str *data, det_err *err)
{
    if (bytes.len < LENGTH_BYTES) {
        det_fail(err, DET_ECORRUPT, "not a safetensors file: it has %zu bytes", bytes.len);
        return NULL;
    }
    uint64_t len = get_u64(bytes.ptr);
    if (len < 2 || len > HEADER_MAX || len > bytes.len - LENGTH_BYTES ||
        bytes.ptr[LENGTH_BYTES] != '{') {
        det_fail(err, DET_ECORRUPT,
                 "not a safetensors file, or cut off: no JSON header of %llu bytes (at most %d) in "
                 "%zu bytes",
                 (unsigned long long)len, HEADER_MAX, bytes.len);
        return NULL;
    }
    json_error_t where;
    json_t *header = json_loadb(bytes.ptr + LENGTH_BYTES, len, JSON_REJECT_DUPLICATES, &where);
    if (!header)
        det_fail(err, DET_ECORRUPT, "header, byte %d: %s", LENGTH_BYTES + where.position,
                 where.text);
    *data = (struct str){bytes.ptr + LENGTH_BYTES + len, bytes.len - LENGTH_BYTES - len};
    return header;
}

det_value *safetensors_parse(struct str bytes, det_value **metadata, det_err *err)
{
    det_err local;
    if (!err) err = &local;
    struct str data;
    json_t *header = parse_header(bytes, &data, err);
    if (!header) return NULL;
    det_value *strings = read_metadata(header, err);
    det_value *tensors = strings ? read_tensors(header, data, err) : NULL;
    if (tensors && metadata)
        *metadata = strings;
    else
        det_value_free(strings);
    json_decref(header);
    return tensors;
}

det_value *det_safetensors_load(const char *path, det_value **metadata, det_err *err)
{
    struct str bytes;
    if (fs_map(path, &bytes, err)) return NULL;
    det_value *v = safetensors_parse(bytes, metadata, err);
    if (!v) det_wrap(err, "'%s'", path);
    fs_unmap(bytes);
    return v;
}

// --- writing

static json_t *numbers_json(const int64_t *numbers, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

static json_t *slot_json(const struct slot *s)
{
    json_t *info = json_object();
    json_object_set_new(info, "dtype", json_string(dtype_names[s->layout.dtype]));
    json_object_set_new(info, "shape", numbers_json(s->layout.shape, s->layout.ndim));
    json_object_set_new(info, "data_offsets", numbers_json((int64_t[]){s->begin, s->end}, 2));
    return info;
}

static int set_metadata(json_t *header, const det_value *metadata, det_err *err)
{
    if (!metadata) return 0;
    if (det_value_kind(metadata) != DET_KIND_DICT)
        return det_fail(err, DET_EINVAL, "metadata is a %s, not a dict",
                        det_kind_name(det_value_kind(metadata)));
    json_t *map = json_object();
    json_object_set_new(header, metadata_key, map);
    for (int i = 0; i < det_value_len(metadata); i++) {
        const char *key = det_value_key(metadata, i, NULL), *text = NULL;
        det_value_as_str(det_value_at(metadata, i), &text, NULL);
        if (!key || !text || json_object_set_new(map, key, json_string(text)))
            return det_fail(err, DET_EINVAL, "metadata item %d is not UTF-8 text under a UTF-8 key",
                            i);
    }
    return 0;
}

// What the i-th item of the dict becomes, its place in the data aside.
static int describe(const det_value *tensors, int i, struct slot *s, det_err *err)
{
    s->name = det_value_key(tensors, i, NULL);
    det_tensor *t = det_value_as_tensor(det_value_at(tensors, i));
    if (!s->name || str_eqz(str_from(s->name), metadata_key))
        return det_fail(err, DET_EINVAL, "item %d: the name of a tensor must be a string, not %s",
                        i, s->name ? metadata_key : "an integer");
    if (!t)
        return det_fail(err, DET_EINVAL, "item '%.100s' is a %s, not a tensor", s->name,
                        det_kind_name(det_value_kind(det_value_at(tensors, i))));
    s->layout.dtype = det_dtype_of(t);
    s->layout.ndim = det_ndim(t);
    memcpy(s->layout.shape, det_shape(t), sizeof s->layout.shape);
    return 0;
}

static const size_t element_sizes[] = {8, 4, 2, 1}; // in the order of the data

static void place(struct slot *slots, int n)
{
    int64_t at = 0;
    for (size_t k = 0; k < STATIC_LEN(element_sizes); k++)
        for (int i = 0; i < n; i++) {
            struct slot *s = &slots[i];
            if (det_dtype_size(s->layout.dtype) != element_sizes[k]) continue;
            s->begin = at;
            at += array_bytes(s->layout.dtype, s->layout.shape, s->layout.ndim);
            s->end = at;
        }
}

static int encode_header(const struct slot *slots, int n, const det_value *metadata,
                         struct buf *out, det_err *err)
{
    json_t *header = json_object();
    char *text = NULL;
    int rc = set_metadata(header, metadata, err);
    for (int i = 0; i < n && !rc; i++)
        if (json_object_set_new(header, slots[i].name, slot_json(&slots[i])))
            rc = det_fail(err, DET_EINVAL, "the name of item %d is not UTF-8", i);
    if (rc) goto out;
    text = json_dumps(header, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0, end = LENGTH_BYTES + len;
    size_t padded = (end + ARRAY_ALIGN - 1) / ARRAY_ALIGN * ARRAY_ALIGN - LENGTH_BYTES;
    if (!text || padded > HEADER_MAX) {
        rc = det_fail(err, DET_ELIMIT, "the header has more than %d bytes", HEADER_MAX);
        goto out;
    }
    put_u64(out, padded);
    buf_add(out, text, len);
    for (size_t i = len; i < padded; i++)
        buf_addc(out, ' ');
out:
    json_decref(header);
    free(text);
    return rc;
}

static int write_file(const char *path, const struct buf *header, const struct slot *slots,
                      const det_value *tensors, det_err *err)
{
    struct fs_writer w;
    int rc = fs_writer_open(&w, path, err);
    if (rc) return rc;
    rc = fs_writer_add(&w, header->ptr, header->len, err);
    for (size_t k = 0; k < STATIC_LEN(element_sizes); k++)
        for (int i = 0; i < det_value_len(tensors) && !rc; i++)
            if (det_dtype_size(slots[i].layout.dtype) == element_sizes[k])
                rc = array_write(&w, det_value_as_tensor(det_value_at(tensors, i)), err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    return rc;
}

int det_safetensors_save(const char *path, const det_value *tensors, const det_value *metadata,
                         det_err *err)
{
    det_err local;
    if (!err) err = &local;
    int n = det_value_len(tensors), rc = 0;
    struct slot *slots = xcalloc((size_t)n, sizeof *slots);
    struct buf header = BUF_INIT(LENGTH_BYTES + HEADER_MAX);
    if (det_value_kind(tensors) != DET_KIND_DICT)
        rc = det_fail(err, DET_EINVAL, "a %s, not a dict of tensors",
                      det_kind_name(det_value_kind(tensors)));
    for (int i = 0; i < n && !rc; i++)
        rc = describe(tensors, i, &slots[i], err);
    if (!rc) {
        place(slots, n);
        rc = encode_header(slots, n, metadata, &header, err);
    }
    if (rc)
        det_wrap(err, "cannot save '%s'", path);
    else
        rc = write_file(path, &header, slots, tensors, err);
    buf_done(&header);
    free(slots);
    return rc;
}
