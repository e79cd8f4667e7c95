// Unit pth_read.c: det_pth_load. Opens the archive, has its pickle read, and turns the resulting
// graph into a tree of values, loading each storage once.
#include "format/format.h"

#include "base/assert.h"
#include "base/mem.h"
#include "format/array.h"
#include "format/pickle.h"
#include "format/zip.h"

// What is shared in a pickle is repeated in a tree, so a small file could describe an endless one.
enum {
    VALUES_FREE = 256 << 10, // any pickle may have these
    VALUES_PER_BYTE = 16,    // and these for each of its bytes
    TEXT_MAX = 256 << 20,    // bytes of all strings
};

struct loaded {
    struct storage *storage;
    det_dtype dtype;
};

struct reader {
    struct zip zip;
    struct str folder; // "archive/": all names start with it
    struct pickle pickle;
    struct loaded *loaded; // one per entry of the archive
    det_tensor **tensors;  // one per tensor of the pickle, NULL until needed
    int64_t values_left, text_left;
    det_err *err;
};

// --- storages and tensors

// The entry <folder>/<part><last>, or NULL.
static const struct zip_entry *find_entry(const struct reader *r, const char *part, struct str last)
{
    struct buf name = BUF_INIT(UINT16_MAX); // no entry has a longer one
    buf_add(&name, r->folder.ptr, r->folder.len);
    buf_addz(&name, part);
    buf_add(&name, last.ptr, last.len);
    const struct zip_entry *e = buf_ok(&name) ? zip_find(&r->zip, buf_str(&name)) : NULL;
    buf_done(&name);
    return e;
}

static int load_entry(struct reader *r, const struct zip_entry *e, det_dtype dtype,
                      struct loaded *out)
{
    struct storage *s = storage_new(e->size);
    if (!s)
        return det_fail(r->err, DET_ENOMEM, "no memory for '%.*s' (%.1f MB)", STR_ARG(e->name),
                        (double)e->size / 1e6);
    int rc = zip_extract(&r->zip, e, storage_data(s), r->err);
    if (rc) {
        storage_unref(s);
        return rc;
    }
    array_normalise(dtype, storage_data(s), e->size);
    *out = (struct loaded){.storage = s, .dtype = dtype};
    return 0;
}

static struct storage *storage_of(struct reader *r, const struct pickle_storage *want)
{
    const struct zip_entry *e = find_entry(r, "data/", want->key);
    uint64_t n_bytes = (uint64_t)want->numel * det_dtype_size(want->dtype);
    if (!e) {
        det_fail(r->err, DET_ECORRUPT, "there is no entry '%.*sdata/%.*s'", STR_ARG(r->folder),
                 (int)MIN(want->key.len, 100u), want->key.ptr);
        return NULL;
    }
    if (e->size != n_bytes) {
        det_fail(r->err, DET_ECORRUPT, "entry '%.*s' has %llu bytes, its tensors want %llu",
                 STR_ARG(e->name), (unsigned long long)e->size, (unsigned long long)n_bytes);
        return NULL;
    }
    struct loaded *l = &r->loaded[e - r->zip.entries];
    if (!l->storage && load_entry(r, e, want->dtype, l)) return NULL;
    if (l->dtype == want->dtype) return l->storage;
    det_fail(r->err, DET_EUNSUPPORTED, "entry '%.*s' holds both %s and %s", STR_ARG(e->name),
             det_dtype_name(l->dtype), det_dtype_name(want->dtype));
    return NULL;
}

static det_value *tensor_value(struct reader *r, uint32_t index)
{
    const struct pickle_tensor *t = &r->pickle.tensors[index];
    if (!r->tensors[index]) {
        struct storage *s = storage_of(r, &r->pickle.storages[t->storage]);
        if (!s) return NULL;
        r->tensors[index] = tensor_over(s, &t->layout);
    }
    return det_value_tensor(r->tensors[index]);
}

// --- from graph to tree

