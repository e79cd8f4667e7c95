// Unit master.c: the configuration of a master: what the person who runs it decides.
#include "config/tables.h"

#include "base/assert.h"
#include "base/path.h"
#include "doc/json.h"

#define M(member) offsetof(struct master_config, member)
#define T(member) offsetof(struct tls_config, member)
#define L(member) offsetof(struct limits_config, member)

static const char *const isolations[] = {"", "none", "private", "strict", "users", NULL};

static void check_some(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    if (!((const struct opt_int *)member)->value)
        field_error(ctx, value, "must be more than 0; leave it out, and there is no limit");
}

#define C(member) offsetof(struct scheduler_config, member)
#define P(member) offsetof(struct pool_config, member)

static const char *const schedulers[] = {"priority", "fair_share", "round_robin", NULL};
static const char *const pool_kinds[] = {"local", NULL};

static void check_text(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    if (!**(const char *const *)member) field_error(ctx, value, "must not be empty");
}

// clang-format off
static const struct field scheduler_rows[] = {
    {"type", FIELD_ENUM, C(type), .values = schedulers, .def = "priority",
     .help = "Who gets slots: priority (the most important first), fair_share (every experiment a share by its "
             "weight) or round_robin (experiments take turns)."},
    {"preemption", FIELD_BOOL, C(preemption), .def = "true",
     .help = "With priority: whether less important work is stopped, and goes on later, when more important work needs "
             "its slots."},
    {"default_priority", FIELD_INT, C(default_priority), .def = "42", FIELD_RANGE(1, 99),
     .help = "The priority of experiments that say none. 1 is served first, 99 last."},
};
static const struct field slot_item = {.name = "", .type = FIELD_INT, FIELD_RANGE(0, MASTER_MAX_SLOTS - 1)};
static const struct field_table scheduler_table = {.size = sizeof(struct scheduler_config), FIELD_ROWS(scheduler_rows)};

static const struct field pool_rows[] = {
    {"name", FIELD_STR, P(name), .required = true, .check = check_text,
     .help = "What experiments call it: resources.resource_pool."},
    {"description", FIELD_STR, P(description), .help = "For people."},
    {"type", FIELD_ENUM, P(kind), .values = pool_kinds, .def = "local",
     .help = "Whose slots they are: local (of the machine of the master)."},
    {"slot_ids", FIELD_LIST, P(slot_ids), .item = &slot_item,
     .help = "Which slots of the machine, by number. Without it, all that no other pool names."},
    {"scheduler", FIELD_TABLE, P(scheduler), .table = &scheduler_table,
     .help = "The scheduler of this pool. What it does not say is as in the section scheduler."},
    {"max_aux_tasks", FIELD_INT, P(max_aux_tasks), .def = "100", FIELD_RANGE(0, 100000),
     .help = "How many tasks without slots there may be at a time."},
};
static const struct field_table pool_table = {.size = sizeof(struct pool_config), FIELD_ROWS(pool_rows)};
static const struct field pool_item = {.name = "", .type = FIELD_TABLE, .table = &pool_table};

static const struct field retention_rows[] = {
    {"log_retention_days", FIELD_OPT_INT, M(log_retention_days), FIELD_RANGE(-1, 32767),
     .help = "How many days logs are kept after the end of their trial, unless the experiment says so itself. -1 means for "
             "ever, and so does leaving it out."},
};
static const struct field_table retention_table = {.size = sizeof(struct master_config), FIELD_ROWS(retention_rows)};

static const struct field tls_rows[] = {
    {"enabled", FIELD_TRI, T(enabled),
     .help = "Whether the master speaks https. Without cert it makes a certificate for itself; "
             "programs on this machine trust it, those elsewhere need a copy of DIR/master.pem "
             "(DET_MASTER_CERT_FILE). With cert, https is the default."},
    {"cert", FIELD_STR, T(cert),
     .help = "The certificate for https and those that lead to its authority: a PEM file."},
    {"key", FIELD_STR, T(key), .help = "The key of cert: a PEM file."},
};

