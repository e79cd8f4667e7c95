// Unit code.c: archives of the code of experiments. libarchive reads the format; what may be in one,
// and where it may go, is decided here: regular files and directories, below, within limits.
#include "master/code.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "master/names.h"
#include "sys/archive.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10, MAX_RATIO = 1000, RATIO_FREE_BYTES = 16 << 20 };

// Goes through an archive; writes below dir_fd, or only looks if that is -1.
struct walk {
    struct archive *archive;
    int dir_fd;
    int64_t packed_bytes; // 0: not known
    int64_t n_files, n_bytes;
    struct names names;
    const struct code_reading *reading; // NULL: nobody wants to see files
    struct buf content;                 // of the present file
    crypto_generichash_state hash;
};

static int fail(struct walk *w, det_err *err)
{
    const char *why = libarchive.error_string(w->archive);
    return det_fail(err, DET_EINVAL, "the archive cannot be read: %s", why ? why : "it is damaged");
}

static struct archive *new_reader(void)
{
    struct archive *a = libarchive.read_new();
    libarchive.read_support_format_tar(a);
    libarchive.read_support_format_empty(a);
    libarchive.read_support_filter_gzip(a);
    libarchive.read_support_filter_zstd(a);
    return a;
}

// The name without "./" in front and "/" behind; NULL after an error. "" is the directory itself.
static const char *check_name(const char *name, struct arena *arena, det_err *err)
{
    struct str s = str_from(name ? name : "");
    while (str_starts(s, STR("./")))
        s = (struct str){s.ptr + 2, s.len - 2};
    while (str_ends(s, STR("/")))
        s.len--;
    if (!s.len || str_eqz(s, ".")) return "";
    if (s.len > CODE_MAX_PATH) {
        det_fail(err, DET_EINVAL, "the archive has a name '%.100s...' of more than %d bytes", s.ptr,
                 CODE_MAX_PATH);
        return NULL;
    }
    if (path_is_plain(s) && utf8_valid(s)) return arena_strndup(arena, s.ptr, s.len);
    det_fail(err, DET_EINVAL, "the archive has a file '%.100s', which is not a name below it",
             s.ptr);
    return NULL;
}

static int check_entry(struct walk *w, struct archive_entry *entry, det_err *err)
{
    mode_t type = libarchive.entry_filetype(entry);
    const char *name = libarchive.entry_pathname(entry);
    if (libarchive.entry_hardlink(entry) || (type != AE_IFREG && type != AE_IFDIR))
        return det_fail(err, DET_EINVAL,
                        "the archive has '%.100s', which is neither a file nor a directory",
                        name ? name : "");
    if (++w->n_files > CODE_MAX_FILES)
        return det_fail(err, DET_ELIMIT, "the archive has more than %d files", CODE_MAX_FILES);
    return 0;
}

// Counts before anything is written: neither the header nor the ratio is trusted.
static int check_size(struct walk *w, size_t n, det_err *err)
{
    w->n_bytes += (int64_t)n;
    if (w->n_bytes > CODE_MAX_BYTES)
        return det_fail(err, DET_ELIMIT, "the archive has more than %d MB", CODE_MAX_BYTES >> 20);
    if (w->packed_bytes && w->n_bytes > RATIO_FREE_BYTES &&
        w->n_bytes / MAX_RATIO > w->packed_bytes)
        return det_fail(err, DET_ELIMIT, "the archive is packed more than %d times", MAX_RATIO);
    return 0;
}

static int write_all(int fd, const char *bytes, size_t n, const char *name, det_err *err)
{
    while (n) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0)
            return det_fail(err, errno == ENOSPC || errno == EDQUOT ? DET_ENOSPC : DET_EIO,
                            "cannot write '%s': %s", name, strerror(errno));
        bytes += wrote;
        n -= (size_t)wrote;
    }
    return 0;
}

static int copy_data(struct walk *w, int fd, const char *name, det_err *err)
{
    char piece[PIECE_BYTES];
    for (;;) {
        la_ssize_t n = libarchive.read_data(w->archive, piece, sizeof piece);
        if (n == 0) return 0;
        if (n < 0) return fail(w, err);
        int rc = check_size(w, (size_t)n, err);
        size_t space = w->content.max - w->content.len;
        if (!rc && space) buf_add(&w->content, piece, MIN((size_t)n, space));
        if (!rc && w->reading)
            crypto_generichash_update(&w->hash, (const unsigned char *)piece, (size_t)n);
        if (!rc && fd >= 0) rc = write_all(fd, piece, (size_t)n, name, err);
        if (rc) return rc;
    }
}

// Directories of a name are made as they are needed. Nothing is ever followed: below dir_fd there
// are only files and directories that we made ourselves.
static int open_parent(struct walk *w, const char *name, struct arena *arena, const char **base,
                       int *out, det_err *err)
{
    const char *slash = strrchr(name, '/');
    *base = slash ? slash + 1 : name;
    const char *parent = slash ? arena_strndup(arena, name, (size_t)(slash - name)) : NULL;
    if (parent) return dir_open_below(w->dir_fd, parent, DIR_CREATE, out, err);
    *out = dup(w->dir_fd);
    return *out < 0 ? det_fail(err, DET_EIO, "cannot open a directory: %s", strerror(errno)) : 0;
}

static int unpack_file(struct walk *w, struct archive_entry *entry, const char *name,
                       struct arena *arena, det_err *err)
{
    mode_t mode = libarchive.entry_perm(entry) & 0100 ? 0755 : 0644;
    const char *base;
    int parent = -1, fd = -1;
    int rc = open_parent(w, name, arena, &base, &parent, err);
    if (!rc) fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (!rc && fd < 0)
        rc = det_fail(err, errno == ENOSPC ? DET_ENOSPC : DET_EINVAL, "cannot create '%s': %s",
                      name, strerror(errno));
    if (!rc) rc = copy_data(w, fd, name, err);
    if (fd >= 0) close(fd);
    if (parent >= 0) close(parent);
    return rc;
}

