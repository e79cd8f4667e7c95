// Unit show.c: tables, records and documents on standard output.
#include "cli/show.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/number.h"
#include "base/utf8.h"
#include "doc/yaml.h"
#include "entity/entity.h"
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MAX_OUTPUT = 256 << 20, NARROWEST = 6, GAP = 2 };

#define TIME_FORMAT "%Y-%m-%d %H:%M:%S %Z"

// --- values

static void show_json(struct buf *out, const struct doc *value)
{
    struct json_writer w;
    json_init(&w, out, 0);
    json_put_doc(&w, value);
}

static void show_bytes(struct buf *out, double n)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t u = 0;
    for (; n >= 1000 && u + 1 < STATIC_LEN(units); u++)
        n /= 1000;
    buf_printf(out, u ? "%.1f %s" : "%.0f %s", n, units[u]);
}

// "2026-01-31 11:20:30 CET": as clocks show it where the user is. False if it is no time.
static bool show_time(struct buf *out, struct str text)
{
    int64_t us;
    det_err err;
    struct tm local;
    char shown[64];
    if (time_parse(text.ptr, &us, &err)) return false;
    const time_t seconds = (time_t)(us / 1000000);
    if (!localtime_r(&seconds, &local)) return false;
    size_t n = strftime(shown, sizeof shown, TIME_FORMAT, &local);
    buf_add(out, shown, n);
    return n > 0;
}

static void show_text(struct buf *out, struct str text, enum show_as as)
{
    struct str state = str_from("STATE_");
    if (as == SHOW_TIME && show_time(out, text)) return;
    if (as == SHOW_STATE && str_starts(text, state))
        text = (struct str){text.ptr + state.len, text.len - state.len};
    safe_add(out, text, SAFE_LINE);
}

// "a, b" for a list, "x=1 y=2" for a map; what is inside of these as JSON.
static void show_members(struct buf *out, const struct doc *value)
{
    const char *gap = value->kind == DOC_MAP ? " " : ", ";
    for (const struct doc *e = value->first; e; e = e->next) {
        if (e != value->first) buf_addz(out, gap);
        if (value->kind == DOC_MAP) {
            safe_add(out, e->key, SAFE_LINE);
            buf_addc(out, '=');
        }
        if (e->kind == DOC_MAP || e->kind == DOC_LIST)
            show_json(out, e);
        else
            show_value(out, e, SHOW_PLAIN);
    }
}

void show_value(struct buf *out, const struct doc *value, enum show_as as)
{
    double number;
    if (!value || value->kind == DOC_NULL)
        buf_addz(out, "");
    else if (value->kind == DOC_STR)
        show_text(out, value->text, as);
    else if (as == SHOW_PERCENT && doc_number(value, &number))
        buf_printf(out, "%.0f %%", 100 * number);
    else if (as == SHOW_BYTES && doc_number(value, &number))
        show_bytes(out, number);
    else if (value->kind == DOC_DOUBLE)
        buf_printf(out, "%.6g", value->number);
    else if (value->kind == DOC_BOOL)
        buf_addz(out, value->boolean ? "yes" : "no");
    else if (value->kind == DOC_MAP || value->kind == DOC_LIST)
        show_members(out, value);
    else
        show_json(out, value);
}

static const struct doc *member(const struct doc *record, const char *key)
{
    char name[64];
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        ASSERT((size_t)(dot - key) < sizeof name);
        memcpy(name, key, (size_t)(dot - key));
        name[dot - key] = 0;
        record = doc_find(record, name);
    }
    return doc_find(record, key);
}

// --- formats

static int print_doc(const struct doc *doc, bool json)
{
    struct buf out = BUF_INIT(MAX_OUTPUT);
    if (json) {
        struct json_writer w;
        json_init(&w, &out, 2);
        json_put_doc(&w, doc);
        buf_addc(&out, '\n');
    } else {
        yaml_write(doc, &out);
    }
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}

int show_doc(const struct call *call, const struct doc *doc)
{
    return print_doc(doc, call_option(call, "json"));
}

// A spreadsheet computes what begins like this, and a computation can call programs and send data
// away. An apostrophe in front makes it text.
static bool is_formula(struct str text)
{
    double number;
    if (!text.len || !memchr("=+-@\t\r", text.ptr[0], 6)) return false;
    return !number_to_double(text, &number) && !str_eqz(text, "-Infinity");
}

static void csv_field(struct buf *out, struct str text)
{
    bool quote = false;
    for (size_t i = 0; i < text.len; i++)
        quote |= text.ptr[i] == ',' || text.ptr[i] == '"' || text.ptr[i] == '\n';
    if (quote) buf_addc(out, '"');
    if (is_formula(text)) buf_addc(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"') buf_addc(out, '"');
        buf_addc(out, text.ptr[i]);
    }
    if (quote) buf_addc(out, '"');
}

