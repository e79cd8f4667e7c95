// Unit room.c: the directories that belong to a task inside that of its allocation. Called by the
// shim, before there are ranks.
#include "task/shim.h"

#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *task_home(struct arena *arena, const char *dir)
{
    return arena_printf(arena, "%s/task", dir);
}

// It is new: nobody else can have put something there.
static int make_dir(int dir_fd, const char *name, const struct sandbox *s, det_err *err)
{
    if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) return fs_fail(err, "make", name);
    if (s->mode != SANDBOX_USERS) return det_ok(err);
    if (fchownat(dir_fd, name, (uid_t)s->uid, (gid_t)s->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return fs_fail(err, "give to the task's user", name);
    return det_ok(err);
}

const char *task_variable(const struct task_spec *spec, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = spec->env.n; i-- > 0;) {
        const char *text = spec->env.items[i];
        if (!strncmp(text, name, n) && text[n] == '=') return text + n + 1;
    }
    return NULL;
}

int task_sandbox(const char *dir, int dir_fd, const struct task_spec *spec, struct arena *arena,
                 struct sandbox *out, det_err *err)
{
    enum { OUR_OWN = 4 };
    struct sandbox s = spec->sandbox;
    const char *home = task_variable(spec, "HOME"), *own = task_home(arena, dir);
    bool is_strict = s.mode == SANDBOX_STRICT;
    struct sandbox_mount *mounts = arena_array(arena, s.mounts.n + OUR_OWN, sizeof *mounts);
    size_t n = 0;
    if (!home) home = getenv("HOME");
    int rc = 0;
    if (is_strict) {
        const char *tmp = arena_printf(arena, "%s/tmp", dir);
        rc = make_dir(dir_fd, "tmp", &s, err);
        mounts[n++] = (struct sandbox_mount){.host = tmp, .path = "/tmp"};
        if (!access("/var/tmp", F_OK))
            mounts[n++] = (struct sandbox_mount){.host = tmp, .path = "/var/tmp"};
    }
    if (!rc && is_strict && home && home[0] == '/' && home[1]) {
        rc = make_dir(dir_fd, "home", &s, err);
        mounts[n++] =
            (struct sandbox_mount){.host = arena_printf(arena, "%s/home", dir), .path = home};
    }
    if (!rc) rc = make_dir(dir_fd, "task", &s, err);
    mounts[n++] = (struct sandbox_mount){.host = own, .path = own}; // it may be in one of these
    for (size_t i = 0; i < s.mounts.n; i++)
        mounts[n++] = s.mounts.items[i];
    s.mounts.items = mounts;
    s.mounts.n = n;
    *out = s;
    return rc;
}
