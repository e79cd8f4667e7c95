// Unit field_merge.c: field_merge(). Fills the gaps of one document from another one.
#include "doc/field.h"

#include "base/assert.h"

static void put(struct field_ctx *ctx, struct doc *map, const struct doc *like,
                const struct doc *value)
{
    struct doc *copy = doc_share(ctx->arena, value);
    copy->key_pos = like->key_pos;
    doc_set(map, like->key, copy);
}

const struct doc *field_merge_maps(struct field_ctx *ctx, const struct doc *high,
                                   const struct doc *low, bool (*is_open)(const struct doc *value))
{
    if (!is_open(high)) return high;
    if (high->kind == DOC_NULL) return low;
    if (!is_open(low) || low->kind == DOC_NULL) return high;
    struct doc *out = doc_new(ctx->arena, DOC_MAP);
    out->pos = high->pos;
    for (const struct doc *e = high->first; e; e = e->next) {
        const struct doc *other = doc_find(low, e->key.ptr);
        put(ctx, out, e, other ? field_merge_maps(ctx, e, other, is_open) : e);
    }
    for (const struct doc *e = low->first; e; e = e->next)
        if (!doc_find(high, e->key.ptr)) put(ctx, out, e, e);
    return out;
}

static bool is_map_or_null(const struct doc *value)
{
    return value->kind == DOC_MAP || value->kind == DOC_NULL;
}

static const struct doc *merge_values(struct field_ctx *ctx, const struct field *f,
                                      const struct doc *high, const struct doc *low)
{
    if (f && f->merge) return f->merge(ctx, f, high, low);
    if (f && f->type == FIELD_TABLE) return field_merge(ctx, f->table, high, low);
    if (f && f->type == FIELD_MAP) return field_merge_maps(ctx, high, low, is_map_or_null);
    return high;
}

// Of a union only the variant that high chose survives: of another variant in low, the common
// fields are all that is left.
static bool survives(const struct field_table *table, const struct doc *high, const struct doc *low,
                     struct str key)
{
    const struct field_variant *mine = field_variant_of(table, high),
                               *other = field_variant_of(table, low);
    return !mine || mine == other || field_find_row(table->fields, table->n, key);
}

const struct doc *field_merge(struct field_ctx *ctx, const struct field_table *table,
                              const struct doc *high, const struct doc *low)
{
    if (!high || !low) return high ? high : low;
    struct doc *out = doc_new(ctx->arena, DOC_MAP);
    out->pos = high->pos;
    for (const struct doc *e = high->first; e; e = e->next) {
        const struct doc *other = doc_find(low, e->key.ptr);
        put(ctx, out, e, other ? merge_values(ctx, field_find(table, high, e->key), e, other) : e);
    }
    for (const struct doc *e = low->first; e; e = e->next)
        if (!doc_find(high, e->key.ptr) && survives(table, high, low, e->key)) put(ctx, out, e, e);
    return out;
}

static struct doc *copy_items(struct field_ctx *ctx, const struct doc *list)
{
    struct doc *out = doc_new(ctx->arena, DOC_LIST);
    out->pos = list->pos;
    for (const struct doc *e = list->first; e; e = e->next)
        doc_append(out, doc_share(ctx->arena, e));
    return out;
}

static bool are_lists(const struct doc *high, const struct doc *low)
{
    return high->kind == DOC_LIST && low->kind == DOC_LIST;
}

const struct doc *field_merge_append(struct field_ctx *ctx, const struct field *f,
                                     const struct doc *high, const struct doc *low)
{
    (void)f;
    if (!are_lists(high, low)) return high;
    struct doc *out = copy_items(ctx, low);
    for (const struct doc *e = high->first; e; e = e->next)
        doc_append(out, doc_share(ctx->arena, e));
    return out;
}

static bool has_item(const struct doc *list, const struct doc *item, const char *key)
{
    const struct doc *want = key ? doc_find(item, key) : item;
    if (!want) return false;
    for (const struct doc *e = list->first; e; e = e->next) {
        const struct doc *have = key ? doc_find(e, key) : e;
        if (have && have->kind < DOC_LIST && doc_equal(have, want)) return true;
    }
    return false;
}

const struct doc *field_merge_union(struct field_ctx *ctx, const struct field *f,
                                    const struct doc *high, const struct doc *low)
{
    if (!are_lists(high, low)) return high;
    struct doc *out = copy_items(ctx, high);
    for (const struct doc *e = low->first; e; e = e->next)
        if (!has_item(high, e, f->merge_key)) doc_append(out, doc_share(ctx->arena, e));
    return out;
}
