// Unit confine.c: the sandbox of one task: what is hidden, what is mounted, as whom it runs. Called
// by launch.c.
#include "master/confine.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/path.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// --- places

static const char *real_path(struct arena *arena, const char *path)
{
    char full[PATH_MAX];
    return path && realpath(path, full) && full[1] ? arena_strdup(arena, full) : NULL;
}

// Programs and headers, as det-run looks for them (runner/compile.c).
static void find_programs(struct master *m)
{
    enum { LEVELS = 4 };
    char path[PATH_MAX];
    struct isolation *i = m->isolation;
    if (!m->opts.runner) return;
    snprintf(path, sizeof path, "%s", m->opts.runner);
    for (int k = 0; k < LEVELS; k++) {
        char *slash = strrchr(path, '/');
        if (!slash) return;
        *slash = 0;
        if (k == 0) i->programs = real_path(&m->arena, path);
        const char *headers = arena_printf(&m->arena, "%s/include", path);
        if (access(arena_printf(&m->arena, "%s/det/det.h", headers), R_OK)) continue;
        i->headers = real_path(&m->arena, headers);
        return;
    }
}

// The directory is made if it is not there: what appears there later must be hidden, too.
static void find_config(struct master *m)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    const char *path = NULL;
    int fd = -1;
    if (xdg && *xdg)
        path = arena_printf(&m->arena, "%s/det", xdg);
    else if (home && *home)
        path = arena_printf(&m->arena, "%s/.config/det", home);
    if (!path || dir_open(path, DIR_CREATE, &fd, NULL)) return;
    close(fd);
    m->isolation->config = real_path(&m->arena, path);
}

// A link stays one: what it leads to may change.
static const char *absolute(struct arena *arena, const char *path)
{
    char here[PATH_MAX];
    if (!path || !*path || *path == '/') return path && *path ? path : NULL;
    return getcwd(here, sizeof here) ? arena_printf(arena, "%s/%s", here, path) : NULL;
}

// Files with secrets of the master that are not in its directory.
static void find_secrets(struct master *m)
{
    const char **out = m->isolation->secrets, *home = getenv("HOME");
    *out++ = absolute(&m->arena, m->opts.config_file);
    *out++ = absolute(&m->arena, m->cfg->tls.key);
    if (!m->cfg->db) return;
    *out++ = absolute(&m->arena, getenv("PGPASSFILE"));
    if (!home || !*home) return;
    *out++ = arena_printf(&m->arena, "%s/.pgpass", home);
    *out++ = arena_printf(&m->arena, "%s/.postgresql", home);
}

void confine_find_places(struct master *m)
{
    find_secrets(m);
    m->isolation->home = real_path(&m->arena, getenv("HOME"));
    find_config(m);
    find_programs(m);
}

// --- what users may name

static bool is_of_master(const struct master *m, const char *path)
{
    const char *config = m->isolation->config;
    return path_is_inside(path, m->data_dir) || (config && path_is_inside(path, config));
}

int isolation_check(const struct live_experiment *e, det_err *err)
{
    const struct master *m = e->master;
    struct arena arena = ARENA_INIT;
    const char *bad = NULL;
    bool has_own_storage = e->cfg.checkpoint_storage.kind != STORAGE_DEFAULT;
    if (has_own_storage && is_of_master(m, path_normal(&arena, e->checkpoint_dir)))
        bad = "checkpoint_storage";
    for (size_t i = 0; !bad && i < e->cfg.bind_mounts.n; i++)
        if (is_of_master(m, path_normal(&arena, e->cfg.bind_mounts.items[i].host_path)))
            bad = "bind_mounts";
    arena_done(&arena);
    if (!bad) return 0;
    return det_fail(
        err, DET_EINVAL,
        "%s: the directories of the master ('%s') are not for tasks; choose another one", bad,
        m->data_dir);
}

// --- lists

static void add_text(struct confinement *c, const char ***items, size_t *n, const char *text)
{
    const char **more = arena_array(c->arena, *n + 1, sizeof *more);
    if (*n) memcpy(more, *items, *n * sizeof *more);
    more[(*n)++] = text;
    *items = more;
}

static void hide(struct confinement *c, const char *path)
{
    if (path) add_text(c, &c->sandbox.hidden.items, &c->sandbox.hidden.n, path);
}

static void cover(struct confinement *c, const char *path)
{
    if (path) add_text(c, &c->sandbox.covered.items, &c->sandbox.covered.n, path);
}

