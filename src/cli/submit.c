// Unit submit.c: configurations on their way to the master.
#include "cli/submit.h"

#include "base/assert.h"
#include "doc/yaml.h"
#include "cli/input.h"

// --- places

static void set_place(struct doc *d, const char *source)
{
    d->pos = d->key_pos = (struct doc_pos){.source = source};
    for (struct doc *e = d->kind >= DOC_LIST ? d->first : NULL; e; e = e->next)
        set_place(e, source);
}

struct doc *submission_copy(struct arena *arena, const struct doc *config, const char *source)
{
    struct doc *copy = doc_copy(arena, config);
    set_place(copy, source);
    return copy;
}

// --- the file

static void write_text(struct arena *arena, struct submission *s)
{
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    yaml_write(s->doc, &text);
    s->text = arena_strndup(arena, buf_str(&text).ptr, text.len);
    buf_done(&text);
}

bool submission_read(struct arena *arena, const char *path, struct submission *s)
{
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    det_err err;
    int rc = input_read(path, &text, &err);
    if (rc) print_error("%s", err.msg);
    s->source = input_name(path);
    s->text = arena_strndup(arena, buf_str(&text).ptr, text.len);
    buf_done(&text);
    return !rc;
}

// --- options

// Like doc_set, in place of what the map has there.
static struct doc *put(struct doc *map, struct str key, struct doc *value)
{
    for (struct doc *e = map->first; e; e = e->next) {
        if (!str_eq(e->key, key)) continue;
        struct doc *next = e->next;
        *e = *value;
        e->next = next;
        e->key = key;
        return e;
    }
    doc_set(map, key, value);
    return value;
}

static void drop(struct doc *map, const struct doc *entry)
{
    struct doc *before = NULL;
    for (struct doc *e = map->first; e; before = e, e = e->next) {
        if (e != entry) continue;
        if (before) before->next = e->next;
        if (!before) map->first = e->next;
        if (map->last == e) map->last = before;
        map->n--;
        return;
    }
}

// Today's name of a key.
static struct str name_of(const struct field_table *table, const struct doc *map, struct str key)
{
    const struct field *f = table ? field_find(table, map, key) : NULL;
    if (!f) return key;
    return str_from(f->type == FIELD_OLD ? f->into : f->name);
}

// What the file says under another name of the key.
static void drop_twins(const struct field_table *table, struct doc *map, struct str key,
                       const char *source)
{
    struct str name = name_of(table, map, key);
    for (struct doc *e = map->first, *next; e; e = next) {
        next = e->next;
        if (str_eq(e->key, key) || !str_eq(name_of(table, map, e->key), name)) continue;
        print_warning("%s takes the place of %.*s", source, STR_ARG(e->key));
        drop(map, e);
    }
}

static struct doc *inner_map(struct arena *arena, struct doc *map, struct str key,
                             const char *source)
{
    for (struct doc *e = map->first; e; e = e->next)
        if (str_eq(e->key, key) && e->kind == DOC_MAP) return e;
    struct doc *inner = doc_new(arena, DOC_MAP);
    set_place(inner, source);
    return put(map, key, inner);
}

// "a.b.c=value": value is YAML.
static bool change(struct arena *arena, struct submission *s, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    const char *source = arena_printf(arena, "--config %s", assignment);
    struct diag_list diags = DIAG_INIT(arena);
    if (!equals || equals == assignment) {
        print_error("--config takes KEY=VALUE, found '%s'", assignment);
        return false;
    }
    struct doc *value = yaml_parse(arena, str_from(equals + 1), source, &diags);
    if (!value) {
        print_error("%s: the value is not YAML", source);
        return false;
    }
    set_place(value, source);
    const struct field_table *table = s->job ? &job_config_table : &exp_config_table;
    struct str path = {assignment, (size_t)(equals - assignment)};
    for (struct doc *map = s->doc;;) {
        struct str key = str_cut(&path, '.');
        key.ptr = arena_strndup(arena, key.ptr, key.len);
        drop_twins(table, map, key, source);
        if (!path.len) {
            put(map, key, doc_share(arena, value))->key_pos = value->pos;
            return true;
        }
        const struct field *f = table ? field_find(table, map, key) : NULL;
        table = f && f->type == FIELD_TABLE ? f->table : NULL;
        map = inner_map(arena, map, key, source);
    }
}

static bool parse_text(struct arena *arena, struct submission *s)
{
    struct diag_list diags = DIAG_INIT(arena);
    s->doc = yaml_parse(arena, str_from(s->text), s->source, &diags);
    if (!s->doc) print_diags(&diags); // else whoever reads it says the same
    if (s->doc && s->doc->kind == DOC_NULL) s->doc = doc_new(arena, DOC_MAP);
    return s->doc;
}

bool submission_change(struct arena *arena, const struct call *call, struct submission *s)
{
    if (call_option(call, "config") && !s->doc && !parse_text(arena, s)) return false;
    if (!s->doc || s->doc->kind != DOC_MAP) return true; // the check says what else it is
    for (int i = 0; i < call->n_given; i++)
        if (!strcmp(call->given[i]->name, "config") && !change(arena, s, call->values[i]))
            return false;
    write_text(arena, s);
    return true;
}

// --- the check

bool submission_check(struct arena *arena, const struct submission *s)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct config_opts opts = {.source = s->source,
                                     .doc = s->doc,
                                     .below = &s->low,
                                     .n_below = s->low.source != NULL,
                                     .is_new = true};
    struct exp_config experiment;
    struct job_config job;
    det_err err;
    int rc = s->job ? job_config_read(arena, str_from(s->text), &opts, &job, &diags)
                    : exp_config_read(arena, str_from(s->text), &opts, &experiment, &diags);
    print_diags(&diags);
    if (!rc && !s->job && (rc = storage_check(&experiment.checkpoint_storage, &err)))
        print_error("%s", err.msg);
    return !rc;
}
