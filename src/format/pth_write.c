// Unit pth_write.c: det_pth_save, pth_write. Walks the tree twice: first to see which tensors share
// memory and so belong into one storage, then to write the pickle; the storages follow, straight
// from memory.
//
// Protocol 2, and only opcodes that torch.load(weights_only=True) knows (torch 1.13 has no floats
// there).
#include "format/format.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "format/blocks.h"
#include "format/bytes.h"
#include "format/pickle.h"
#include "format/zip.h"

// What every tensor repeats: written once, then fetched from the memo.
enum known {
    KNOWN_REBUILD,
    KNOWN_DICT,
    KNOWN_STORAGE,
    KNOWN_CPU,
    KNOWN_CLASS, // one per type
    N_KNOWN = KNOWN_CLASS + DET_N_DTYPES
};

struct writer {
    det_tensor **tensors; // of the tree, in order
    uint32_t n_tensors, cap_tensors, n_values;
    struct block_plan plan;
    uint32_t next_tensor; // to be pickled
    struct buf pickle;
    uint8_t memo[N_KNOWN]; // 1 + number in the memo
    uint8_t n_memo;
    det_err *err;
};

// --- first walk

static int collect(struct writer *w, const det_value *v, int depth)
{
    if (++w->n_values > PICKLE_MAX_VALUES)
        return det_fail(w->err, DET_ELIMIT, "more than %d values", PICKLE_MAX_VALUES);
    if (depth == PICKLE_MAX_DEPTH && det_value_kind(v) >= DET_KIND_LIST)
        return det_fail(w->err, DET_ELIMIT, "nested deeper than %d", PICKLE_MAX_DEPTH);
    det_tensor *t = det_value_as_tensor(v);
    if (t && w->n_tensors == PICKLE_MAX_TENSORS)
        return det_fail(w->err, DET_ELIMIT, "more than %d tensors", PICKLE_MAX_TENSORS);
    if (t) {
        w->tensors = pickle_grow(w->tensors, w->n_tensors, &w->cap_tensors, sizeof *w->tensors);
        w->tensors[w->n_tensors++] = t;
    }
    int rc = 0;
    for (int i = 0; i < det_value_len(v) && !rc; i++)
        rc = collect(w, det_value_at(v, i), depth + 1);
    return rc;
}

// --- second walk

static void put_op(struct writer *w, int opcode)
{
    buf_addc(&w->pickle, (char)opcode);
}

static void put_int(struct writer *w, int64_t i)
{
    if (i >= 0 && i <= UINT8_MAX) {
        put_op(w, 'K');
        put_op(w, (int)i);
    } else if (i >= 0 && i <= UINT16_MAX) {
        put_op(w, 'M');
        put_u16(&w->pickle, (uint64_t)i);
    } else if (i >= INT32_MIN && i <= INT32_MAX) {
        put_op(w, 'J');
        put_u32(&w->pickle, (uint64_t)i);
    } else {
        put_op(w, 0x8a);
        put_op(w, sizeof i);
        put_u64(&w->pickle, (uint64_t)i);
    }
}

static void put_float(struct writer *w, double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    put_op(w, 'G');
    put_u64(&w->pickle, __builtin_bswap64(bits));
}

static int put_str(struct writer *w, const char *s)
{
    struct str text = str_from(s);
    if (!utf8_valid(text)) return det_fail(w->err, DET_EINVAL, "a string that is not UTF-8");
    put_op(w, 'X');
    put_u32(&w->pickle, text.len); // longer than 32 bits: more than the pickle may have
    buf_add(&w->pickle, text.ptr, text.len);
    return 0;
}

static void put_global(struct writer *w, const char *module, const char *name)
{
    buf_printf(&w->pickle, "c%s\n%s\n", module, name);
}

static void put_known(struct writer *w, int known)
{
    if (w->memo[known]) {
        put_op(w, 'h');
        put_op(w, w->memo[known] - 1);
        return;
    }
    if (known == KNOWN_REBUILD)
        put_global(w, "torch._utils", "_rebuild_tensor_v2");
    else if (known == KNOWN_DICT)
        put_global(w, "collections", "OrderedDict");
    else if (known == KNOWN_STORAGE)
        put_str(w, "storage");
    else if (known == KNOWN_CPU)
        put_str(w, "cpu");
    else
        put_global(w, "torch", global_storage_class((det_dtype)(known - KNOWN_CLASS)));
    put_op(w, 'q');
    put_op(w, w->n_memo);
    w->memo[known] = ++w->n_memo;
}

static void put_dims(struct writer *w, const int64_t *dims, int n)
{
    put_op(w, '(');
    for (int i = 0; i < n; i++)
        put_int(w, dims[i]);
    put_op(w, 't');
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks), where the
// storage is a persistent id: ('storage', class, key, location, numel).
static void put_tensor(struct writer *w, det_tensor *t)
{
    const struct block_view *view = &w->plan.views[w->next_tensor++];
    const struct block *block = &w->plan.blocks[view->block];
    char key[16];
    snprintf(key, sizeof key, "%u", view->block);
    put_known(w, KNOWN_REBUILD);
    put_op(w, '(');
    put_op(w, '(');
    put_known(w, KNOWN_STORAGE);
    put_known(w, KNOWN_CLASS + (int)block->dtype);
    put_str(w, key);
    put_known(w, KNOWN_CPU);
    put_int(w, (int64_t)(block->n_bytes / det_dtype_size(block->dtype)));
    put_op(w, 't');
    put_op(w, 'Q');
    put_int(w, view->offset);
    put_dims(w, det_shape(t), det_ndim(t));
    put_dims(w, det_stride(t), det_ndim(t));
    put_op(w, 0x89); // False
    put_known(w, KNOWN_DICT);
    put_op(w, ')');
    put_op(w, 'R');
    put_op(w, 't');
    put_op(w, 'R');
}

