// Unit fetch.c: checkpoints of other trials, through the master. Called by the trainer for batch
// inference.
#include "client/core.h"

#include "base/path.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

struct fetch {
    det_core *core;
    struct arena arena;
    struct store *store;
    const struct doc *record;
    struct uuid id;
    char uuid[UUID_TEXT_BYTES];
};

// --- one file

struct download {
    det_core *core;
    const char *url, *path;
    int fd;
    int64_t n_bytes;
    int error; // errno of a write that failed; 0: none did
};

static bool write_piece(void *ctx, struct str piece)
{
    struct download *d = ctx;
    while (piece.len) {
        ssize_t n = write(d->fd, piece.ptr, piece.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            d->error = errno;
            return false;
        }
        piece = (struct str){piece.ptr + n, piece.len - (size_t)n};
        d->n_bytes += n;
    }
    return true;
}

static int download_once(void *ctx, det_err *err)
{
    struct download *d = ctx;
    const struct http_call call = {.path = d->url};
    d->n_bytes = 0;
    d->fd = open(d->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (d->fd < 0) return fs_fail(err, "write", d->path);
    int rc = http_call_pieces(d->core->client, &call, write_piece, d, err);
    close(d->fd);
    errno = d->error;
    return d->error ? fs_fail(err, "write", d->path) : rc;
}

static int fetch_file(struct fetch *f, struct ckpt *ckpt, const struct doc *file, det_err *err)
{
    const char *name = arena_strndup(&f->arena, file->key.ptr, file->key.len);
    struct buf url = BUF_INIT(64 << 10);
    int64_t n_bytes = 0;
    if (!path_is_plain(file->key))
        return det_fail(err, DET_ECORRUPT, "'%s' is not the name of a file", name);
    http_encode_path(&url, file->key);
    struct download d = {.core = f->core,
                         .path = ckpt_path(ckpt, name, err),
                         .url = arena_printf(&f->arena, "/api/v1/checkpoints/%s/files/%s", f->uuid,
                                             buf_str(&url).ptr)};
    buf_done(&url);
    if (!d.path) return err->code;
    int rc = core_persist(download_once, &d, err);
    if (!rc && doc_integer(file, &n_bytes) && n_bytes != d.n_bytes)
        rc = det_fail(err, DET_ECORRUPT, "'%s' has %lld bytes instead of %lld", name,
                      (long long)d.n_bytes, (long long)n_bytes);
    return rc;
}

// --- the checkpoint

static int ask(struct fetch *f, int64_t trial_id, const char *uuid, det_err *err)
{
    struct buf path = BUF_INIT(4096);
    struct doc *answer = NULL;
    if (uuid) {
        buf_addz(&path, "/api/v1/checkpoints/");
        http_encode(&path, str_from(uuid));
    } else {
        buf_printf(&path, "/api/v1/trials/%lld/best_checkpoint", (long long)trial_id);
    }
    int rc = core_ask(f->core, buf_str(&path).ptr, &f->arena, &answer, err);
    buf_done(&path);
    if (rc) return rc;
    f->record = doc_find(answer, "checkpoint");
    const struct doc *name = doc_find(f->record, "uuid");
    if (!name || name->kind != DOC_STR)
        return det_fail(err, DET_ECORRUPT, "the master does not say which checkpoint it is");
    rc = uuid_parse(name->text.ptr, &f->id, err);
    if (!rc) uuid_format(f->id, f->uuid);
    return rc;
}

static int download(struct fetch *f, det_err *err)
{
    struct ckpt_info info = {.id = f->id};
    struct ckpt *ckpt;
    const struct doc *files = doc_find(f->record, "resources");
    doc_integer(doc_find(f->record, "trialId"), &info.trial_id);
    doc_integer(doc_find(f->record, "stepsCompleted"), &info.steps_completed);
    int rc = ckpt_begin(f->store, &info, &ckpt, err);
    if (rc) return rc;
    for (const struct doc *e = files ? files->first : NULL; e && !rc; e = e->next)
        rc = fetch_file(f, ckpt, e, err);
    if (!rc) return ckpt_commit(ckpt, NULL, err);
    ckpt_abort(ckpt);
    return rc;
}

// Of several processes one fetches it, and the others find it there.
static int fetch(struct fetch *f, det_err *err)
{
    const char *folder = arena_printf(&f->arena, "%s/fetched", f->core->settings.folder);
    const char *lock = arena_printf(&f->arena, "%s.lock", folder);
    int rc = store_open(folder, &f->store, err);
    if (rc) return rc;
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        rc = fs_fail(err, "lock", lock);
    else
        rc = ckpt_verify(f->store, f->id, NULL, err);
    if (rc == DET_ENOTFOUND) rc = download(f, err);
    if (fd >= 0) close(fd);
    return rc;
}

int client_fetch_checkpoint(det_core *core, int64_t trial_id, const char *uuid, const char **dir,
                            det_err *err)
{
    struct fetch f = {.core = core, .arena = ARENA_INIT};
    int rc = ask(&f, trial_id, uuid, err);
    if (!rc) rc = fetch(&f, err);
    if (!rc) *dir = ckpt_file(f.store, f.id, NULL, &core->arena);
    store_close(f.store);
    arena_done(&f.arena);
    if (rc && uuid) return det_wrap(err, "checkpoint %s", uuid);
    return rc ? det_wrap(err, "trial %lld", (long long)trial_id) : 0;
}
