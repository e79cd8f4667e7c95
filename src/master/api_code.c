// Unit api_code.c: routes about the code of experiments: its files, and how
// those of two experiments differ. Archives are read by the threads for files.
#include "master/routes.h"

#include "base/assert.h"
#include "base/diff.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "doc/yaml.h"
#include "master/code.h"

enum {
    LOOKED_AT_BYTES = 4096,         // to tell a text from other files
    SHOWN_BYTES = 4 << 20,          // of a file
    COMPARED_BYTES = 1 << 20,       // of a file; larger ones are only said to differ
    COMPARED_TOTAL_BYTES = 64 << 20 // of all files of an experiment
};

// --- what all have in common

// Something to be done with archives by another thread.
struct reading {
    struct http_request *req;
    const char *archives[2]; // NULL: there is none
    void (*run)(struct reading *r);
    const char *file; // the one that is asked for
    struct buf out;
    const char *content_type; // of out
    int rc;
    det_err err;
    const struct doc *configs[2];
    const char *denied; // why files are not compared; NULL: they are
};

static const char *archive_of(const struct http_request *req, const struct experiment *row)
{
    const struct master *m = req->user;
    if (!row->code) return NULL;
    return arena_printf(req->arena, "%s/code/%s", m->data_dir, row->code);
}

static void drop_reading(void *found)
{
    buf_done(&((struct reading *)found)->out);
}

static struct reading *reading_new(struct http_request *req, void (*run)(struct reading *r))
{
    struct reading *r = arena_alloc(req->arena, sizeof *r);
    *r = (struct reading){.req = req, .run = run, .out = BUF_INIT(API_MAX_REPLY)};
    req->found = r;
    req->drop = drop_reading;
    return r;
}

static void run_reading(void *job, void *own)
{
    struct reading *r = job;
    (void)own;
    r->run(r);
}

static void answer_reading(void *job)
{
    struct reading *r = job;
    if (r->rc)
        http_reply_error(r->req, &r->err);
    else if (r->content_type)
        http_reply(r->req, 200, r->content_type, buf_str(&r->out));
    else
        http_reply_json(r->req, 200, &r->out);
}

static int start_reading(struct http_request *req, det_err *err)
{
    struct master *m = req->user;
    (void)err;
    worker_run(m->workers[WORK_FILES],
               &(struct work){run_reading, answer_reading, req->found, api_who(req)});
    return http_later(req);
}

// The code of an experiment that the caller may read.
static int find_code(struct http_request *req, struct reading *r, det_err *err)
{
    struct experiment row;
    int64_t id = http_param_int(req, "experiment");
    int rc = db_experiment_find(req->reader, id, req->arena, &row, err);
    if (!rc) rc = auth_may_read(req, &row, err);
    if (!rc) r->archives[0] = archive_of(req, &row);
    return rc;
}

static bool is_text(struct str content)
{
    struct str rest = content;
    if (content.len && memchr(content.ptr, 0, content.len)) return false;
    while (rest.len)
        if (utf8_next(&rest) < 0) return rest.len < 4 && content.len >= LOOKED_AT_BYTES; // cut
    return true;
}

// --- the list

static int list_file(void *ctx, const struct code_file *file, det_err *err)
{
    struct json_writer *w = ctx;
    (void)err;
    json_open_map(w);
    json_key(w, "path");
    json_put_str(w, file->name);
    json_key(w, "bytes");
    json_put_int(w, file->n_bytes);
    json_key(w, "type");
    json_put_str(w, is_text(file->content) ? "text" : "binary");
    json_close(w);
    return 0;
}

static void list_files(struct reading *r)
{
    struct json_writer w;
    json_init(&w, &r->out, 0);
    json_open_map(&w);
    json_key(&w, "files");
    json_open_list(&w);
    if (r->archives[0])
        r->rc = code_read(
            r->archives[0],
            &(struct code_reading){.max_content = LOOKED_AT_BYTES, .use = list_file, .ctx = &w},
            &r->err);
    json_close(&w);
    json_close(&w);
}