static bool count_text(struct reader *r, struct str s)
{
    r->text_left -= (int64_t)s.len;
    if (r->text_left >= 0) return true;
    det_fail(r->err, DET_ELIMIT, "more than %d bytes of strings", TEXT_MAX);
    return false;
}

static det_value *value_of(struct reader *r, const struct object *o)
{
    if (r->values_left-- == 0) {
        det_fail(r->err, DET_ELIMIT, "more values than a pickle of this size may stand for");
        return NULL;
    }
    switch ((enum object_kind)o->kind) {
    case OBJECT_NONE:
        return det_value_none();
    case OBJECT_BOOL:
        return det_value_bool(o->b);
    case OBJECT_INT:
        return det_value_int(o->i);
    case OBJECT_FLOAT:
        return det_value_float(o->f);
    case OBJECT_STR:
        return count_text(r, o->s) ? det_value_strn(o->s.ptr, o->s.len) : NULL;
    case OBJECT_LIST:
        return det_value_list();
    case OBJECT_TUPLE:
        return det_value_tuple();
    case OBJECT_DICT:
        return det_value_dict();
    case OBJECT_TENSOR:
        return tensor_value(r, o->index);
    case OBJECT_GLOBAL:
    case OBJECT_STORAGE:
        det_fail(r->err, DET_EUNSUPPORTED, "a %s as a value; only tensors hold such",
                 object_kind_name(o->kind));
    }
    return NULL;
}

static bool set_item(struct reader *r, det_value *dict, const struct object *key, det_value *item)
{
    if (key->kind == OBJECT_INT) {
        det_value_set_int(dict, key->i, item);
        return true;
    }
    char *text = xstrndup(key->s.ptr, key->s.len);
    det_value_set(dict, text, item);
    free(text);
    return count_text(r, key->s);
}

struct frame {
    const struct object *object;
    det_value *value;
    uint32_t next; // of its items
};

// Makes the next value of a container and puts it there. NULL after an error.
static det_value *next_value(struct reader *r, struct frame *f, const struct object **made)
{
    const struct object *objects = r->pickle.objects, *key = NULL;
    if (f->object->kind == OBJECT_DICT) key = &objects[f->object->list.items[f->next++]];
    *made = &objects[f->object->list.items[f->next++]];
    det_value *v = value_of(r, *made);
    if (!v) return NULL;
    if (key) return set_item(r, f->value, key, v) ? v : NULL;
    return det_value_push(f->value, v);
}

// Depth first, with a stack of our own. What is made hangs below the root at once.
static det_value *build_tree(struct reader *r)
{
    const struct object *object = &r->pickle.objects[r->pickle.root];
    struct frame stack[PICKLE_MAX_DEPTH];
    det_value *root = value_of(r, object), *v = root;
    int depth = 0;
    while (v) {
        if (det_value_kind(v) >= DET_KIND_LIST) {
            if (depth == PICKLE_MAX_DEPTH) {
                det_fail(r->err, DET_ELIMIT, "nested deeper than %d", PICKLE_MAX_DEPTH);
                break;
            }
            stack[depth++] = (struct frame){.object = object, .value = v};
        }
        while (depth && stack[depth - 1].next == stack[depth - 1].object->list.n)
            depth--;
        if (!depth) return root;
        v = next_value(r, &stack[depth - 1], &object);
    }
    det_value_free(root);
    return NULL;
}

// --- the archive

// Files that are not ours are named, so that it is clear what to do.
static int not_an_archive(struct str bytes, det_err *err)
{
    static const char legacy_magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    if (!bytes.len) return det_fail(err, DET_ECORRUPT, "the file is empty");
    if (str_starts(bytes, STR(legacy_magic)))
        return det_fail(err, DET_EUNSUPPORTED,
                        "written by torch in its format from before version 1.6; load and save it "
                        "once with a newer torch");
    if (bytes.len > 262 && !memcmp(bytes.ptr + 257, "ustar", 5))
        return det_fail(
            err, DET_EUNSUPPORTED,
            "a tar archive: torch's format from before version 0.2; load and save it once "
            "with a newer torch");
    if ((unsigned char)bytes.ptr[0] == 0x80)
        return det_fail(err, DET_EUNSUPPORTED,
                        "a bare Python pickle, not the archive that torch.save writes");
    return det_fail(err, DET_ECORRUPT, "not the zip archive that torch.save writes");
}

