// Unit launch.c: what a task is given: a copy of the code, an environment, a command.
#include "master/state.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "master/code.h"
#include "master/isolation.h"
#include "master/pool.h"
#include "sys/dir.h"
#include "sys/log.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

// A list of strings up to a NULL, in an arena.
struct strings {
    struct arena *arena;
    const char **items;
    size_t n, cap;
};

static void add(struct strings *s, const char *text)
{
    if (s->n + 1 >= s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 32;
        const char **items = arena_array(s->arena, cap, sizeof *items);
        if (s->n) memcpy(items, s->items, s->n * sizeof *items);
        s->items = items;
        s->cap = cap;
    }
    s->items[s->n++] = text;
}

static void add_variable(struct strings *s, const char *name, const char *value)
{
    add(s, arena_printf(s->arena, "%s=%s", name, value));
}

static void add_number(struct strings *s, const char *name, int64_t value)
{
    add(s, arena_printf(s->arena, "%s=%lld", name, (long long)value));
}

static const char *json_of(const struct doc *doc, struct arena *arena)
{
    struct buf out = BUF_INIT(16 << 20);
    struct json_writer w;
    json_init(&w, &out, 0);
    json_put_doc(&w, doc);
    const char *text = arena_strdup(arena, buf_str(&out).ptr);
    buf_done(&out);
    return text;
}

// Of a task that runs as a Unix user of its own. It may be given another home.
static void add_person(struct strings *s, const struct confinement *c)
{
    if (!c->home) return;
    add_variable(s, "HOME", c->home);
    if (c->is_homeless) add_variable(s, "XDG_CACHE_HOME", c->cache);
    if (!c->username) return;
    add_variable(s, "USER", c->username);
    add_variable(s, "LOGNAME", c->username);
}

static void add_checkpoint(struct strings *s, const struct live_trial *t)
{
    const struct live_experiment *e = t->experiment;
    const char *warm = t->row.warm_start_checkpoint;
    bool is_elsewhere = warm && e->warm_start_dir && str_eqz(str_from(warm), e->warm_start);
    add_number(s, "DET_STEPS_COMPLETED", t->row.latest_checkpoint ? t->checkpoint_steps : 0);
    add_variable(s, "DET_CHECKPOINT_STORAGE", e->checkpoint_dir);
    if (t->row.latest_checkpoint) {
        add_variable(s, "DET_LATEST_CHECKPOINT", t->row.latest_checkpoint);
    } else if (warm) {
        add_variable(s, "DET_LATEST_CHECKPOINT", warm);
        if (is_elsewhere) add_variable(s, "DET_LATEST_CHECKPOINT_STORAGE", e->warm_start_dir);
    }
}

// Later ones win, so what people set cannot hide what the master says.
static void add_environment(struct strings *s, const struct live_allocation *a,
                            const struct confinement *c)
{
    const struct live_trial *t = a->trial;
    const struct live_experiment *e = t->experiment;
    struct master *m = e->master;
    add_person(s, c);
    for (size_t i = 0; i < e->cfg.environment.variables.cpu.n; i++)
        add(s, e->cfg.environment.variables.cpu.items[i]);
    add_variable(s, "DET_MASTER", m->url);
    add_variable(s, "DET_USE_TLS", m->cert_file ? "true" : "false");
    if (m->cert_file) {
        add_variable(s, "DET_MASTER_CERT_FILE", m->cert_file);
        add_variable(s, "DET_MASTER_CERT_NAME", m->cert_name);
    }
    add_variable(s, "DET_SESSION_TOKEN", a->session_token);
    add_variable(s, "DET_CLUSTER_ID", m->cluster_id);
    add_variable(s, "DET_TASK_ID", t->row.task_id);
    add_variable(s, "DET_ALLOCATION_ID", a->row.id);
    add_variable(s, "DET_TASK_TYPE", e->row.kind == EXPERIMENT_GENERIC ? "GENERIC" : "TRIAL");
    add_number(s, "DET_EXPERIMENT_ID", e->row.id);
    add_number(s, "DET_TRIAL_ID", t->row.id);
    add_number(s, "DET_TRIAL_RUN_ID", a->row.run_id);
    add_number(s, "DET_TRIAL_SEED", t->row.seed);
    add_variable(s, "DET_EXPERIMENT_CONFIG", e->config_json);
    add_variable(s, "DET_HPARAMS", json_of(t->row.hparams, s->arena));
    add_checkpoint(s, t);
}

// 'det-run exec' finds or makes the environment that the configuration asks for, where the task
// runs: its output is that of the task.
static void add_python(struct strings *s, const struct live_experiment *e)
{
    const struct environment_config *env = &e->cfg.environment;
    if (!env->python && !env->requirements.n) return;
    add(s, e->master->opts.runner);
    add(s, "exec");
    if (env->python) {
        add(s, "--python");
        add(s, env->python);
    }
    for (size_t i = 0; i < env->requirements.n; i++) {
        add(s, "--requirement");
        add(s, env->requirements.items[i]);
    }
    add(s, "--");
}