void show_csv_value(struct buf *out, const struct doc *value)
{
    if (value && value->kind == DOC_STR)
        buf_add(out, value->text.ptr, value->text.len);
    else if (value && value->kind != DOC_NULL)
        show_json(out, value);
}

void show_csv_line(struct buf *out, const struct str *cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i) buf_addc(out, ',');
        csv_field(out, cells[i]);
    }
    buf_addz(out, "\r\n");
}

static int print_csv(const struct doc *list, const struct column *columns, size_t n)
{
    struct buf out = BUF_INIT(MAX_OUTPUT);
    for (size_t i = 0; i < n; i++) {
        if (i) buf_addc(&out, ',');
        csv_field(&out, str_from(columns[i].key));
    }
    buf_addz(&out, "\r\n");
    for (const struct doc *row = list->first; row; row = row->next) {
        for (size_t i = 0; i < n; i++) {
            struct buf cell = BUF_INIT(MAX_OUTPUT);
            show_csv_value(&cell, member(row, columns[i].key));
            if (i) buf_addc(&out, ',');
            csv_field(&out, buf_str(&cell));
            buf_done(&cell);
        }
        buf_addz(&out, "\r\n");
    }
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}

// --- tables

static size_t text_width(struct str s)
{
    size_t n = 0;
    for (; s.len; n++)
        utf8_next(&s);
    return n;
}

size_t show_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
        return SIZE_MAX;
    return size.ws_col;
}

// --- tables that fit: times without year and seconds, shorter texts, fewer columns, in this order

enum { CUT_MIN = 12 };

struct table {
    const struct column *columns;
    size_t n, n_rows; // the first row has the titles
    struct str *cell; // n of each row
    size_t width[SHOW_MAX_COLUMNS];
    bool dropped[SHOW_MAX_COLUMNS];
};

static void measure(struct table *t)
{
    memset(t->width, 0, sizeof t->width);
    for (size_t at = 0; at < t->n * t->n_rows; at++)
        t->width[at % t->n] = MAX(t->width[at % t->n], text_width(t->cell[at]));
}

static size_t total_width(const struct table *t)
{
    size_t total = 0;
    for (size_t i = 0; i < t->n; i++)
        if (!t->dropped[i]) total += t->width[i] + (total ? GAP : 0);
    return total;
}

// "2026-11-16 18:31:56 CET" -> "11-16 18:31 CET"
static void shorten_times(struct table *t, struct arena *arena)
{
    enum { MONTH_AT = 5, SECONDS_AT = 16, ZONE_AT = 19 };
    for (size_t at = t->n; at < t->n * t->n_rows; at++) {
        const char *text = t->cell[at].ptr;
        if (t->columns[at % t->n].as == SHOW_TIME && t->cell[at].len > ZONE_AT)
            t->cell[at] = str_from(arena_printf(arena, "%.*s%s", SECONDS_AT - MONTH_AT,
                                                text + MONTH_AT, text + ZONE_AT));
    }
    measure(t);
}

// Takes from the widest of the columns that may be cut (or of all) until all fit or none is wider.
static void cut(struct table *t, size_t room, bool all, size_t min)
{
    while (total_width(t) > room) {
        size_t widest = t->n;
        for (size_t i = 0; i < t->n; i++)
            if (!t->dropped[i] && (all || t->columns[i].cut) && t->width[i] > min &&
                (widest == t->n || t->width[i] > t->width[widest]))
                widest = i;
        if (widest == t->n) return;
        t->width[widest]--;
    }
}

static bool drop_one(struct table *t)
{
    size_t last = t->n;
    for (size_t i = 0; i < t->n; i++)
        if (t->columns[i].drop && !t->dropped[i] &&
            (last == t->n || t->columns[i].drop > t->columns[last].drop))
            last = i;
    if (last < t->n) t->dropped[last] = true;
    return last < t->n;
}

static void fit(struct table *t, struct arena *arena)
{
    size_t room = show_width();
    measure(t);
    if (total_width(t) > room) shorten_times(t, arena);
    cut(t, room, false, CUT_MIN);
    while (total_width(t) > room && drop_one(t)) {
        measure(t);
        cut(t, room, false, CUT_MIN);
    }
    cut(t, room, true, NARROWEST);
}

static void add_cell(struct buf *out, struct str text, size_t width)
{
    size_t n = text_width(text);
    struct str rest = text;
    if (n > width) {
        for (size_t i = 0; i + 1 < width; i++)
            utf8_next(&rest);
        buf_add(out, text.ptr, text.len - rest.len);
        buf_addz(out, "\u2026");
        n = width;
    } else {
        buf_add(out, text.ptr, text.len);
    }
    for (; n < width + GAP; n++)
        buf_addc(out, ' ');
}

static void fill_cells(struct table *t, const struct doc *list, struct arena *arena)
{
    size_t at = 0;
    for (size_t i = 0; i < t->n; i++)
        t->cell[at++] = str_from(t->columns[i].title);
    for (const struct doc *row = list->first; row; row = row->next)
        for (size_t i = 0; i < t->n; i++, at++) {
            struct buf text = BUF_INIT(MAX_OUTPUT);
            show_value(&text, member(row, t->columns[i].key), t->columns[i].as);
            t->cell[at] =
                (struct str){arena_strndup(arena, buf_str(&text).ptr, text.len), text.len};
            buf_done(&text);
        }
}