static int put_value(struct writer *w, const det_value *v);

static int put_dict(struct writer *w, const det_value *dict)
{
    put_op(w, '}');
    put_op(w, '(');
    for (int i = 0; i < det_value_len(dict); i++) {
        int64_t number;
        const char *key = det_value_key(dict, i, &number);
        int rc = 0;
        if (key)
            rc = put_str(w, key);
        else
            put_int(w, number);
        if (!rc) rc = put_value(w, det_value_at(dict, i));
        if (rc && key) return det_wrap(w->err, "item '%.100s'", key);
        if (rc) return det_wrap(w->err, "item %lld", (long long)number);
    }
    put_op(w, 'u');
    return 0;
}

static int put_items(struct writer *w, const det_value *list)
{
    put_op(w, '(');
    for (int i = 0; i < det_value_len(list); i++)
        if (put_value(w, det_value_at(list, i))) return det_wrap(w->err, "item %d", i);
    return 0;
}

static int put_scalar(struct writer *w, const det_value *v)
{
    bool b = false;
    int64_t i = 0;
    double f = 0;
    const char *s = "";
    switch (det_value_kind(v)) {
    case DET_KIND_BOOL:
        det_value_as_bool(v, &b, NULL);
        put_op(w, b ? 0x88 : 0x89);
        return 0;
    case DET_KIND_INT:
        det_value_as_int(v, &i, NULL);
        put_int(w, i);
        return 0;
    case DET_KIND_FLOAT:
        det_value_as_float(v, &f, NULL);
        put_float(w, f);
        return 0;
    case DET_KIND_STR:
        det_value_as_str(v, &s, NULL);
        return put_str(w, s);
    default:
        put_op(w, 'N');
        return 0;
    }
}

// As deep as collect() has been before.
static int put_value(struct writer *w, const det_value *v)
{
    int rc = 0;
    switch (det_value_kind(v)) {
    case DET_KIND_TENSOR:
        put_tensor(w, det_value_as_tensor(v));
        return 0;
    case DET_KIND_OBJECT:
        return det_fail(w->err, DET_EUNSUPPORTED, "a %s cannot be written to a .pth file here",
                        value_object_type(v)->name);
    case DET_KIND_DICT:
        return put_dict(w, v);
    case DET_KIND_LIST:
        put_op(w, ']');
        rc = put_items(w, v);
        put_op(w, 'e');
        return rc;
    case DET_KIND_TUPLE:
        rc = put_items(w, v);
        put_op(w, 't');
        return rc;
    default:
        return put_scalar(w, v);
    }
}

static int put_pickle(struct writer *w, const det_value *v)
{
    put_op(w, 0x80);
    put_op(w, 2);
    int rc = put_value(w, v);
    put_op(w, '.');
    if (rc || buf_ok(&w->pickle)) return rc;
    return det_fail(w->err, DET_ELIMIT, "plain values of more than %d bytes", PICKLE_MAX_BYTES);
}

// --- the archive

static int write_archive(struct writer *w, struct zip_writer *zip)
{
    struct str pickle = buf_str(&w->pickle);
    int rc = zip_add(zip, "archive/data.pkl", pickle.ptr, pickle.len, w->err);
    for (uint32_t i = 0; i < w->plan.n_blocks && !rc; i++) {
        char name[32];
        snprintf(name, sizeof name, "archive/data/%u", i);
        rc = zip_add(zip, name, w->plan.blocks[i].start, w->plan.blocks[i].n_bytes, w->err);
    }
    if (!rc) rc = zip_add(zip, "archive/version", "3\n", 2, w->err);
    return rc ? rc : zip_finish(zip, w->err);
}

static int write_file(struct writer *w, const char *path)
{
    struct fs_writer file;
    struct zip_writer zip;
    int rc = fs_writer_open(&file, path, w->err);
    if (rc) return rc;
    zip_writer_init(&zip, &file, NULL);
    rc = write_archive(w, &zip);
    if (!rc) rc = fs_writer_commit(&file, w->err);
    zip_writer_done(&zip);
    fs_writer_close(&file);
    return rc;
}

// Everything but the archive.
static int plan(struct writer *w, const det_value *value)
{
    int rc = value ? collect(w, value, 0) : det_fail(w->err, DET_EINVAL, "the value is NULL");
    if (!rc) rc = blocks_plan(&w->plan, w->tensors, w->n_tensors, w->err);
    return rc ? rc : put_pickle(w, value);
}

static void writer_done(struct writer *w)
{
    blocks_done(&w->plan);
    buf_done(&w->pickle);
    free(w->tensors);
}

int det_pth_save(const char *path, const det_value *value, det_err *err)
{
    det_err local;
    struct writer w = {.pickle = BUF_INIT(PICKLE_MAX_BYTES), .err = err ? err : &local};
    int rc = plan(&w, value);
    if (rc)
        det_wrap(w.err, "cannot save '%s'", path);
    else
        rc = write_file(&w, path);
    writer_done(&w);
    return rc;
}

int pth_write(const det_value *value, struct buf *out, det_err *err)
{
    det_err local;
    struct writer w = {.pickle = BUF_INIT(PICKLE_MAX_BYTES), .err = err ? err : &local};
    struct zip_writer zip;
    zip_writer_init(&zip, NULL, out);
    int rc = plan(&w, value);
    if (!rc) rc = write_archive(&w, &zip);
    zip_writer_done(&zip);
    writer_done(&w);
    return rc;
}
