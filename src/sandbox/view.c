// Unit view.c: the order in which the file system of a task is put together. Called by box.c.
//
// The order is what keeps hidden things hidden. What det itself gives to the task is copied first,
// from wherever it is. Then det's directories are covered, and only then is looked up what a user
// asks for: so nothing leads to them, whatever it is called. Then the rest is made read-only or
// covered, and the copies are attached.
#include "sandbox/view.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static void add_own(struct view *v, const char *path)
{
    ASSERT(v->n_own < v->max);
    v->own[v->n_own++] = path;
}

void view_add_cover(struct view *v, const char *path)
{
    ASSERT(v->n_covers < v->max);
    v->covers[v->n_covers++] = (struct view_cover){path, open(path, O_PATH | O_CLOEXEC)};
}

// --- what is mounted for the task

struct copy {
    const struct sandbox_mount *mount;
    bool is_dir;
    struct stat st;
    int fd; // -1: not there yet
};

static int copy_one(const struct sandbox *s, const struct sandbox_mount *m, struct copy *out,
                    det_err *err)
{
    char link[64], real[4096];
    int rc = 0, file = open(m->host, O_PATH | O_CLOEXEC);
    *out = (struct copy){.mount = m, .fd = -1};
    if (file < 0 || fstat(file, &out->st) < 0) {
        rc = fs_fail(err, "mount", m->host);
        goto out;
    }
    out->is_dir = S_ISDIR(out->st.st_mode);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, real, sizeof real - 1);
    real[n > 0 ? n : 0] = 0;
    if (m->asked && s->guarded && !guard_allows(s, real, m->read_only)) {
        rc = det_fail(err, DET_EDENIED,
                      "'%s' may be mounted %sby administrators only: mounting it gives access to "
                      "what belongs to others",
                      m->host, m->read_only ? "" : "for writing ");
        goto out;
    }
    rc = mount_copy(file, "", &out->fd, err);
    const struct mount_flags flags = {m->read_only, true, true, true};
    if (!rc) rc = mount_restrict(out->fd, "", flags, err);
out:
    if (file >= 0) close(file);
    return rc;
}

// In the name of the task's user, as far as files are concerned.
static void become_user(const struct sandbox *s, bool back)
{
    if (s->mode != SANDBOX_USERS) return;
    setfsgid(back ? 0 : (gid_t)s->gid);
    setfsuid(back ? 0 : (uid_t)s->uid);
}

static int copy_all(const struct sandbox *s, bool asked, struct copy *copies, det_err *err)
{
    int rc = 0;
    if (asked) become_user(s, false);
    for (size_t i = 0; !rc && i < s->mounts.n; i++)
        if (s->mounts.items[i].asked == asked)
            rc = copy_one(s, &s->mounts.items[i], &copies[i], err);
    if (asked) become_user(s, true);
    return rc && asked ? det_wrap(err, "bind_mounts") : rc;
}

// Programs and the like that nothing covers are there already.
static bool is_there(const struct copy *c)
{
    struct stat st;
    return c->mount->read_only && !c->mount->asked && !stat(c->mount->path, &st) &&
           st.st_dev == c->st.st_dev && st.st_ino == c->st.st_ino;
}

static int attach_all(struct view *v, const struct copy *copies, det_err *err)
{
    const struct sandbox *s = v->sandbox;
    int rc = 0;
    for (size_t i = 0; !rc && i < s->mounts.n; i++) {
        const struct copy *c = &copies[i];
        if (is_there(c)) continue;
        if (c->mount->asked) become_user(s, false);
        rc = place_make(v, c->mount->path, c->is_dir, err);
        if (c->mount->asked) become_user(s, true);
        if (!rc) rc = mount_attach(c->fd, c->mount->path, err);
        if (!c->mount->read_only) add_own(v, c->mount->path);
    }
    return rc;
}

// --- what is covered

// /dev/null takes the place of a file.
static int cover_file(const char *path, det_err *err)
{
    int null = -1;
    int rc = mount_copy(AT_FDCWD, "/dev/null", &null, err);
    if (!rc) rc = mount_attach(null, path, err);
    if (null >= 0) close(null);
    return rc;
}

static int cover(struct view *v, const char *path, det_err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) return det_ok(err); // nothing to see there
    if (S_ISREG(st.st_mode)) return cover_file(path, err);
    if (!S_ISDIR(st.st_mode)) return det_ok(err);
    int rc = mount_tmpfs(path, "mode=0755", err);
    if (rc) return rc;
    add_own(v, path);
    view_add_cover(v, path);
    return det_ok(err);
}

