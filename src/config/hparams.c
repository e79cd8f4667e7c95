// Unit hparams.c: the hyperparameters section as a tree.
//
// A map with a `type` is a hyperparameter, a map without one a group, anything else a constant.
#include "config/tables.h"

#include "base/assert.h"
#include <math.h>

#define HP(member) offsetof(struct hparam, member)

// Any value at all, null too.
static void read_any(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                     void *member)
{
    (void)ctx;
    (void)f;
    *(const struct doc **)member = value;
}

static struct doc *write_any(struct arena *arena, const void *member)
{
    const struct doc *value = *(const struct doc *const *)member;
    return value ? doc_share(arena, value) : doc_new(arena, DOC_NULL);
}

static const struct field_codec any_codec = {
    .size = sizeof(const struct doc *),
    .syntax = "any value",
    .read = read_any,
    .write = write_any,
};

static const struct field any_item = {.name = "", .type = FIELD_CODEC, .codec = &any_codec};

static void check_vals(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    (void)member;
    if (!value->n) field_error(ctx, value, "must have at least one value");
}

// clang-format off
#define COUNT_ROW                                                                                  \
    {"count", FIELD_OPT_INT, HP(count), FIELD_MIN(1),                                              \
     .help = "The number of points on this axis of a grid search."}

static const struct field const_rows[] = {
    {"val", FIELD_CODEC, HP(constant), .codec = &any_codec,
     .help = "The value that every trial gets. Any YAML value, null too."},
};
static const struct field int_rows[] = {
    {"minval", FIELD_INT, HP(integer.min), .required = true, .help = "The smallest value."},
    {"maxval", FIELD_INT, HP(integer.max), .required = true,
     .help = "The largest value; it is included."},
    COUNT_ROW,
};
static const struct field double_rows[] = {
    {"minval", FIELD_DOUBLE, HP(real.min), .required = true, .help = "The smallest value."},
    {"maxval", FIELD_DOUBLE, HP(real.max), .required = true, .help = "The upper end of the range."},
    COUNT_ROW,
};
static const struct field log_rows[] = {
    {"base", FIELD_DOUBLE, HP(log.base), .required = true, FIELD_ABOVE(0),
     .help = "The base of the exponents minval and maxval."},
    {"minval", FIELD_DOUBLE, HP(log.min), .required = true,
     .help = "The smallest exponent: -5 with base 10 is 0.00001."},
    {"maxval", FIELD_DOUBLE, HP(log.max), .required = true, .help = "The largest exponent."},
    COUNT_ROW,
};
static const struct field categorical_rows[] = {
    {"vals", FIELD_LIST, HP(categorical), .required = true, .item = &any_item, .check = check_vals,
     .help = "The values to choose from, of any type."},
};
// clang-format on

// In the order of enum hparam_kind.
static const struct field_variant kinds[] = {
    {"const", FIELD_ROWS(const_rows)},
    {"int", FIELD_ROWS(int_rows)},
    {"double", FIELD_ROWS(double_rows)},
    {"log", FIELD_ROWS(log_rows)},
    {"categorical", FIELD_ROWS(categorical_rows)},
};

static void check_int(struct field_ctx *ctx, const struct doc *map, const struct hparam *hp)
{
    int64_t span;
    if (hp->integer.min >= hp->integer.max)
        field_error(ctx, map, "minval must be less than maxval, found %lld and %lld",
                    (long long)hp->integer.min, (long long)hp->integer.max);
    else if (__builtin_sub_overflow(hp->integer.max, hp->integer.min, &span))
        field_error(ctx, map, "the range from minval to maxval is too wide");
}

static void check_real(struct field_ctx *ctx, const struct doc *map, double min, double max)
{
    if (min >= max)
        field_error(ctx, map, "minval must be less than maxval, found %.15g and %.15g", min, max);
    else if (!isfinite(max - min))
        field_error(ctx, map, "the range from minval to maxval is too wide");
}

static void check_log(struct field_ctx *ctx, const struct doc *map, const struct hparam *hp)
{
    check_real(ctx, map, hp->log.min, hp->log.max);
    double low = pow(hp->log.base, hp->log.min), high = pow(hp->log.base, hp->log.max);
    if (!isfinite(low) || !isfinite(high))
        field_error(ctx, map,
                    "minval and maxval are exponents; %.15g to the power of %.15g is too large",
                    hp->log.base, isfinite(low) ? hp->log.max : hp->log.min);
}

static void check_hparam(struct field_ctx *ctx, const struct doc *map, void *self)
{
    struct hparam *hp = self;
    if (hp->kind == HP_INT) check_int(ctx, map, hp);
    if (hp->kind == HP_DOUBLE) check_real(ctx, map, hp->real.min, hp->real.max);
    if (hp->kind == HP_LOG) check_log(ctx, map, hp);
    if (hp->kind == HP_CONST && !hp->constant) hp->constant = doc_new(ctx->arena, DOC_NULL);
}

static const struct field_table hparam_table = {
    .size = sizeof(struct hparam),
    .tag = "type",
    .tag_help = "How values are drawn.",
    .tag_offset = HP(kind),
    .variants = kinds,
    .n_variants = STATIC_LEN(kinds),
    .check = check_hparam,
};

