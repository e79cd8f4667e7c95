// Unit csv.c: tables of numbers as text (RFC 4180): the rows become samples in memory.
#include "data/data.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/fs.h"
#include "tensor/tensor.h"
#include <math.h>

enum { FIELD_MAX = 4096, COLUMNS_MAX = 1 << 20 };

// --- fields

struct reader {
    struct str rest;
    char separator;
    int64_t line;     // of what comes next, from 1
    struct buf field; // the last one, without its quotes
    det_err *err;
};

static int fail_at(const struct reader *r, int code, int64_t column, const char *what)
{
    return det_fail(r->err, code, "line %lld, column %lld: %s", (long long)r->line,
                    (long long)column + 1, what);
}

static void skip(struct reader *r, size_t n)
{
    r->rest.ptr += n;
    r->rest.len -= n;
}

static char peek(const struct reader *r)
{
    return r->rest.len ? r->rest.ptr[0] : '\n';
}

// Text up to the quote that ends it; two quotes stand for one.
static int read_quoted(struct reader *r, int64_t column)
{
    skip(r, 1);
    for (;;) {
        const char *quote = r->rest.len ? memchr(r->rest.ptr, '"', r->rest.len) : NULL;
        if (!quote) return fail_at(r, DET_ECORRUPT, column, "the quotes are not closed");
        size_t n = (size_t)(quote - r->rest.ptr);
        for (size_t i = 0; i < n; i++)
            r->line += r->rest.ptr[i] == '\n';
        buf_add(&r->field, r->rest.ptr, n);
        skip(r, n + 1);
        if (!r->rest.len || peek(r) != '"') return 0;
        buf_addc(&r->field, '"');
        skip(r, 1);
    }
}

static bool at_line_end(const struct reader *r)
{
    return peek(r) == '\n' || (peek(r) == '\r' && (r->rest.len < 2 || r->rest.ptr[1] == '\n'));
}

static void skip_line_end(struct reader *r)
{
    if (r->rest.len && peek(r) == '\r') skip(r, 1);
    if (r->rest.len) skip(r, 1);
    r->line++;
}

// The next field, into r->field. *last: the record ends with it.
static int read_field(struct reader *r, int64_t column, bool *last)
{
    buf_clear(&r->field);
    r->field.overflowed = false;
    if (peek(r) == '"' && r->rest.len) {
        int rc = read_quoted(r, column);
        if (rc) return rc;
    } else {
        size_t n = 0;
        while (n < r->rest.len && r->rest.ptr[n] != r->separator && r->rest.ptr[n] != '\n')
            n++;
        if (n && r->rest.ptr[n - 1] == '\r' && (n == r->rest.len || r->rest.ptr[n] == '\n')) n--;
        buf_add(&r->field, r->rest.ptr, n);
        skip(r, n);
    }
    if (!buf_ok(&r->field))
        return fail_at(r, DET_ELIMIT, column, "a field of more than 4096 bytes");
    *last = at_line_end(r);
    if (*last) return 0;
    if (peek(r) != r->separator)
        return fail_at(r, DET_ECORRUPT, column, "something follows the closing quotes");
    skip(r, 1);
    return 0;
}

static bool at_end(struct reader *r) // blank lines are nothing
{
    while (r->rest.len && at_line_end(r))
        skip_line_end(r);
    return !r->rest.len;
}

// --- the table

struct table {
    int64_t n_columns, target; // target: its column, or -1
    int64_t n_rows, room;
    struct storage *features, *target_f32, *target_i64;
    bool all_integers;
};

// Counts the columns of the first record and looks for the target among their names.
static int read_names(struct reader *r, const det_csv_opts *opts, struct table *t)
{
    struct reader ahead = *r;
    ahead.field = BUF_INIT(FIELD_MAX);
    bool last = false;
    int rc = 0;
    t->target = -1;
    for (t->n_columns = 0; !rc && !last; t->n_columns++) {
        if (t->n_columns == COLUMNS_MAX)
            rc = fail_at(r, DET_ELIMIT, COLUMNS_MAX, "too many columns");
        if (!rc) rc = read_field(&ahead, t->n_columns, &last);
        struct buf number = BUF_INIT(32);
        buf_add_int(&number, t->n_columns);
        struct str name = opts->no_header ? buf_str(&number) : buf_str(&ahead.field);
        if (!rc && opts->target && t->target < 0 && str_eqz(name, opts->target))
            t->target = t->n_columns;
        buf_done(&number);
    }
    if (!rc && opts->target && t->target < 0)
        rc = det_fail(r->err, DET_ENOTFOUND, "there is no column '%s' among the %lld of line %lld",
                      opts->target, (long long)t->n_columns, (long long)r->line);
    if (!rc && !opts->no_header) {
        r->rest = ahead.rest;
        r->line = ahead.line;
    }
    buf_done(&ahead.field);
    return rc;
}

