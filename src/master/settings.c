// Unit settings.c: the configuration of the master: reads it, and reads it again when told so.
#include "master/settings.h"

#include "base/assert.h"
#include "sys/fs.h"
#include "sys/log.h"
#include <limits.h>
#include <sys/resource.h>

enum { MAX_BYTES = 1 << 20 };

int master_read_config(struct arena *arena, const char *file, const struct doc *options,
                       struct master_config *out, struct diag_list *diags)
{
    struct buf text = BUF_INIT(MAX_BYTES);
    struct master_config_opts opts = {.source = file, .options = options};
    const char *slash = file ? strrchr(file, '/') : NULL;
    det_err err;
    int rc = file ? fs_read(file, &text, &err) : 0;
    if (rc) {
        diag_add(diags, DIAG_ERROR, (struct doc_pos){0}, NULL, "%s", err.msg);
        goto out;
    }
    if (slash) opts.dir = arena_strndup(arena, file, (size_t)(slash - file));
    struct str copy = {arena_strndup(arena, buf_str(&text).ptr, text.len), text.len};
    rc = master_config_read(arena, copy, &opts, out, diags);
out:
    buf_done(&text);
    return rc;
}

void settings_open(struct master *m)
{
    struct master_config *cfg = arena_alloc(&m->arena, sizeof *cfg);
    *cfg = *m->opts.config;
    m->cfg = cfg;
    m->settings = master_config_settings(&m->arena, cfg);
}

// Files and tasks need descriptors, too.
struct http_limits settings_limits(const struct limits_config *limits)
{
    struct rlimit files = {0};
    int64_t n = limits->max_connections;
    getrlimit(RLIMIT_NOFILE, &files);
    int64_t most = (int64_t)MIN(files.rlim_cur / 8 * 5, (rlim_t)INT_MAX);
    if (n > most) {
        log_warn("there can be %lld connections, not %lld: the system lets the master have %llu "
                 "files open (ulimit -n)",
                 (long long)most, (long long)n, (unsigned long long)files.rlim_cur);
        n = most;
    }
    return (struct http_limits){.connections = (int)n,
                                .per_address = (int)limits->max_connections_per_address,
                                .per_user = (int)limits->max_connections_per_user,
                                .reserve = (int)limits->reserved_connections};
}

// --- again

static void take_private(struct master *m, struct master_config *cfg,
                         const struct master_config *now)
{
    (void)m;
    cfg->private = now->private;
}

static void take_limits(struct master *m, struct master_config *cfg,
                        const struct master_config *now)
{
    int64_t max_connections = cfg->limits.max_connections;
    cfg->limits = now->limits;
    cfg->limits.max_connections = max_connections;
    const struct http_limits limits = settings_limits(&cfg->limits);
    http_server_set_limits(m->server, &limits);
}

static void take_log_retention(struct master *m, struct master_config *cfg,
                               const struct master_config *now)
{
    (void)m;
    cfg->log_retention_days = now->log_retention_days;
}

// What may change while the master runs: take() brings it into force. All else needs a restart.
static const struct {
    const char *key;
    void (*take)(struct master *m, struct master_config *cfg, const struct master_config *now);
} reloads[] = {
    {"private", take_private},
    {"limits.max_connections_per_address", take_limits},
    {"limits.max_connections_per_user", take_limits},
    {"limits.reserved_connections", take_limits},
    {"retention_policy.log_retention_days", take_log_retention},
};

// A key of the table, or one below it.
static bool is_below(struct str key, const char *section)
{
    struct str s = str_from(section);
    return str_starts(key, s) && (key.len == s.len || key.ptr[s.len] == '.');
}

static bool take(struct master *m, struct str key, struct master_config *cfg,
                 const struct master_config *now)
{
    for (size_t i = 0; i < STATIC_LEN(reloads); i++) {
        if (!is_below(key, reloads[i].key)) continue;
        reloads[i].take(m, cfg, now);
        return true;
    }
    return false;
}

static const struct doc *find_setting(const struct doc *settings, struct str key)
{
    for (const struct doc *s = settings->first; s; s = s->next)
        if (str_eq(doc_find(s, "key")->text, key)) return s;
    return NULL;
}

static bool has(const struct doc *list, struct str key)
{
    for (const struct doc *d = list->first; d; d = d->next)
        if (str_eq(d->text, key)) return true;
    return false;
}

// A setting that stays as it is until the master is started again.
static struct doc *pending(struct arena *arena, const struct doc *old, const struct doc *new)
{
    static const char *const kept[] = {"key", "value", "source"};
    struct doc *out = doc_new(arena, DOC_MAP);
    for (size_t i = 0; i < STATIC_LEN(kept); i++)
        doc_set(out, str_from(kept[i]), doc_share(arena, doc_find(old, kept[i])));
    doc_set(out, STR("afterRestart"), doc_share(arena, doc_find(new, "value")));
    return out;
}

// What is in force, with the places where it stands now; what is not in force yet stays as it was.
static void note_settings(struct master *m, const struct master_config *now,
                          const struct doc *waiting)
{
    struct doc *out = doc_new(&m->arena, DOC_LIST);
    const struct doc *new = master_config_settings(&m->arena, now);
    for (const struct doc *s = new->first; s; s = s->next) {
        struct str key = doc_find(s, "key")->text;
        const struct doc *old = has(waiting, key) ? find_setting(m->settings, key) : NULL;
        doc_append(out, old ? pending(&m->arena, old, s) : doc_share(&m->arena, s));
    }
    m->settings = out;
}

static void take_changes(struct master *m, const struct master_config *now)
{
    struct arena *a = &m->arena;
    const struct doc *changes = master_config_changes(a, m->cfg, now);
    struct doc *waiting = doc_new(a, DOC_LIST);
    struct master_config *cfg = arena_alloc(a, sizeof *cfg);
    *cfg = *m->cfg;
    for (const struct doc *key = changes->first; key; key = key->next) {
        if (take(m, key->text, cfg, now)) {
            log_info("configuration: '%.*s' has changed and is in force", STR_ARG(key->text));
            continue;
        }
        log_warn("configuration: '%.*s' has changed; that needs a restart of the master",
                 STR_ARG(key->text));
        doc_append(waiting, doc_share(a, key));
    }
    if (!changes->n) log_info("configuration: nothing has changed");
    m->cfg = cfg; // threads that have the one before go on with that
    note_settings(m, now, waiting);
}

void settings_reload(struct master *m)
{
    struct diag_list diags = DIAG_INIT(&m->arena);
    struct master_config now;
    struct buf lines = BUF_INIT(1 << 16);
    if (!m->opts.config_file) return;
    if (master_read_config(&m->arena, m->opts.config_file, m->opts.options, &now, &diags)) {
        diag_print(&diags, DIAG_ERROR, &lines);
        log_error("the configuration stays as it was: %s", buf_str(&lines).ptr);
    } else {
        take_changes(m, &now);
    }
    buf_done(&lines);
}
