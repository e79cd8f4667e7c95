// Unit value.c: the tree of det/value.h. A dict is an array of items in order of insertion; beyond
// a few items a hash table over the keys finds their places.
#include "value/value.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include <sys/auxv.h>

enum { UNINDEXED_MAX = 8 }; // items of a dict that are quicker to look through than to hash

struct item {
    char *key; // dict: NULL means the integer key
    int64_t number;
    det_value *value;
};

struct det_value {
    det_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        char *s;
        struct {
            const struct object_type *type;
            void *object;
        } o;
        struct {
            struct item *items;
            int n, cap;
            int n_slots; // a power of two, at least twice n; 0: not indexed
            int *slots;  // 1 + place in items, or 0
        } c;
    };
};

static det_value *value_new(det_kind kind)
{
    det_value *v = xcalloc(1, sizeof *v);
    v->kind = kind;
    return v;
}

static bool is_container(const det_value *v)
{
    return v && v->kind >= DET_KIND_LIST;
}

static bool is_object(const det_value *v)
{
    return v && (v->kind == DET_KIND_TENSOR || v->kind == DET_KIND_OBJECT);
}

det_value *det_value_none(void)
{
    return value_new(DET_KIND_NONE);
}

det_value *det_value_bool(bool b)
{
    det_value *v = value_new(DET_KIND_BOOL);
    v->b = b;
    return v;
}

det_value *det_value_int(int64_t i)
{
    det_value *v = value_new(DET_KIND_INT);
    v->i = i;
    return v;
}

det_value *det_value_float(double f)
{
    det_value *v = value_new(DET_KIND_FLOAT);
    v->f = f;
    return v;
}

det_value *det_value_strn(const char *s, size_t n)
{
    det_value *v = value_new(DET_KIND_STR);
    v->s = xstrndup(s, n);
    return v;
}

det_value *det_value_str(const char *s)
{
    return s ? det_value_strn(s, strlen(s)) : NULL;
}

det_value *value_object_take(const struct object_type *type, void *object)
{
    if (!object) return NULL;
    det_value *v = value_new(type->kind);
    v->o.type = type;
    v->o.object = object;
    return v;
}

det_value *value_object(const struct object_type *type, void *object)
{
    if (object) type->retain(object);
    return value_object_take(type, object);
}

det_value *det_value_list(void)
{
    return value_new(DET_KIND_LIST);
}

det_value *det_value_tuple(void)
{
    return value_new(DET_KIND_TUPLE);
}

det_value *det_value_dict(void)
{
    return value_new(DET_KIND_DICT);
}

void det_value_free(det_value *v)
{
    if (!v) return;
    if (v->kind == DET_KIND_STR) free(v->s);
    if (is_object(v)) v->o.type->release(v->o.object);
    for (int i = 0; is_container(v) && i < v->c.n; i++) {
        free(v->c.items[i].key);
        det_value_free(v->c.items[i].value);
    }
    if (is_container(v)) {
        free(v->c.items);
        free(v->c.slots);
    }
    free(v);
}

static struct item *item_add(det_value *v)
{
    if (v->c.n == v->c.cap) {
        v->c.cap = v->c.cap ? 2 * v->c.cap : 4;
        v->c.items = xrealloc(v->c.items, (size_t)v->c.cap * sizeof *v->c.items);
    }
    struct item *item = &v->c.items[v->c.n++];
    *item = (struct item){0};
    return item;
}

det_value *det_value_push(det_value *list, det_value *item)
{
    bool ok = list && (list->kind == DET_KIND_LIST || list->kind == DET_KIND_TUPLE);
    if (!ok) {
        det_value_free(item);
        return NULL;
    }
    if (item) item_add(list)->value = item;
    return item;
}

// --- dicts
// ------------------------------------------------------------------------------------------

static bool has_key(const struct item *item, const char *key, int64_t number)
{
    return key ? item->key && !strcmp(item->key, key) : !item->key && item->number == number;
}

// The kernel gives every process 16 random bytes, so files cannot be made whose keys all collide.
static uint64_t key_hash(const char *key, int64_t number)
{
    struct hash_key secret;
    memcpy(&secret, (const void *)getauxval(AT_RANDOM), sizeof secret);
    return key ? hash_bytes(&secret, key, strlen(key))
               : hash_bytes(&secret, &number, sizeof number);
}

// The slot that holds the key, or the free one where it belongs.
static int *slot_find(const det_value *dict, const char *key, int64_t number)
{
    int mask = dict->c.n_slots - 1, at = (int)(key_hash(key, number) & (uint64_t)mask);
    while (dict->c.slots[at] && !has_key(&dict->c.items[dict->c.slots[at] - 1], key, number))
        at = (at + 1) & mask;
    return &dict->c.slots[at];
}

static struct item *item_find(const det_value *dict, const char *key, int64_t number)
{
    if (!dict || dict->kind != DET_KIND_DICT) return NULL;
    if (dict->c.n_slots) {
        int place = *slot_find(dict, key, number);
        return place ? &dict->c.items[place - 1] : NULL;
    }
    for (int i = 0; i < dict->c.n; i++)
        if (has_key(&dict->c.items[i], key, number)) return &dict->c.items[i];
    return NULL;
}

