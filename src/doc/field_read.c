// Unit field_read.c: field_read(). Checks a normalized document against the table and fills the
// struct.
#include "doc/field.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/nearest.h"
#include "doc/yaml.h"
#include "doc/yaml_scalar.h"
#include <math.h>

static void read_field(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                       void *member);

static void wrong_type(struct field_ctx *ctx, const struct doc *value, const char *wanted)
{
    field_error(ctx, value, "must be %s, found %s", wanted, field_show(ctx, value));
}

static bool in_range(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                     double x)
{
    bool bounded = f->min != 0 || f->max != 0;
    bool low = f->open_min ? x <= f->min : x < f->min;
    if (!bounded || (!low && x <= f->max)) return true;
    const char *found = field_show(ctx, value);
    if (!isinf(f->max) && !f->open_min)
        field_error(ctx, value, "must be between %.15g and %.15g, found %s", f->min, f->max, found);
    else if (low)
        field_error(ctx, value, "must be %s %.15g, found %s",
                    f->open_min ? "greater than" : "at least", f->min, found);
    else
        field_error(ctx, value, "must be at most %.15g, found %s", f->max, found);
    return false;
}

static void read_bool(struct field_ctx *ctx, const struct doc *value, bool *out)
{
    if (value->kind == DOC_BOOL)
        *out = value->boolean;
    else
        wrong_type(ctx, value, "true or false");
}

static void read_tri(struct field_ctx *ctx, const struct doc *value, enum tri *out)
{
    if (value->kind == DOC_BOOL)
        *out = value->boolean ? TRI_TRUE : TRI_FALSE;
    else
        wrong_type(ctx, value, "true or false");
}

static bool read_int(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                     int64_t *out)
{
    int64_t x;
    if (!doc_integer(value, &x)) {
        wrong_type(ctx, value, "an integer");
        return false;
    }
    if (!in_range(ctx, f, value, (double)x)) return false;
    *out = x;
    return true;
}

static void read_opt_int(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                         struct opt_int *out)
{
    out->is_set = read_int(ctx, f, value, &out->value);
}

static void read_double(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                        double *out)
{
    double x;
    if (!doc_number(value, &x) || !isfinite(x))
        wrong_type(ctx, value, "a finite number");
    else if (in_range(ctx, f, value, x))
        *out = x;
}

static void read_str(struct field_ctx *ctx, const struct doc *value, const char **out)
{
    if (value->kind == DOC_STR)
        *out = value->text.ptr;
    else if (value->kind < DOC_LIST)
        field_error(ctx, value, "must be a string, found %s; put it in quotes",
                    field_show(ctx, value));
    else
        wrong_type(ctx, value, "a string");
}

// "single, random, grid"
static const char *join(struct field_ctx *ctx, const char *const *words)
{
    struct buf b = BUF_INIT(4096);
    for (; *words; words++)
        if (**words) buf_printf(&b, "%s%s", b.len ? ", " : "", *words);
    const char *text = arena_strdup(ctx->arena, buf_str(&b).ptr);
    buf_done(&b);
    return text;
}

static void report_choice(struct field_ctx *ctx, const struct doc *value, const char *const *words)
{
    struct nearest n = NEAREST_INIT(value->kind == DOC_STR ? value->text : STR(""));
    for (const char *const *w = words; *w; w++)
        nearest_offer(&n, *w);
    const char *found = field_show(ctx, value), *allowed = join(ctx, words);
    if (n.best)
        field_error(ctx, value, "must be one of %s, found %s; did you mean '%s'?", allowed, found,
                    n.best);
    else
        field_error(ctx, value, "must be one of %s, found %s", allowed, found);
}

static void read_enum(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                      int *out)
{
    bool text = value->kind == DOC_STR && value->text.len;
    for (int i = 0; text && f->values[i]; i++) {
        if (!str_eqz(value->text, f->values[i])) continue;
        *out = i;
        return;
    }
    report_choice(ctx, value, f->values);
}

