// Unit read.c: from texts to structs and back: parses, merges, reads.
#include "config/tables.h"

#include "base/assert.h"
#include "doc/json.h"
#include "doc/yaml.h"

enum {
    DEFAULT_BATCHES_PER_STEP = 100,
    MAX_ITEMS = 5000, // of one list or map: enough for people, and merging stays fast
};

struct reader {
    struct field_ctx ctx;
    struct config_ctx config;
    const struct field_table *table;
    const struct config_opts *opts;
};

// JSON is YAML, except for a few corners where only a JSON parser does the right thing (escaped
// surrogate pairs).
const struct doc *config_parse(struct field_ctx *ctx, struct str text, const char *source)
{
    struct str rest = text;
    while (rest.len && strchr(" \t\r\n", rest.ptr[0]))
        rest = (struct str){rest.ptr + 1, rest.len - 1};
    struct arena *arena = ctx->arena;
    struct diag_list json_diags = DIAG_INIT(arena);
    const struct json_opts json_opts = {.source = source, .max_bytes = YAML_MAX_BYTES};
    struct doc *doc = NULL;
    if (str_starts(rest, STR("{"))) doc = json_parse(arena, text, &json_opts, &json_diags);
    if (!doc) doc = yaml_parse(arena, text, source, ctx->diags);
    if (doc && doc->kind == DOC_NULL) { // nothing in it: an empty map
        doc = doc_new(arena, DOC_MAP);
        doc->pos = (struct doc_pos){source, 1, 1};
    }
    return doc;
}

static bool is_narrow(struct reader *r, const struct doc *doc)
{
    if (doc->kind < DOC_LIST) return true;
    if (doc->n > MAX_ITEMS) {
        field_error(&r->ctx, doc, "more than %d entries in one list or map", MAX_ITEMS);
        return false;
    }
    for (const struct doc *e = doc->first; e; e = e->next)
        if (!is_narrow(r, e)) return false;
    return true;
}

// Needed before anything else: lengths in steps are converted while documents are normalized.
static int64_t batches_per_step(const struct doc *const *docs, size_t n)
{
    static const char *const names[] = {"scheduling_unit", "batches_per_step"};
    for (size_t i = 0; i < 2 * n; i++) {
        const struct doc *d = doc_find(docs[i / 2], names[i % 2]);
        int64_t n_batches;
        if (d && doc_integer(d, &n_batches) && n_batches > 0) return n_batches;
    }
    return DEFAULT_BATCHES_PER_STEP;
}

// What comes from outside, as a document of the lowest precedence.
static const struct doc *outside_defaults(const struct reader *r)
{
    struct arena *arena = r->ctx.arena;
    const struct config_opts *opts = r->opts;
    const char *name = opts->default_name;
    if (!name)
        name = arena_printf(arena, "%s (%s)", r->table == &exp_config_table ? "Experiment" : "Job",
                            config_petname(arena, (uint64_t)opts->default_seed));
    struct doc *map = doc_new(arena, DOC_MAP), *seed = doc_new(arena, DOC_MAP);
    doc_set(map, STR("name"), doc_new_str(arena, name));
    doc_set(seed, STR("experiment_seed"), doc_new_int(arena, opts->default_seed));
    if (r->table == &exp_config_table) doc_set(map, STR("reproducibility"), seed);
    if (opts->entrypoint_optional) doc_set(map, STR("entrypoint"), doc_new(arena, DOC_NULL));
    return map;
}

// The document of all texts together; NULL after an error that leaves nothing to look at.
static const struct doc *merge_texts(struct reader *r, struct str text)
{
    size_t n = r->opts->n_below + 1;
    const struct doc **docs = arena_array(r->ctx.arena, n, sizeof *docs);
    for (size_t i = 0; i < n; i++) {
        const struct config_text own = {r->opts->source, text, r->opts->doc};
        const struct config_text *t = i ? &r->opts->below[i - 1] : &own;
        docs[i] = t->doc ? t->doc : config_parse(&r->ctx, t->text, t->source);
        if (!docs[i] || !is_narrow(r, docs[i])) return NULL;
    }
    r->config.batches_per_step = batches_per_step(docs, n);
    const struct doc *merged = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct doc *normal = field_normalize(&r->ctx, r->table, docs[i]);
        if (!normal) return NULL;
        merged = field_merge(&r->ctx, r->table, merged, normal);
    }
    return field_merge(&r->ctx, r->table, merged, outside_defaults(r));
}

static int read_config(struct arena *arena, struct str text, const struct config_opts *opts,
                       const struct field_table *table, struct diag_list *diags, void *out)
{
    static const struct config_opts no_opts;
    struct reader r = {.ctx = {.arena = arena, .diags = diags}, .table = table};
    r.ctx.user = &r.config;
    r.opts = opts ? opts : &no_opts;
    r.config.is_new = r.opts->is_new;
    int n_errors = diags->n_errors;
    memset(out, 0, table->size);
    const struct doc *doc = merge_texts(&r, text);
    if (doc) field_read(&r.ctx, table, doc, out);
    return diags->n_errors == n_errors ? DET_OK : DET_EINVAL;
}

