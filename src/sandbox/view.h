// sandbox/view.h: the file system as a task sees it. Private to the layer; called by process 1 of a
// sandbox, in a mount namespace of its own.
#pragma once

#include "base/arena.h"
#include "sandbox/sandbox.h"

// Everything: mounts, /dev, /proc.
int view_build(const struct sandbox *s, det_err *err);

// A view in the making.
struct view {
    const struct sandbox *sandbox;
    struct arena arena;
    const char **own; // directories of the task alone, in which names can be made
    size_t n_own;
    struct view_cover {
        const char *path;
        int fd; // of its own mount, whatever comes to lie over it
    } * covers; // directories in memory; they become read-only in the end
    size_t n_covers;
    size_t max; // of both
};

void view_add_cover(struct view *v, const char *path); // which has just been mounted

// --- mount.c: the calls of the kernel

struct mount_flags {
    bool read_only, no_suid, no_dev;
    bool recursive; // all that is mounted below, too
};

// A copy of what is at path, with all that is mounted below it, not attached anywhere yet.
int mount_copy(int dir, const char *path, int *out, det_err *err);
int mount_attach(int copy, const char *path, det_err *err);
int mount_restrict(int fd, const char *path, struct mount_flags flags, det_err *err);
int mount_tmpfs(const char *path, const char *options, det_err *err);

// --- place.c: where something can be mounted

// Makes path, which is to hold a directory or a file, if it is not there, without touching a file
// system of others: where a step is missing, the directory above is replaced by one in memory with
// the same content.
int place_make(struct view *v, const char *path, bool is_dir, det_err *err);

// --- devices.c

int devices_mount(int64_t shm_bytes, det_err *err); // /dev, /dev/pts, /dev/shm
int proc_mount(det_err *err);                       // /proc

// --- mountinfo.c

// One line of /proc/self/mountinfo:
//     36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw
struct mount_entry {
    struct str device, type, options; // options: those at the end of the line
    const char *root, *point;         // "" for "/": then both can be put in front of "/x"
};

struct mount_entries {
    struct mount_entry *items;
    size_t n;
};

int mountinfo_read(struct arena *arena, struct mount_entries *out, det_err *err);

// Other names of the directories: places where the same file system is mounted once more. And
// other mounts of /proc and /dev, through which other processes and disks would be seen.
struct mount_names {
    const char **items;
    size_t n;
};
int mountinfo_find(struct arena *arena, const char *const *dirs, size_t n_dirs,
                   struct mount_names *out, det_err *err);

// --- guard.c

// Whether a user who is no administrator may mount the real path.
bool guard_allows(const struct sandbox *s, const char *path, bool read_only);
