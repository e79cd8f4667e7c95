// Unit remote.c: finds the master, calls it, reports what it says.
#include "cli/remote.h"

#include "base/number.h"
#include "doc/json.h"
#include "sys/fs.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 20 };

const char *doc_text(const struct doc *map, const char *key)
{
    const struct doc *d = doc_find(map, key);
    return d && d->kind == DOC_STR ? d->text.ptr : "";
}

int64_t doc_whole(const struct doc *map, const char *key)
{
    int64_t value = 0;
    const struct doc *d = doc_find(map, key);
    return d && doc_integer(d, &value) ? value : 0;
}

// --- files of the user

// A file in the user's folder of settings. NULL: there is no such folder.
static const char *settings_path(struct arena *arena, const char *name)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *user = getenv("HOME");
    if (xdg && *xdg) return arena_printf(arena, "%s/det/%s", xdg, name);
    return user ? arena_printf(arena, "%s/.config/det/%s", user, name) : NULL;
}

static int make_parent(struct arena *arena, const char *path, det_err *err)
{
    char *dir = arena_strdup(arena, path);
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(dir, 0700) && errno != EEXIST) return fs_fail(err, "make the folder", dir);
        *slash = '/';
    }
    return 0;
}

// Only the user can read it.
static int write_settings(struct arena *arena, const char *path, struct str text, det_err *err)
{
    struct fs_writer file = FS_WRITER_INIT;
    mode_t mask = umask(077);
    int rc = make_parent(arena, path, err);
    if (!rc) rc = fs_writer_open(&file, path, err);
    if (!rc) rc = fs_writer_add(&file, text.ptr, text.len, err);
    if (!rc) rc = fs_writer_commit(&file, err);
    fs_writer_close(&file);
    umask(mask);
    return rc;
}

const char *settings_keep(struct arena *arena, const char *name, struct str text, det_err *err)
{
    const char *path = settings_path(arena, name);
    if (!path) det_fail(err, DET_ESTATE, "there is no place for settings: set HOME");
    return path && !write_settings(arena, path, text, err) ? path : NULL;
}

// --- where a master keeps everything

const char *home_default(struct arena *arena)
{
    const char *home = getenv("DET_HOME"), *xdg = getenv("XDG_DATA_HOME"), *user = getenv("HOME");
    if (home && *home) return home;
    if (xdg && *xdg) return arena_printf(arena, "%s/det", xdg);
    return user ? arena_printf(arena, "%s/.local/share/det", user) : NULL;
}

// A line with the directory of the master that 'det up --data' started last.
static const char elsewhere[] = "data-dir";

static const char *chosen_home(struct arena *arena)
{
    const char *path = settings_path(arena, elsewhere), *dir = NULL;
    struct buf text = BUF_INIT(MAX_FILE);
    if (path && !fs_read(path, &text, NULL) && text.len > 1)
        dir = arena_strndup(arena, text.ptr, strcspn(buf_str(&text).ptr, "\n"));
    buf_done(&text);
    return dir;
}

const char *home_dir(struct arena *arena)
{
    const char *home = getenv("DET_HOME"), *chosen = home && *home ? NULL : chosen_home(arena);
    return chosen ? chosen : home_default(arena);
}

void home_forget(const char *dir)
{
    struct arena arena = ARENA_INIT;
    const char *chosen = chosen_home(&arena), *path = settings_path(&arena, elsewhere);
    char full[PATH_MAX];
    if (chosen && realpath(dir, full) && !strcmp(chosen, full)) unlink(path);
    arena_done(&arena);
}

int home_choose(const char *dir, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *path = settings_path(&arena, elsewhere);
    char full[PATH_MAX];
    int rc = 0;
    if (!path)
        rc = dir ? det_fail(err, DET_ESTATE, "there is no place for settings: set HOME") : 0;
    else if (!dir)
        rc = unlink(path) && errno != ENOENT && errno != ENOTDIR ? fs_fail(err, "remove", path) : 0;
    else if (!realpath(dir, full))
        rc = fs_fail(err, "open", dir);
    else
        rc = write_settings(&arena, path, str_from(arena_printf(&arena, "%s\n", full)), err);
    arena_done(&arena);
    return rc;
}

// A small JSON file of ours. NULL if it is not there or not what it should be.
static const struct doc *read_json(struct arena *arena, const char *path)
{
    struct buf text = BUF_INIT(MAX_FILE);
    det_err err;
    const struct doc *doc = NULL;
    if (!fs_read(path, &text, &err)) {
        struct str copy = {arena_strndup(arena, text.ptr, text.len), text.len};
        struct diag_list diags = DIAG_INIT(arena);
        doc = json_parse(arena, copy, NULL, &diags);
    }
    buf_done(&text);
    return doc;
}

const struct doc *home_master(struct arena *arena)
{
    const char *home = home_dir(arena);
    return home ? read_json(arena, arena_printf(arena, "%s/master.json", home)) : NULL;
}

// --- tokens

static const char login_name[] = "login.json";

int login_keep(const char *url, const char *token, det_err *err)
{
    struct arena arena = ARENA_INIT;
    const char *path = settings_path(&arena, login_name);
    struct buf out = BUF_INIT(MAX_FILE);
    const struct doc *old = path ? read_json(&arena, path) : NULL;
    struct json_writer w;
    json_init(&w, &out, 2);
    json_open_map(&w);
    for (const struct doc *e = old && old->kind == DOC_MAP ? old->first : NULL; e; e = e->next) {
        if (str_eqz(e->key, url)) continue;
        json_keyn(&w, e->key);
        json_put_doc(&w, e);
    }
    if (token) {
        json_key(&w, url);
        json_put_str(&w, token);
    }
    json_close(&w);
    buf_addc(&out, '\n');
    int rc = path ? write_settings(&arena, path, buf_str(&out), err)
                  : det_fail(err, DET_ESTATE, "there is no place for the token: set HOME");
    buf_done(&out);
    arena_done(&arena);
    return rc;
}

