// Unit code.c: copies of the code of a trial. They are read once, when training starts: what a
// checkpoint has is the code that made it, whatever happens to the folder later.
#include "train/code.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/mem.h"
#include "storage/storage.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include "sys/ignore.h"
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 1 << 20, TOTAL_MAX_BYTES = 16 << 20, MAX_DEPTH = 16, MAX_NAMED = 3 };

struct code_file {
    const char *name; // below the folder
    struct str content;
};

struct code {
    struct arena arena;
    const char *dir;
    struct str ignore; // of .detignore
    struct code_file *files;
    int n;
    size_t n_bytes;
    int n_left_out;
    const char *left_out[MAX_NAMED]; // the first of them
    struct stat except;
    bool has_except;
};

// Images, arrays, archives: code has no zero bytes, except that of a trial that is compiled
// already.
static bool is_data(const char *name, const struct buf *content)
{
    enum { LOOKED_AT = 8192 };
    bool zeros = content->len && memchr(content->ptr, 0, MIN(content->len, LOOKED_AT));
    return zeros && !str_ends(str_from(name), STR(".so"));
}

static int add_file(struct code *c, const char *path, const char *name, det_err *err)
{
    struct buf text = BUF_INIT(FILE_MAX_BYTES);
    int rc = fs_read(path, &text, err);
    if (rc == DET_ELIMIT || (!rc && is_data(name, &text)) ||
        (!rc && c->n_bytes + text.len > TOTAL_MAX_BYTES)) {
        if (c->n_left_out < MAX_NAMED) c->left_out[c->n_left_out] = arena_strdup(&c->arena, name);
        c->n_left_out++;
        rc = 0;
    } else if (!rc) {
        c->files = xrealloc(c->files, (size_t)(c->n + 1) * sizeof *c->files);
        struct str content = {arena_strndup(&c->arena, text.ptr ? text.ptr : "", text.len),
                              text.len};
        c->files[c->n++] = (struct code_file){arena_strdup(&c->arena, name), content};
        c->n_bytes += text.len;
    }
    buf_done(&text);
    return rc;
}

static bool is_except(const struct code *c, const char *path)
{
    struct stat st;
    return c->has_except && !stat(path, &st) && st.st_ino == c->except.st_ino &&
           st.st_dev == c->except.st_dev;
}

// path: of the folder; below: "" or its name with a slash, as seen from the top.
static int add_folder(struct code *c, const char *path, const char *below, int depth, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    int fd = -1;
    int rc = dir_open(path, 0, &fd, err);
    if (!rc) rc = dir_list(fd, path, &arena, &entries, err);
    if (fd >= 0) close(fd);
    const char *slash = strrchr(path, '/');
    if (!rc && ignore_is_output(slash ? slash + 1 : path, &entries)) entries.n = 0;
    for (size_t i = 0; !rc && i < entries.n; i++) {
        const struct dir_entry *e = &entries.items[i];
        if (e->name[0] == '.') continue;
        const char *inner = arena_printf(&arena, "%s/%s", path, e->name);
        const char *name = arena_printf(&arena, "%s%s", below, e->name);
        if (ignore_has(c->ignore, name, e->kind == DIR_FOLDER)) continue;
        if (e->kind == DIR_FILE)
            rc = add_file(c, inner, name, err);
        else if (e->kind == DIR_FOLDER && depth < MAX_DEPTH && !is_except(c, inner))
            rc = add_folder(c, inner, arena_printf(&arena, "%s/", name), depth + 1, err);
    }
    arena_done(&arena);
    return rc;
}

struct code *code_read(const char *dir, const char *except, det_err *err)
{
    struct code *c = xcalloc(1, sizeof *c);
    c->dir = arena_strdup(&c->arena, dir);
    c->has_except = except && !stat(except, &c->except);
    if (ignore_read(dir, &c->arena, &c->ignore, err) || add_folder(c, dir, "", 0, err)) {
        det_wrap(err, "code");
        code_free(c);
        return NULL;
    }
    return c;
}

void code_free(struct code *c)
{
    if (!c) return;
    arena_done(&c->arena);
    free(c->files);
    free(c);
}

bool code_left_out(const struct code *c, struct buf *out)
{
    int n = c->n_left_out, n_named = MIN(n, MAX_NAMED);
    buf_printf(out, "%d file%s of '%s' %s data or too large, and not in checkpoints: ", n,
               n == 1 ? "" : "s", c->dir, n == 1 ? "is" : "are");
    for (int i = 0; i < n_named; i++)
        buf_printf(out, "%s'%s'", i ? ", " : "", c->left_out[i]);
    if (n > n_named) buf_printf(out, " and %d more", n - n_named);
    return n > 0;
}

int code_write(const struct code *c, struct ckpt *ckpt, det_err *err)
{
    struct arena arena = ARENA_INIT;
    int rc = 0;
    for (int i = 0; !rc && i < c->n; i++)
        rc = ckpt_put(ckpt, arena_printf(&arena, CKPT_CODE "/%s", c->files[i].name),
                      c->files[i].content, err);
    arena_done(&arena);
    return rc;
}