static int read_list(struct http_request *req, det_err *err)
{
    return find_code(req, reading_new(req, list_files), err);
}

// --- one file

static int show_file(void *ctx, const struct code_file *file, det_err *err)
{
    struct reading *r = ctx;
    if (!str_eqz(str_from(file->name), r->file)) return 0;
    if (file->n_bytes > SHOWN_BYTES)
        return det_fail(err, DET_ELIMIT,
                        "'%.200s' has %lld bytes, and %d are shown; 'det experiment model-def' "
                        "downloads all files",
                        file->name, (long long)file->n_bytes, SHOWN_BYTES);
    buf_add(&r->out, file->content.ptr, file->content.len);
    struct str start = {file->content.ptr, MIN(file->content.len, LOOKED_AT_BYTES)};
    r->content_type = http_content_type(is_text(start) ? HTTP_TEXT : HTTP_BYTES);
    return DET_ECANCELED; // nothing else is wanted
}

static void find_file(struct reading *r)
{
    const struct code_reading reading = {
        .only = r->file, .max_content = SHOWN_BYTES, .use = show_file, .ctx = r};
    r->rc = r->archives[0] ? code_read(r->archives[0], &reading, &r->err) : 0;
    if (r->content_type)
        r->rc = 0;
    else if (!r->rc)
        r->rc = det_fail(&r->err, DET_ENOTFOUND, "the code has no file '%.200s'", r->file);
}

static int read_file(struct http_request *req, det_err *err)
{
    struct reading *r = reading_new(req, find_file);
    r->file = http_param(req, "file").ptr;
    return find_code(req, r, err);
}

// --- two experiments

struct side_file {
    const char *name;
    int64_t n_bytes;
    uint8_t hash[CODE_HASH_BYTES];
    struct str content; // ptr NULL: not a text, or too large
};

struct side {
    struct arena arena;
    struct side_file *files;
    size_t n, cap, n_bytes;
};

static int keep_file(void *ctx, const struct code_file *file, det_err *err)
{
    struct side *s = ctx;
    (void)err;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->files = xrealloc(s->files, s->cap * sizeof *s->files);
    }
    struct side_file *f = &s->files[s->n++];
    *f = (struct side_file){.name = arena_strdup(&s->arena, file->name), .n_bytes = file->n_bytes};
    memcpy(f->hash, file->hash, sizeof f->hash);
    bool fits =
        file->n_bytes <= COMPARED_BYTES && s->n_bytes + file->content.len <= COMPARED_TOTAL_BYTES;
    if (!fits || !is_text(file->content)) return 0;
    f->content = (struct str){arena_strndup(&s->arena, file->content.ptr, file->content.len),
                              file->content.len};
    s->n_bytes += file->content.len;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct side_file *x = a, *y = b;
    return str_order(str_from(x->name), str_from(y->name));
}

static int read_side(const char *archive, struct side *out, det_err *err)
{
    if (!archive) return 0;
    const struct code_reading reading = {
        .max_content = COMPARED_BYTES, .use = keep_file, .ctx = out};
    int rc = code_read(archive, &reading, err);
    if (!rc && out->n) qsort(out->files, out->n, sizeof *out->files, by_name);
    return rc;
}

static void side_done(struct side *s)
{
    free(s->files);
    arena_done(&s->arena);
}

// "diff": null if it is not shown.
static void put_diff(struct json_writer *w, const char *key, struct str before, struct str after)
{
    struct buf text = BUF_INIT(8 << 20);
    enum diff_result made = DIFF_TOO_MUCH;
    if (before.ptr && after.ptr && w->out->len < API_MAX_REPLY / 4)
        made = diff_unified(before, after, &text);
    json_key(w, key);
    if (made == DIFF_TOO_MUCH || !buf_ok(&text))
        json_put_null(w);
    else
        json_put_strn(w, buf_str(&text));
    buf_done(&text);
}

