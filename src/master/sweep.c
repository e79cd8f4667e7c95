// Unit sweep.c: files that nothing uses any more. What is used is looked up first, then the rest is
// removed, both by other threads.
#include "master/sweep.h"

#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/log.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// Between the upload and the experiment that is made of it.
enum { UNUSED_S = 3600 };

struct sweep {
    struct master *master;
    const char *dir;
    const char **used;
    size_t n_used;
    int64_t before_s;    // only what was changed before
    int64_t below_token; // only names that are numbers below; 0: any names
    struct arena arena;
};

static bool is_used(const struct sweep *s, const char *name)
{
    for (size_t i = 0; i < s->n_used; i++)
        if (str_eqz(str_from(name), s->used[i])) return true;
    return false;
}

static bool is_garbage(const struct sweep *s, int dir, const char *name)
{
    struct stat st;
    int64_t token;
    if (is_used(s, name)) return false;
    if (s->below_token) return number_to_int(str_from(name), 10, &token) && token < s->below_token;
    return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtime < s->before_s;
}

static void run(void *ctx, void *own)
{
    struct sweep *s = ctx;
    (void)own;
    struct dir_entries entries = {0};
    int dir = -1;
    det_err err;
    int rc = dir_open(s->dir, 0, &dir, &err);
    if (!rc) rc = dir_list(dir, s->dir, &s->arena, &entries, &err);
    for (size_t i = 0; !rc && i < entries.n; i++)
        if (is_garbage(s, dir, entries.items[i].name))
            rc = dir_remove(dir, entries.items[i].name, &err);
    if (rc) log_warn("files that are not needed any more: %s", err.msg);
    if (dir >= 0) close(dir);
}

static void done(void *ctx)
{
    struct sweep *s = ctx;
    arena_done(&s->arena);
    free(s);
}

static void read_code(void *ctx, void *own)
{
    struct sweep *s = ctx;
    struct db_list list;
    det_err err;
    if (db_contexts_list(own, &s->arena, &list, &err)) {
        log_warn("code of experiments: %s", err.msg);
        s->dir = NULL; // nothing is known to be garbage
        return;
    }
    s->used = list.items;
    s->n_used = list.n;
}

static void on_code(void *ctx)
{
    struct sweep *s = ctx;
    if (s->dir)
        worker_run(s->master->workers[WORK_FILES], &(struct work){run, done, s, 0});
    else
        done(s);
}

void sweep_code(struct master *m)
{
    struct sweep *s = xcalloc(1, sizeof *s);
    s->master = m;
    s->dir = arena_printf(&s->arena, "%s/code", m->data_dir);
    s->before_s = clock_unix_us() / 1000000 - UNUSED_S;
    worker_run(m->workers[WORK_READ], &(struct work){read_code, on_code, s, 0});
}

// --- logs

struct old_logs {
    struct master *master;
    int64_t now_us, usual_days;
    struct db_list trials;
    struct arena arena;
};

static void find_old_logs(void *ctx, void *own)
{
    struct old_logs *o = ctx;
    det_err err;
    if (db_old_logs_list(own, o->now_us, o->usual_days, &o->arena, &o->trials, &err))
        log_warn("logs that are too old: %s", err.msg);
}

static void on_old_logs(void *ctx)
{
    struct old_logs *o = ctx;
    const int64_t *ids = o->trials.items;
    if (o->trials.n && !db_refuses(o->master->db, NULL)) {
        struct db_tx *tx = db_tx_new(o->master->db);
        for (size_t i = 0; i < o->trials.n; i++)
            db_logs_delete(tx, ids[i], o->now_us);
        db_tx_submit(tx, NULL, NULL);
        log_info("the logs of %zu trials are deleted: they were kept long enough", o->trials.n);
    }
    arena_done(&o->arena);
    free(o);
}

void sweep_logs(struct master *m)
{
    const struct opt_int *usual = &m->cfg->log_retention_days;
    struct old_logs *o = xcalloc(1, sizeof *o);
    o->master = m;
    o->now_us = clock_unix_us();
    o->usual_days = usual->is_set ? usual->value : -1;
    worker_run(m->workers[WORK_READ], &(struct work){find_old_logs, on_old_logs, o, 0});
}

void sweep_trash(struct master *m)
{
    struct sweep *s = xcalloc(1, sizeof *s);
    s->dir = arena_printf(&s->arena, "%s/trash", m->data_dir);
    s->below_token = INT64_MAX;
    worker_run(m->workers[WORK_FILES], &(struct work){run, done, s, 0});
}

void sweep_workdirs(struct master *m)
{
    struct sweep *s = xcalloc(1, sizeof *s);
    s->dir = arena_printf(&s->arena, "%s/work", m->data_dir);
    s->used = arena_array(&s->arena, m->allocations.n + 1, sizeof *s->used);
    for (size_t i = 0; i < m->allocations.n; i++)
        s->used[s->n_used++] =
            arena_printf(&s->arena, "%lld", (long long)m->allocations.items[i].key);
    s->below_token = m->next_token;
    worker_run(m->workers[WORK_FILES], &(struct work){run, done, s, 0});
}
