// Unit pack.c: makes the archive of the code of an experiment.
#include "cli/pack.h"

#include "base/arena.h"
#include "base/assert.h"
#include "sys/archive.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include "sys/ignore.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 64, N_LARGEST = 3 };

struct packing {
    struct archive *archive;
    struct arena *arena;
    struct str ignore; // of .detignore
    struct buf *out;
    struct pack_totals totals;
    bool only_looks; // for the largest files
    struct large {
        const char *path;
        int64_t bytes;
    } largest[N_LARGEST]; // the largest first
};

static void note_size(struct packing *p, const char *path, int64_t bytes)
{
    struct large new = {path, bytes};
    for (size_t i = 0; i < N_LARGEST; i++) {
        struct large old = p->largest[i];
        if (new.bytes <= old.bytes) continue;
        p->largest[i] = new;
        new = old;
    }
}

static int archive_fail(struct archive *a, det_err *err)
{
    return det_fail(err, DET_EIO, "cannot pack: %s", libarchive.error_string(a));
}

static int add_header(struct packing *p, const char *path, mode_t type, int64_t size, bool runs,
                      det_err *err)
{
    struct archive_entry *e = libarchive.entry_new();
    libarchive.entry_set_pathname(e, path);
    libarchive.entry_set_filetype(e, type);
    libarchive.entry_set_perm(e, type == AE_IFDIR || runs ? 0755 : 0644);
    libarchive.entry_set_size(e, size);
    int rc = libarchive.write_header(p->archive, e);
    libarchive.entry_free(e);
    p->totals.entries++;
    p->totals.bytes += size;
    p->totals.has_python |= type == AE_IFREG && str_ends(str_from(path), STR(".py"));
    return rc == ARCHIVE_OK ? 0 : archive_fail(p->archive, err);
}

static int add_file(struct packing *p, int fd, const struct stat *st, const char *path,
                    det_err *err)
{
    char block[65536];
    int64_t left = st->st_size;
    note_size(p, path, left);
    if (p->only_looks) return 0;
    int rc = add_header(p, path, AE_IFREG, left, st->st_mode & 0100, err);
    while (!rc && left > 0) {
        ssize_t n =
            read(fd, block, (size_t)(left < (int64_t)sizeof block ? left : (int64_t)sizeof block));
        if (n <= 0) return det_fail(err, DET_EIO, "'%s' changed while it was read", path);
        if (libarchive.write_data(p->archive, block, (size_t)n) != n)
            rc = archive_fail(p->archive, err);
        left -= n;
    }
    return rc;
}

static int add_folder(struct packing *p, int dir, const char *prefix, int depth, det_err *err);

static int add_entry(struct packing *p, int dir, const char *prefix, const char *name, int depth,
                     det_err *err)
{
    const char *path = *prefix ? arena_printf(p->arena, "%s/%s", prefix, name) : name;
    struct stat st;
    int rc = 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) return fs_fail(err, "read", path);
    bool folder = S_ISDIR(st.st_mode);
    if ((!folder && !S_ISREG(st.st_mode)) || ignore_has(p->ignore, path, folder)) return 0;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (folder ? O_DIRECTORY : 0));
    if (fd < 0) return fs_fail(err, "open", path);
    if (!folder) rc = add_file(p, fd, &st, path, err);
    if (folder) rc = add_folder(p, fd, path, depth + 1, err);
    close(fd);
    return rc;
}

static int add_folder(struct packing *p, int dir, const char *prefix, int depth, det_err *err)
{
    struct dir_entries entries;
    if (depth > MAX_DEPTH) return det_fail(err, DET_EINVAL, "'%s' is too deep", prefix);
    int rc = dir_list(dir, *prefix ? prefix : ".", p->arena, &entries, err);
    const char *slash = strrchr(prefix, '/');
    if (!rc && ignore_is_output(slash ? slash + 1 : prefix, &entries)) return 0;
    if (!rc && *prefix && !p->only_looks) rc = add_header(p, prefix, AE_IFDIR, 0, true, err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        rc = add_entry(p, dir, prefix, entries.items[i].name, depth, err);
        if (!rc && !p->only_looks && !buf_ok(p->out))
            rc = det_fail(err, DET_ELIMIT, "it is too large");
    }
    return rc;
}

static la_ssize_t on_bytes(struct archive *a, void *ctx, const void *bytes, size_t n)
{
    (void)a;
    struct packing *p = ctx;
    buf_add(p->out, bytes, n);
    return (la_ssize_t)n;
}

// Looks at all files again: those behind the one that was too much may be larger.
static int fail_too_large(struct packing *p, const char *dir, det_err *err)
{
    struct buf list = BUF_INIT(4096);
    int fd = -1;
    p->only_looks = true;
    memset(p->largest, 0, sizeof p->largest);
    int rc = dir_open(dir, 0, &fd, err);
    if (!rc) rc = add_folder(p, fd, "", 0, err);
    if (fd >= 0) close(fd);
    for (size_t i = 0; i < N_LARGEST && p->largest[i].path; i++)
        buf_printf(&list, "%s'%.200s' (%lld MB)", i ? ", " : "", p->largest[i].path,
                   (long long)(p->largest[i].bytes >> 20));
    if (!rc)
        rc = det_fail(err, DET_ELIMIT,
                      "the folder is larger than %d MB packed; its largest files are %s: name "
                      "what is not needed in .detignore",
                      PACK_MAX_BYTES >> 20, buf_str(&list).ptr);
    buf_done(&list);
    return rc;
}

int pack_folder(const char *dir, struct buf *out, struct pack_totals *totals, det_err *err)
{
    int rc = archive_load(err);
    if (rc) return rc;
    struct arena arena = ARENA_INIT;
    struct packing p = {.archive = libarchive.write_new(), .arena = &arena, .out = out};
    int fd = -1;
    libarchive.write_set_format_pax_restricted(p.archive);
    libarchive.write_add_filter_gzip(p.archive);
    libarchive.write_set_options(p.archive, "gzip:!timestamp"); // same files, same bytes
    libarchive.write_open2(p.archive, &p, NULL, on_bytes, NULL, NULL);
    rc = ignore_read(dir, &arena, &p.ignore, err);
    if (!rc) rc = dir_open(dir, 0, &fd, err);
    if (!rc) rc = add_folder(&p, fd, "", 0, err);
    if (rc == DET_ELIMIT) rc = fail_too_large(&p, dir, err);
    if (!rc && libarchive.write_close(p.archive) != ARCHIVE_OK) rc = archive_fail(p.archive, err);
    libarchive.write_free(p.archive);
    *totals = p.totals;
    if (fd >= 0) close(fd);
    arena_done(&arena);
    return rc;
}
