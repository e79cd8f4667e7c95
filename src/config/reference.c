// Unit reference.c: what the field tables say, for people, as Markdown.
#include "config/tables.h"

#include "doc/field.h"
#include <math.h>

enum { MAX_PATH = 200 };

static bool is_shown(const struct field *f)
{
    return f->type != FIELD_IGNORED && f->type != FIELD_REFUSED;
}

// --- cells

static void put_text(struct buf *out, const char *text)
{
    for (; text && *text; text++)
        buf_printf(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void put_number(struct buf *out, double n)
{
    buf_printf(out, n == floor(n) ? "%.0f" : "%g", n);
}

static void put_range(struct buf *out, const struct field *f)
{
    if (f->min == 0 && f->max == 0) return;
    if (f->type == FIELD_CODEC) buf_addc(out, ',');
    buf_addz(out, f->open_min ? " above " : isinf(f->max) ? " from " : " ");
    put_number(out, f->min);
    if (!isinf(f->max)) {
        buf_addz(out, " to ");
        put_number(out, f->max);
    } else if (!f->open_min) {
        buf_addz(out, " on");
    }
}

static void put_values(struct buf *out, const char *const *values)
{
    const char *gap = "";
    for (; *values; values++) {
        if (!**values) continue;
        buf_printf(out, "%s`%s`", gap, *values);
        gap = ", ";
    }
}

static void put_type(struct buf *out, const struct field *f)
{
    static const char *const names[] = {
        [FIELD_BOOL] = "true or false",
        [FIELD_TRI] = "true or false",
        [FIELD_INT] = "integer",
        [FIELD_OPT_INT] = "integer",
        [FIELD_DOUBLE] = "number",
        [FIELD_STR] = "text",
        [FIELD_MAP] = "map",
        [FIELD_TABLE] = "section",
        [FIELD_OLD] = "",
        [FIELD_LIST] = "list of ",
        [FIELD_CODEC] = "",
        [FIELD_ENUM] = "",
        [FIELD_IGNORED] = "",
        [FIELD_REFUSED] = "",
    };
    buf_addz(out, names[f->type]);
    if (f->type == FIELD_ENUM) put_values(out, f->values);
    if (f->type == FIELD_CODEC) put_text(out, f->codec->syntax);
    if (f->type == FIELD_LIST) put_type(out, f->item);
    if (f->type == FIELD_OLD) buf_printf(out, "see `%s`", f->into);
    put_range(out, f);
}

static void put_row(struct buf *out, const struct field *f)
{
    buf_printf(out, "| `%s` | ", f->name);
    put_type(out, f);
    buf_addz(out, " | ");
    if (f->required)
        buf_addz(out, "required");
    else if (f->def && *f->def)
        buf_printf(out, "`%s`", f->def);
    buf_addz(out, " | ");
    put_text(out, f->help);
    if (f->no_effect) buf_addz(out, " *No effect here:* ");
    put_text(out, f->no_effect);
    buf_addz(out, " |\n");
}

// --- sections

static void put_rows(struct buf *out, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_shown(&fields[i])) put_row(out, &fields[i]);
}

static void put_head(struct buf *out)
{
    buf_addz(out, "\n| key | value | default | meaning |\n|---|---|---|---|\n");
}

static void put_tag(struct buf *out, const struct field_table *t)
{
    buf_printf(out, "| `%s` | ", t->tag);
    const char *gap = "";
    for (size_t i = 0; i < t->n_variants; i++) {
        if (!*t->variants[i].tag) continue;
        buf_printf(out, "%s`%s`", gap, t->variants[i].tag);
        gap = ", ";
    }
    buf_printf(out, " | %s | ", t->tag_optional ? "" : "required");
    put_text(out, t->tag_help);
    buf_addz(out, " |\n");
}

static void put_table(struct buf *out, const char *path, const struct field_table *t);

// The sections that rows of a section name.
static void put_inner(struct buf *out, const char *path, const struct field *fields, size_t n)
{
    char inner[MAX_PATH];
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        const struct field *item = f->type == FIELD_LIST ? f->item : f;
        if (!is_shown(f) || item->type != FIELD_TABLE) continue;
        snprintf(inner, sizeof inner, "%s%s%s%s", path, *path ? "." : "", f->name,
                 f->type == FIELD_LIST ? "[]" : "");
        put_table(out, inner, item->table);
    }
}

static void put_variants(struct buf *out, const char *path, const struct field_table *t)
{
    for (size_t i = 0; i < t->n_variants; i++) {
        const struct field_variant *v = &t->variants[i];
        if (!v->n) continue;
        buf_printf(out, "\n### `%s` with `%s: %s`\n", path, t->tag, v->tag);
        if (v->refused) buf_printf(out, "\n*Refused here:* %s.\n", v->refused);
        put_head(out);
        put_rows(out, v->fields, v->n);
    }
    for (size_t i = 0; i < t->n_variants; i++)
        put_inner(out, path, t->variants[i].fields, t->variants[i].n);
}

static void put_table(struct buf *out, const char *path, const struct field_table *t)
{
    if (*path) buf_printf(out, "\n## `%s`\n", path);
    put_head(out);
    if (t->tag) put_tag(out, t);
    put_rows(out, t->fields, t->n);
    if (t->tag) put_variants(out, path, t);
    put_inner(out, path, t->fields, t->n);
}

void config_reference(const struct field_table *table, struct buf *out)
{
    put_table(out, "", table);
}
