// Unit cmd_download.c: brings files of the master here: code, checkpoints.
#include "cli/cmd.h"

#include "base/path.h"
#include "cli/remote.h"
#include "sys/fs.h"
#include <errno.h>
#include <sys/stat.h>

static bool make_folders(struct arena *arena, const char *path)
{
    char *dir = arena_strdup(arena, path);
    det_err err;
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(dir, 0777) && errno != EEXIST) {
            fs_fail(&err, "make the folder", dir);
            print_error("%s", err.msg);
            return false;
        }
        *slash = '/';
    }
    return true;
}

static const char *encode_path(struct remote *r, struct str name)
{
    struct buf out = BUF_INIT(64 << 10);
    http_encode_path(&out, name);
    const char *copy = arena_strndup(&r->arena, buf_str(&out).ptr, out.len);
    buf_done(&out);
    return copy;
}

static bool download_files(struct remote *r, const struct doc *checkpoint, const char *dir)
{
    const char *uuid = doc_text(checkpoint, "uuid");
    const struct doc *files = doc_find(checkpoint, "resources");
    for (const struct doc *f = files ? files->first : NULL; f; f = f->next) {
        const char *name = arena_strndup(&r->arena, f->key.ptr, f->key.len);
        if (!path_is_plain(f->key)) {
            print_error("the checkpoint has a file '%s', which is not a name inside a folder",
                        name);
            return false;
        }
        if (!f->key.len || name[f->key.len - 1] == '/') continue; // a folder
        const char *to = arena_printf(&r->arena, "%s/%s", dir, name);
        const char *from =
            arena_printf(&r->arena, "/checkpoints/%s/files/%s", uuid, encode_path(r, f->key));
        if (!make_folders(&r->arena, to) || !remote_download(r, from, to)) return false;
    }
    struct buf line = BUF_INIT(8192);
    buf_printf(&line, "%s\n", dir);
    print_data(buf_str(&line));
    buf_done(&line);
    return true;
}

static int download(const struct call *call, const char *(*find)(struct remote *, const char *))
{
    struct remote r;
    int status = EXIT_FAILED;
    if (!remote_check_id(call)) return EXIT_USAGE;
    if (!remote_open(&r, call)) goto out;
    const char *uuid = find(&r, call->args[0]);
    if (!uuid) goto out;
    const struct doc *answer = remote_get(&r, "/checkpoints/%s", remote_segment(&r, uuid));
    const struct doc *checkpoint = doc_find(answer, "checkpoint");
    if (answer && !checkpoint) checkpoint = answer;
    const char *dir = call->n_args > 1 ? call->args[1] : uuid;
    if (checkpoint && download_files(&r, checkpoint, dir)) status = EXIT_OK;
out:
    remote_close(&r);
    return status;
}

static const char *same(struct remote *r, const char *uuid)
{
    (void)r;
    return uuid;
}

static const char *latest_of_trial(struct remote *r, const char *trial)
{
    const struct doc *answer = remote_get(r, "/trials/%s", remote_segment(r, trial));
    const char *uuid = doc_text(doc_find(answer, "trial"), "latestCheckpoint");
    if (answer && !*uuid) print_error("trial %s has no checkpoint", trial);
    return *uuid ? uuid : NULL;
}

static const char *best_of_trial(struct remote *r, const char *trial)
{
    const struct doc *answer =
        remote_get(r, "/trials/%s/best_checkpoint", remote_segment(r, trial));
    const struct doc *best = doc_find(answer, "checkpoint"),
                     *metric = doc_find(best, "searcherMetric");
    if (!best) return NULL;
    if (metric && metric->kind != DOC_NULL) return doc_text(best, "uuid");
    print_error("trial %s has no checkpoint that was validated", trial);
    return NULL;
}

static int run_checkpoint_download(const struct call *call)
{
    return download(call, same);
}

static int run_trial_download(const struct call *call)
{
    return download(call, call_option(call, "best") ? best_of_trial : latest_of_trial);
}

static int run_model_def(const struct call *call)
{
    struct remote r;
    int status = EXIT_FAILED;
    if (remote_open(&r, call)) {
        const char *id = remote_segment(&r, call->args[0]);
        const char *file = call->n_args > 1
                               ? call->args[1]
                               : arena_printf(&r.arena, "experiment_%s_model_def.tgz", id);
        if (remote_download(&r, arena_printf(&r.arena, "/experiments/%s/model_def", id), file)) {
            struct buf line = BUF_INIT(8192);
            buf_printf(&line, "%s\n", file);
            print_data(buf_str(&line));
            buf_done(&line);
            status = EXIT_OK;
        }
    }
    remote_close(&r);
    return status;
}

static const struct option download_options[] = {MASTER_OPTION};

static const struct option trial_options[] = {
    {"best", 0, NULL, "The one with the best validation instead."}, MASTER_OPTION};

static const struct command rows[] = {
    COMMAND("checkpoint", "download", "UUID [DIR]", 1, 2, download_options, run_checkpoint_download,
            "Downloads a checkpoint into a folder. It is named like it if none is given.",
            "det checkpoint download 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10 best"),
    COMMAND("trial", "download", "ID [DIR]", 1, 2, trial_options, run_trial_download,
            "Downloads the latest checkpoint of a trial.", "det trial download 12 folder --best"),
    COMMAND("experiment", "download-model-def", "ID [FILE]", 1, 2, download_options, run_model_def,
            "Downloads the code of an experiment.", "det experiment download-model-def 7"),
};

const struct command_table cmd_download_commands = COMMAND_TABLE(rows);