// As wide as the parts before, or wider where nothing may be cut; without the titles.
static void go_on(struct table *t, struct show_parts *parts)
{
    for (size_t i = 0; i < t->n && parts->began; i++) {
        bool may_grow = !t->columns[i].cut && t->width[i] > parts->width[i];
        if (!may_grow) t->width[i] = parts->width[i];
    }
    if (parts->began) memcpy(t->dropped, parts->dropped, sizeof t->dropped);
    memcpy(parts->width, t->width, sizeof t->width);
    memcpy(parts->dropped, t->dropped, sizeof t->dropped);
}

static int print_table(const struct doc *list, const struct column *columns, size_t n,
                       struct show_parts *parts)
{
    struct arena arena = ARENA_INIT;
    struct table t = {.columns = columns, .n = n, .n_rows = list->n + 1};
    ASSERT(n > 0 && n <= SHOW_MAX_COLUMNS);
    t.cell = arena_array(&arena, t.n_rows * n, sizeof *t.cell);
    fill_cells(&t, list, &arena);
    fit(&t, &arena);
    go_on(&t, parts);
    struct buf out = BUF_INIT(MAX_OUTPUT);
    for (size_t at = parts->began ? n : 0; at < t.n_rows * n; at++) {
        if (!t.dropped[at % n]) add_cell(&out, t.cell[at], t.width[at % n]);
        if (at % n + 1 < n) continue;
        while (out.len && out.ptr[out.len - 1] == ' ')
            out.len--;
        buf_addc(&out, '\n');
    }
    print_data(buf_str(&out));
    buf_done(&out);
    arena_done(&arena);
    return EXIT_OK;
}

int show_list(const struct call *call, const struct doc *list, const struct column *columns,
              size_t n)
{
    if (call_option(call, "json")) return print_doc(list, true);
    if (call_option(call, "yaml")) return print_doc(list, false);
    if (call_option(call, "csv")) return print_csv(list, columns, n);
    return print_table(list, columns, n, &(struct show_parts){.began = false});
}

static void print_json_part(struct show_parts *parts, const struct doc *list)
{
    if (!parts->w.out) {
        parts->json = BUF_INIT(MAX_OUTPUT);
        json_init(&parts->w, &parts->json, 2);
        json_open_list(&parts->w);
    }
    for (const struct doc *row = list ? list->first : NULL; row; row = row->next)
        json_put_doc(&parts->w, row);
    if (!list) {
        json_close(&parts->w);
        buf_addc(&parts->json, '\n');
    }
    print_data(buf_str(&parts->json));
    buf_clear(&parts->json);
    if (!list) buf_done(&parts->json);
}

void show_part(const struct call *call, struct show_parts *parts, const struct doc *list,
               const struct column *columns, size_t n)
{
    const struct doc none = {.kind = DOC_LIST};
    if (call_option(call, "json"))
        print_json_part(parts, list);
    else if (!list && !parts->began) // nothing came
        show_list(call, &none, columns, n);
    else if (list && list->n && call_option(call, "yaml"))
        print_doc(list, false);
    else if (list && list->n)
        print_table(list, columns, n, parts);
    parts->began = parts->began || (list && list->n);
}

static void put_line(struct buf *out, int width, const struct column *column,
                     const struct doc *value)
{
    struct buf text = BUF_INIT(MAX_OUTPUT);
    show_value(&text, value, column->as);
    if (text.len) buf_printf(out, "%-*s  %s\n", width, column->title, buf_str(&text).ptr);
    buf_done(&text);
}

int show_record(const struct call *call, const struct doc *record, const struct column *columns,
                size_t n)
{
    if (call_option(call, "json")) return print_doc(record, true);
    if (call_option(call, "yaml")) return print_doc(record, false);
    if (call_option(call, "csv")) {
        struct doc one = *record, list = {.kind = DOC_LIST, .first = &one, .last = &one, .n = 1};
        one.next = NULL;
        return print_csv(&list, columns, n);
    }
    struct buf out = BUF_INIT(MAX_OUTPUT);
    int width = 0;
    for (size_t i = 0; i < n; i++)
        width = MAX(width, (int)strlen(columns[i].title));
    for (size_t i = 0; i < n; i++) {
        const struct doc *value = member(record, columns[i].key);
        bool lines = columns[i].as == SHOW_LINES && value && value->kind == DOC_LIST;
        if (!lines) put_line(&out, width, &columns[i], value);
        for (const struct doc *e = lines ? value->first : NULL; e; e = e->next)
            put_line(&out, width, &columns[i], e);
    }
    print_data(buf_str(&out));
    buf_done(&out);
    return EXIT_OK;
}
