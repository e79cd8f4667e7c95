// Unit json_read.c: json_parse(). jansson decides what is JSON; a walk over the text, by then known
// to be well formed, finds where each value stands, which jansson does not tell.
#include "doc/json.h"

#include "base/assert.h"
#include "base/utf8.h"
#include <jansson.h>

struct reader {
    struct arena *arena;
    struct diag_list *diags;
    const char *source;
    int max_depth;
    struct str rest; // of the text
    struct doc_pos pos;
};

static void skip(struct reader *r)
{
    int32_t c = utf8_next(&r->rest);
    r->pos.column++;
    if (c == '\n') r->pos = (struct doc_pos){r->source, r->pos.line + 1, 1};
}

static void skip_space(struct reader *r)
{
    while (r->rest.len && strchr(" \t\r\n", r->rest.ptr[0]))
        skip(r);
}

static void skip_string(struct reader *r)
{
    skip(r);
    while (r->rest.ptr[0] != '"') {
        if (r->rest.ptr[0] == '\\') skip(r);
        skip(r);
    }
    skip(r);
}

// A number, true, false or null.
static void skip_word(struct reader *r)
{
    while (r->rest.len && !strchr(" \t\r\n,]}", r->rest.ptr[0]))
        skip(r);
}

static struct str copy_text(struct reader *r, const char *text, size_t n)
{
    return (struct str){arena_strndup(r->arena, text, n), n};
}

static struct doc *read_value(struct reader *r, json_t *json, int depth);

static bool read_list(struct reader *r, json_t *json, struct doc *out, int depth)
{
    size_t i;
    json_t *item;
    skip(r);
    json_array_foreach(json, i, item)
    {
        struct doc *d = read_value(r, item, depth + 1);
        if (!d) return false;
        doc_append(out, d);
        skip_space(r);
        if (r->rest.ptr[0] == ',') skip(r);
    }
    skip_space(r);
    skip(r);
    return true;
}

static bool read_map(struct reader *r, json_t *json, struct doc *out, int depth)
{
    skip(r);
    for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
        skip_space(r);
        struct doc_pos key_pos = r->pos;
        skip_string(r);
        skip_space(r);
        ASSERT(r->rest.ptr[0] == ':');
        skip(r);
        struct doc *d = read_value(r, json_object_iter_value(it), depth + 1);
        if (!d) return false;
        d->key_pos = key_pos;
        doc_set(out, copy_text(r, json_object_iter_key(it), json_object_iter_key_len(it)), d);
        skip_space(r);
        if (r->rest.ptr[0] == ',') skip(r);
    }
    skip_space(r);
    skip(r);
    return true;
}

static bool read_scalar(struct reader *r, json_t *json, struct doc *out)
{
    if (json_is_string(json)) {
        out->kind = DOC_STR;
        out->text = copy_text(r, json_string_value(json), json_string_length(json));
        skip_string(r);
        return true;
    }
    if (json_is_boolean(json)) {
        out->kind = DOC_BOOL;
        out->boolean = json_is_true(json);
    } else if (json_is_integer(json)) {
        out->kind = DOC_INT;
        out->integer = json_integer_value(json);
    } else if (json_is_real(json)) {
        out->kind = DOC_DOUBLE;
        out->number = json_real_value(json);
    }
    skip_word(r);
    return true;
}

static struct doc *read_value(struct reader *r, json_t *json, int depth)
{
    skip_space(r);
    struct doc *d = doc_new(r->arena, DOC_NULL);
    d->pos = r->pos;
    bool container = json_is_array(json) || json_is_object(json);
    if (container && depth >= r->max_depth) {
        diag_add(r->diags, DIAG_ERROR, r->pos, NULL, "nested more than %d levels deep",
                 r->max_depth);
        return NULL;
    }
    if (container) d->kind = json_is_array(json) ? DOC_LIST : DOC_MAP;
    bool ok = json_is_array(json)    ? read_list(r, json, d, depth)
              : json_is_object(json) ? read_map(r, json, d, depth)
                                     : read_scalar(r, json, d);
    return ok ? d : NULL;
}

struct doc *json_parse(struct arena *arena, struct str text, const struct json_opts *opts,
                       struct diag_list *diags)
{
    static const struct json_opts defaults;
    if (!opts) opts = &defaults;
    size_t max_bytes = opts->max_bytes ? opts->max_bytes : JSON_MAX_BYTES;
    int max_depth = opts->max_depth ? opts->max_depth : JSON_MAX_DEPTH;
    ASSERT(max_depth <= JSON_WRITER_DEPTH);
    struct doc_pos start = {opts->source, 1, 1};
    if (text.len > max_bytes) {
        start.line = 0;
        diag_add(diags, DIAG_ERROR, start, NULL, "%zu bytes of JSON; the limit is %zu", text.len,
                 max_bytes);
        return NULL;
    }
    json_error_t e;
    json_t *json = json_loadb(text.len ? text.ptr : "", text.len,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!json) {
        struct doc_pos pos = {opts->source, e.line, e.column > 0 ? e.column : 1};
        diag_add(diags, DIAG_ERROR, pos, NULL, "not valid JSON: %s", e.text);
        return NULL;
    }
    struct reader r = {arena, diags, opts->source, max_depth, text, start};
    struct doc *d = read_value(&r, json, 0);
    json_decref(json);
    return d;
}
