// Unit field.c: what the routines on field tables share: finding rows, paths and messages.
#include "doc/field.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/number.h"

const struct field *field_find_row(const struct field *rows, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eqz(name, rows[i].name)) return &rows[i];
    return NULL;
}

const struct field_variant *field_variant_of(const struct field_table *table, const struct doc *map)
{
    const struct doc *tag = table->tag ? doc_find(map, table->tag) : NULL;
    for (size_t v = 0; tag && tag->kind == DOC_STR && v < table->n_variants; v++)
        if (str_eqz(tag->text, table->variants[v].tag)) return &table->variants[v];
    return NULL;
}

const struct field *field_find(const struct field_table *table, const struct doc *map,
                               struct str name)
{
    const struct field_variant *own = field_variant_of(table, map);
    const struct field *f = field_find_row(table->fields, table->n, name);
    if (!f && own) f = field_find_row(own->fields, own->n, name);
    for (size_t v = 0; !f && v < table->n_variants; v++)
        f = field_find_row(table->variants[v].fields, table->variants[v].n, name);
    return f;
}

struct field_path field_at_key(const struct field_ctx *ctx, struct str key)
{
    return (struct field_path){.up = ctx->path, .key = key};
}

struct field_path field_at_index(const struct field_ctx *ctx, size_t index)
{
    return (struct field_path){.up = ctx->path, .index = index};
}

static void add_path(const struct field_path *p, struct buf *out)
{
    if (!p) return;
    add_path(p->up, out);
    if (!p->key.ptr)
        buf_printf(out, "[%zu]", p->index);
    else
        buf_printf(out, "%s%.*s", out->len ? "." : "", (int)MIN(p->key.len, 60), p->key.ptr);
}

static void report(struct field_ctx *ctx, enum diag_level level, const struct doc *value,
                   const char *fmt, va_list args)
{
    struct buf path = BUF_INIT(4096);
    add_path(ctx->path, &path);
    struct doc_pos nowhere = {0};
    diag_vadd(ctx->diags, level, value ? value->pos : nowhere, buf_str(&path).ptr, fmt, args);
    buf_done(&path);
}

void field_error(struct field_ctx *ctx, const struct doc *value, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report(ctx, DIAG_ERROR, value, fmt, args);
    ctx->n_wrong++;
    va_end(args);
}

void field_missing(struct field_ctx *ctx, const struct doc *map, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report(ctx, DIAG_ERROR, map, fmt, args);
    if (ctx->diags->n_errors <= DIAG_MAX) ctx->diags->last->missing = true;
    ctx->n_wrong++;
    va_end(args);
}

void field_warn(struct field_ctx *ctx, const struct doc *value, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report(ctx, DIAG_WARNING, value, fmt, args);
    va_end(args);
}

const char *field_show(struct field_ctx *ctx, const struct doc *value)
{
    enum { SHOWN = 60 };
    struct buf b = BUF_INIT(256);
    if (value->kind == DOC_STR)
        buf_printf(&b, "'%.*s%s'", (int)MIN(value->text.len, SHOWN), value->text.ptr,
                   value->text.len > SHOWN ? "..." : "");
    else if (value->kind == DOC_BOOL)
        buf_addz(&b, value->boolean ? "true" : "false");
    else if (value->kind == DOC_INT)
        buf_add_int(&b, value->integer);
    else if (value->kind == DOC_DOUBLE)
        buf_printf(&b, "%.15g", value->number);
    else
        buf_addz(&b, doc_kind_name(value->kind));
    const char *shown = arena_strdup(ctx->arena, buf_str(&b).ptr);
    buf_done(&b);
    return shown;
}

size_t field_size(const struct field *f)
{
    static const size_t sizes[] = {[FIELD_BOOL] = sizeof(bool),
                                   [FIELD_TRI] = sizeof(enum tri),
                                   [FIELD_INT] = sizeof(int64_t),
                                   [FIELD_OPT_INT] = sizeof(struct opt_int),
                                   [FIELD_DOUBLE] = sizeof(double),
                                   [FIELD_STR] = sizeof(const char *),
                                   [FIELD_ENUM] = sizeof(int),
                                   [FIELD_LIST] = sizeof(struct field_list),
                                   [FIELD_MAP] = sizeof(const struct doc *)};
    if (f->type == FIELD_TABLE) return f->table->size;
    if (f->type == FIELD_CODEC) return f->codec->size;
    return sizes[f->type];
}
