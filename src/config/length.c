// Unit length.c: training lengths in the configuration, of all eras.
#include "config/tables.h"

#include "base/assert.h"

static const enum length_unit named_units[] = {LENGTH_BATCHES, LENGTH_RECORDS, LENGTH_EPOCHS};

static bool read_amount(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                        int64_t *out)
{
    int64_t least = f->min > 0 ? 1 : 0, amount;
    if (doc_integer(value, &amount) && amount >= least) {
        *out = amount;
        return true;
    }
    field_error(ctx, value, "must be an integer of at least %lld, found %s", (long long)least,
                field_show(ctx, value));
    return false;
}

static void read_length_map(struct field_ctx *ctx, const struct field *f, const struct doc *map,
                            struct length *out)
{
    const struct doc *entry = NULL;
    size_t n = 0;
    for (const struct doc *e = map->first; e; e = e->next) {
        if (e->kind == DOC_NULL) continue;
        entry = e;
        n++;
    }
    for (size_t i = 0; n == 1 && i < STATIC_LEN(named_units); i++) {
        if (!str_eqz(entry->key, length_unit_name(named_units[i]))) continue;
        struct field_path path = field_at_key(ctx, entry->key);
        ctx->path = &path;
        if (read_amount(ctx, f, entry, &out->amount)) out->unit = named_units[i];
        ctx->path = path.up;
        return;
    }
    if (n == 1)
        field_error(ctx, map, "must have one of batches, records, epochs, found '%.60s'",
                    entry->key.ptr);
    else
        field_error(ctx, map, "must have exactly one of batches, records, epochs, found %zu keys",
                    n);
}

static void read_length(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                        void *member)
{
    struct length *out = member;
    double number;
    if (value->kind == DOC_MAP)
        read_length_map(ctx, f, value, out);
    else if (!doc_number(value, &number))
        field_error(ctx, value, "must be a length such as {batches: 100}, found %s",
                    field_show(ctx, value));
    else if (read_amount(ctx, f, value, &out->amount))
        out->unit = LENGTH_UNITS;
}

static struct doc *write_length(struct arena *arena, const void *member)
{
    const struct length *l = member;
    if (l->unit == LENGTH_NONE || l->unit == LENGTH_TIME) return doc_new(arena, DOC_NULL);
    struct doc *amount = doc_new_int(arena, l->amount);
    if (l->unit == LENGTH_UNITS) return amount;
    struct doc *map = doc_new(arena, DOC_MAP);
    doc_set(map, str_from(length_unit_name(l->unit)), amount);
    return map;
}

const struct field_codec length_codec = {
    .size = sizeof(struct length),
    .syntax = "one of {batches: N}, {records: N}, {epochs: N}, or a number",
    .read = read_length,
    .write = write_length,
};

static void read_time(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                      void *member)
{
    struct length *out = member;
    if (out->unit != LENGTH_NONE)
        field_error(ctx, value, "max_length is set already; use one of them");
    else if (read_amount(ctx, f, value, &out->amount))
        out->unit = LENGTH_TIME;
}

static struct doc *write_time(struct arena *arena, const void *member)
{
    const struct length *l = member;
    return l->unit == LENGTH_TIME ? doc_new_int(arena, l->amount) : doc_new(arena, DOC_NULL);
}

const struct field_codec max_time_codec = {
    .size = sizeof(struct length),
    .syntax = "an integer",
    .read = read_time,
    .write = write_time,
};

static const struct doc *steps(struct field_ctx *ctx, const struct doc *value, int64_t least,
                               int64_t most)
{
    const struct config_ctx *config = ctx->user;
    int64_t n, batches;
    bool good = doc_integer(value, &n) && n >= least && n <= most &&
                !__builtin_mul_overflow(n, config->batches_per_step, &batches);
    if (!good) {
        field_error(ctx, value, "must be a number of steps, from %lld to %lld, found %s",
                    (long long)least, (long long)most, field_show(ctx, value));
        return NULL;
    }
    struct doc *map = doc_new(ctx->arena, DOC_MAP), *amount = doc_new_int(ctx->arena, batches);
    map->pos = amount->pos = value->pos;
    doc_set(map, STR("batches"), amount);
    return map;
}

enum { STEPS_MAX = 1000000000, STEP_BUDGET_MAX = 50000 };

const struct doc *convert_steps(struct field_ctx *ctx, const struct doc *value)
{
    return steps(ctx, value, 1, STEPS_MAX);
}

const struct doc *convert_step_budget(struct field_ctx *ctx, const struct doc *value)
{
    return steps(ctx, value, 1, STEP_BUDGET_MAX);
}

const struct doc *convert_period(struct field_ctx *ctx, const struct doc *value)
{
    double number;
    return doc_number(value, &number) ? steps(ctx, value, 0, STEPS_MAX) : value;
}
