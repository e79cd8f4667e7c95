// Unit write.c: one checkpoint from ckpt_begin() to ckpt_commit().
#include "storage/store.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct ckpt {
    struct store *store;
    struct ckpt_info info;
    char id[UUID_TEXT_BYTES];
    char temp[UUID_TEXT_BYTES + sizeof TEMP_PREFIX];
    int dir, lock;
    struct buf path;
};

static int draw_id(struct uuid *out, det_err *err)
{
    static const struct uuid none;
    uint8_t random[16];
    if (memcmp(out, &none, sizeof none) != 0) return det_ok(err);
    if (getentropy(random, sizeof random) < 0) return fs_fail(err, "read", "/dev/urandom");
    *out = uuid_v4(random);
    return det_ok(err);
}

static int make_temp(struct ckpt *c, det_err *err)
{
    struct stat st;
    int rc = 0;
    if (mkdirat(c->store->dir, c->temp, 0777) < 0) {
        // Perhaps left by a process that died.
        if (errno == EEXIST) rc = store_clean(c->store, NULL, err);
        if (rc) return rc;
        if (mkdirat(c->store->dir, c->temp, 0777) < 0)
            return errno == EEXIST ? det_fail(err, DET_ESTATE, "another process is writing it")
                                   : fs_fail(err, "create", c->temp);
    }
    rc = dir_open_below(c->store->dir, c->temp, 0, &c->dir, err);
    if (rc) return rc;
    c->lock = lock_unfinished(c->dir);
    if (c->lock < 0) return fs_fail(err, "lock", c->temp);
    // A store_clean() elsewhere may have been faster than our lock.
    if (fstat(c->lock, &st) < 0 || !st.st_nlink)
        return det_fail(err, DET_ESTATE, "another process removed it");
    return det_ok(err);
}

static void ckpt_free(struct ckpt *c)
{
    if (c->dir >= 0) close(c->dir);
    if (c->lock >= 0) close(c->lock);
    buf_done(&c->path);
    free(c);
}

int ckpt_begin(struct store *s, const struct ckpt_info *info, struct ckpt **out, det_err *err)
{
    struct ckpt *c = xcalloc(1, sizeof *c);
    *c = (struct ckpt){.store = s, .info = *info, .dir = -1, .lock = -1, .path = BUF_INIT(8 << 10)};
    int rc = draw_id(&c->info.id, err);
    if (!rc) {
        uuid_format(c->info.id, c->id);
        snprintf(c->temp, sizeof c->temp, TEMP_PREFIX "%s", c->id);
        rc = make_temp(c, err);
    }
    if (rc) {
        rc = det_wrap(err, "checkpoint %s", c->id);
        ckpt_free(c);
        return rc;
    }
    *out = c;
    return rc;
}

// Leaves the path of a file in c->path, and makes the directories it needs.
static int find_path(struct ckpt *c, const char *name, det_err *err)
{
    if (!path_is_plain(str_from(name)))
        return det_fail(err, DET_EINVAL, "the file name '%s' leads elsewhere", name);
    const char *slash = strrchr(name, '/');
    if (slash) {
        char *folder = xstrndup(name, (size_t)(slash - name));
        int fd = -1;
        int rc = dir_open_below(c->dir, folder, DIR_CREATE, &fd, err);
        free(folder);
        if (rc) return rc;
        close(fd);
    }
    buf_clear(&c->path);
    buf_printf(&c->path, "%s/%s/%s", c->store->path, c->temp, name);
    if (buf_ok(&c->path)) return det_ok(err);
    return det_fail(err, DET_EINVAL, "the path of '%.100s' is too long", name);
}

const char *ckpt_path(struct ckpt *c, const char *name, det_err *err)
{
    if (!find_path(c, name, err)) return buf_str(&c->path).ptr;
    det_wrap(err, "checkpoint %s", c->id);
    return NULL;
}

int ckpt_put(struct ckpt *c, const char *name, struct str content, det_err *err)
{
    int rc = find_path(c, name, err);
    if (!rc) rc = fs_create(buf_str(&c->path).ptr, content, err); // synced by ckpt_commit()
    return rc ? det_wrap(err, "checkpoint %s", c->id) : rc;
}

// --- committing

// What is being collected while the directories are walked.
struct survey {
    struct arena arena;
    struct manifest_file *files;
    size_t n, cap;
    det_err *err;
};

static int survey_file(struct survey *all, int dir, const char *last, const char *name)
{
    struct manifest_file file = {.name = name};
    int fd = -1;
    int rc = dir_open_file(dir, last, &fd, all->err);
    if (!rc && fsync(fd) < 0) rc = fs_fail(all->err, "sync", name);
    if (!rc) rc = sum_file(fd, &file, all->err);
    if (fd >= 0) close(fd);
    if (rc) return rc;
    if (all->n == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 16;
        all->files = xrealloc(all->files, all->cap * sizeof *all->files);
    }
    all->files[all->n++] = file;
    return 0;
}