// Enters the newest item into the table, which grows by starting again.
static void index_newest(det_value *dict)
{
    if (dict->c.n <= UNINDEXED_MAX) return;
    int from = dict->c.n - 1;
    if (2 * dict->c.n > dict->c.n_slots) {
        free(dict->c.slots);
        dict->c.n_slots = dict->c.n_slots ? 2 * dict->c.n_slots : 4 * UNINDEXED_MAX;
        dict->c.slots = xcalloc((size_t)dict->c.n_slots, sizeof *dict->c.slots);
        from = 0;
    }
    for (int i = from; i < dict->c.n; i++)
        *slot_find(dict, dict->c.items[i].key, dict->c.items[i].number) = i + 1;
}

static det_value *item_set(det_value *dict, const char *key, int64_t number, det_value *value)
{
    if (!dict || dict->kind != DET_KIND_DICT) {
        det_value_free(value);
        return NULL;
    }
    if (!value) return NULL;
    struct item *item = item_find(dict, key, number);
    if (item) {
        det_value_free(item->value);
    } else {
        item = item_add(dict);
        item->key = key ? xstrdup(key) : NULL;
        item->number = number;
        index_newest(dict);
    }
    item->value = value;
    return value;
}

det_value *det_value_set(det_value *dict, const char *key, det_value *item)
{
    return item_set(dict, key ? key : "", 0, item);
}

det_value *det_value_set_int(det_value *dict, int64_t key, det_value *item)
{
    return item_set(dict, NULL, key, item);
}

static det_value *leaf_copy(const det_value *v)
{
    if (v->kind == DET_KIND_STR) return det_value_str(v->s);
    if (is_object(v)) return value_object(v->o.type, v->o.object);
    det_value *copy = value_new(v->kind);
    *copy = *v;
    return copy;
}

det_value *value_map(const det_value *v, value_map_fn map, void *user)
{
    if (!v) return NULL;
    if (!is_container(v)) return map && is_object(v) ? map(v, user) : leaf_copy(v);
    det_value *copy = value_new(v->kind);
    for (int i = 0; i < v->c.n; i++) {
        const struct item *item = &v->c.items[i];
        det_value *value = value_map(item->value, map, user);
        if (v->kind != DET_KIND_DICT)
            det_value_push(copy, value);
        else if (item->key)
            det_value_set(copy, item->key, value);
        else
            det_value_set_int(copy, item->number, value);
    }
    return copy;
}

det_value *det_value_copy(const det_value *v)
{
    return value_map(v, NULL, NULL);
}

det_kind det_value_kind(const det_value *v)
{
    return v ? v->kind : DET_KIND_NONE;
}

const char *det_kind_name(det_kind kind)
{
    static const char *const names[] = {"None",   "bool",   "int",  "float", "str",
                                        "tensor", "object", "list", "tuple", "dict"};
    return (unsigned)kind < STATIC_LEN(names) ? names[kind] : "unknown";
}

int det_value_len(const det_value *v)
{
    return is_container(v) ? v->c.n : 0;
}

det_value *det_value_at(const det_value *v, int index)
{
    return index >= 0 && index < det_value_len(v) ? v->c.items[index].value : NULL;
}

det_value *det_value_get(const det_value *dict, const char *key)
{
    struct item *item = item_find(dict, key ? key : "", 0);
    return item ? item->value : NULL;
}

det_value *det_value_get_int(const det_value *dict, int64_t key)
{
    struct item *item = item_find(dict, NULL, key);
    return item ? item->value : NULL;
}

const char *det_value_key(const det_value *dict, int index, int64_t *number)
{
    bool ok = dict && dict->kind == DET_KIND_DICT && index >= 0 && index < dict->c.n;
    if (number) *number = ok ? dict->c.items[index].number : 0;
    return ok ? dict->c.items[index].key : NULL;
}

static int wrong_kind(const det_value *v, const char *wanted, det_err *err)
{
    const char *found = is_object(v) ? v->o.type->name : det_kind_name(det_value_kind(v));
    return det_fail(err, DET_EINVAL, "%s where %s was expected", found, wanted);
}

int det_value_as_bool(const det_value *v, bool *out, det_err *err)
{
    if (det_value_kind(v) != DET_KIND_BOOL) return wrong_kind(v, "a bool", err);
    *out = v->b;
    return 0;
}

int det_value_as_int(const det_value *v, int64_t *out, det_err *err)
{
    if (det_value_kind(v) != DET_KIND_INT) return wrong_kind(v, "an int", err);
    *out = v->i;
    return 0;
}

int det_value_as_float(const det_value *v, double *out, det_err *err)
{
    det_kind kind = det_value_kind(v);
    if (kind != DET_KIND_FLOAT && kind != DET_KIND_INT) return wrong_kind(v, "a number", err);
    *out = kind == DET_KIND_INT ? (double)v->i : v->f;
    return 0;
}

int det_value_as_str(const det_value *v, const char **out, det_err *err)
{
    if (det_value_kind(v) != DET_KIND_STR) return wrong_kind(v, "a string", err);
    *out = v->s;
    return 0;
}

void *value_as_object(const det_value *v, const struct object_type *type)
{
    return is_object(v) && v->o.type == type ? v->o.object : NULL;
}

const struct object_type *value_object_type(const det_value *v)
{
    return is_object(v) ? v->o.type : NULL;
}
