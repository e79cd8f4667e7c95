// Unit snap.c: saves and loads states. Called by snapshot.c and whatever has a state.
#include "search/snap.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

void snap_fail(struct snap *io, const char *fmt, ...)
{
    if (io->rc) return;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    io->rc = det_fail(io->err, DET_ECORRUPT, "the snapshot of the search is damaged: %s", text);
}

// The value at key; NULL after a failure.
static const struct doc *find(struct snap *io, const char *key, enum doc_kind kind)
{
    if (io->rc) return NULL;
    const struct doc *value = doc_find(io->map, key);
    if (!value || value->kind != kind) {
        snap_fail(io, "'%s' should be %s", key, doc_kind_name(kind));
        return NULL;
    }
    return value;
}

static void read_int(struct snap *io, const struct doc *doc, int64_t *value, int64_t min,
                     int64_t max)
{
    if (doc->kind == DOC_INT && doc->integer >= min && doc->integer <= max)
        *value = doc->integer;
    else
        snap_fail(io, "an integer from %lld to %lld is missing", (long long)min, (long long)max);
}

// Infinities are strings in JSON; other things that are no numbers never are in a state.
static void read_double(struct snap *io, const struct doc *doc, double *value)
{
    if (doc->kind == DOC_STR && str_eqz(doc->text, "Infinity"))
        *value = INFINITY;
    else if (!doc_number(doc, value))
        snap_fail(io, "a number is missing");
}

void snap_int(struct snap *io, const char *key, int64_t *value, int64_t min, int64_t max)
{
    if (io->out) {
        json_key(io->out, key);
        json_put_int(io->out, *value);
        return;
    }
    const struct doc *doc = find(io, key, DOC_INT);
    if (doc) read_int(io, doc, value, min, max);
}

void snap_double(struct snap *io, const char *key, double *value)
{
    snap_doubles(io, key, value, 1, sizeof *value);
}

// --- columns: [3, 4, [5, 1000]] is 3, 4 and a thousand times 5; most trials of a large search have
// much in common, and a snapshot is written after every event.

// How often an item counts; 0: it is none.
static size_t run_of(const struct doc *item, const struct doc **value)
{
    *value = item;
    if (item->kind != DOC_LIST) return 1;
    const struct doc *count = item->n == 2 ? item->first->next : NULL;
    *value = item->first;
    return count && count->kind == DOC_INT && count->integer > 0 ? (size_t)count->integer : 0;
}

size_t snap_n_items(const struct doc *list)
{
    size_t n = 0;
    const struct doc *value;
    for (const struct doc *e = list->first; e; e = e->next)
        if (__builtin_add_overflow(n, run_of(e, &value), &n)) return SIZE_MAX;
    return n;
}

// The list at key if it has n items; NULL after a failure.
static const struct doc *find_list(struct snap *io, const char *key, size_t n)
{
    const struct doc *list = find(io, key, DOC_LIST);
    if (list && snap_n_items(list) != n) {
        snap_fail(io, "'%s' has %zu items instead of %zu", key, snap_n_items(list), n);
        return NULL;
    }
    return list;
}

static size_t next_run(struct snap *io, const struct doc *item, const struct doc **value)
{
    size_t run = run_of(item, value);
    if (!run) snap_fail(io, "a list is not [value, count]");
    return run;
}

enum { CELL_BYTES = 8, RUN_MIN = 4 };

// Integers and numbers have the same size, and are the same if their bytes are.
static size_t count_equal(const char *at, size_t n, size_t stride)
{
    size_t i = 1;
    while (i < n && !memcmp(at, at + i * stride, CELL_BYTES))
        i++;
    return i < RUN_MIN ? 1 : i;
}

static void put_cell(struct json_writer *out, const char *at, bool real)
{
    if (real)
        json_put_double(out, *(const double *)at);
    else
        json_put_int(out, *(const int64_t *)at);
}

