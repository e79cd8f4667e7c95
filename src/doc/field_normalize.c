// Unit field_normalize.c: field_normalize(). Knows names, not values: those are the business of
// field_read.c.
#include "doc/field.h"

#include "base/assert.h"
#include "base/nearest.h"

struct normalizer {
    struct field_ctx *ctx;
    const struct field_table *root;
};

static struct doc *normalize_table(const struct normalizer *nz, const struct field_table *table,
                                   const struct doc *doc);
static const struct doc *normalize_value(const struct normalizer *nz, const struct field *f,
                                         const struct doc *value);

// "resources.slots_per_trial", if a row of that name stands somewhere in the tables below; else
// NULL.
static const char *find_elsewhere(struct arena *a, const struct field_table *table, struct str name)
{
    for (size_t v = 0; v <= table->n_variants; v++) {
        const struct field *rows = v ? table->variants[v - 1].fields : table->fields;
        size_t n = v ? table->variants[v - 1].n : table->n;
        for (size_t i = 0; i < n; i++) {
            const struct field *f = &rows[i];
            if (f->type != FIELD_REFUSED && str_eqz(name, f->name)) return f->name;
            const char *below = f->type == FIELD_TABLE ? find_elsewhere(a, f->table, name) : NULL;
            if (below) return arena_printf(a, "%s.%s", f->name, below);
        }
    }
    return NULL;
}

static void offer_names(struct nearest *n, const struct field_table *table)
{
    if (table->tag) nearest_offer(n, table->tag);
    for (size_t i = 0; i < table->n; i++)
        nearest_offer(n, table->fields[i].name);
    for (size_t v = 0; v < table->n_variants; v++)
        for (size_t i = 0; i < table->variants[v].n; i++)
            nearest_offer(n, table->variants[v].fields[i].name);
}

// Returns the name that was probably meant, or NULL.
static const char *report_unknown(const struct normalizer *nz, const struct field_table *table,
                                  const struct doc *entry)
{
    struct doc at = {.pos = entry->key_pos};
    struct nearest n = NEAREST_INIT(entry->key);
    offer_names(&n, table);
    const char *elsewhere = find_elsewhere(nz->ctx->arena, nz->root, entry->key);
    if (elsewhere)
        field_error(nz->ctx, &at, "unknown here; did you mean %s%s?", elsewhere,
                    strchr(elsewhere, '.') ? "" : " at the top level");
    else if (n.best)
        field_error(nz->ctx, &at, "unknown field; did you mean '%s'?", n.best);
    else
        field_error(nz->ctx, &at, "unknown field");
    return elsewhere ? NULL : n.best;
}

static bool allows_unknown(const struct field_table *table, const struct doc *map)
{
    const struct field_variant *variant = field_variant_of(table, map);
    return variant && variant->open;
}

// A value that is wrong and was reported leaves a null behind, so that it is not reported as
// missing too.
static struct doc *share_or_null(const struct normalizer *nz, const struct doc *value)
{
    return value ? doc_share(nz->ctx->arena, value) : doc_new(nz->ctx->arena, DOC_NULL);
}

static const struct doc *normalize_list(const struct normalizer *nz, const struct field *item,
                                        const struct doc *list)
{
    struct doc *out = doc_new(nz->ctx->arena, DOC_LIST);
    out->pos = list->pos;
    size_t index = 0;
    for (const struct doc *e = list->first; e; e = e->next, index++) {
        struct field_path path = field_at_index(nz->ctx, index);
        nz->ctx->path = &path;
        doc_append(out, share_or_null(nz, normalize_value(nz, item, e)));
        nz->ctx->path = path.up;
    }
    return out;
}

static const struct doc *normalize_value(const struct normalizer *nz, const struct field *f,
                                         const struct doc *value)
{
    if (f->convert && f->type != FIELD_OLD) value = f->convert(nz->ctx, value);
    if (!value) return NULL;
    if (f->type == FIELD_TABLE) return normalize_table(nz, f->table, value);
    if (f->type == FIELD_LIST && value->kind == DOC_LIST) return normalize_list(nz, f->item, value);
    return value;
}

static void normalize_entry(const struct normalizer *nz, const struct field_table *table,
                            const struct doc *map, const struct doc *entry, struct doc *out)
{
    const struct field *f = field_find(table, map, entry->key);
    const struct doc *value = entry;
    struct doc at_key = {.pos = entry->key_pos};
    bool is_tag = table->tag && str_eqz(entry->key, table->tag);
    struct str name = entry->key;
    if (!f && !is_tag && !allows_unknown(table, map)) {
        // A required field is not missing if it was only misspelt.
        const char *meant = report_unknown(nz, table, entry);
        is_tag = meant && table->tag && !strcmp(meant, table->tag);
        f = meant && !is_tag ? field_find(table, map, str_from(meant)) : NULL;
        if (!is_tag && !(f && f->required)) return;
        name = str_from(meant);
    }
    if (f && f->type == FIELD_REFUSED) {
        if (f->into && doc_find(map, f->into))
            field_warn(nz->ctx, &at_key, "is ignored: it %s", f->help);
        else
            field_error(nz->ctx, &at_key, "%s", f->help);
        return;
    }
    if (f && f->type == FIELD_IGNORED) {
        field_warn(nz->ctx, &at_key, "is ignored. %s", f->help);
        return;
    }
    if (f && f->type == FIELD_OLD) {
        if (f->convert) value = f->convert(nz->ctx, value);
        f = field_find(table, map, str_from(f->into));
    }
    if (f && value) value = normalize_value(nz, f, value);
    if (f) name = str_from(f->name);
    const struct doc *twin = doc_find(out, name.ptr);
    if (twin) {
        field_error(nz->ctx, &at_key, "sets '%s', which line %d sets already; use one of them",
                    name.ptr, twin->key_pos.line);
        return;
    }
    struct doc *copy = share_or_null(nz, value);
    copy->key_pos = entry->key_pos;
    doc_set(out, name, copy);
}

static struct doc *normalize_table(const struct normalizer *nz, const struct field_table *table,
                                   const struct doc *doc)
{
    if (doc->kind != DOC_MAP) {
        bool lacks_space = doc->kind == DOC_STR && memchr(doc->text.ptr, ':', doc->text.len);
        field_error(nz->ctx, doc, "must be a map, found %s%s", field_show(nz->ctx, doc),
                    lacks_space ? "; is a space missing after the ':'?" : "");
        return NULL;
    }
    struct doc *out = doc_new(nz->ctx->arena, DOC_MAP);
    out->pos = doc->pos;
    for (const struct doc *e = doc->first; e; e = e->next) {
        if (e->kind == DOC_NULL) continue;
        struct field_path path = field_at_key(nz->ctx, e->key);
        nz->ctx->path = &path;
        normalize_entry(nz, table, doc, e, out);
        nz->ctx->path = path.up;
    }
    return out;
}

struct doc *field_normalize(struct field_ctx *ctx, const struct field_table *table,
                            const struct doc *doc)
{
    return normalize_table(&(struct normalizer){ctx, table}, table, doc);
}