// --- finding the master

void remote_trust(const struct doc *home_master, struct http_client_opts *opts)
{
    bool is_home = !strcmp(doc_text(home_master, "url"), opts->url);
    const char *file = is_home ? doc_text(home_master, "cert") : getenv("DET_MASTER_CERT_FILE");
    opts->ca_file = file && *file ? file : NULL;
    opts->cert_name = is_home ? doc_text(home_master, "certName") : getenv("DET_MASTER_CERT_NAME");
}

bool remote_open(struct remote *r, const struct call *call)
{
    const char *noun = call->command->noun;
    *r = (struct remote){.arena = ARENA_INIT, .about_job = noun && !strcmp(noun, "job")};
    const char *login = settings_path(&r->arena, login_name), *token = NULL;
    const struct doc *local = home_master(&r->arena);
    r->url = call_option(call, "master");
    if (!r->url) r->url = http_master_address();
    if (!r->url && *doc_text(local, "url")) r->url = doc_text(local, "url");
    if (!r->url) {
        print_error("no master is known; " HTTP_MASTER_HINT);
        return false;
    }
    const struct doc *tokens = login ? read_json(&r->arena, login) : NULL;
    r->logged_in = *doc_text(tokens, r->url);
    if (r->logged_in)
        token = doc_text(tokens, r->url);
    else if (!strcmp(doc_text(local, "url"), r->url))
        token = doc_text(local, "token");
    det_err err;
    struct http_client_opts opts = {.url = r->url, .token = token, .hint = HTTP_MASTER_HINT};
    remote_trust(local, &opts);
    r->client = http_client_new(&opts, &err);
    if (!r->client) print_error("%s", err.msg);
    return r->client;
}

void remote_close(struct remote *r)
{
    if (r->client) http_client_free(r->client);
    arena_done(&r->arena);
}

// --- calling

// A job is an experiment to the master.
static void report(const struct remote *r, const char *text)
{
    static const char word[] = "experiment";
    struct buf out = BUF_INIT(64 << 10);
    for (const char *p = text; *p;) {
        bool match = r->about_job && !strncmp(p, word, strlen(word));
        if (match)
            buf_addz(&out, "job");
        else
            buf_addc(&out, *p);
        p += match ? strlen(word) : 1;
    }
    print_error("%s", buf_str(&out).ptr);
    buf_done(&out);
}

static const struct doc *call_path(struct remote *r, enum http_method method,
                                   const struct doc *body, const char *fmt, va_list args)
{
    const char *tail = arena_vprintf(&r->arena, fmt, args);
    struct buf json = BUF_INIT(64 << 20);
    if (body) {
        struct json_writer w;
        json_init(&w, &json, 0);
        json_put_doc(&w, body);
    }
    const struct http_call call = {.method = method,
                                   .path = arena_printf(&r->arena, "/api/v1%s", tail),
                                   .body = buf_str(&json)};
    det_err err;
    struct doc *answer = NULL;
    if (http_call_json(r->client, &call, &r->arena, &answer, &err)) {
        report(r, err.msg);
        answer = NULL;
    }
    buf_done(&json);
    return answer;
}

const struct doc *remote_call(struct remote *r, enum http_method method, const struct doc *body,
                              const char *path, ...)
{
    va_list args;
    va_start(args, path);
    const struct doc *answer = call_path(r, method, body, path, args);
    va_end(args);
    return answer;
}

const struct doc *remote_get(struct remote *r, const char *path, ...)
{
    va_list args;
    va_start(args, path);
    const struct doc *answer = call_path(r, HTTP_GET, NULL, path, args);
    va_end(args);
    return answer;
}

struct download {
    struct fs_writer file;
    int rc; // of a write that failed
    det_err err;
};

static bool add_piece(void *ctx, struct str piece)
{
    struct download *d = ctx;
    d->rc = fs_writer_add(&d->file, piece.ptr, piece.len, &d->err);
    return !d->rc;
}

bool remote_download(struct remote *r, const char *api_path, const char *file)
{
    const struct http_call call = {.path = arena_printf(&r->arena, "/api/v1%s", api_path)};
    struct download d = {.file = FS_WRITER_INIT};
    det_err err;
    int rc = fs_writer_open(&d.file, file, &err);
    if (!rc) rc = http_call_pieces(r->client, &call, add_piece, &d, &err);
    if (!rc && d.rc) rc = det_fail(&err, d.rc, "%s", d.err.msg);
    if (!rc) rc = fs_writer_commit(&d.file, &err);
    fs_writer_close(&d.file);
    if (rc) print_error("%s", err.msg);
    return !rc;
}

const char *remote_segment(struct remote *r, const char *text)
{
    struct buf out = BUF_INIT(64 << 10);
    http_encode(&out, str_from(text));
    const char *copy = arena_strndup(&r->arena, out.ptr ? out.ptr : "", out.len);
    buf_done(&out);
    return copy;
}

bool remote_check_id(const struct call *call)
{
    const struct command *c = call->command;
    int64_t number;
    if (strncmp(c->args, "ID", 2) != 0 || number_to_int(str_from(call->args[0]), 10, &number))
        return true;
    print_error("'%s' is not the number of %s %s", call->args[0],
                strchr("aeiou", c->noun[0]) ? "an" : "a", c->noun);
    return false;
}