static int unpack_folder(struct walk *w, const char *name, det_err *err)
{
    int fd = -1;
    int rc = dir_open_below(w->dir_fd, name, DIR_CREATE, &fd, err);
    if (!rc) close(fd);
    return rc;
}

// Shows a file to whoever reads the archive.
static int show_file(struct walk *w, const char *name, det_err *err)
{
    const struct code_reading *r = w->reading;
    bool is_wanted = r && (!r->only || str_eqz(str_from(name), r->only));
    int64_t before = w->n_bytes;
    w->content = BUF_INIT(is_wanted ? r->max_content : 0);
    if (r) crypto_generichash_init(&w->hash, NULL, 0, CODE_HASH_BYTES);
    int rc = copy_data(w, -1, name, err);
    struct code_file file = {
        .name = name, .n_bytes = w->n_bytes - before, .content = buf_str(&w->content)};
    if (!rc && r) crypto_generichash_final(&w->hash, file.hash, sizeof file.hash);
    if (!rc && r) rc = r->use(r->ctx, &file, err);
    buf_done(&w->content);
    w->content.max = 0;
    return rc;
}

static int do_entry(struct walk *w, struct archive_entry *entry, det_err *err)
{
    struct arena arena = ARENA_INIT;
    int rc = check_entry(w, entry, err);
    const char *name = rc ? NULL : check_name(libarchive.entry_pathname(entry), &arena, err);
    bool folder = libarchive.entry_filetype(entry) == AE_IFDIR;
    if (!rc && !name)
        rc = DET_EINVAL;
    else if (!rc && !*name && !folder)
        rc = det_fail(err, DET_EINVAL, "the archive has a file without a name");
    if (!rc && *name) rc = names_add(&w->names, str_from(name), folder, err);
    if (!rc && *name && w->dir_fd < 0)
        rc = folder ? 0 : show_file(w, name, err);
    else if (!rc && *name)
        rc = folder ? unpack_folder(w, name, err) : unpack_file(w, entry, name, &arena, err);
    arena_done(&arena);
    return rc;
}

static int do_entries(struct walk *w, det_err *err)
{
    struct archive_entry *entry;
    int rc = 0, code;
    names_init(&w->names);
    while (!rc && (code = libarchive.read_next_header(w->archive, &entry)) == ARCHIVE_OK)
        rc = do_entry(w, entry, err);
    if (!rc && code != ARCHIVE_EOF) rc = fail(w, err);
    names_done(&w->names);
    return rc;
}

static void name_of(struct str content, char out[CODE_NAME_BYTES])
{
    unsigned char hash[(CODE_NAME_BYTES - 1) / 2];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)content.ptr, content.len, NULL, 0);
    sodium_bin2hex(out, CODE_NAME_BYTES, hash, sizeof hash);
}

static int keep(struct str archive, const char *path, det_err *err)
{
    struct fs_writer w;
    if (!utimensat(AT_FDCWD, path, NULL, 0))    // the same content; needed again, see sweep.c
        return fs_sync_directory_of(path, err); // whoever wrote it may not have come to that yet
    int rc = fs_writer_open(&w, path, err);
    if (!rc) rc = fs_writer_add(&w, archive.ptr, archive.len, err);
    if (!rc) rc = fs_writer_commit(&w, err);
    fs_writer_close(&w);
    return rc;
}

int code_keep(struct str archive, const char *dir, struct code_info *out, det_err *err)
{
    int rc = archive_load(err);
    if (rc) return rc;
    struct walk w = {new_reader(), .dir_fd = -1, .packed_bytes = (int64_t)archive.len};
    struct arena arena = ARENA_INIT;
    if (libarchive.read_open_memory(w.archive, archive.ptr, archive.len) != ARCHIVE_OK)
        rc = fail(&w, err);
    if (!rc) rc = do_entries(&w, err);
    if (!rc) {
        struct code_info info = {.n_files = w.n_files, .n_bytes = w.n_bytes};
        name_of(archive, info.name);
        rc = keep(archive, arena_printf(&arena, "%s/%s", dir, info.name), err);
        if (!rc) *out = info;
    }
    libarchive.read_free(w.archive);
    arena_done(&arena);
    return rc;
}

int code_unpack(const char *archive, const char *dir, det_err *err)
{
    int rc = archive_load(err);
    if (rc) return rc;
    struct walk w = {new_reader(), .dir_fd = -1};
    struct stat st;
    rc = dir_open(dir, DIR_CREATE, &w.dir_fd, err);
    if (!rc && !stat(archive, &st)) w.packed_bytes = st.st_size;
    if (!rc && libarchive.read_open_filename(w.archive, archive, PIECE_BYTES) != ARCHIVE_OK)
        rc = fail(&w, err);
    if (!rc) rc = do_entries(&w, err);
    libarchive.read_free(w.archive);
    if (w.dir_fd >= 0) close(w.dir_fd);
    return rc;
}

int code_read(const char *archive, const struct code_reading *reading, det_err *err)
{
    int rc = archive_load(err);
    if (rc) return rc;
    struct walk w = {new_reader(), .dir_fd = -1, .reading = reading};
    struct stat st;
    if (!stat(archive, &st)) w.packed_bytes = st.st_size;
    if (libarchive.read_open_filename(w.archive, archive, PIECE_BYTES) != ARCHIVE_OK)
        rc = fail(&w, err);
    if (!rc) rc = do_entries(&w, err);
    libarchive.read_free(w.archive);
    return rc;
}