// Syncs and sums up everything in a directory. prefix is "" or "code/".
static int survey_dir(struct survey *all, int dir, const char *prefix)
{
    struct dir_entries entries;
    int rc = dir_list(dir, prefix, &all->arena, &entries, all->err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        const struct dir_entry *e = &entries.items[i];
        const char *name = arena_printf(&all->arena, "%s%s", prefix, e->name);
        int below = -1;
        if (!strcmp(name, LOCK_NAME) || !strcmp(name, CKPT_MANIFEST)) continue;
        if (!utf8_valid(str_from(name)))
            return det_fail(all->err, DET_EINVAL, "the file name '%s' is not UTF-8", name);
        if (e->kind == DIR_OTHER)
            return det_fail(all->err, DET_EINVAL, "'%s' is neither a file nor a directory", name);
        if (e->kind == DIR_FILE) {
            rc = survey_file(all, dir, e->name, name);
            continue;
        }
        rc = dir_open_below(dir, e->name, 0, &below, all->err);
        if (!rc) rc = survey_dir(all, below, arena_printf(&all->arena, "%s/", name));
        if (below >= 0) close(below);
    }
    return rc ? rc : dir_sync(dir, prefix, all->err);
}

static int by_name(const void *a, const void *b)
{
    const struct manifest_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// Later than every checkpoint that the store has seen, even if the clock was set back.
static int64_t next_saved_us(struct store *s)
{
    int64_t last = atomic_load(&s->last_saved_us), now;
    do {
        now = MAX(clock_unix_us(), last + 1);
    } while (!atomic_compare_exchange_weak(&s->last_saved_us, &last, now));
    return now;
}

static int write_synced(struct ckpt *c, const char *name, struct str content, det_err *err)
{
    struct fs_writer w = FS_WRITER_INIT;
    int rc = find_path(c, name, err);
    if (!rc) rc = fs_writer_open(&w, buf_str(&c->path).ptr, err);
    if (!rc) rc = fs_writer_add(&w, content.ptr, content.len, err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    return rc;
}

static int write_manifest(struct ckpt *c, const struct survey *all, det_err *err)
{
    const struct manifest m = {.id = c->id,
                               .trial_id = c->info.trial_id,
                               .steps_completed = c->info.steps_completed,
                               .saved_us = c->info.saved_us,
                               .files = {all->files, all->n}};
    struct buf text = BUF_INIT(MANIFEST_MAX_BYTES);
    manifest_encode(&m, &text);
    int rc = buf_ok(&text) ? write_synced(c, CKPT_MANIFEST, buf_str(&text), err)
                           : det_fail(err, DET_ELIMIT, "it has too many files: %zu", all->n);
    buf_done(&text);
    return rc;
}

static int seal(struct ckpt *c, det_err *err)
{
    struct survey all = {.err = err};
    int rc = survey_dir(&all, c->dir, "");
    if (!rc) {
        if (all.n) qsort(all.files, all.n, sizeof *all.files, by_name);
        c->info.n_bytes = 0;
        for (size_t i = 0; i < all.n; i++)
            c->info.n_bytes += all.files[i].n_bytes;
        c->info.saved_us = next_saved_us(c->store);
        rc = write_manifest(c, &all, err);
    }
    free(all.files);
    arena_done(&all.arena);
    return rc;
}

// The last steps. From the rename on the checkpoint is there; its lock goes last, because without
// it a store_clean() elsewhere would take the directory for one that nobody is writing.
static int publish(struct ckpt *c, det_err *err)
{
    int base = c->store->dir;
    if (renameat(base, c->temp, base, c->id) < 0)
        return errno == ENOTEMPTY || errno == EEXIST
                   ? det_fail(err, DET_ESTATE, "it exists already")
                   : fs_fail(err, "create", c->id);
    int rc = dir_sync(base, c->store->path, err);
    if (rc)
        renameat(base, c->id, base, c->temp);
    else
        unlinkat(c->dir, LOCK_NAME, 0);
    return rc;
}

int ckpt_commit(struct ckpt *c, struct ckpt_info *out, det_err *err)
{
    int rc = seal(c, err);
    if (!rc) rc = publish(c, err);
    if (rc) {
        rc = det_wrap(err, "checkpoint %s", c->id);
        ckpt_abort(c);
        return rc;
    }
    if (out) *out = c->info;
    ckpt_free(c);
    return rc;
}

void ckpt_abort(struct ckpt *c)
{
    if (!c) return;
    dir_remove(c->store->dir, c->temp, NULL); // if it fails, store_clean() tries again
    ckpt_free(c);
}