static void add_mount(struct confinement *c, struct sandbox_mount mount)
{
    size_t n = c->sandbox.mounts.n;
    struct sandbox_mount *more = arena_array(c->arena, n + 1, sizeof *more);
    if (n) memcpy(more, c->sandbox.mounts.items, n * sizeof *more);
    more[n] = mount;
    c->sandbox.mounts.items = more;
    c->sandbox.mounts.n = n + 1;
}

static void add_own(struct confinement *c, const char *path)
{
    size_t n = 0;
    while (c->own_dirs[n])
        n++;
    ASSERT(n + 1 < STATIC_LEN(c->own_dirs));
    c->own_dirs[n] = path;
    add_mount(c, (struct sandbox_mount){.host = path, .path = path});
}

static void add_readable(struct confinement *c, const char *path)
{
    if (path) add_mount(c, (struct sandbox_mount){.host = path, .path = path, .read_only = true});
}

// --- what the loop knows

static void add_limits(const struct master *m, int64_t token, struct confinement *c)
{
    const struct limits_place *place = &m->isolation->limits;
    struct sandbox_limits *l = &c->sandbox.limits;
    l->memory_bytes = m->cfg->task_memory.value;
    l->n_processes = m->cfg->task_processes.value;
    if (l->memory_bytes && place->memory_parent)
        l->memory_cgroup =
            arena_printf(c->arena, "%s/%lld", place->memory_parent, (long long)token);
    if (l->n_processes && place->process_parent)
        l->process_cgroup =
            arena_printf(c->arena, "%s/%lld", place->process_parent, (long long)token);
}

// Compiled trials and the like are kept between runs, apart from those of other users: what one of
// them puts there is run by the next task.
static void add_cache(const struct master *m, struct confinement *c)
{
    if (!m->isolation->home) return;
    add_own(c, c->cache);
    c->sandbox.mounts.items[c->sandbox.mounts.n - 1].path =
        arena_printf(c->arena, "%s/.cache", m->isolation->home);
}

static void add_storage(const struct live_allocation *a, struct confinement *c)
{
    const struct live_experiment *e = a->trial->experiment;
    const char *dir = arena_strdup(c->arena, e->checkpoint_dir);
    if (e->cfg.checkpoint_storage.kind == STORAGE_DEFAULT)
        add_own(c, dir);
    else if (c->sandbox.mode == SANDBOX_STRICT)
        add_mount(c, (struct sandbox_mount){.host = dir, .path = dir, .asked = true});
    if (e->warm_start_dir)
        add_readable(c, arena_printf(c->arena, "%s/%s", e->warm_start_dir, e->warm_start));
}

static void add_bind_mounts(const struct live_allocation *a, struct confinement *c)
{
    const struct exp_config *cfg = &a->trial->experiment->cfg;
    for (size_t i = 0; i < cfg->bind_mounts.n; i++) {
        const struct bind_mount *b = &cfg->bind_mounts.items[i];
        const char *below = path_normal(c->arena, b->container_path);
        add_mount(c, (struct sandbox_mount){
                         .host = arena_strdup(c->arena, b->host_path),
                         .path = b->container_path[0] == '/'
                                     ? below
                                     : arena_printf(c->arena, "%s%s", a->workdir, below),
                         .read_only = b->read_only,
                         .asked = true,
                     });
    }
}

void confine(const struct live_allocation *a, struct confinement *c)
{
    const struct live_experiment *e = a->trial->experiment;
    const struct master *m = e->master;
    const struct isolation *i = m->isolation;
    const struct known_user *owner = isolation_user(m, e->row.user_id);
    struct sandbox *s = &c->sandbox;
    s->mode = isolation_mode(m);
    add_limits(m, a->row.token, c);
    if (s->mode == SANDBOX_NONE) return;
    s->shm_bytes = e->cfg.resources.shm_bytes.is_set ? e->cfg.resources.shm_bytes.value : 0;
    s->guarded = s->mode == SANDBOX_STRICT && !(owner && owner->is_admin);
    c->cache =
        arena_printf(c->arena, "%s/users/%lld/cache", m->data_dir, (long long)e->row.user_id);
    hide(c, m->data_dir);
    hide(c, i->config);
    for (size_t k = 0; k < STATIC_LEN(i->secrets); k++)
        hide(c, i->secrets[k]);
    if (s->mode == SANDBOX_STRICT) {
        cover(c, "/home");
        cover(c, "/root");
        cover(c, i->home);
        add_cache(m, c);
    }
    if (s->mode == SANDBOX_USERS && owner) {
        c->username = arena_strdup(c->arena, owner->username);
        c->link = owner->link;
    }
    add_own(c, arena_strdup(c->arena, a->workdir));
    add_storage(a, c);
    add_readable(c, i->programs);
    add_readable(c, i->headers);
    if (m->cert_file) add_readable(c, arena_printf(c->arena, "%s/public", m->data_dir));
    add_bind_mounts(a, c);
}