static void save_column(struct snap *io, const char *key, const char *at, size_t n, size_t stride,
                        bool real)
{
    json_key(io->out, key);
    json_open_list(io->out);
    for (size_t i = 0, run; i < n; i += run, at += run * stride) {
        run = count_equal(at, n - i, stride);
        if (run > 1) json_open_list(io->out);
        put_cell(io->out, at, real);
        if (run == 1) continue;
        json_put_int(io->out, (int64_t)run);
        json_close(io->out);
    }
    json_close(io->out);
}

void snap_ints(struct snap *io, const char *key, void *first, size_t n, size_t stride, int64_t min,
               int64_t max)
{
    char *at = first;
    if (io->out) {
        save_column(io, key, first, n, stride, false);
        return;
    }
    const struct doc *list = find_list(io, key, n), *item;
    for (const struct doc *e = list ? list->first : NULL; e && !io->rc; e = e->next) {
        int64_t value = 0;
        size_t run = next_run(io, e, &item);
        if (run) read_int(io, item, &value, min, max);
        for (size_t i = 0; !io->rc && i < run; i++, at += stride)
            *(int64_t *)at = value;
    }
}

void snap_doubles(struct snap *io, const char *key, void *first, size_t n, size_t stride)
{
    char *at = first;
    if (io->out) {
        save_column(io, key, first, n, stride, true);
        return;
    }
    const struct doc *list = find_list(io, key, n), *item;
    for (const struct doc *e = list ? list->first : NULL; e && !io->rc; e = e->next) {
        double value = 0;
        size_t run = next_run(io, e, &item);
        if (run) read_double(io, item, &value);
        for (size_t i = 0; !io->rc && i < run; i++, at += stride)
            *(double *)at = value;
    }
}

size_t snap_size(struct snap *io, const char *key, size_t n, size_t max)
{
    int64_t value = io->out ? (int64_t)n : 0;
    snap_int(io, key, &value, 0, (int64_t)max);
    return (size_t)value;
}

void snap_text(struct snap *io, const char *key, char **value)
{
    if (io->out) {
        json_key(io->out, key);
        json_put_str(io->out, *value);
        return;
    }
    const struct doc *found = io->rc ? NULL : doc_find(io->map, key);
    if (found && found->kind == DOC_NULL) return;
    if (found && found->kind == DOC_STR)
        *value = xstrndup(found->text.ptr, found->text.len);
    else
        snap_fail(io, "'%s' should be a string", key);
}

static const char hex_digits[] = "0123456789abcdef";

static void save_words(struct json_writer *out, const uint32_t *words, size_t n)
{
    char *text = xmalloc(8 * n);
    for (size_t i = 0; i < 8 * n; i++)
        text[i] = hex_digits[words[i / 8] >> (28 - 4 * (i % 8)) & 15];
    json_put_strn(out, (struct str){text, 8 * n});
    free(text);
}

void snap_words(struct snap *io, const char *key, uint32_t *words, size_t n)
{
    if (io->out) {
        json_key(io->out, key);
        save_words(io->out, words, n);
        return;
    }
    const struct doc *text = find(io, key, DOC_STR);
    bool good = text && text->text.len == 8 * n;
    for (size_t i = 0; good && i < 8 * n; i++) {
        const char *digit = strchr(hex_digits, text->text.ptr[i]);
        good = digit;
        if (good) words[i / 8] = words[i / 8] << 4 | (uint32_t)(digit - hex_digits);
    }
    if (!good) snap_fail(io, "'%s' should be %zu hexadecimal digits", key, 8 * n);
}

void snap_open(struct snap *io, const char *key)
{
    ASSERT(!io->outer);
    if (io->out) {
        json_key(io->out, key);
        json_open_map(io->out);
        return;
    }
    io->outer = io->map;
    io->map = find(io, key, DOC_MAP);
}

void snap_close(struct snap *io)
{
    if (io->out) {
        json_close(io->out);
        return;
    }
    io->map = io->outer;
    io->outer = NULL;
}
