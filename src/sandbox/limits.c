// Unit limits.c: finds out how memory and processes can be limited on this machine. Called by the
// master when it starts.
#include "sandbox/box.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "sandbox/view.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const limits_means_names[] = {"nothing", "cgroup v2", "cgroup v1",
                                          "rlimits and watching", NULL};

static bool has_word(struct str text, char separator, const char *word)
{
    while (text.ptr)
        if (str_eqz(str_cut(&text, separator), word)) return true;
    return false;
}

static bool write_word(const char *dir, const char *file, const char *word, struct arena *arena)
{
    int fd = open(arena_printf(arena, "%s/%s", dir, file), O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, word, strlen(word)) > 0;
    if (fd >= 0) close(fd);
    return written;
}

static bool file_has(const char *dir, const char *file, const char *word, struct arena *arena)
{
    struct buf text = BUF_INIT(4096);
    bool found = false;
    if (!fs_read(arena_printf(arena, "%s/%s", dir, file), &text, NULL)) {
        struct str line = buf_str(&text);
        found = has_word(str_cut(&line, '\n'), ' ', word);
    }
    buf_done(&text);
    return found;
}

// --- where we are

// The path of this process in a hierarchy, relative to its mount: "" or "/a/b"; NULL if the mount
// does not show it. controller "": that of version 2.
static const char *own_path(const struct mount_entry *e, const char *controller,
                            struct arena *arena)
{
    struct buf text = BUF_INIT(1 << 16);
    const char *path = NULL;
    if (fs_read("/proc/self/cgroup", &text, NULL)) buf_clear(&text);
    for (struct str rest = buf_str(&text); rest.len && !path;) {
        struct str line = str_cut(&rest, '\n');
        str_cut(&line, ':');
        struct str controllers = str_cut(&line, ':');
        if (!line.ptr || !has_word(controllers, ',', controller)) continue;
        size_t n_root = strlen(e->root);
        if (str_starts(line, str_from(e->root)))
            path = arena_strndup(arena, line.ptr + n_root, line.len - n_root);
    }
    buf_done(&text);
    return path && str_eqz(str_from(path), "/") ? "" : path;
}

// --- version 2

// Lets groups below dir have the controller. Refused where dir itself has processes.
static bool pass_on(const char *dir, const char *controller, struct arena *arena)
{
    return file_has(dir, "cgroup.subtree_control", controller, arena) ||
           write_word(dir, "cgroup.subtree_control", arena_printf(arena, "+%s", controller), arena);
}

static const char *make_v2(const char *dir, const char *name, const char *controller,
                           struct arena *arena)
{
    const char *group = arena_printf(arena, "%s/%s", dir, name);
    bool usable = !access(arena_printf(arena, "%s/cgroup.procs", dir), W_OK) &&
                  file_has(dir, "cgroup.controllers", controller, arena) &&
                  pass_on(dir, controller, arena) && (!mkdir(group, 0755) || errno == EEXIST) &&
                  pass_on(group, controller, arena);
    return usable ? group : NULL;
}

// The uppermost group that is ours to divide: whoever is moved between two groups needs the right
// to write to one that is above both.
static const char *find_v2(const struct mount_entries *all, const char *name,
                           const char *controller, struct arena *arena)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct mount_entry *e = &all->items[i];
        const char *own = str_eqz(e->type, "cgroup2") ? own_path(e, "", arena) : NULL;
        for (size_t n = 0; own && n <= strlen(own); n++) {
            if (own[n] && own[n] != '/') continue;
            const char *dir = arena_printf(arena, "%s%.*s", e->point, (int)n, own);
            const char *group = make_v2(dir, name, controller, arena);
            if (group) return group;
        }
    }
    return NULL;
}

// --- version 1

static const char *find_v1(const struct mount_entries *all, const char *name,
                           const char *controller, struct arena *arena)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct mount_entry *e = &all->items[i];
        if (!str_eqz(e->type, "cgroup") || !has_word(e->options, ',', controller)) continue;
        const char *own = own_path(e, controller, arena);
        const char *groups[] = {arena_printf(arena, "%s/%s", e->point, name),
                                own ? arena_printf(arena, "%s%s/%s", e->point, own, name) : NULL};
        for (size_t k = 0; k < STATIC_LEN(groups); k++)
            if (groups[k] && (!mkdir(groups[k], 0755) || errno == EEXIST) &&
                !access(arena_printf(arena, "%s/cgroup.procs", groups[k]), W_OK))
                return groups[k];
    }
    return NULL;
}

static enum limits_means find(const struct mount_entries *all, const char *name,
                              const char *controller, struct arena *arena, const char **parent)
{
    *parent = find_v2(all, name, controller, arena);
    if (*parent) return LIMITS_CGROUP2;
    *parent = find_v1(all, name, controller, arena);
    return *parent ? LIMITS_CGROUP1 : LIMITS_RLIMIT;
}

void limits_find(const char *name, struct arena *arena, struct limits_place *out)
{
    struct mount_entries all = {0};
    *out = (struct limits_place){.memory = LIMITS_RLIMIT, .processes = LIMITS_RLIMIT};
    if (!mountinfo_read(arena, &all, NULL)) {
        out->memory = find(&all, name, "memory", arena, &out->memory_parent);
        out->processes = find(&all, name, "pids", arena, &out->process_parent);
    }
    // The kernel lets root start as many processes as it likes.
    if (out->processes == LIMITS_RLIMIT && privileges_are_full()) out->processes = LIMITS_NONE;
}