// --- what a worker finds out

static int find_unix_user(struct confinement *c, struct passwd *out, char *space, size_t size,
                          det_err *err)
{
    struct passwd *found = NULL;
    const char *name = c->username ? c->username : "";
    int error = c->link.uid ? getpwuid_r((uid_t)c->link.uid, out, space, size, &found)
                            : getpwnam_r(name, out, space, size, &found);
    if (!found && c->link.uid) { // a number without a name will do
        *out = (struct passwd){.pw_name = NULL, .pw_dir = "/", .pw_uid = (uid_t)c->link.uid};
        found = out;
    }
    if (!found)
        return det_fail(err, DET_ENOTFOUND,
                        "user '%s' has no Unix user to run tasks as%s%s: make one of that name, or "
                        "use 'det user link-with-agent-user'",
                        name, error ? ": " : "", error ? strerror(error) : "");
    if (c->link.uid) out->pw_gid = (gid_t)c->link.gid;
    if (!out->pw_uid)
        return det_fail(err, DET_EDENIED,
                        "tasks of user '%s' would run as root; link the user "
                        "with another Unix user",
                        name);
    return det_ok(err);
}

static int become(struct confinement *c, det_err *err)
{
    char space[16 << 10];
    struct passwd user;
    gid_t groups[SANDBOX_MAX_GROUPS];
    int n = SANDBOX_MAX_GROUPS;
    int rc = find_unix_user(c, &user, space, sizeof space, err);
    if (rc) return rc;
    struct sandbox *s = &c->sandbox;
    s->uid = user.pw_uid;
    s->gid = user.pw_gid;
    if (!user.pw_name || getgrouplist(user.pw_name, user.pw_gid, groups, &n) < 0) {
        groups[0] = user.pw_gid;
        n = 1;
    }
    s->groups.items = arena_array(c->arena, (size_t)n, sizeof *s->groups.items);
    s->groups.n = (size_t)n;
    for (int i = 0; i < n; i++)
        s->groups.items[i] = groups[i];
    c->home = arena_strdup(c->arena, user.pw_dir);
    struct stat st;
    c->is_homeless = stat(c->home, &st) || st.st_uid != user.pw_uid;
    if (c->is_homeless) add_own(c, c->cache);
    c->username = user.pw_name ? arena_strdup(c->arena, user.pw_name) : c->username;
    return det_ok(err);
}

static int make_own(const struct confinement *c, const char *path, det_err *err)
{
    int fd = -1, rc = dir_open(path, DIR_CREATE, &fd, err);
    const struct sandbox *s = &c->sandbox;
    if (!rc && s->mode == SANDBOX_USERS && fchown(fd, (uid_t)s->uid, (gid_t)s->gid) < 0)
        rc = fs_fail(err, "give to the task's user", path);
    if (fd >= 0) close(fd);
    return rc;
}

// The code was unpacked by the master.
static int give_all(const struct confinement *c, int dir, const char *path, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries all = {0};
    const struct sandbox *s = &c->sandbox;
    int rc = dir_list(dir, path, &arena, &all, err);
    for (size_t i = 0; !rc && i < all.n; i++) {
        const char *name = all.items[i].name;
        int below = -1;
        if (fchownat(dir, name, (uid_t)s->uid, (gid_t)s->gid, AT_SYMLINK_NOFOLLOW) < 0)
            rc = fs_fail(err, "give to the task's user", name);
        if (rc || all.items[i].kind != DIR_FOLDER) continue;
        rc = dir_open_below(dir, name, 0, &below, err);
        if (!rc) rc = give_all(c, below, name, err);
        if (below >= 0) close(below);
    }
    arena_done(&arena);
    return rc;
}

int confine_prepare(struct confinement *c, const char *workdir, det_err *err)
{
    int dir = -1;
    int rc = c->sandbox.mode == SANDBOX_USERS ? become(c, err) : 0;
    for (size_t i = 0; !rc && c->own_dirs[i]; i++)
        rc = make_own(c, c->own_dirs[i], err);
    if (rc || c->sandbox.mode != SANDBOX_USERS) return rc;
    rc = dir_open(workdir, 0, &dir, err);
    if (!rc) rc = give_all(c, dir, workdir, err);
    if (dir >= 0) close(dir);
    return rc;
}