static void add_command(struct strings *s, const struct live_experiment *e, bool has_hook)
{
    const struct entrypoint *entry = &e->cfg.entrypoint;
    if (!e->cfg.launch_layer) add_python(s, e);
    if (has_hook) {
        add(s, "sh");
        add(s, "-c");
        add(s, ". ./startup-hook.sh; exec \"$@\"");
        add(s, "sh");
    }
    if (e->cfg.work_dir) {
        add(s, "sh");
        add(s, "-c");
        add(s, "cd -- \"$0\" && exec \"$@\"");
        add(s, e->cfg.work_dir);
    }
    switch (entry->kind) {
    case ENTRYPOINT_CLASS:
        add(s, e->master->opts.runner);
        add(s, entry->text);
        break;
    case ENTRYPOINT_SHELL:
        add(s, "sh");
        add(s, "-c");
        add(s, entry->text);
        break;
    case ENTRYPOINT_EXEC:
        for (size_t i = 0; i < entry->argv.n; i++)
            add(s, entry->argv.items[i]);
        break;
    case ENTRYPOINT_NONE:
        ASSERT(!"a configuration without an entrypoint");
    }
}

// "L X...": the words of the command go behind the launch layer.
static void add_launch_layer(struct strings *s, const struct live_experiment *e)
{
    if (!e->cfg.launch_layer) return;
    add_python(s, e);
    add(s, "sh");
    add(s, "-c");
    add(s, arena_printf(s->arena, "exec %s \"$@\"", e->cfg.launch_layer));
    add(s, "sh");
}

static void start(struct live_allocation *a, const struct confinement *c, bool has_hook)
{
    struct live_experiment *e = a->trial->experiment;
    struct arena arena = ARENA_INIT;
    struct strings env = {.arena = &arena}, argv = {.arena = &arena}, layer = {.arena = &arena};
    det_err err;
    add_environment(&env, a, c);
    add_command(&argv, e, has_hook);
    add_launch_layer(&layer, e);
    const struct rm_task task = {
        .token = a->row.token,
        .n_slots = (int)a->row.slots,
        .pool = e->pool->number,
        .argv = argv.items,
        .launch = layer.items,
        .env = env.items,
        .withheld = e->master->cfg->db ? "PG" : NULL, // how the master logs in to its database
        .workdir = a->workdir,
        .rank_per_slot = e->cfg.entrypoint.kind == ENTRYPOINT_CLASS && a->row.slots > 1 &&
                         !e->cfg.launch_layer, // which starts ranks as it likes
        .sandbox = &c->sandbox,
    };
    int rc = rm_start(e->master->rm, &task, &err);
    a->started = !rc;
    arena_done(&arena);
    if (rc) allocation_abandon(a, EXIT_ABORTED, err.msg);
}

// --- files, in the background

struct prepare {
    struct live_allocation *allocation;
    char *archive; // NULL: none
    char *workdir;
    struct arena arena;
    struct confinement confinement;
    struct strings links; // name, target, name, target, ...
    bool has_hook;
    int rc;
    det_err err;
    struct prepare *next; // that is started after it
};

// bind_mounts of a configuration, where tasks are not isolated: links in the working directory.
static int make_link(struct prepare *p, int dir, const char *name, const char *target, det_err *err)
{
    const char *slash = strrchr(name, '/');
    int parent = -1;
    if (slash) {
        const char *folder = arena_strndup(&p->arena, name, (size_t)(slash - name));
        int rc = dir_open_below(dir, folder, DIR_CREATE, &parent, err);
        if (rc) return det_wrap(err, "bind_mounts");
    }
    bool made = !symlinkat(target, slash ? parent : dir, slash ? slash + 1 : name);
    int error = errno;
    if (parent >= 0) close(parent);
    if (made || error == EEXIST) return det_ok(err);
    return det_fail(err, DET_EINVAL, "bind_mounts: cannot link '%s' to '%s': %s", name, target,
                    strerror(error));
}

static int make_links(struct prepare *p, det_err *err)
{
    int dir = -1;
    int rc = dir_open(p->workdir, 0, &dir, err);
    for (size_t i = 0; !rc && i < p->links.n; i += 2)
        rc = make_link(p, dir, p->links.items[i], p->links.items[i + 1], err);
    struct stat st;
    p->has_hook = !rc && !fstatat(dir, "startup-hook.sh", &st, 0);
    if (dir >= 0) close(dir);
    return rc;
}

