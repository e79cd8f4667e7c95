// Unit input.c: the query and the body of a request as structs, by the tables of its route.
//
// Names may be written in camelCase or with underscores. A field of a body that no row has is an
// error: whoever sent it would believe that it was obeyed. Integers may be strings, as 64-bit
// numbers are in JSON that JavaScript has to read.
#include "http/exchange.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/number.h"
#include <ctype.h>
#include <strings.h>

// --- names

static bool same_name(struct str a, struct str b)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a.len && a.ptr[i] == '_')
            i++;
        while (j < b.len && b.ptr[j] == '_')
            j++;
        if (i == a.len || j == b.len) return i == a.len && j == b.len;
        if (tolower((unsigned char)a.ptr[i]) != tolower((unsigned char)b.ptr[j])) return false;
    }
}

static const struct field *row_like(const struct field *rows, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (same_name(str_from(rows[i].name), name)) return &rows[i];
    return NULL;
}

static const struct field *find_row(const struct field_table *table, const struct doc *map,
                                    struct str name)
{
    const struct field *f = field_find(table, map, name);
    const struct field_variant *variant = table->tag && map ? field_variant_of(table, map) : NULL;
    if (!f) f = row_like(table->fields, table->n, name);
    if (!f && variant) f = row_like(variant->fields, variant->n, name);
    return f;
}

// --- bodies

static struct doc *adapt_table(struct field_ctx *ctx, const struct field_table *table,
                               const struct doc *map);

static struct doc *adapt_value(struct field_ctx *ctx, const struct field *f,
                               const struct doc *value)
{
    int64_t number;
    if (f->type == FIELD_TABLE && value->kind == DOC_MAP) return adapt_table(ctx, f->table, value);
    if (f->type == FIELD_LIST && value->kind == DOC_LIST) {
        struct doc *list = doc_new(ctx->arena, DOC_LIST);
        for (const struct doc *e = value->first; e; e = e->next)
            doc_append(list, adapt_value(ctx, f->item, e));
        return list;
    }
    bool is_int = f->type == FIELD_INT || f->type == FIELD_OPT_INT;
    if (is_int && value->kind == DOC_STR && number_to_int(value->text, 10, &number))
        return doc_new_int(ctx->arena, number);
    return doc_share(ctx->arena, value);
}

static struct doc *adapt_table(struct field_ctx *ctx, const struct field_table *table,
                               const struct doc *map)
{
    struct doc *out = doc_new(ctx->arena, DOC_MAP);
    out->pos = map->pos;
    for (const struct doc *e = map->first; e; e = e->next) {
        bool is_tag = table->tag && str_eqz(e->key, table->tag);
        const struct field *f = is_tag ? NULL : find_row(table, map, e->key);
        // One that is not known goes on under its own name: field_normalize() reports it.
        struct str name = f ? str_from(f->name) : is_tag ? str_from(table->tag) : e->key;
        if (doc_find(out, name.ptr)) {
            field_error(ctx, e, "'%s' is given twice", name.ptr);
            continue;
        }
        struct doc *value = f ? adapt_value(ctx, f, e) : doc_share(ctx->arena, e);
        value->pos = e->pos;
        value->key_pos = e->key_pos;
        doc_set(out, name, value);
    }
    return out;
}

// The struct of doc, or NULL and an answer.
static const void *read_struct(struct exchange *x, const char *what,
                               const struct field_table *table, struct field_ctx *ctx,
                               const struct doc *doc)
{
    void *out = arena_alloc(&x->arena, table->size);
    struct doc *normal = ctx->diags->n_errors ? NULL : field_normalize(ctx, table, doc);
    if (normal) field_read(ctx, table, normal, out);
    if (!ctx->diags->n_errors) return out;
    // A field has a name; its place in a text that a program has written helps nobody.
    for (struct diag *d = ctx->diags->first; d; d = d->next)
        if (d->path && *d->path) d->pos = (struct doc_pos){0};
    const struct diag *first = ctx->diags->first;
    reply_invalid(x, first->path && *first->path ? NULL : what, ctx->diags);
    return NULL;
}

static bool says_json(const struct exchange *x)
{
    static const char json[] = "application/json";
    const char *type = pairs_find(&x->headers, "Content-Type");
    if (!type || strncasecmp(type, json, strlen(json)) != 0) return false;
    return strchr("; \t", type[strlen(json)]) != NULL; // the end of the string, too
}

