// Unit verify.c: checkpoints against their manifests; lists of them.
#include "storage/store.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

// Hands over the content of a file piece by piece, from its beginning.
static int read_pieces(int fd, void (*take)(void *ctx, const void *piece, size_t n), void *ctx,
                       const char *name, det_err *err)
{
    enum { PIECE = 64 << 10 };
    char piece[PIECE];
    int64_t at = 0;
    for (;;) {
        ssize_t got = pread(fd, piece, sizeof piece, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fs_fail(err, "read", name);
        if (got == 0) return det_ok(err);
        take(ctx, piece, (size_t)got);
        at += got;
    }
}

static void add_to_sum(void *ctx, const void *piece, size_t n)
{
    struct manifest_file *file = ctx;
    file->crc32c = crc32c_add((uint32_t)file->crc32c, piece, n);
    file->n_bytes += (int64_t)n;
}

int sum_file(int fd, struct manifest_file *file, det_err *err)
{
    file->n_bytes = file->crc32c = 0;
    return read_pieces(fd, add_to_sum, file, file->name, err);
}

static void add_to_text(void *ctx, const void *piece, size_t n)
{
    buf_add(ctx, piece, n);
}

// Reads and checks the manifest of an open checkpoint directory.
static int manifest_load(int dir, const char *id, struct arena *arena, struct manifest *out,
                         det_err *err)
{
    struct buf text = BUF_INIT(MANIFEST_MAX_BYTES);
    struct manifest m;
    int fd = -1;
    int rc = dir_open_file(dir, CKPT_MANIFEST, &fd, err);
    if (!rc) rc = read_pieces(fd, add_to_text, &text, CKPT_MANIFEST, err);
    if (!rc && !buf_ok(&text)) rc = det_fail(err, DET_ECORRUPT, CKPT_MANIFEST " is too large");
    if (!rc) rc = manifest_parse(buf_str(&text), arena, &m, err);
    if (!rc && strcmp(m.id, id) != 0)
        rc = det_fail(err, DET_ECORRUPT, CKPT_MANIFEST " is that of checkpoint '%.40s'", m.id);
    if (fd >= 0) close(fd);
    buf_done(&text);
    if (!rc) *out = m;
    return rc;
}

static struct ckpt_info manifest_info(const struct manifest *m)
{
    struct ckpt_info info = {
        .trial_id = m->trial_id, .steps_completed = m->steps_completed, .saved_us = m->saved_us};
    if (uuid_parse(m->id, &info.id, NULL)) memset(&info.id, 0, sizeof info.id);
    for (size_t i = 0; i < m->files.n; i++)
        info.n_bytes += m->files.items[i].n_bytes;
    return info;
}

static int verify_file(int dir, const struct manifest_file *wanted, det_err *err)
{
    struct manifest_file found = {.name = wanted->name};
    struct stat st;
    int fd = -1;
    int rc = dir_open_file(dir, wanted->name, &fd, err);
    if (rc) return rc;
    if (fstat(fd, &st) < 0)
        rc = fs_fail(err, "read", wanted->name);
    else if (st.st_size != wanted->n_bytes)
        rc = det_fail(err, DET_ECORRUPT, "'%s' has %lld bytes instead of %lld", wanted->name,
                      (long long)st.st_size, (long long)wanted->n_bytes);
    if (!rc) rc = sum_file(fd, &found, err);
    if (!rc && (found.n_bytes != wanted->n_bytes || found.crc32c != wanted->crc32c))
        rc = det_fail(err, DET_ECORRUPT, "the checksum of '%s' is wrong", wanted->name);
    close(fd);
    return rc;
}

// A file that cannot be had is damage, whatever the reason.
static int as_damage(int rc, det_err *err)
{
    if (rc && err) err->code = DET_ECORRUPT;
    return rc ? DET_ECORRUPT : 0;
}

// Opens a checkpoint and reads its manifest. *dir is the caller's to close, if it is not -1.
static int open_checkpoint(struct store *s, const char *id, struct arena *arena, int *dir,
                           struct manifest *out, det_err *err)
{
    int rc = dir_open_below(s->dir, id, 0, dir, err);
    return rc ? rc : as_damage(manifest_load(*dir, id, arena, out, err), err);
}

int ckpt_verify(struct store *s, struct uuid id, struct ckpt_info *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct manifest m;
    char text[UUID_TEXT_BYTES];
    int dir = -1;
    uuid_format(id, text);
    int rc = open_checkpoint(s, text, &arena, &dir, &m, err);
    for (size_t i = 0; !rc && i < m.files.n; i++)
        rc = as_damage(verify_file(dir, &m.files.items[i], err), err);
    if (dir >= 0) close(dir);
    if (rc)
        rc = det_wrap(err, "checkpoint %s", text);
    else if (out)
        *out = manifest_info(&m);
    arena_done(&arena);
    return rc;
}

// --- lists

static void see_saved(struct store *s, int64_t saved_us)
{
    int64_t last = atomic_load(&s->last_saved_us);
    while (saved_us > last && !atomic_compare_exchange_weak(&s->last_saved_us, &last, saved_us))
        ;
}

static void add_damage(struct ckpt_list *list, struct arena *arena, const char *name,
                       const char *reason)
{
    list->damaged[list->n_damaged++] =
        (struct ckpt_damage){arena_strdup(arena, name), arena_strdup(arena, reason)};
}

static void look_at(struct store *s, const char *name, int64_t trial_id, struct arena *arena,
                    struct ckpt_list *list)
{
    struct arena scratch = ARENA_INIT;
    struct manifest m;
    det_err why = {0};
    int dir = -1;
    int rc = open_checkpoint(s, name, &scratch, &dir, &m, &why);
    if (rc == DET_ECORRUPT) {
        add_damage(list, arena, name, why.msg);
    } else if (!rc) { // otherwise it was deleted just now
        see_saved(s, m.saved_us);
        if (m.trial_id == trial_id) list->items[list->n++] = manifest_info(&m);
    }
    if (dir >= 0) close(dir);
    arena_done(&scratch);
}

static int newest_first(const void *a, const void *b)
{
    const struct ckpt_info *x = a, *y = b;
    if (x->saved_us != y->saved_us) return x->saved_us < y->saved_us ? 1 : -1;
    return memcmp(&x->id, &y->id, sizeof x->id);
}

static bool is_checkpoint_name(const char *name)
{
    char again[UUID_TEXT_BYTES];
    struct uuid id;
    if (uuid_parse(name, &id, NULL)) return false;
    uuid_format(id, again);
    return !strcmp(name, again);
}

int ckpt_list(struct store *s, int64_t trial_id, struct arena *arena, struct ckpt_list *out,
              det_err *err)
{
    struct arena scratch = ARENA_INIT;
    struct dir_entries all;
    int rc = dir_list(s->dir, s->path, &scratch, &all, err);
    if (!rc) {
        // find_newest() moves items to damaged: there is room for all in both.
        *out = (struct ckpt_list){.items = arena_array(arena, all.n + 1, sizeof *out->items),
                                  .damaged = arena_array(arena, all.n + 1, sizeof *out->damaged)};
        for (size_t i = 0; i < all.n; i++)
            if (all.items[i].kind == DIR_FOLDER && is_checkpoint_name(all.items[i].name))
                look_at(s, all.items[i].name, trial_id, arena, out);
        qsort(out->items, out->n, sizeof *out->items, newest_first);
    }
    arena_done(&scratch);
    return rc;
}

int ckpt_find_newest(struct store *s, int64_t trial_id, struct arena *arena, struct ckpt_info *out,
                     struct ckpt_list *skipped, det_err *err)
{
    int rc = ckpt_list(s, trial_id, arena, skipped, err);
    if (rc) return rc;
    for (size_t i = 0; i < skipped->n; i++) {
        const struct ckpt_info *one = &skipped->items[i];
        char name[UUID_TEXT_BYTES];
        det_err why = {0};
        rc = ckpt_verify(s, one->id, out, &why);
        if (!rc) return det_ok(err);
        uuid_format(one->id, name);
        if (rc == DET_ECORRUPT) add_damage(skipped, arena, name, why.msg);
    }
    return det_fail(err, DET_ENOTFOUND, "'%s' has no whole checkpoint of trial %lld (%zu damaged)",
                    s->path, (long long)trial_id, skipped->n_damaged);
}
