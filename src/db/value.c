// Unit value.c: fields of records as values of a database, and back.
#include "db/backend.h"

#include "base/assert.h"
#include "base/buf.h"
#include "doc/json.h"

enum { JSON_MAX = 64 << 20 };

struct str json_text(const struct doc *doc, struct arena *a)
{
    struct buf out = BUF_INIT(JSON_MAX);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_put_doc(&w, doc);
    struct str text = {arena_strndup(a, buf_str(&out).ptr, out.len), out.len};
    buf_done(&out);
    return text;
}

static struct value value_int(int64_t x)
{
    return (struct value){.kind = VALUE_INT, .integer = x};
}

static struct value value_real(double x)
{
    return (struct value){.kind = VALUE_REAL, .real = x};
}

static struct value value_text(struct str s)
{
    return (struct value){.kind = s.ptr ? VALUE_TEXT : VALUE_NULL, .bytes = s};
}

// A list of texts or a map, as JSON.
static struct value value_json(const struct field *f, const void *member, struct arena *a)
{
    const struct doc *doc;
    if (f->type == FIELD_MAP) {
        memcpy(&doc, member, sizeof doc);
    } else {
        const struct field_table one = {.fields = f, .n = 1};
        doc = field_write(a, &one, (const char *)member - f->offset, false)->first;
    }
    return doc ? value_text(json_text(doc, a)) : (struct value){0};
}

struct value value_of(const struct field *f, const void *record, struct arena *a)
{
    const void *member = (const char *)record + f->offset;
    switch (f->type) {
    case FIELD_BOOL:
        return value_int(*(const bool *)member);
    case FIELD_INT:
        return value_int(*(const int64_t *)member);
    case FIELD_OPT_INT: {
        const struct opt_int *opt = member;
        return opt->is_set ? value_int(opt->value) : (struct value){0};
    }
    case FIELD_DOUBLE:
        return value_real(*(const double *)member);
    case FIELD_STR: {
        const char *text = *(const char *const *)member;
        return value_text(str_from(text ? arena_strdup(a, text) : NULL));
    }
    case FIELD_ENUM:
        return value_text(str_from(f->values[*(const int *)member]));
    case FIELD_LIST:
    case FIELD_MAP:
        return value_json(f, member, a);
    case FIELD_CODEC:
        if (f->codec == &timestamp_codec) return value_int(*(const int64_t *)member);
        ASSERT(f->codec == &value_codec);
        return value_real(*(const double *)member);
    default:
        ASSERT(!"a field that is no column");
        return (struct value){0};
    }
}

static int read_enum(const struct field *f, struct str text, int *out, det_err *err)
{
    for (int i = 0; f->values[i]; i++) {
        if (!str_eqz(text, f->values[i])) continue;
        *out = i;
        return 0;
    }
    det_fail(err, DET_ECORRUPT, "the database is damaged: %s is '%.*s', which is not known",
             f->name, (int)MIN(text.len, 40), text.ptr ? text.ptr : "");
    return backend_clean(err, DET_ECORRUPT);
}

static int read_json(const struct field *f, struct str text, struct arena *a, void *member,
                     det_err *err)
{
    const struct json_opts opts = {.source = f->name, .max_bytes = JSON_MAX};
    struct diag_list diags = DIAG_INIT(a);
    if (!text.ptr) return 0;
    struct doc *doc = json_parse(a, text, &opts, &diags);
    if (doc && f->type == FIELD_MAP && doc->kind == DOC_MAP) {
        memcpy(member, &doc, sizeof doc);
        return 0;
    }
    if (doc && f->type == FIELD_LIST) {
        const struct field_table one = {.fields = f, .n = 1};
        struct doc *map = doc_new(a, DOC_MAP);
        struct field_ctx ctx = {.arena = a, .diags = &diags};
        doc_set(map, str_from(f->name), doc);
        field_read(&ctx, &one, map, (char *)member - f->offset);
        if (!diags.n_errors) return 0;
    }
    return det_fail(err, DET_ECORRUPT, "the database is damaged: %s is no JSON", f->name);
}

static int read_column(const struct rows *r, int column, const struct field *f, struct arena *a,
                       void *member, det_err *err)
{
    switch (f->type) {
    case FIELD_BOOL:
        *(bool *)member = rows_int(r, column) != 0;
        return 0;
    case FIELD_INT:
        *(int64_t *)member = rows_int(r, column);
        return 0;
    case FIELD_OPT_INT:
        *(struct opt_int *)member = (struct opt_int){!rows_is_null(r, column), rows_int(r, column)};
        return 0;
    case FIELD_DOUBLE:
        *(double *)member = rows_real(r, column);
        return 0;
    case FIELD_STR:
        *(const char **)member = rows_text(r, column, a);
        return 0;
    case FIELD_ENUM:
        return read_enum(f, rows_bytes(r, column), member, err);
    case FIELD_LIST:
    case FIELD_MAP:
        return read_json(f, rows_bytes(r, column), a, member, err);
    default:
        if (f->codec == &timestamp_codec)
            *(int64_t *)member = rows_int(r, column);
        else
            *(double *)member = rows_value(r, column);
        return 0;
    }
}

int record_read(const struct rows *r, const struct table *t, struct arena *a, void *out,
                det_err *err)
{
    memset(out, 0, t->fields->size);
    for (size_t i = 0; i < t->fields->n; i++) {
        const struct field *f = &t->fields->fields[i];
        int rc = read_column(r, (int)i, f, a, (char *)out + f->offset, err);
        if (rc) return det_wrap(err, "table %s", t->name);
    }
    return 0;
}