static const struct field limits_rows[] = {
    {"max_connections", FIELD_INT, L(max_connections), .def = "10000", FIELD_RANGE(16, 1000000),
     .help = "How many connections there may be at a time."},
    {"max_connections_per_address", FIELD_INT, L(max_connections_per_address), .def = "256",
     FIELD_RANGE(1, 1000000), .help = "How many of them one address may have without a token."},
    {"max_connections_per_user", FIELD_INT, L(max_connections_per_user), .def = "2000",
     FIELD_RANGE(1, 1000000),
     .help = "How many of them one user may have. Tasks and the user who started the master have "
             "no limit."},
    {"reserved_connections", FIELD_INT, L(reserved_connections), .def = "1000",
     FIELD_RANGE(1, 1000000),
     .help = "How many of them are kept from users and from those without a token, so that tasks "
             "and the user who started the master always get through."},
};
// clang-format on

static void check_tls(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct tls_config *t = self;
    if (!t->cert == !t->key) return;
    field_error(ctx, doc_find(map, t->cert ? "cert" : "key"),
                "cert and key go together: %s is missing", t->cert ? "key" : "cert");
}

static const struct field_table tls_table = {
    .size = sizeof(struct tls_config), FIELD_ROWS(tls_rows), .check = check_tls};
static const struct field_table limits_table = {.size = sizeof(struct limits_config),
                                                FIELD_ROWS(limits_rows)};

static void check_db(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    struct str db = str_from(*(const char *const *)member);
    if (!str_starts(db, STR("postgresql://")) && !str_starts(db, STR("postgres://")))
        field_error(ctx, value,
                    "must be the address of a database in a server, such as "
                    "postgresql://det@db.example.org/det");
}

// clang-format off
static const struct field master_rows[] = {
    {"listen", FIELD_STR, M(listen), .def = "127.0.0.1",
     .help = "The address to listen on. 127.0.0.1 is for this machine only; 0.0.0.0 is for all of "
             "its networks, and needs TLS."},
    {"port", FIELD_INT, M(port), .def = "8080", FIELD_RANGE(0, 65535),
     .help = "The port to listen on. 0 means the one of last time, or any that is free."},
    {"tls", FIELD_TABLE, M(tls), .table = &tls_table, .help = "Encryption, and who the master is."},
    {"insecure", FIELD_BOOL, M(insecure), .def = "false",
     .help = "Whether listen may be any address without TLS. Whoever can see the network can then "
             "read passwords and tokens."},
    {"db", FIELD_STR, M(db), .secret = true, .check = check_db,
     .help = "The database, if it is in a server: postgresql://USER@HOST/NAME, as PostgreSQL's programs know it. A second "
             "master with the same waits until this one ends, and takes over. Without it, a file in the data directory."},
    {"slots", FIELD_OPT_INT, M(slots), FIELD_RANGE(1, MASTER_MAX_SLOTS),
     .help = "How many slots this machine has. Without it, one for each of its GPUs; or one, if "
             "there are none."},
    {"isolation", FIELD_ENUM, M(isolation), .values = isolations,
     .help = "What tasks are kept from: none; private (det's own files and other processes); "
             "strict (and they write nowhere but in their own directories); users (private, and "
             "each user runs as a Unix user; for root). Without it, private with one user and "
             "strict with several."},
    {"task_memory", FIELD_CODEC, M(task_memory), .codec = &bytes_codec, .check = check_some,
     .help = "How much memory a task may use, such as 16G. Without it, any."},
    {"task_processes", FIELD_OPT_INT, M(task_processes), FIELD_RANGE(1, 4194304),
     .help = "How many processes and threads a task may have. Without it, any number."},
    {"private", FIELD_BOOL, M(private), .def = "false",
     .help = "Whether every experiment is treated as if its configuration said private: true."},
    {"limits", FIELD_TABLE, M(limits), .table = &limits_table,
     .help = "How much of the master others may take up."},
    {"scheduler", FIELD_TABLE, M(scheduler), .table = &scheduler_table,
     .help = "How slots are given to experiments."},
    {"resource_pools", FIELD_LIST, M(pools), .item = &pool_item,
     .help = "The pools of slots. Without it, one named default, with all slots of this machine."},
    {"default_resource_pool", FIELD_STR, M(default_pool),
     .help = "The pool of experiments that name none. Without it, the first."},
    {"checkpoint_storage", FIELD_TABLE, M(checkpoint_storage), .table = &storage_table,
     .help = "Where checkpoints of experiments go that do not say so themselves, and how many are kept: the same keys as there."},
    {"retention_policy", FIELD_TABLE, 0, .table = &retention_table, .help = "How long logs are kept."},
    {"ui_dir", FIELD_STR, M(ui_dir),
     .help = "The directory to read the files of the web page from, for those who work on it. "
             "Without it, those that are built in."},
};
// clang-format on

