// tests/support/mounts.h: what a test mounts is seen by nobody else, and ends with the test.
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>

// A mount namespace of our own, from the first call on. False: that needs root.
static inline bool make_own_mounts(void)
{
    static bool made;
    if (!made && !unshare(CLONE_NEWNS)) made = !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return made;
}

// A file system in memory, with options such as "size=1m". False: that needs root.
static inline bool mount_small_disk(const char *path, const char *options)
{
    return make_own_mounts() && !mount("tmpfs", path, "tmpfs", 0, options);
}