// A route without fields: bytes are taken as they are, but fields would be ignored.
static bool refuse_fields(struct exchange *x)
{
    static const struct field_table no_fields = {.size = 1};
    struct diag_list unread = DIAG_INIT(&x->arena), diags = DIAG_INIT(&x->arena);
    struct field_ctx ctx = {.arena = &x->arena, .diags = &diags};
    const struct json_opts opts = {.max_bytes = x->body.max};
    if (!x->req.body.len || x->req.route->raw || !says_json(x)) return true;
    const struct doc *doc = json_parse(&x->arena, x->req.body, &opts, &unread);
    return !doc || doc->kind != DOC_MAP || read_struct(x, "body", &no_fields, &ctx, doc);
}

bool input_read_body(struct exchange *x)
{
    const struct field_table *table = x->req.route->input;
    if (!table) return refuse_fields(x);
    struct diag_list diags = DIAG_INIT(&x->arena);
    struct field_ctx ctx = {.arena = &x->arena, .diags = &diags, .user = x->req.user};
    const struct doc *doc = doc_new(&x->arena, DOC_MAP);
    if (x->req.body.len) {
        // A form of somebody else's web page cannot send this type, so it cannot act for the user.
        if (!says_json(x)) {
            reply_problem(x, 415, "unsupported media type",
                          "send the body as JSON, with the header Content-Type: application/json");
            return false;
        }
        const struct json_opts opts = {.max_bytes = x->body.max};
        doc = json_parse(&x->arena, x->req.body, &opts, &diags);
    }
    if (doc && doc->kind == DOC_MAP) doc = adapt_table(&ctx, table, doc);
    x->req.input = read_struct(x, "body", table, &ctx, doc);
    return x->req.input != NULL;
}

// --- queries

static struct doc *query_scalar(struct arena *arena, enum field_type type, struct str text)
{
    static const char *const words[] = {"false", "true", "0", "1"};
    int64_t integer;
    double number;
    if ((type == FIELD_INT || type == FIELD_OPT_INT) && number_to_int(text, 10, &integer))
        return doc_new_int(arena, integer);
    if (type == FIELD_DOUBLE && number_to_double(text, &number))
        return doc_new_double(arena, number);
    for (size_t i = 0; (type == FIELD_BOOL || type == FIELD_TRI) && i < STATIC_LEN(words); i++)
        if (str_eqz(text, words[i])) return doc_new_bool(arena, i % 2 == 1);
    return doc_new_str(arena, arena_strndup(arena, text.ptr, text.len));
}

// Up to the next comma that has no backslash before it; \, and \\ stand for what follows.
static struct str next_item(struct arena *arena, struct str *text)
{
    char *item = arena_alloc(arena, text->len + 1);
    size_t n = 0, i = 0;
    for (; i < text->len && text->ptr[i] != ','; i++) {
        const char *c = &text->ptr[i];
        if (*c == '\\' && i + 1 < text->len && (c[1] == ',' || c[1] == '\\')) c = &text->ptr[++i];
        item[n++] = *c;
    }
    item[n] = 0;
    *text = i < text->len ? (struct str){text->ptr + i + 1, text->len - i - 1} : (struct str){0};
    return (struct str){item, n};
}

// "a=1&a=2" and "a=1,2" are the same list; "a=1\,2" is one item.
static void query_list(struct arena *arena, const struct field *f, struct doc *list,
                       struct str text)
{
    while (text.ptr) {
        struct str one = next_item(arena, &text);
        if (one.len) doc_append(list, query_scalar(arena, f->item->type, one));
    }
}

static void add_parameter(struct arena *arena, const struct field_table *table,
                          const struct pair *p, struct doc *map)
{
    const struct field *f = find_row(table, NULL, str_from(p->name));
    if (!f) return;
    const struct doc *there = doc_find(map, f->name);
    if (f->type != FIELD_LIST) {
        if (there || !*p->value) return; // the first one counts
        doc_set(map, str_from(f->name), query_scalar(arena, f->type, str_from(p->value)));
        return;
    }
    struct doc *list;
    if (!there) {
        list = doc_new(arena, DOC_LIST);
        doc_set(map, str_from(f->name), list);
    } else {
        for (list = map->first; list != there;)
            list = list->next;
    }
    query_list(arena, f, list, str_from(p->value));
}

bool input_read_query(struct exchange *x)
{
    const struct field_table *table = x->req.route->query;
    if (!table) return true;
    struct diag_list diags = DIAG_INIT(&x->arena);
    struct field_ctx ctx = {.arena = &x->arena, .diags = &diags, .user = x->req.user};
    struct doc *map = doc_new(&x->arena, DOC_MAP);
    for (const struct pair *p = x->query.first; p; p = p->next)
        add_parameter(&x->arena, table, p, map);
    x->req.query = read_struct(x, "query", table, &ctx, map);
    return x->req.query != NULL;
}
