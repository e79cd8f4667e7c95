// Unit doc.c: builds and searches documents. The readers are in json.c and yaml.c.
#include "doc/doc.h"

#include "base/assert.h"
#include <math.h>

struct doc *doc_new(struct arena *a, enum doc_kind kind)
{
    struct doc *d = arena_alloc(a, sizeof *d);
    d->kind = kind;
    return d;
}

struct doc *doc_new_bool(struct arena *a, bool value)
{
    struct doc *d = doc_new(a, DOC_BOOL);
    d->boolean = value;
    return d;
}

struct doc *doc_new_int(struct arena *a, int64_t value)
{
    struct doc *d = doc_new(a, DOC_INT);
    d->integer = value;
    return d;
}

struct doc *doc_new_double(struct arena *a, double value)
{
    struct doc *d = doc_new(a, DOC_DOUBLE);
    d->number = value;
    return d;
}

struct doc *doc_new_str(struct arena *a, const char *text)
{
    if (!text) return doc_new(a, DOC_NULL);
    struct doc *d = doc_new(a, DOC_STR);
    d->text = str_from(arena_strdup(a, text));
    return d;
}

struct doc *doc_share(struct arena *a, const struct doc *node)
{
    struct doc *d = arena_alloc(a, sizeof *d);
    *d = *node;
    d->next = NULL;
    d->key = (struct str){NULL, 0};
    return d;
}

struct doc *doc_copy(struct arena *a, const struct doc *node)
{
    struct doc *d = doc_new(a, node->kind);
    if (node->kind < DOC_STR) {
        *d = *node;
        d->next = NULL;
        d->key = (struct str){NULL, 0};
    } else if (node->kind == DOC_STR) {
        d->text = (struct str){arena_strndup(a, node->text.ptr, node->text.len), node->text.len};
    } else {
        for (const struct doc *e = node->first; e; e = e->next) {
            struct doc *item = doc_copy(a, e);
            if (e->key.ptr)
                item->key = (struct str){arena_strndup(a, e->key.ptr, e->key.len), e->key.len};
            doc_append(d, item);
        }
    }
    d->pos = d->key_pos = (struct doc_pos){NULL, 0, 0};
    return d;
}

void doc_append(struct doc *list, struct doc *item)
{
    ASSERT(list->kind >= DOC_LIST && !item->next);
    if (list->last)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
    list->n++;
}

void doc_set(struct doc *map, struct str key, struct doc *value)
{
    ASSERT(map->kind == DOC_MAP);
    value->key = key;
    doc_append(map, value);
}

const struct doc *doc_find(const struct doc *map, const char *key)
{
    if (!map || map->kind != DOC_MAP) return NULL;
    for (const struct doc *e = map->first; e; e = e->next)
        if (str_eqz(e->key, key)) return e;
    return NULL;
}

const struct doc *doc_at(const struct doc *list, size_t index)
{
    if (!list || list->kind != DOC_LIST) return NULL;
    const struct doc *e = list->first;
    while (e && index--)
        e = e->next;
    return e;
}

bool doc_number(const struct doc *node, double *out)
{
    if (!node || (node->kind != DOC_INT && node->kind != DOC_DOUBLE)) return false;
    *out = node->kind == DOC_INT ? (double)node->integer : node->number;
    return true;
}

bool doc_integer(const struct doc *node, int64_t *out)
{
    if (!node) return false;
    if (node->kind == DOC_INT) {
        *out = node->integer;
        return true;
    }
    bool whole = node->kind == DOC_DOUBLE && fabs(node->number) < 0x1p63 &&
                 node->number == floor(node->number);
    if (whole) *out = (int64_t)node->number;
    return whole;
}

static bool lists_equal(const struct doc *a, const struct doc *b)
{
    const struct doc *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (!doc_equal(x, y)) return false;
    return !x && !y;
}

static bool maps_equal(const struct doc *a, const struct doc *b)
{
    if (a->n != b->n) return false;
    for (const struct doc *x = a->first; x; x = x->next) {
        const struct doc *y = doc_find(b, x->key.ptr);
        if (!y || !doc_equal(x, y)) return false;
    }
    return true;
}

bool doc_equal(const struct doc *a, const struct doc *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case DOC_NULL:
        return true;
    case DOC_BOOL:
        return a->boolean == b->boolean;
    case DOC_INT:
        return a->integer == b->integer;
    case DOC_DOUBLE:
        return a->number == b->number || (a->number != a->number && b->number != b->number);
    case DOC_STR:
        return str_eq(a->text, b->text);
    case DOC_LIST:
        return lists_equal(a, b);
    case DOC_MAP:
        return maps_equal(a, b);
    }
    return false;
}

const char *doc_kind_name(enum doc_kind kind)
{
    static const char *const names[] = {"null",     "a boolean", "an integer", "a number",
                                        "a string", "a list",    "a map"};
    return names[kind];
}
