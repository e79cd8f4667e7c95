// Unit openapi.c: the OpenAPI 3.0 document of a table of routes. Called by the master (GET
// /api/openapi.json) and to write the reference.
#include "http/http.h"

#include "doc/json.h"
#include <ctype.h>
#include <math.h>

static void put(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_put_str(w, text);
}

static void open_map(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_open_map(w);
}

// --- schemas

static void put_table(struct json_writer *w, const struct field_table *table);
static void put_field(struct json_writer *w, const struct field *f);

static void put_range(struct json_writer *w, const struct field *f)
{
    if (f->min == 0 && f->max == 0) return;
    json_key(w, "minimum");
    json_put_double(w, f->min);
    if (f->open_min) {
        json_key(w, "exclusiveMinimum");
        json_put_bool(w, true);
    }
    if (isinf(f->max)) return;
    json_key(w, "maximum");
    json_put_double(w, f->max);
}

static void put_values(struct json_writer *w, const struct field *f)
{
    json_key(w, "enum");
    json_open_list(w);
    for (const char *const *v = f->values; *v; v++)
        if (**v) json_put_str(w, *v);
    json_close(w);
}

static void put_type(struct json_writer *w, const struct field *f)
{
    static const char *const names[] = {
        [FIELD_BOOL] = "boolean",    [FIELD_TRI] = "boolean",   [FIELD_INT] = "integer",
        [FIELD_OPT_INT] = "integer", [FIELD_DOUBLE] = "number", [FIELD_STR] = "string",
        [FIELD_ENUM] = "string",     [FIELD_LIST] = "array",    [FIELD_MAP] = "object",
        [FIELD_TABLE] = "object",    [FIELD_REFUSED] = NULL,
    };
    if (!names[f->type]) return; // of a codec: anything
    put(w, "type", names[f->type]);
    if (f->type == FIELD_INT || f->type == FIELD_OPT_INT) put(w, "format", "int64");
    if (f->type == FIELD_DOUBLE) put(w, "format", "double");
    if (f->type == FIELD_OPT_INT) {
        json_key(w, "nullable");
        json_put_bool(w, true);
    }
    if (f->type == FIELD_ENUM) put_values(w, f);
    if (f->type == FIELD_LIST) {
        json_key(w, "items");
        put_field(w, f->item);
    }
    put_range(w, f);
}

static void put_field(struct json_writer *w, const struct field *f)
{
    if (f->type == FIELD_TABLE && !f->help) {
        put_table(w, f->table);
        return;
    }
    json_open_map(w);
    if (f->type == FIELD_TABLE) { // beside a description, a schema must be wrapped
        json_key(w, "allOf");
        json_open_list(w);
        put_table(w, f->table);
        json_close(w);
    } else {
        put_type(w, f);
    }
    if (f->help) put(w, "description", f->help);
    if (f->codec) put(w, "title", f->codec->syntax);
    json_close(w);
}

static bool is_shown(const struct field *f)
{
    return f->type != FIELD_OLD && f->type != FIELD_IGNORED && f->type != FIELD_REFUSED;
}

static void put_required(struct json_writer *w, const struct field_table *table)
{
    bool any = false;
    for (size_t i = 0; i < table->n; i++) {
        if (!table->fields[i].required) continue;
        if (!any) {
            json_key(w, "required");
            json_open_list(w);
        }
        any = true;
        json_put_str(w, table->fields[i].name);
    }
    if (any) json_close(w);
}

static void put_table(struct json_writer *w, const struct field_table *table)
{
    json_open_map(w);
    put(w, "type", "object");
    open_map(w, "properties");
    for (size_t i = 0; i < table->n; i++) {
        if (!is_shown(&table->fields[i])) continue;
        json_key(w, table->fields[i].name);
        put_field(w, &table->fields[i]);
    }
    json_close(w);
    put_required(w, table);
    json_close(w);
}

// --- operations

// "/trials/{trial:int}" is written "/trials/{trial}".
static void add_path(struct buf *out, const char *pattern)
{
    bool skipping = false;
    for (const char *c = pattern; *c; c++) {
        if (*c == ':' || *c == '*') skipping = true;
        if (*c == '}') skipping = false;
        if (!skipping) buf_addc(out, *c);
    }
}

static void put_parameter(struct json_writer *w, const char *in, struct str name,
                          const struct field *f)
{
    json_open_map(w);
    json_key(w, "name");
    json_put_strn(w, name);
    put(w, "in", in);
    if (*in == 'p' || (f && f->required)) { // "path"
        json_key(w, "required");
        json_put_bool(w, true);
    }
    if (f && f->help) put(w, "description", f->help);
    open_map(w, "schema");
    if (f)
        put_type(w, f);
    else
        put(w, "type", "string");
    json_close(w);
    json_close(w);
}

static void put_path_parameters(struct json_writer *w, const char *path)
{
    static const struct field integer = {.name = "", .type = FIELD_INT};
    struct str rest = str_from(path);
    while (rest.ptr) {
        struct str segment = str_cut(&rest, '/');
        if (!segment.len || segment.ptr[0] != '{') continue;
        struct str kind = {segment.ptr + 1, segment.len - 2}, name = str_cut(&kind, ':');
        if (str_ends(name, STR("*"))) name.len--;
        put_parameter(w, "path", name, kind.ptr ? &integer : NULL);
    }
}

