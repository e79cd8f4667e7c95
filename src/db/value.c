// Unit value.c: fields of records as values of SQLite, and back.
#include "db/sqlite.h"

#include "base/assert.h"
#include "base/buf.h"
#include "doc/json.h"
#include <math.h>

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

int value_bind(sqlite3_stmt *s, int index, const struct value *v)
{
    switch (v->kind) {
    case VALUE_INT:
        return sqlite3_bind_int64(s, index, v->integer);
    case VALUE_REAL:
        return sqlite3_bind_double(s, index, v->real);
    case VALUE_TEXT:
        return sqlite3_bind_text64(s, index, v->bytes.ptr, v->bytes.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case VALUE_BLOB:
        return sqlite3_bind_blob64(s, index, v->bytes.ptr, v->bytes.len, SQLITE_STATIC);
    case VALUE_NULL:
        break;
    }
    return sqlite3_bind_null(s, index);
}

static struct value value_int(int64_t x)
{
    return (struct value){.kind = VALUE_INT, .integer = x};
}

static struct value value_real(double x) // SQLite stores a NaN as a null
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

const char *column_text(sqlite3_stmt *s, int column, struct arena *a)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? arena_strndup(a, text, (size_t)sqlite3_column_bytes(s, column)) : NULL;
}

static int read_enum(const struct field *f, const char *text, int *out, det_err *err)
{
    for (int i = 0; f->values[i]; i++) {
        if (strcmp(f->values[i], text ? text : "") != 0) continue;
        *out = i;
        return 0;
    }
    det_fail(err, DET_ECORRUPT, "the database has %s '%.40s', which is not known", f->name,
             text ? text : "");
    return sqlite_clean(err, DET_ECORRUPT);
}

static int read_json(const struct field *f, const char *text, struct arena *a, void *member,
                     det_err *err)
{
    const struct json_opts opts = {.source = f->name, .max_bytes = JSON_MAX};
    struct diag_list diags = DIAG_INIT(a);
    if (!text) return 0;
    struct doc *doc = json_parse(a, str_from(text), &opts, &diags);
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
    return det_fail(err, DET_ECORRUPT, "the database has damaged JSON as %s", f->name);
}

static int read_column(sqlite3_stmt *s, int column, const struct field *f, struct arena *a,
                       void *member, det_err *err)
{
    bool null = sqlite3_column_type(s, column) == SQLITE_NULL;
    switch (f->type) {
    case FIELD_BOOL:
        *(bool *)member = sqlite3_column_int(s, column);
        return 0;
    case FIELD_INT:
        *(int64_t *)member = sqlite3_column_int64(s, column);
        return 0;
    case FIELD_OPT_INT:
        *(struct opt_int *)member = (struct opt_int){!null, sqlite3_column_int64(s, column)};
        return 0;
    case FIELD_DOUBLE:
        *(double *)member = sqlite3_column_double(s, column);
        return 0;
    case FIELD_STR:
        *(const char **)member = column_text(s, column, a);
        return 0;
    case FIELD_ENUM:
        return read_enum(f, (const char *)sqlite3_column_text(s, column), member, err);
    case FIELD_LIST:
    case FIELD_MAP:
        return read_json(f, (const char *)sqlite3_column_text(s, column), a, member, err);
    default:
        if (f->codec == &timestamp_codec)
            *(int64_t *)member = sqlite3_column_int64(s, column);
        else
            *(double *)member = null ? NAN : sqlite3_column_double(s, column);
        return 0;
    }
}

int record_read(sqlite3_stmt *s, const struct table *t, struct arena *a, void *out, det_err *err)
{
    memset(out, 0, t->fields->size);
    for (size_t i = 0; i < t->fields->n; i++) {
        const struct field *f = &t->fields->fields[i];
        int rc = read_column(s, (int)i, f, a, (char *)out + f->offset, err);
        if (rc) return det_wrap(err, "table %s", t->name);
    }
    return 0;
}
