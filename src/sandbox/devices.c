// Unit devices.c: /dev, /proc and /dev/shm of a task. Called by view.c.
#include "sandbox/view.h"

#include "base/assert.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

// What programs take for granted, and accelerators. No disks, no memory of the machine, no
// terminals of others.
static const char *const plain[] = {"full", "null", "random", "tty", "urandom", "zero"};
static const char *const accelerators[] = {"accel",  "davinci",    "dri", "dxg",
                                           "habana", "infiniband", "kfd", "neuron",
                                           "nvidia", "tenstorrent"};

static const struct {
    const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"ptmx", "pts/ptmx"},          {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
};

static bool is_wanted(const char *name)
{
    for (size_t i = 0; i < STATIC_LEN(plain); i++)
        if (str_eqz(str_from(name), plain[i])) return true;
    for (size_t i = 0; i < STATIC_LEN(accelerators); i++)
        if (str_starts(str_from(name), str_from(accelerators[i]))) return true;
    return false;
}

struct node {
    const char *name;
    bool is_dir;
    int copy;
};

// Copies of the nodes, made before /dev is covered.
static int copy_nodes(struct arena *arena, struct node **out, size_t *n, det_err *err)
{
    struct dir_entries all = {0};
    struct stat st;
    int dev = -1;
    int rc = dir_open("/dev", 0, &dev, err);
    if (!rc) rc = dir_list(dev, "/dev", arena, &all, err);
    struct node *nodes = arena_array(arena, all.n + 1, sizeof *nodes);
    for (size_t i = 0; !rc && i < all.n; i++) {
        const char *name = all.items[i].name;
        if (!is_wanted(name) || fstatat(dev, name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
        if (!S_ISCHR(st.st_mode) && !S_ISDIR(st.st_mode)) continue;
        nodes[*n] = (struct node){name, S_ISDIR(st.st_mode), -1};
        rc = mount_copy(dev, name, &nodes[*n].copy, err);
        *n += !rc;
    }
    if (dev >= 0) close(dev);
    *out = nodes;
    return rc;
}

static int attach_node(const struct node *node, det_err *err)
{
    char path[300];
    snprintf(path, sizeof path, "/dev/%s", node->name);
    int fd = node->is_dir ? mkdir(path, 0755) : open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return fs_fail(err, "make", path);
    if (!node->is_dir) close(fd);
    return mount_attach(node->copy, path, err);
}

static int fill(int64_t shm_bytes, det_err *err)
{
    char options[64] = "mode=1777";
    for (size_t i = 0; i < STATIC_LEN(links); i++) {
        char path[64];
        snprintf(path, sizeof path, "/dev/%s", links[i].name);
        if (symlink(links[i].target, path) < 0) return fs_fail(err, "make", path);
    }
    if (mkdir("/dev/pts", 0755) < 0 || mkdir("/dev/shm", 0755) < 0)
        return fs_fail(err, "make", "/dev/shm");
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620") < 0)
        return fs_fail(err, "mount", "/dev/pts");
    if (shm_bytes) snprintf(options, sizeof options, "mode=1777,size=%lld", (long long)shm_bytes);
    return mount_tmpfs("/dev/shm", options, err);
}

int devices_mount(int64_t shm_bytes, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct node *nodes = NULL;
    size_t n = 0;
    int rc = copy_nodes(&arena, &nodes, &n, err);
    if (!rc && mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=1m") < 0)
        rc = fs_fail(err, "cover", "/dev");
    for (size_t i = 0; !rc && i < n; i++)
        rc = attach_node(&nodes[i], err);
    if (!rc) rc = fill(shm_bytes, err);
    for (size_t i = 0; i < n; i++)
        close(nodes[i].copy);
    if (!rc) rc = mount_restrict(AT_FDCWD, "/dev", (struct mount_flags){.read_only = true}, err);
    arena_done(&arena);
    return rc;
}

// Files by which root governs the machine, also without any capability: the kernel looks at the
// user alone.
static const char *const governed[] = {"acpi", "bus", "fs", "irq", "scsi", "sys", "sysrq-trigger"};

static int restrict_proc(const char *name, det_err *err)
{
    char path[64];
    int copy;
    snprintf(path, sizeof path, "/proc/%s", name);
    if (access(path, F_OK) < 0) return det_ok(err);
    int rc = mount_copy(AT_FDCWD, path, &copy, err);
    if (rc) return rc;
    rc = mount_restrict(copy, "", (struct mount_flags){.read_only = true, .recursive = true}, err);
    if (!rc) rc = mount_attach(copy, path, err);
    close(copy);
    return rc;
}

int proc_mount(det_err *err)
{
    int rc = 0;
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return fs_fail(err, "mount", "/proc");
    for (size_t i = 0; !rc && i < STATIC_LEN(governed); i++)
        rc = restrict_proc(governed[i], err);
    return rc;
}