int exp_config_read(struct arena *arena, struct str text, const struct config_opts *opts,
                    struct exp_config *out, struct diag_list *diags)
{
    int rc = read_config(arena, text, opts, &exp_config_table, diags, out);
    out->text = text;
    return rc;
}

int job_config_read(struct arena *arena, struct str text, const struct config_opts *opts,
                    struct job_config *out, struct diag_list *diags)
{
    int rc = read_config(arena, text, opts, &job_config_table, diags, out);
    out->text = text;
    return rc;
}

static bool has_warning(const struct diag_list *list, const struct diag *warning)
{
    for (const struct diag *d = list->first; d; d = d->next)
        if (d->level == DIAG_WARNING && d->path && warning->path &&
            !strcmp(d->path, warning->path) && !strcmp(d->text, warning->text))
            return true;
    return false;
}

void config_warnings(struct arena *arena, bool job, struct str original, struct str complete,
                     struct diag_list *out)
{
    const struct config_opts opts = {.default_name = "", .entrypoint_optional = true};
    const struct str texts[] = {original, complete};
    for (size_t i = 0; i < STATIC_LEN(texts); i++) {
        struct diag_list diags = DIAG_INIT(arena);
        struct exp_config experiment;
        struct job_config generic;
        if (job)
            job_config_read(arena, texts[i], &opts, &generic, &diags);
        else
            exp_config_read(arena, texts[i], &opts, &experiment, &diags);
        for (const struct diag *d = diags.first; d; d = d->next)
            if (d->level == DIAG_WARNING && !has_warning(out, d))
                diag_add(out, DIAG_WARNING, (struct doc_pos){0}, d->path, "%s", d->text);
    }
}

// data.secrets with every value hidden.
static const struct doc *mask_data(struct arena *arena, const struct doc *data)
{
    if (!doc_find(data, "secrets")) return data;
    struct doc *out = doc_new(arena, DOC_MAP);
    for (const struct doc *e = data->first; e; e = e->next) {
        struct doc *copy = doc_share(arena, e);
        if (str_eqz(e->key, "secrets") && e->kind == DOC_MAP) {
            copy = doc_new(arena, DOC_MAP);
            for (const struct doc *s = e->first; s; s = s->next)
                doc_set(copy, s->key, doc_new_str(arena, FIELD_MASK));
        }
        doc_set(out, e->key, copy);
    }
    return out;
}

// "NAME=VALUE" with the value hidden.
static const char **mask_variables(struct arena *arena, const char *const *items, size_t n)
{
    const char **out = arena_array(arena, n, sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = arena_printf(arena, "%.*s=" FIELD_MASK, (int)strcspn(items[i], "="), items[i]);
    return out;
}

const char *config_mask_address(struct arena *arena, const char *line)
{
    const char *name = strstr(line, "://");
    size_t n = name ? strcspn(name + 3, "/?# \t@") : 0;
    if (!name || name[3 + n] != '@') return line;
    return arena_printf(arena, "%.*s" FIELD_MASK "%s", (int)(name + 3 - line), line, name + 3 + n);
}

static void mask_requirements(struct arena *arena, struct environment_config *e)
{
    const char **out = arena_array(arena, e->requirements.n, sizeof *out);
    for (size_t i = 0; i < e->requirements.n; i++)
        out[i] = config_mask_address(arena, e->requirements.items[i]);
    e->requirements.items = out;
}

static void mask_environment(struct arena *arena, struct environment_config *e)
{
    mask_requirements(arena, e);
    e->variables.cpu.items = mask_variables(arena, e->variables.cpu.items, e->variables.cpu.n);
    e->variables.cuda.items = mask_variables(arena, e->variables.cuda.items, e->variables.cuda.n);
    e->variables.rocm.items = mask_variables(arena, e->variables.rocm.items, e->variables.rocm.n);
}

struct doc *exp_config_write(struct arena *arena, const struct exp_config *cfg,
                             enum config_view view)
{
    struct exp_config shown = *cfg;
    if (view != CONFIG_WHOLE) shown.data = mask_data(arena, cfg->data);
    if (view == CONFIG_PUBLIC) mask_environment(arena, &shown.environment);
    return field_write(arena, &exp_config_table, &shown, view != CONFIG_WHOLE);
}

struct doc *job_config_write(struct arena *arena, const struct job_config *cfg,
                             enum config_view view)
{
    struct job_config shown = *cfg;
    if (view != CONFIG_WHOLE) shown.data = mask_data(arena, cfg->data);
    if (view == CONFIG_PUBLIC) mask_environment(arena, &shown.environment);
    return field_write(arena, &job_config_table, &shown, view != CONFIG_WHOLE);
}