static void read_list(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                      void *member)
{
    if (value->kind != DOC_LIST) {
        wrong_type(ctx, value, "a list");
        return;
    }
    size_t size = field_size(f->item);
    struct field_list list = {arena_array(ctx->arena, value->n, size), 0};
    for (const struct doc *e = value->first; e; e = e->next) {
        struct field_path path = field_at_index(ctx, list.n);
        ctx->path = &path;
        read_field(ctx, f->item, e, (char *)list.items + list.n++ * size);
        ctx->path = path.up;
    }
    memcpy(member, &list, sizeof list);
}

static void read_map(struct field_ctx *ctx, const struct doc *value, const struct doc **out)
{
    if (value->kind == DOC_MAP)
        *out = value;
    else
        wrong_type(ctx, value, "a map");
}

static void read_value(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                       void *member)
{
    switch (f->type) {
    case FIELD_BOOL:
        read_bool(ctx, value, member);
        break;
    case FIELD_TRI:
        read_tri(ctx, value, member);
        break;
    case FIELD_INT:
        read_int(ctx, f, value, member);
        break;
    case FIELD_OPT_INT:
        read_opt_int(ctx, f, value, member);
        break;
    case FIELD_DOUBLE:
        read_double(ctx, f, value, member);
        break;
    case FIELD_STR:
        read_str(ctx, value, member);
        break;
    case FIELD_ENUM:
        read_enum(ctx, f, value, member);
        break;
    case FIELD_LIST:
        read_list(ctx, f, value, member);
        break;
    case FIELD_MAP:
        read_map(ctx, value, member);
        break;
    case FIELD_TABLE:
        field_read(ctx, f->table, value, member);
        break;
    case FIELD_CODEC:
        f->codec->read(ctx, f, value, member);
        break;
    case FIELD_OLD:
    case FIELD_IGNORED:
    case FIELD_REFUSED:
        break;
    }
}

static void read_field(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                       void *member)
{
    int n_wrong = ctx->n_wrong;
    read_value(ctx, f, value, member);
    if (f->check && ctx->n_wrong == n_wrong) f->check(ctx, value, member);
    if (f->type == FIELD_TABLE) ctx->n_wrong = n_wrong; // its own business
}

static const struct doc *default_of(struct field_ctx *ctx, const struct field *f)
{
    if (!f->def) return NULL;
    if (f->type == FIELD_STR) return doc_new_str(ctx->arena, f->def);
    if (strchr("[{", f->def[0])) return yaml_parse(ctx->arena, str_from(f->def), NULL, ctx->diags);
    struct doc *d = doc_new(ctx->arena, DOC_NULL);
    yaml_resolve(str_from(f->def), d);
    return d;
}

// Whether the value asks for what would be there without it.
static bool is_default(struct field_ctx *ctx, const struct field *f, const struct doc *value)
{
    if (value->kind == DOC_NULL) return true;
    if (f->type == FIELD_LIST || f->type == FIELD_MAP) return value->n == 0;
    if (f->type != FIELD_TABLE) {
        const struct doc *def = default_of(ctx, f);
        return def && doc_equal(def, value);
    }
    for (const struct doc *e = value->first; e; e = e->next) {
        const struct field *row = field_find(f->table, value, e->key);
        if (row && !is_default(ctx, row, e)) return false;
    }
    return true;
}

static void read_row(struct field_ctx *ctx, const struct field *f, const struct doc *map,
                     void *self)
{
    if (f->type >= FIELD_OLD) return;
    void *member = (char *)self + f->offset;
    const struct doc *value = doc_find(map, f->name);
    if (value && value->kind == DOC_NULL) { // reported by field_normalize()
        ctx->n_wrong++;
        return;
    }
    if (!value && f->required) {
        field_missing(ctx, map, "required, but missing");
        return;
    }
    if (value && f->no_effect && !is_default(ctx, f, value)) {
        const struct doc at_key = {.pos = value->key_pos};
        field_warn(ctx, &at_key, "has no effect. %s", f->no_effect);
    }
    if (!value) value = default_of(ctx, f);
    if (value)
        read_field(ctx, f, value, member);
    else if (f->type == FIELD_TABLE)
        field_read(ctx, f->table, NULL, member); // nothing but defaults
}

