// Unit reports.c: what the programs of a task wrote down, but could not tell the master any more.
// Called by shim.c when they have ended.
#include "task/shim.h"

#include "client/client.h"
#include "sys/dir.h"
#include <stdlib.h>
#include <unistd.h>

// A master that is away comes back; nobody waits for the result of the task meanwhile.
static const int64_t patience_us = 600 * INT64_C(1000000);

// Where the master is now, if it started us to clean up; else where it was.
static void find_master(const struct task_spec *spec, struct http_client_opts *out)
{
    bool is_told = getenv("DET_MASTER");
    out->url = is_told ? getenv("DET_MASTER") : task_variable(spec, "DET_MASTER");
    out->ca_file =
        is_told ? getenv("DET_MASTER_CERT_FILE") : task_variable(spec, "DET_MASTER_CERT_FILE");
    out->cert_name =
        is_told ? getenv("DET_MASTER_CERT_NAME") : task_variable(spec, "DET_MASTER_CERT_NAME");
}

int task_deliver_reports(const struct task_spec *spec, const char *dir, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct http_client_opts opts = {.token = task_variable(spec, "DET_SESSION_TOKEN")};
    int rc = 0;
    find_master(spec, &opts);
    if (opts.url && opts.token) {
        const char *home = task_home(&arena, dir);
        if (!access(home, F_OK)) rc = client_deliver(home, &opts, patience_us, err);
        int old = client_deliver(dir, &opts, patience_us, rc ? NULL : err); // of older shims
        rc = rc ? rc : old;
    }
    arena_done(&arena);
    return rc ? rc : det_ok(err);
}

static bool has_journals(const char *path)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries all = {0};
    bool found = false;
    int dir = -1;
    if (!dir_open(path, 0, &dir, NULL) && !dir_list(dir, path, &arena, &all, NULL))
        for (size_t i = 0; i < all.n; i++)
            found |= all.items[i].kind == DIR_FILE &&
                     str_ends(str_from(all.items[i].name), STR(".journal"));
    if (dir >= 0) close(dir);
    arena_done(&arena);
    return found;
}

bool task_has_reports(const char *dir)
{
    struct arena arena = ARENA_INIT;
    bool found = has_journals(task_home(&arena, dir)) || has_journals(dir);
    arena_done(&arena);
    return found;
}