static void put_parameters(struct json_writer *w, const struct http_route *r)
{
    json_key(w, "parameters");
    json_open_list(w);
    put_path_parameters(w, r->path);
    for (size_t i = 0; r->query && i < r->query->n; i++)
        if (is_shown(&r->query->fields[i]))
            put_parameter(w, "query", str_from(r->query->fields[i].name), &r->query->fields[i]);
    json_close(w);
}

static void put_content(struct json_writer *w, const char *type, const struct field_table *table)
{
    open_map(w, "content");
    open_map(w, type);
    json_key(w, "schema");
    if (table) {
        put_table(w, table);
    } else {
        json_open_map(w);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void put_responses(struct json_writer *w, const struct http_route *r)
{
    open_map(w, "responses");
    open_map(w, "200");
    put(w, "description", "done");
    put_content(w, http_content_type(r->content), r->output);
    json_close(w);
    open_map(w, "default");
    put(w, "description", "what went wrong (RFC 9457)");
    put_content(w, "application/problem+json", NULL);
    json_close(w);
    json_close(w);
}

// "postTrialsTrialKill": the method and the words of the path.
static void put_operation_id(struct json_writer *w, const struct http_route *r)
{
    struct buf path = BUF_INIT(1024), id = BUF_INIT(1024);
    bool upper = false;
    add_path(&path, r->path);
    for (const char *c = http_method_name(r->method); *c; c++)
        buf_addc(&id, (char)tolower((unsigned char)*c));
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (isalnum(c)) buf_addc(&id, (char)(upper ? toupper(c) : c));
        upper = !isalnum(c);
    }
    put(w, "operationId", buf_str(&id).ptr);
    buf_done(&path);
    buf_done(&id);
}

static void put_operation(struct json_writer *w, const struct http_route *r)
{
    char method[16];
    snprintf(method, sizeof method, "%s", http_method_name(r->method));
    for (char *c = method; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    open_map(w, method);
    put_operation_id(w, r);
    if (r->summary) put(w, "summary", r->summary);
    put_parameters(w, r);
    if (r->input) {
        open_map(w, "requestBody");
        put_content(w, http_content_type(HTTP_JSON), r->input);
        json_close(w);
    }
    put_responses(w, r);
    if (r->auth == HTTP_AUTH_NONE) {
        json_key(w, "security");
        json_open_list(w);
        json_close(w);
    }
    json_close(w);
}

// --- the document: rows of the same path stand together

struct cursor {
    const struct http_table *tables;
    size_t n_tables, t, i;
};

static const struct http_route *next_row(struct cursor *c)
{
    while (c->t < c->n_tables && c->i == c->tables[c->t].n) {
        c->t++;
        c->i = 0;
    }
    return c->t < c->n_tables ? &c->tables[c->t].rows[c->i++] : NULL;
}

static bool is_first_of_path(const struct cursor *all, const struct http_route *row)
{
    struct cursor c = *all;
    const struct http_route *r;
    while ((r = next_row(&c)) && r != row)
        if (!strcmp(r->path, row->path)) return false;
    return true;
}

static void put_path(struct json_writer *w, const struct cursor *all, const struct http_route *row)
{
    struct buf path = BUF_INIT(1024);
    struct cursor c = *all;
    const struct http_route *r;
    add_path(&path, row->path);
    open_map(w, buf_str(&path).ptr);
    while ((r = next_row(&c)))
        if (!strcmp(r->path, row->path)) put_operation(w, r);
    json_close(w);
    buf_done(&path);
}

static void put_components(struct json_writer *w, const struct http_api_info *info)
{
    open_map(w, "components");
    open_map(w, "securitySchemes");
    open_map(w, "token");
    put(w, "type", "http");
    put(w, "scheme", "bearer");
    json_close(w);
    json_close(w);
    open_map(w, "schemas");
    for (size_t i = 0; i < info->n_schemas; i++) {
        json_key(w, info->schemas[i].name);
        put_table(w, info->schemas[i].table);
    }
    json_close(w);
    json_close(w);
}

static void put_security(struct json_writer *w)
{
    json_key(w, "security");
    json_open_list(w);
    json_open_map(w);
    json_key(w, "token");
    json_open_list(w);
    json_close(w);
    json_close(w);
    json_close(w);
}

void http_openapi(const struct http_table *tables, size_t n_tables,
                  const struct http_api_info *info, struct buf *out)
{
    const struct cursor all = {.tables = tables, .n_tables = n_tables};
    struct cursor c = all;
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    put(&w, "openapi", "3.0.3");
    open_map(&w, "info");
    put(&w, "title", info->title);
    put(&w, "version", info->version);
    if (info->description) put(&w, "description", info->description);
    json_close(&w);
    put_components(&w, info);
    put_security(&w);
    open_map(&w, "paths");
    for (const struct http_route *r; (r = next_row(&c));)
        if (is_first_of_path(&all, r)) put_path(&w, &all, r);
    json_close(&w);
    json_close(&w);
}