// Room for all records that can follow: one takes at least two bytes per column, but for the last.
static int allocate(const struct reader *r, struct table *t)
{
    int64_t n_features = t->n_columns - (t->target >= 0);
    t->room = ((int64_t)r->rest.len + 1) / (2 * t->n_columns) + 1;
    t->features = storage_new((size_t)(t->room * n_features) * sizeof(float));
    if (t->target >= 0) {
        t->target_f32 = storage_new((size_t)t->room * sizeof(float));
        t->target_i64 = storage_new((size_t)t->room * sizeof(int64_t));
    }
    t->all_integers = true;
    if (t->features && (t->target < 0 || (t->target_f32 && t->target_i64))) return 0;
    return det_fail(r->err, DET_ENOMEM, "no memory for %lld rows of %lld columns",
                    (long long)t->room, (long long)t->n_columns);
}

static struct str trimmed(struct str s)
{
    while (s.len && (*s.ptr == ' ' || *s.ptr == '\t'))
        s = (struct str){s.ptr + 1, s.len - 1};
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

// The number in r->field.
static int read_number(struct reader *r, int64_t column, float *out)
{
    struct str text = trimmed(buf_str(&r->field));
    double value;
    if (!number_to_double(text, &value) || !isfinite((float)value))
        return det_fail(r->err, DET_ECORRUPT, "line %lld, column %lld: '%.*s' is no number%s",
                        (long long)r->line, (long long)column + 1, (int)MIN(text.len, 60u),
                        text.ptr ? text.ptr : "", text.len ? " that f32 can hold" : "");
    *out = (float)value;
    return 0;
}

static int read_row(struct reader *r, struct table *t)
{
    int64_t n_features = t->n_columns - (t->target >= 0);
    float *features = (float *)storage_data(t->features) + t->n_rows * n_features, number = 0;
    bool last = false;
    int64_t column = 0;
    for (; !last; column++) {
        if (column == t->n_columns) return fail_at(r, DET_ECORRUPT, column, "one field too many");
        int rc = read_field(r, column, &last);
        if (!rc) rc = read_number(r, column, &number);
        if (rc) return rc;
        if (column != t->target) {
            *features++ = number;
            continue;
        }
        ((float *)storage_data(t->target_f32))[t->n_rows] = number;
        t->all_integers =
            t->all_integers && number_to_int(trimmed(buf_str(&r->field)), 10,
                                             (int64_t *)storage_data(t->target_i64) + t->n_rows);
    }
    if (column < t->n_columns)
        return fail_at(r, DET_ECORRUPT, column, "the record ends before its last field");
    t->n_rows++;
    return 0;
}

static det_tensor *column_tensor(struct storage *s, det_dtype dtype, int64_t n, int64_t width)
{
    struct tensor_layout layout = {.dtype = dtype,
                                   .ndim = width < 0 ? 1 : 2,
                                   .shape = {n, width},
                                   .stride = {width < 0 ? 1 : MAX(width, 1), 1}};
    return tensor_over(s, &layout);
}

int csv_parse(struct str text, const det_csv_opts *opts, struct csv *out, det_err *err)
{
    det_err own;
    struct table t = {0};
    struct reader r = {.rest = text,
                       .separator = opts->separator ? opts->separator : ',',
                       .line = 1,
                       .field = BUF_INIT(FIELD_MAX),
                       .err = err ? err : &own};
    if (str_starts(text, STR("\xef\xbb\xbf"))) skip(&r, 3); // a byte order mark
    int rc = 0;
    if (strchr("\"\r\n", r.separator))
        rc = det_fail(r.err, DET_EINVAL, "a quote or a line end cannot be the separator");
    else if (at_end(&r))
        rc = det_fail(r.err, DET_ECORRUPT, "the file is empty");
    if (!rc) rc = read_names(&r, opts, &t);
    if (!rc) rc = allocate(&r, &t);
    while (!rc && !at_end(&r))
        rc = read_row(&r, &t);
    if (!rc) {
        int64_t n_features = t.n_columns - (t.target >= 0);
        out->features = column_tensor(t.features, DET_F32, t.n_rows, n_features);
        out->target = NULL;
        if (t.target >= 0)
            out->target = t.all_integers ? column_tensor(t.target_i64, DET_I64, t.n_rows, -1)
                                         : column_tensor(t.target_f32, DET_F32, t.n_rows, -1);
    }
    storage_unref(t.features);
    storage_unref(t.target_f32);
    storage_unref(t.target_i64);
    buf_done(&r.field);
    return rc;
}

det_dataset *det_dataset_csv_with(const char *path, det_csv_opts opts)
{
    det_err err;
    struct csv csv = {0};
    struct str map = {0};
    int rc = path ? fs_map(path, &map, &err) : det_fail(&err, DET_EINVAL, "the path is NULL");
    if (!rc && (rc = csv_parse(map, &opts, &csv, &err))) det_wrap(&err, "'%s'", path);
    fs_unmap(map);
    if (rc) {
        det_raise(rc, "det_dataset_csv: %s", err.msg);
        return NULL;
    }
    det_tensor *const tensors[] = {csv.features, csv.target};
    det_dataset *d = det_dataset_tensors(tensors, csv.target ? 2 : 1);
    det_unref(csv.features);
    det_unref(csv.target);
    return d;
}
