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

// The list at key if it has n items; NULL after a failure.
static const struct doc *find_list(struct snap *io, const char *key, size_t n)
{
    const struct doc *list = find(io, key, DOC_LIST);
    if (list && list->n != n) {
        snap_fail(io, "'%s' has %zu items instead of %zu", key, list->n, n);
        return NULL;
    }
    return list;
}

void snap_ints(struct snap *io, const char *key, void *first, size_t n, size_t stride, int64_t min,
               int64_t max)
{
    char *at = first;
    if (io->out) {
        json_key(io->out, key);
        json_open_list(io->out);
        for (size_t i = 0; i < n; i++, at += stride)
            json_put_int(io->out, *(const int64_t *)at);
        json_close(io->out);
        return;
    }
    const struct doc *list = find_list(io, key, n);
    for (const struct doc *e = list ? list->first : NULL; e; e = e->next, at += stride)
        read_int(io, e, (int64_t *)at, min, max);
}

void snap_doubles(struct snap *io, const char *key, void *first, size_t n, size_t stride)
{
    char *at = first;
    if (io->out) {
        json_key(io->out, key);
        json_open_list(io->out);
        for (size_t i = 0; i < n; i++, at += stride)
            json_put_double(io->out, *(const double *)at);
        json_close(io->out);
        return;
    }
    const struct doc *list = find_list(io, key, n);
    for (const struct doc *e = list ? list->first : NULL; e; e = e->next, at += stride)
        read_double(io, e, (double *)at);
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