// --- pools

static const struct doc *pool_doc(const struct doc *map, size_t i)
{
    const struct doc *pools = doc_find(map, "resource_pools");
    return pools && pools->kind == DOC_LIST && i < pools->n ? doc_at(pools, i) : NULL;
}

// What a pool does not say about its scheduler.
static void inherit_scheduler(const struct doc *pool, const struct scheduler_config *from,
                              struct scheduler_config *to)
{
    const struct doc *own = doc_find(pool, "scheduler");
    if (!doc_find(own, "type")) to->type = from->type;
    if (!doc_find(own, "preemption")) to->preemption = from->preemption;
    if (!doc_find(own, "default_priority")) to->default_priority = from->default_priority;
}

static const struct pool_config *find_pool(const struct master_config *m, const char *name,
                                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (m->pools.items[i].name && !strcmp(m->pools.items[i].name, name))
            return &m->pools.items[i];
    return NULL;
}

static bool has_slot(const struct pool_config *p, int64_t id)
{
    for (size_t i = 0; i < p->slot_ids.n; i++)
        if (p->slot_ids.items[i] == id) return true;
    return false;
}

// Each slot belongs to one pool, and what is left over to one.
static void check_slots(struct field_ctx *ctx, const struct doc *map, const struct master_config *m,
                        size_t i)
{
    const struct pool_config *p = &m->pools.items[i];
    for (size_t k = 0; k < i; k++) {
        const struct pool_config *other = &m->pools.items[k];
        if (!p->slot_ids.n && !other->slot_ids.n)
            field_error(ctx, pool_doc(map, i),
                        "pools '%s' and '%s' would both have all slots that no other pool names; "
                        "give one of them slot_ids",
                        other->name, p->name);
        for (size_t s = 0; s < p->slot_ids.n; s++)
            if (has_slot(other, p->slot_ids.items[s]))
                field_error(ctx, doc_find(pool_doc(map, i), "slot_ids"),
                            "slot %lld is in pool '%s' already", (long long)p->slot_ids.items[s],
                            other->name);
    }
}

static void check_pools(struct field_ctx *ctx, const struct doc *map, void *self)
{
    struct master_config *m = self;
    if (!m->pools.n) {
        struct doc *usual = doc_new(ctx->arena, DOC_MAP);
        doc_set(usual, STR("name"), doc_new_str(ctx->arena, "default"));
        m->pools.items = arena_alloc(ctx->arena, sizeof *m->pools.items);
        field_read(ctx, &pool_table, usual, m->pools.items);
        m->pools.n = 1;
    }
    for (size_t i = 0; i < m->pools.n; i++) {
        struct pool_config *p = &m->pools.items[i];
        inherit_scheduler(pool_doc(map, i), &m->scheduler, &p->scheduler);
        if (find_pool(m, p->name, i))
            field_error(ctx, doc_find(pool_doc(map, i), "name"), "there are two pools named '%s'",
                        p->name);
        check_slots(ctx, map, m, i);
    }
    if (m->default_pool && !find_pool(m, m->default_pool, m->pools.n))
        field_error(ctx, doc_find(map, "default_resource_pool"), "there is no pool named '%s'",
                    m->default_pool);
    det_err err;
    if (storage_check(&m->checkpoint_storage, &err))
        field_error(ctx, doc_find(map, "checkpoint_storage"), "%s", err.msg);
}

const struct field_table master_config_table = {
    .size = sizeof(struct master_config), FIELD_ROWS(master_rows), .check = check_pools};

const struct doc *master_config_defaults(struct arena *arena, const struct master_config *cfg)
{
    const struct doc *storage = doc_find(cfg->doc, "checkpoint_storage");
    if (!storage || storage->kind != DOC_MAP) return NULL;
    struct doc *out = doc_new(arena, DOC_MAP);
    doc_set(out, STR("checkpoint_storage"), doc_share(arena, storage));
    return out;
}

// --- reading