static bool is_typed(const struct doc *value)
{
    return doc_find(value, "type") != NULL;
}

static bool is_group(const struct doc *value)
{
    return value->kind == DOC_MAP && !is_typed(value);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct doc *const *)a)->key.ptr,
                  (*(const struct doc *const *)b)->key.ptr);
}

// The entries of a map, sorted.
static const struct doc **sorted_entries(struct arena *arena, const struct doc *map)
{
    const struct doc **entries = arena_array(arena, map->n, sizeof *entries);
    size_t n = 0;
    for (const struct doc *e = map->first; e; e = e->next)
        entries[n++] = e;
    qsort(entries, n, sizeof *entries, by_key);
    return entries;
}

static void read_hparam(struct field_ctx *ctx, const struct doc *value, struct hparam *out);

// parent is what the items point at: nothing at the top, because the root may be copied.
static void read_group(struct field_ctx *ctx, const struct doc *map, const struct hparam *parent,
                       struct hparam *out)
{
    const struct doc **entries = sorted_entries(ctx->arena, map);
    out->kind = HP_GROUP;
    out->group.n = map->n;
    out->group.items = arena_array(ctx->arena, map->n, sizeof *out->group.items);
    for (size_t i = 0; i < map->n; i++) {
        struct hparam *item = &out->group.items[i];
        item->name = entries[i]->key.ptr;
        item->parent = parent;
        struct field_path path = field_at_key(ctx, entries[i]->key);
        ctx->path = &path;
        read_hparam(ctx, entries[i], item);
        ctx->path = path.up;
    }
}

static void read_typed(struct field_ctx *ctx, const struct doc *value, struct hparam *out)
{
    int n_wrong = ctx->n_wrong;
    field_read(ctx, &hparam_table, field_normalize(ctx, &hparam_table, value), out);
    if (ctx->n_wrong == n_wrong) return;
    out->kind = HP_CONST; // something harmless, for rules that look at all hyperparameters
    out->constant = value;
}

static void read_hparam(struct field_ctx *ctx, const struct doc *value, struct hparam *out)
{
    if (is_group(value)) {
        read_group(ctx, value, out, out);
    } else if (is_typed(value)) {
        read_typed(ctx, value, out);
    } else {
        out->kind = HP_CONST;
        out->constant = value;
    }
}

static void read_hparams(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                         void *member)
{
    (void)f;
    struct hparam *out = member;
    out->name = "";
    if (is_group(value))
        read_group(ctx, value, NULL, out);
    else
        field_error(ctx, value, "must be a map of hyperparameters, found %s",
                    is_typed(value) ? "a single one" : field_show(ctx, value));
}

static struct doc *write_hparam(struct arena *arena, const void *member)
{
    const struct hparam *hp = member;
    if (hp->kind != HP_GROUP) return field_write(arena, &hparam_table, hp, false);
    struct doc *out = doc_new(arena, DOC_MAP);
    for (size_t i = 0; i < hp->group.n; i++)
        doc_set(out, str_from(hp->group.items[i].name), write_hparam(arena, &hp->group.items[i]));
    return out;
}

const struct field_codec hparams_codec = {
    .size = sizeof(struct hparam),
    .syntax = "a map of constants, hyperparameters with a type, and groups",
    .read = read_hparams,
    .write = write_hparam,
};

const struct doc *merge_hparams(struct field_ctx *ctx, const struct field *f,
                                const struct doc *high, const struct doc *low)
{
    (void)f;
    return field_merge_maps(ctx, high, low, is_group);
}

// Reports leaves without a count, at their places in the document.
static void check_counts(struct field_ctx *ctx, const struct doc *map, const struct hparam *hp)
{
    for (size_t i = 0; i < hp->group.n; i++) {
        const struct hparam *item = &hp->group.items[i];
        const struct doc *value = doc_find(map, item->name);
        struct field_path path = field_at_key(ctx, str_from(item->name));
        ctx->path = &path;
        if (item->kind == HP_GROUP)
            check_counts(ctx, value, item);
        else if (!hparam_grid_count(item))
            field_error(ctx, value, "grid search is in use, but count was not provided");
        ctx->path = path.up;
    }
}

enum { GRID_MAX_POINTS = 1000000 };

void check_grid(struct field_ctx *ctx, const struct doc *map, const struct hparam *root)
{
    struct field_path path = field_at_key(ctx, STR("hyperparameters"));
    const struct doc *value = doc_find(map, "hyperparameters");
    int n_wrong = ctx->n_wrong;
    ctx->path = &path;
    check_counts(ctx, value, root);
    const struct hparam **leaves;
    size_t n = hparam_leaves(root, ctx->arena, &leaves);
    int64_t n_points = 1;
    for (size_t i = 0; i < n && n_points <= GRID_MAX_POINTS; i++)
        if (__builtin_mul_overflow(n_points, hparam_grid_count(leaves[i]), &n_points))
            n_points = INT64_MAX;
    if (n_points > GRID_MAX_POINTS && ctx->n_wrong == n_wrong)
        field_error(ctx, value, "the grid has more than %d points", GRID_MAX_POINTS);
    ctx->path = path.up;
}
