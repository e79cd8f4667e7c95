// Unit mount.c: the kernel's calls for mounts, with errors in words. Called by view.c.
#include "sandbox/view.h"

#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

int mount_copy(int dir, const char *path, int *out, det_err *err)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
    int fd = open_tree(dir, path, *path ? flags : flags | AT_EMPTY_PATH);
    if (fd < 0) return fs_fail(err, "mount", path);
    *out = fd;
    return det_ok(err);
}

int mount_attach(int copy, const char *path, det_err *err)
{
    if (move_mount(copy, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return fs_fail(err, "mount something at", path);
    return det_ok(err);
}

int mount_restrict(int fd, const char *path, struct mount_flags flags, det_err *err)
{
    struct mount_attr attr = {0};
    if (flags.read_only) {
        attr.attr_set |= MOUNT_ATTR_RDONLY;
        attr.propagation = MS_PRIVATE; // what is mounted there later, outside, could be written
    }
    if (flags.no_suid) attr.attr_set |= MOUNT_ATTR_NOSUID;
    if (flags.no_dev) attr.attr_set |= MOUNT_ATTR_NODEV;
    unsigned how = (flags.recursive ? AT_RECURSIVE : 0u) | (*path ? 0u : AT_EMPTY_PATH);
    if (mount_setattr(fd, path, how, &attr, sizeof attr) < 0)
        return fs_fail(err, "restrict the mount of", *path ? path : "a directory");
    return det_ok(err);
}

int mount_tmpfs(const char *path, const char *options, det_err *err)
{
    if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return fs_fail(err, "cover", path);
    return det_ok(err);
}