// A path of the file is meant from where the file is; one of the command line from where that was
// typed.
static void place_path(struct arena *arena, const struct master_config_opts *opts,
                       const struct doc *value, const char **path)
{
    bool is_of_file = value && value->pos.source && opts->source && opts->dir &&
                      str_eqz(str_from(value->pos.source), opts->source);
    if (*path && **path != '/' && is_of_file)
        *path = arena_printf(arena, "%s/%s", opts->dir, *path);
}

static void place_paths(struct arena *arena, const struct master_config_opts *opts,
                        struct master_config *cfg)
{
    const struct doc *tls = doc_find(cfg->doc, "tls");
    place_path(arena, opts, doc_find(tls, "cert"), &cfg->tls.cert);
    place_path(arena, opts, doc_find(tls, "key"), &cfg->tls.key);
    place_path(arena, opts, doc_find(cfg->doc, "ui_dir"), &cfg->ui_dir);
}

int master_config_read(struct arena *arena, struct str text, const struct master_config_opts *opts,
                       struct master_config *out, struct diag_list *diags)
{
    struct field_ctx ctx = {.arena = arena, .diags = diags};
    const struct field_table *table = &master_config_table;
    int n_errors = diags->n_errors;
    *out = (struct master_config){0};
    const struct doc *file = config_parse(&ctx, text, opts->source), *options = NULL;
    if (file) file = field_normalize(&ctx, table, file);
    if (opts->options) options = field_normalize(&ctx, table, opts->options);
    if (file) {
        out->doc = field_merge(&ctx, table, options, file);
        field_read(&ctx, table, out->doc, out);
        place_paths(arena, opts, out);
    }
    return diags->n_errors == n_errors ? DET_OK : DET_EINVAL;
}

// --- showing

static const char *source_of(struct arena *arena, const struct doc *said)
{
    if (!said || said->kind == DOC_NULL) return "default";
    if (!said->pos.line) return said->pos.source;
    return arena_printf(arena, "%s:%d", said->pos.source, said->pos.line);
}

// The leaves below a map. said: what file and options say there; NULL: nothing.
static void add_settings(struct arena *arena, const char *path, const struct doc *map,
                         const struct doc *said, struct doc *out)
{
    for (const struct doc *e = map->first; e; e = e->next) {
        const char *key = arena_printf(arena, "%s%s%.*s", path, *path ? "." : "", STR_ARG(e->key));
        const struct doc *below = doc_find(said, e->key.ptr);
        if (e->kind == DOC_MAP) {
            add_settings(arena, key, e, below, out);
            continue;
        }
        struct doc *setting = doc_new(arena, DOC_MAP);
        doc_set(setting, STR("key"), doc_new_str(arena, key));
        doc_set(setting, STR("value"), doc_share(arena, e));
        doc_set(setting, STR("source"), doc_new_str(arena, source_of(arena, below)));
        doc_append(out, setting);
    }
}

static struct doc *list_settings(struct arena *arena, const struct master_config *cfg, bool mask)
{
    struct doc *out = doc_new(arena, DOC_LIST);
    const struct doc *whole = field_write(arena, &master_config_table, cfg, mask);
    add_settings(arena, "", whole, cfg->doc, out);
    return out;
}

struct doc *master_config_write(struct arena *arena, const struct master_config *cfg)
{
    return field_write(arena, &master_config_table, cfg, true);
}

struct doc *master_config_settings(struct arena *arena, const struct master_config *cfg)
{
    return list_settings(arena, cfg, true);
}

static const struct doc *value_of(const struct doc *settings, const struct doc *key)
{
    for (const struct doc *s = settings->first; s; s = s->next)
        if (doc_equal(doc_find(s, "key"), key)) return doc_find(s, "value");
    return NULL;
}

struct doc *master_config_changes(struct arena *arena, const struct master_config *before,
                                  const struct master_config *now)
{
    const struct doc *old = list_settings(arena, before, false);
    const struct doc *new = list_settings(arena, now, false);
    struct doc *out = doc_new(arena, DOC_LIST);
    for (const struct doc *s = new->first; s; s = s->next) {
        const struct doc *key = doc_find(s, "key"), *value = value_of(old, key);
        if (!value || !doc_equal(value, doc_find(s, "value")))
            doc_append(out, doc_share(arena, key));
    }
    for (const struct doc *s = old->first; s; s = s->next) // what another kind of storage has not
        if (!value_of(new, doc_find(s, "key")))
            doc_append(out, doc_share(arena, doc_find(s, "key")));
    return out;
}