static void read_rows(struct field_ctx *ctx, const struct field *rows, size_t n,
                      const struct doc *map, void *self)
{
    for (size_t i = 0; i < n; i++) {
        struct field_path path = field_at_key(ctx, str_from(rows[i].name));
        ctx->path = &path;
        read_row(ctx, &rows[i], map, self);
        ctx->path = path.up;
    }
}

static const char *const *tags_of(struct field_ctx *ctx, const struct field_table *table)
{
    const char **tags = arena_array(ctx->arena, table->n_variants + 1, sizeof *tags);
    for (size_t v = 0; v < table->n_variants; v++)
        tags[v] = table->variants[v].tag;
    return tags;
}

// NULL after an error.
static const struct field_variant *read_tag(struct field_ctx *ctx, const struct field_table *table,
                                            const struct doc *map, int *out)
{
    int n_wrong = ctx->n_wrong;
    struct field_path path = field_at_key(ctx, str_from(table->tag));
    const struct field row = {
        .name = table->tag, .type = FIELD_ENUM, .values = tags_of(ctx, table)};
    const struct doc *value = doc_find(map, table->tag);
    ctx->path = &path;
    if (value)
        read_enum(ctx, &row, value, out);
    else if (!table->tag_optional)
        field_missing(ctx, map, "required, but missing; one of %s", join(ctx, row.values));
    ctx->path = path.up;
    return ctx->n_wrong == n_wrong ? &table->variants[*out] : NULL;
}

// A key of another variant: says which ones it goes with.
static void report_foreign(struct field_ctx *ctx, const struct field_table *table,
                           const struct field_variant *variant, const struct doc *entry)
{
    const char **owners = arena_array(ctx->arena, table->n_variants + 1, sizeof *owners);
    size_t n = 0;
    for (size_t v = 0; v < table->n_variants; v++)
        if (field_find_row(table->variants[v].fields, table->variants[v].n, entry->key))
            owners[n++] = table->variants[v].tag;
    struct doc at = {.pos = entry->key_pos};
    field_error(ctx, &at, "does not go with '%s: %s', only with %s", table->tag,
                variant->tag[0] ? variant->tag : "null", join(ctx, owners));
}

static void read_rest(struct field_ctx *ctx, const struct field_table *table,
                      const struct field_variant *variant, const struct doc *map, void *self)
{
    struct doc *rest = doc_new(ctx->arena, DOC_MAP);
    for (const struct doc *e = map ? map->first : NULL; e; e = e->next) {
        if (str_eqz(e->key, table->tag) || field_find_row(table->fields, table->n, e->key) ||
            field_find_row(variant->fields, variant->n, e->key))
            continue;
        if (variant->open) {
            doc_set(rest, e->key, doc_share(ctx->arena, e));
            continue;
        }
        struct field_path path = field_at_key(ctx, e->key);
        ctx->path = &path;
        report_foreign(ctx, table, variant, e);
        ctx->path = path.up;
    }
    const struct doc *kept = rest;
    if (variant->open) memcpy((char *)self + variant->rest_offset, &kept, sizeof kept);
}

void field_read(struct field_ctx *ctx, const struct field_table *table, const struct doc *doc,
                void *out)
{
    int n_wrong = ctx->n_wrong;
    if (doc && doc->kind == DOC_NULL) return;
    if (doc && doc->kind != DOC_MAP) {
        wrong_type(ctx, doc, "a map");
        return;
    }
    read_rows(ctx, table->fields, table->n, doc, out);
    const struct field_variant *variant =
        table->tag ? read_tag(ctx, table, doc, (int *)((char *)out + table->tag_offset)) : NULL;
    if (variant) {
        read_rows(ctx, variant->fields, variant->n, doc, out);
        read_rest(ctx, table, variant, doc, out);
    }
    bool good = ctx->n_wrong == n_wrong;
    if (table->check && (good || table->check_always)) table->check(ctx, doc, out);
}
