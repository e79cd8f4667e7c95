// Unit json_find.c: one number of a map, without making a document of it. For text that is JSON for
// sure, such as what a database was given: a chart reads thousands of reports for one metric each.
#include "doc/json.h"

#include "base/assert.h"
#include "base/number.h"
#include <math.h>

struct str json_quoted(struct str text, struct arena *a)
{
    struct buf out = BUF_INIT(6 * text.len + 3);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_put_strn(&w, text);
    struct str quoted = {arena_strndup(a, buf_str(&out).ptr, out.len), out.len};
    buf_done(&out);
    return quoted;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip(struct str *s, size_t n)
{
    s->ptr += n;
    s->len -= n;
}

static char first(struct str *s)
{
    while (s->len && is_space(s->ptr[0]))
        skip(s, 1);
    return s->len ? s->ptr[0] : '\0';
}

// The string that s begins with, with its quotes; empty if it has no end.
static struct str take_string(struct str *s)
{
    struct str all = *s;
    for (size_t i = 1; i < all.len; i++) {
        if (all.ptr[i] == '\\') {
            i++;
        } else if (all.ptr[i] == '"') {
            skip(s, i + 1);
            return (struct str){all.ptr, i + 1};
        }
    }
    return (struct str){all.ptr, 0};
}

// The value that s begins with: up to what ends it outside of strings and of what it opens.
static struct str take_value(struct str *s)
{
    struct str all = *s;
    int depth = 0;
    while (s->len) {
        char c = s->ptr[0];
        if (c == '"') {
            if (!take_string(s).len) break;
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']')) break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        skip(s, 1);
    }
    size_t n = all.len - s->len;
    while (n && is_space(all.ptr[n - 1]))
        n--;
    return (struct str){all.ptr, n};
}

static bool read_number(struct str value, double *out)
{
    static const struct {
        struct str word;
        double value;
    } words[] = {
        {STR("\"NaN\""), NAN}, {STR("\"Infinity\""), INFINITY}, {STR("\"-Infinity\""), -INFINITY}};
    for (size_t i = 0; i < STATIC_LEN(words); i++)
        if (str_eq(value, words[i].word)) {
            *out = words[i].value;
            return true;
        }
    return number_to_double(value, out);
}

bool json_find_number(struct str map, struct str quoted, double *out)
{
    if (first(&map) != '{') return false;
    do {
        skip(&map, 1);
        if (first(&map) != '"') return false;
        struct str key = take_string(&map);
        if (!key.len || first(&map) != ':') return false;
        skip(&map, 1);
        first(&map);
        struct str value = take_value(&map);
        if (str_eq(key, quoted)) return read_number(value, out);
    } while (first(&map) == ',');
    return false;
}