static int cover_all(struct view *v, const char *const *paths, size_t n, det_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++)
        rc = cover(v, paths[i], err);
    return rc;
}

// /run has the sockets of programs that start others for whoever may talk to them. What is needed
// of it: the addresses of name servers, and what drivers of GPUs put there.
static const char *const run_needs[] = {"/run/systemd/resolve", "/run/resolvconf",
                                        "/run/NetworkManager", "/run/nvidia-persistenced",
                                        "/run/opengl-driver"};

static int cover_run(struct view *v, det_err *err)
{
    int copies[STATIC_LEN(run_needs)], rc = 0;
    for (size_t i = 0; i < STATIC_LEN(run_needs); i++)
        if (mount_copy(AT_FDCWD, run_needs[i], &copies[i], NULL)) copies[i] = -1;
    rc = cover(v, "/run", err);
    for (size_t i = 0; i < STATIC_LEN(run_needs); i++) {
        if (copies[i] < 0) continue;
        if (!rc) rc = place_make(v, run_needs[i], true, err);
        if (!rc) rc = mount_attach(copies[i], run_needs[i], err);
        close(copies[i]);
    }
    return rc;
}

// Root could govern the machine by it, also without any capability.
static int protect_sys(det_err *err)
{
    struct statfs fs;
    if (statfs("/sys", &fs) < 0 || fs.f_type != SYSFS_MAGIC) return det_ok(err);
    const struct mount_flags all = {.read_only = true, .recursive = true};
    return mount_restrict(AT_FDCWD, "/sys", all, err);
}

static int make_strict(struct view *v, det_err *err)
{
    const struct sandbox *s = v->sandbox;
    const struct mount_flags all = {.read_only = true, .no_suid = true, .recursive = true};
    int rc = mount_restrict(AT_FDCWD, "/", all, err);
    if (!rc) rc = cover_all(v, s->covered.items, s->covered.n, err);
    return rc ? rc : cover_run(v, err);
}

// Nothing depends on it but that nobody is misled into keeping files there. Those that went away
// with an old root cannot be sealed, and need not be.
static void seal(const struct view *v)
{
    for (size_t i = 0; i < v->n_covers; i++)
        mount_restrict(v->covers[i].fd, "", (struct mount_flags){.read_only = true}, NULL);
}

// --- all of it

static int hide(struct view *v, det_err *err)
{
    const struct sandbox *s = v->sandbox;
    struct mount_names aliases = {0};
    int rc = mountinfo_find(&v->arena, s->hidden.items, s->hidden.n, &aliases, err);
    v->max = 2 * (s->hidden.n + s->covered.n + s->mounts.n + aliases.n) + 64;
    v->own = arena_array(&v->arena, v->max, sizeof *v->own);
    v->covers = arena_array(&v->arena, v->max, sizeof *v->covers);
    if (!rc) rc = cover_all(v, s->hidden.items, s->hidden.n, err);
    return rc ? rc : cover_all(v, aliases.items, aliases.n, err);
}

int view_build(const struct sandbox *s, det_err *err)
{
    struct view v = {.sandbox = s};
    struct copy *copies = arena_array(&v.arena, s->mounts.n + 1, sizeof *copies);
    for (size_t i = 0; i < s->mounts.n; i++)
        copies[i].fd = -1;
    int rc = 0;
    umask(0); // modes are those that are asked for
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) rc = fs_fail(err, "detach", "mounts");
    if (!rc) rc = copy_all(s, false, copies, err);
    if (!rc) rc = hide(&v, err);
    if (!rc) rc = copy_all(s, true, copies, err);
    if (!rc && s->mode == SANDBOX_STRICT) rc = make_strict(&v, err);
    if (!rc && s->mode != SANDBOX_STRICT) rc = protect_sys(err);
    if (!rc) rc = devices_mount(s->shm_bytes, err);
    if (!rc) rc = proc_mount(err);
    if (!rc) rc = attach_all(&v, copies, err);
    if (!rc) seal(&v);
    for (size_t i = 0; i < s->mounts.n; i++)
        if (copies[i].fd >= 0) close(copies[i].fd);
    for (size_t i = 0; i < v.n_covers; i++)
        if (v.covers[i].fd >= 0) close(v.covers[i].fd);
    arena_done(&v.arena);
    return rc;
}