// The entry <folder>/data.pkl; it tells the name of the folder.
static const struct zip_entry *find_pickle(struct reader *r)
{
    for (size_t i = 0; i < r->zip.n_entries; i++) {
        const struct zip_entry *e = &r->zip.entries[i];
        if (!str_ends(e->name, STR("/data.pkl"))) continue;
        r->folder = (struct str){e->name.ptr, e->name.len - strlen("data.pkl")};
        return e;
    }
    det_fail(r->err, DET_EUNSUPPORTED,
             "a zip archive without data.pkl: torch.save did not write it");
    return NULL;
}

static int check_dialect(struct reader *r)
{
    if (find_entry(r, "constants.pkl", STR("")))
        return det_fail(r->err, DET_EUNSUPPORTED,
                        "a TorchScript program; save the state_dict() of the model instead");
    const struct zip_entry *e = find_entry(r, "byteorder", STR(""));
    char order[8];
    if (!e) return 0;
    if (e->size > sizeof order)
        return det_fail(r->err, DET_ECORRUPT, "entry 'byteorder' is too long");
    int rc = zip_extract(&r->zip, e, order, r->err);
    if (rc || str_eqz((struct str){order, e->size}, "little")) return rc;
    return det_fail(r->err, DET_EUNSUPPORTED, "written on a big-endian machine");
}

static det_value *read_pickle(struct reader *r, const struct zip_entry *e)
{
    det_value *root = NULL;
    if (e->size > PICKLE_MAX_BYTES) {
        det_fail(r->err, DET_ELIMIT, "%.*s has %llu bytes; det reads up to %d", STR_ARG(e->name),
                 (unsigned long long)e->size, PICKLE_MAX_BYTES);
        return NULL;
    }
    struct str bytes = {.ptr = xmalloc(e->size), .len = e->size};
    if (zip_extract(&r->zip, e, (char *)(uintptr_t)bytes.ptr, r->err)) goto out;
    if (pickle_read(&r->pickle, bytes, r->err)) {
        det_wrap(r->err, "%.*s", STR_ARG(e->name));
        goto out;
    }
    r->tensors = xcalloc(r->pickle.n_tensors, sizeof *r->tensors);
    r->values_left = MIN(PICKLE_MAX_VALUES, VALUES_FREE + VALUES_PER_BYTE * (int64_t)bytes.len);
    r->text_left = TEXT_MAX;
    root = build_tree(r);
out:
    free((void *)(uintptr_t)bytes.ptr);
    return root;
}

static void reader_done(struct reader *r)
{
    for (uint32_t i = 0; r->tensors && i < r->pickle.n_tensors; i++)
        det_unref(r->tensors[i]);
    for (size_t i = 0; i < r->zip.n_entries; i++)
        storage_unref(r->loaded[i].storage);
    free(r->tensors);
    free(r->loaded);
    pickle_done(&r->pickle);
    zip_close(&r->zip);
}

det_value *pth_parse(struct str bytes, det_err *err)
{
    det_err local;
    struct reader r = {.err = err ? err : &local};
    det_value *root = NULL;
    if (!str_starts(bytes, STR("PK\3\4"))) {
        not_an_archive(bytes, r.err);
        return NULL;
    }
    if (zip_open(&r.zip, bytes, r.err)) return NULL;
    r.loaded = xcalloc(r.zip.n_entries, sizeof *r.loaded);
    const struct zip_entry *e = find_pickle(&r);
    if (e && !check_dialect(&r)) root = read_pickle(&r, e);
    reader_done(&r);
    return root;
}

det_value *det_pth_load(const char *path, det_err *err)
{
    struct str bytes;
    if (fs_map(path, &bytes, err)) return NULL;
    det_value *v = pth_parse(bytes, err);
    if (!v) det_wrap(err, "'%s'", path);
    fs_unmap(bytes);
    return v;
}
