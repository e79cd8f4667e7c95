// Unit route.c: finds the row of a path. Called by exchange.c. Segments are told apart before they
// are decoded, so an encoded slash is an ordinary character of its segment.
#include "http/exchange.h"

#include "base/assert.h"
#include "base/number.h"
#include "base/utf8.h"
#include <stdint.h>

static const char *const method_names[HTTP_N_METHODS] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

const char *http_method_name(enum http_method method)
{
    return method_names[method];
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *percent_decode(struct arena *arena, struct str text)
{
    char *out = arena_alloc(arena, text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.ptr[i + 2]) : -1;
            if (low < 0) return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c) return NULL;
        out[n++] = c;
    }
    return utf8_valid((struct str){out, n}) ? out : NULL;
}

// "{trial:int}" has the name "trial" and the kind "int"; "{file*}" the name "file" and the kind
// "*".
struct param {
    struct str name, kind;
};

static bool is_param(struct str segment, struct param *out)
{
    if (segment.len < 3 || segment.ptr[0] != '{') return false;
    struct str inside = {segment.ptr + 1, segment.len - 2};
    *out = (struct param){inside, STR("")};
    if (str_ends(inside, STR("*"))) {
        out->name.len--;
        out->kind = STR("*");
    } else if (memchr(inside.ptr, ':', inside.len)) {
        out->name = str_cut(&inside, ':');
        out->kind = inside;
    }
    return true;
}

static bool fits_kind(struct str segment, struct str kind)
{
    int64_t value;
    if (!str_eqz(kind, "int")) return segment.len > 0;
    return segment.len && segment.ptr[0] >= '0' && segment.ptr[0] <= '9' &&
           number_to_int(segment, 10, &value);
}

// The whole segments that both begin with. Most rows differ from a path there, and that is seen
// without taking either apart.
static size_t common_start(const char *pattern, const char *path)
{
    size_t n = 0, n_whole = 0;
    for (; pattern[n] && pattern[n] == path[n] && pattern[n] != '{'; n++)
        if (pattern[n] == '/') n_whole = n + 1;
    bool differ = pattern[n] != path[n] && pattern[n] != '{';
    return differ ? SIZE_MAX : n_whole;
}

// True if the pattern describes path; its parameters are left in found, still encoded.
static bool match(const char *pattern, const char *path, struct str *found, size_t *n_found)
{
    size_t n_same = common_start(pattern, path);
    if (n_same == SIZE_MAX) return false;
    struct str want = str_from(pattern + n_same), have = str_from(path + n_same);
    *n_found = 0;
    while (want.ptr && have.ptr) {
        struct str all = have, w = str_cut(&want, '/'), h = str_cut(&have, '/');
        struct param p;
        if (!is_param(w, &p)) {
            if (!str_eq(w, h)) return false;
            continue;
        }
        ASSERT(*n_found < EXCHANGE_MAX_PARAMS);
        if (str_eqz(p.kind, "*")) {
            found[(*n_found)++] = all;
            return true;
        }
        if (!fits_kind(h, p.kind)) return false;
        found[(*n_found)++] = h;
    }
    return !want.ptr && !have.ptr;
}

static bool decode_params(struct exchange *x, const struct str *found, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = percent_decode(&x->arena, found[i]);
        if (!text) return false;
        x->params[i] = str_from(text);
    }
    return true;
}

static enum route_result take_row(struct exchange *x, const struct http_route *row,
                                  const struct str *found, size_t n)
{
    x->req.route = row;
    return decode_params(x, found, n) ? ROUTE_FOUND : ROUTE_BAD_TEXT;
}

enum route_result route_find(struct exchange *x, int method, const char *target, const char **allow)
{
    const struct http_route *otherwise = x->opts->otherwise;
    struct str found[EXCHANGE_MAX_PARAMS];
    size_t n = 0;
    *allow = NULL;
    for (size_t t = 0; t < x->opts->n_tables; t++) {
        const struct http_table *table = &x->opts->tables[t];
        for (size_t i = 0; i < table->n; i++) {
            const struct http_route *row = &table->rows[i];
            if (!match(row->path, target, found, &n)) continue;
            const char *name = http_method_name(row->method);
            if ((int)row->method == method) return take_row(x, row, found, n);
            *allow = *allow ? arena_printf(&x->arena, "%s, %s", *allow, name) : name;
        }
    }
    if (*allow) return ROUTE_NO_METHOD;
    if (otherwise && (int)otherwise->method == method && match(otherwise->path, target, found, &n))
        return take_row(x, otherwise, found, n);
    return ROUTE_NO_PATH;
}

struct str http_param(const struct http_request *req, const char *name)
{
    const struct exchange *x = (const struct exchange *)req;
    struct str rest = str_from(req->route->path);
    struct param p;
    for (size_t i = 0; rest.ptr;) {
        if (!is_param(str_cut(&rest, '/'), &p)) continue;
        if (str_eqz(p.name, name)) return x->params[i];
        i++;
    }
    ASSERT(!"the route has a parameter of this name");
    return STR("");
}

int64_t http_param_int(const struct http_request *req, const char *name)
{
    int64_t value = 0;
    ASSERT(number_to_int(http_param(req, name), 10, &value));
    return value;
}