static void prepare(void *ctx, void *own)
{
    struct prepare *p = ctx;
    (void)own;
    int dir = -1;
    if (p->archive)
        p->rc = code_unpack(p->archive, p->workdir, &p->err);
    else
        p->rc = dir_open(p->workdir, DIR_CREATE, &dir, &p->err);
    if (dir >= 0) close(dir);
    if (!p->rc) p->rc = make_links(p, &p->err);
    if (!p->rc) p->rc = confine_prepare(&p->confinement, p->workdir, &p->err);
}

static void prepare_free(struct prepare *p)
{
    arena_done(&p->arena);
    free(p->archive);
    free(p->workdir);
    free(p);
}

static void start_prepared(struct prepare *p)
{
    struct live_allocation *a = p->allocation;
    if (a->row.kill)
        allocation_abandon(a, EXIT_NONE, "it was killed before it began");
    else if (p->rc)
        allocation_abandon(a, p->rc == DET_ENOSPC ? EXIT_ABORTED : EXIT_NONE, p->err.msg);
    else
        start(a, &p->confinement, p->has_hook);
    prepare_free(p);
}

// Starting a process takes milliseconds: one in each turn of the loop, so that a thousand trials
// that begin at once do not keep everybody else waiting.
static void start_next(void *ctx)
{
    struct master *m = ctx;
    struct prepare *p = m->prepared;
    m->prepared = p->next;
    if (m->prepared) loop_timer_set(m->loop, &m->launch_timer, 0);
    start_prepared(p);
}

static void prepared(void *ctx)
{
    struct prepare *p = ctx;
    struct master *m = p->allocation->trial->experiment->master;
    struct prepare **last = &m->prepared;
    while (*last)
        last = &(*last)->next;
    *last = p;
    if (last != &m->prepared) return;
    m->launch_timer = (struct loop_timer){.fn = start_next, .ctx = m};
    loop_timer_set(m->loop, &m->launch_timer, 0);
}

void launch_close(struct master *m)
{
    for (struct prepare *p; (p = m->prepared);) {
        m->prepared = p->next;
        prepare_free(p);
    }
    loop_timer_clear(m->loop, &m->launch_timer);
}

// Only below the working directory; of the others the log tells that they are missing.
static void add_links(struct prepare *p, struct live_trial *t)
{
    const struct exp_config *cfg = &t->experiment->cfg;
    struct db_tx *tx = NULL;
    p->links.arena = &p->arena;
    for (size_t i = 0; i < cfg->bind_mounts.n; i++) {
        const struct bind_mount *b = &cfg->bind_mounts.items[i];
        const char *name = path_normal(&p->arena, b->container_path);
        if (b->container_path[0] != '/' && *name) {
            add(&p->links, name + 1);
            add(&p->links, arena_strdup(&p->arena, b->host_path));
            continue;
        }
        if (!tx) tx = db_tx_new(t->experiment->master->db);
        logs_say(t, LOG_LEVEL_WARNING, tx,
                 "bind_mounts: '%s' is not there: where tasks are not isolated, mounts are links, "
                 "below the working directory only",
                 b->container_path);
    }
    if (tx) db_tx_submit_must(tx, NULL, NULL);
}

char *launch_workdir(const struct master *m, int64_t token)
{
    struct arena arena = ARENA_INIT;
    char *path = xstrdup(arena_printf(&arena, "%s/work/%lld", m->data_dir, (long long)token));
    arena_done(&arena);
    return path;
}

void launch(struct live_allocation *a)
{
    struct live_experiment *e = a->trial->experiment;
    struct master *m = e->master;
    struct prepare *p = xcalloc(1, sizeof *p);
    struct arena arena = ARENA_INIT;
    p->allocation = a;
    if (e->row.code)
        p->archive = xstrdup(arena_printf(&arena, "%s/code/%s", m->data_dir, e->row.code));
    a->workdir = launch_workdir(m, a->row.token);
    p->workdir = xstrdup(a->workdir);
    p->confinement.arena = &p->arena;
    confine(a, &p->confinement);
    if (p->confinement.sandbox.mode == SANDBOX_NONE) add_links(p, a->trial);
    arena_done(&arena);
    worker_run(m->workers[WORK_FILES], &(struct work){prepare, prepared, p, e->row.user_id});
}

// --- afterwards

static void remove_workdir(void *ctx, void *own)
{
    char *path = ctx;
    (void)own;
    char *slash = strrchr(path, '/');
    int parent = -1;
    det_err err;
    *slash = 0;
    int rc = dir_open(path, 0, &parent, &err);
    if (!rc) rc = dir_remove(parent, slash + 1, &err);
    if (rc) log_warn("working directory: %s", err.msg);
    if (parent >= 0) close(parent);
}

void launch_clean(struct master *m, const char *workdir)
{
    const struct work work = {remove_workdir, free, workdir ? xstrdup(workdir) : NULL, 0};
    if (workdir) worker_run(m->workers[WORK_FILES], &work);
}