static void put_pair(struct json_writer *w, const struct side_file *a, const struct side_file *b)
{
    static const struct side_file none = {.content = {"", 0}};
    const char *status = !a ? "added" : !b ? "removed" : "changed";
    if (a && b && a->n_bytes == b->n_bytes && !memcmp(a->hash, b->hash, sizeof a->hash)) return;
    json_open_map(w);
    json_key(w, "path");
    json_put_str(w, a ? a->name : b->name);
    json_key(w, "status");
    json_put_str(w, status);
    put_diff(w, "diff", (a ? a : &none)->content, (b ? b : &none)->content);
    json_close(w);
}

static void put_files(struct json_writer *w, const struct side *a, const struct side *b)
{
    for (size_t i = 0, k = 0; i < a->n || k < b->n;) {
        const struct side_file *x = i < a->n ? &a->files[i] : NULL;
        const struct side_file *y = k < b->n ? &b->files[k] : NULL;
        int order = !x ? 1 : !y ? -1 : by_name(x, y);
        put_pair(w, order <= 0 ? x : NULL, order >= 0 ? y : NULL);
        i += order <= 0;
        k += order >= 0;
    }
}

static void put_configs(struct json_writer *w, const struct reading *r)
{
    struct buf texts[2] = {BUF_INIT(16 << 20), BUF_INIT(16 << 20)};
    for (int i = 0; i < 2; i++)
        yaml_write(r->configs[i], &texts[i]);
    put_diff(w, "config", buf_str(&texts[0]), buf_str(&texts[1]));
    buf_done(&texts[0]);
    buf_done(&texts[1]);
}

static void compare(struct reading *r)
{
    struct side sides[2] = {0};
    struct json_writer w;
    bool is_same =
        r->archives[0] && r->archives[1] && str_eqz(str_from(r->archives[0]), r->archives[1]);
    for (int i = 0; i < 2 && !r->rc && !r->denied && !is_same; i++)
        r->rc = read_side(r->archives[i], &sides[i], &r->err);
    json_init(&w, &r->out, 0);
    json_open_map(&w);
    put_configs(&w, r);
    json_key(&w, "files");
    json_open_list(&w);
    if (!r->rc) put_files(&w, &sides[0], &sides[1]);
    json_close(&w);
    if (r->denied) {
        json_key(&w, "denied");
        json_put_str(&w, r->denied);
    }
    json_close(&w);
    side_done(&sides[0]);
    side_done(&sides[1]);
}

// Configurations are for everybody, code is not.
static int read_both(struct http_request *req, det_err *err)
{
    const int64_t ids[2] = {http_param_int(req, "experiment"), http_param_int(req, "other")};
    struct reading *r = reading_new(req, compare);
    struct diag_list ignored = DIAG_INIT(req->arena);
    det_err why;
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        struct experiment row;
        rc = db_experiment_find(req->reader, ids[i], req->arena, &row, err);
        if (!rc) rc = api_show_config(req, &row, &r->configs[i], &ignored, err);
        if (rc) break;
        if (auth_may_read(req, &row, &why)) r->denied = arena_strdup(req->arena, why.msg);
        r->archives[i] = archive_of(req, &row);
    }
    return rc;
}

#define AT "/api/v1/experiments/{experiment:int}"

static const struct http_route routes[] = {
    {HTTP_GET, AT "/files", .read = read_list, .handle = start_reading,
     .summary = "Lists the files of the code."},
    {HTTP_GET, AT "/files/{file*}", .read = read_file, .handle = start_reading,
     .content = HTTP_BYTES, .summary = "A file of the code, up to 4 MB."},
    {HTTP_GET, AT "/diff/{other:int}", .read = read_both, .handle = start_reading,
     .summary = "How the configurations and the files of two experiments differ."},
};

const struct http_table code_routes = HTTP_TABLE(routes);
