// Unit cmd_create.c: det experiment create, fork, continue, and det job run: hands a configuration
// and a folder to the master.
#include "cli/cmd.h"

#include "base/assert.h"
#include "base/yaml.h"
#include "cli/follow.h"
#include "cli/own_master.h"
#include "cli/pack.h"
#include "config/config.h"
#include "sys/fs.h"
#include <stdlib.h>
#include <sys/stat.h>

// --- the configuration, with what --config changes in it

// Like doc_set, in place of what the map has there.
static void put(struct doc *map, struct str key, struct doc *value)
{
    for (struct doc *e = map->first; e; e = e->next) {
        if (!str_eq(e->key, key)) continue;
        struct doc *next = e->next;
        struct str name = e->key;
        *e = *value;
        e->next = next;
        e->key = name;
        return;
    }
    doc_set(map, key, value);
}

// "a.b.c=value": value is YAML.
static bool apply(struct doc *config, struct arena *arena, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) {
        print_error("--config takes KEY=VALUE, found '%s'", assignment);
        return false;
    }
    struct diag_list diags = DIAG_INIT(arena);
    struct doc *value = yaml_parse(arena, str_from(equals + 1), "--config", &diags);
    if (!value) {
        print_error("--config %s: the value is not YAML", assignment);
        return false;
    }
    struct str path = {assignment, (size_t)(equals - assignment)};
    struct doc *map = config;
    for (;;) {
        struct str key = str_cut(&path, '.');
        const char *name = arena_strndup(arena, key.ptr, key.len);
        struct doc *old = (struct doc *)(uintptr_t)doc_find(map, name);
        if (!path.len) {
            put(map, str_from(name), doc_share(arena, value));
            return true;
        }
        if (!old || old->kind != DOC_MAP) {
            struct doc *inner = doc_new(arena, DOC_MAP);
            put(map, str_from(name), inner);
            old = (struct doc *)(uintptr_t)doc_find(map, name);
        }
        map = old;
    }
}

// The text of the file; if --config is given, the same document changed and written again.
static const char *config_text(struct remote *r, const struct call *call, const char *path)
{
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    det_err err;
    const char *result = NULL;
    if (fs_read(strcmp(path, "-") ? path : "/dev/stdin", &text, &err)) {
        print_error("%s", err.msg);
        goto out;
    }
    result = arena_strndup(&r->arena, buf_str(&text).ptr, text.len);
    if (!call_option(call, "config")) goto out;
    struct diag_list diags = DIAG_INIT(&r->arena);
    struct doc *config = yaml_parse(&r->arena, str_from(result), path, &diags);
    result = NULL;
    if (!config) {
        struct buf lines = BUF_INIT(1 << 20);
        diag_print(&diags, DIAG_ERROR, &lines);
        print_errors(buf_str(&lines));
        buf_done(&lines);
        goto out;
    }
    for (int i = 0; i < call->n_given; i++)
        if (!strcmp(call->given[i]->name, "config") && !apply(config, &r->arena, call->values[i]))
            goto out;
    buf_clear(&text);
    yaml_write(config, &text);
    result = arena_strndup(&r->arena, buf_str(&text).ptr, text.len);
out:
    buf_done(&text);
    return result;
}

// Errors with the places in the file, before anything is sent.
static bool check_config(struct remote *r, const char *text, const char *path, bool job)
{
    struct diag_list diags = DIAG_INIT(&r->arena);
    const struct config_opts opts = {.source = path};
    struct exp_config experiment;
    struct job_config generic;
    int rc = job ? job_config_read(&r->arena, str_from(text), &opts, &generic, &diags)
                 : exp_config_read(&r->arena, str_from(text), &opts, &experiment, &diags);
    struct buf lines = BUF_INIT(1 << 20);
    diag_print(&diags, DIAG_WARNING, &lines);
    print_warnings(buf_str(&lines));
    buf_clear(&lines);
    diag_print(&diags, DIAG_ERROR, &lines);
    print_errors(buf_str(&lines));
    buf_done(&lines);
    return !rc;
}

// --- the folder

static void print_packed(const char *dir, const struct pack_totals *totals)
{
    static const char *const units[] = {"B", "KB", "MB", "GB"};
    struct buf line = BUF_INIT(8192);
    double size = (double)totals->bytes;
    size_t u = 0;
    for (; size >= 1024 && u + 1 < STATIC_LEN(units); u++)
        size /= 1024;
    buf_printf(&line, "Preparing files (%s) to send to master... %3.1f%s and %lld files\n", dir,
               size, units[u], (long long)totals->entries);
    print_data(buf_str(&line));
    buf_done(&line);
}

static const struct doc *upload(struct remote *r, const char *dir)
{
    struct buf tar = BUF_INIT(PACK_MAX_BYTES);
    struct pack_totals totals;
    det_err err;
    struct doc *answer = NULL;
    int rc = pack_folder(dir, &tar, &totals, &err);
    if (!rc) print_packed(dir, &totals);
    const struct http_call call = {.method = HTTP_POST,
                                   .path = "/api/v1/contexts",
                                   .body = buf_str(&tar),
                                   .content_type = "application/gzip",
                                   .timeout_us = -1};
    if (!rc) rc = http_call_json(r->client, &call, &r->arena, &answer, &err);
    if (rc) print_error("%s", err.msg);
    buf_done(&tar);
    return rc ? NULL : answer;
}

// --- creating

struct creation {
    const char *config, *dir; // dir NULL: none
    const char *type;
    int64_t parent; // 0: none
};

static const struct doc *create(struct remote *r, const struct call *call, const struct creation *c)
{
    struct doc *body = doc_new(&r->arena, DOC_MAP);
    const struct doc *context = NULL;
    if (c->dir && !(context = upload(r, c->dir))) return NULL;
    doc_set(body, str_from("config"), doc_new_str(&r->arena, c->config));
    doc_set(body, str_from("type"), doc_new_str(&r->arena, c->type));
    if (context)
        doc_set(body, str_from("context"), doc_new_str(&r->arena, doc_text(context, "context")));
    if (call_option(call, "template"))
        doc_set(body, str_from("template"), doc_new_str(&r->arena, call_option(call, "template")));
    if (call_option(call, "paused"))
        doc_set(body, str_from("activate"), doc_new_bool(&r->arena, false));
    if (c->parent) doc_set(body, str_from("parentId"), doc_new_int(&r->arena, c->parent));
    const struct doc *answer = remote_call(r, HTTP_POST, body, "/experiments");
    const struct doc *warnings = doc_find(answer, "warnings");
    for (const struct doc *w = warnings ? warnings->first : NULL; w; w = w->next)
        if (w->kind == DOC_STR) print_warning("%s", w->text.ptr);
    return doc_find(answer, "experiment");
}

static int after_creation(struct remote *r, const struct call *call, const struct doc *experiment,
                          const char *what)
{
    int64_t id = doc_whole(experiment, "id");
    struct buf out = BUF_INIT(4096);
    buf_printf(&out, "Created %s %lld\n", what, (long long)id);
    if (!call_option(call, "paused")) buf_printf(&out, "Activated %s %lld\n", what, (long long)id);
    print_data(buf_str(&out));
    buf_done(&out);
    if (call_option(call, "follow-first-trial")) return follow_first_trial(r, id);
    bool follow = call_option(call, "follow") || call_option(call, "local");
    return follow ? follow_experiment(r, id) : EXIT_OK;
}

static int create_from_file(const struct call *call, bool job)
{
    struct remote r;
    int status = EXIT_FAILED;
    struct creation c = {.dir = call->n_args > 1 ? call->args[1] : NULL,
                         .type = job ? "TYPE_GENERIC" : "TYPE_EXPERIMENT"};
    if (!remote_open(&r, call)) goto out;
    status = EXIT_USAGE;
    c.config = config_text(&r, call, call->args[0]);
    if (!c.config ||
        (!call_option(call, "template") && !check_config(&r, c.config, call->args[0], job)))
        goto out;
    status = EXIT_FAILED;
    const struct doc *experiment = create(&r, call, &c);
    if (experiment) status = after_creation(&r, call, experiment, job ? "job" : "experiment");
out:
    remote_close(&r);
    return status;
}

// --local: a master of its own, below the user's data, that lives as long as this call.
static int create_locally(const struct call *call, bool job)
{
    struct arena arena = ARENA_INIT;
    const char *home = home_dir(&arena), *const options[] = {"--port", "0", NULL};
    int status = EXIT_FAILED;
    if (home) setenv("DET_HOME", arena_printf(&arena, "%s/local", home), 1);
    unsetenv("DET_MASTER");
    unsetenv("DETERMINED_MASTER");
    pid_t master = own_master_start(options, DIES_WITH_US);
    if (master) status = create_from_file(call, job);
    if (master && !own_master_stop(master)) status = EXIT_FAILED;
    arena_done(&arena);
    return status;
}

static int run_create(const struct call *call)
{
    return call_option(call, "local") ? create_locally(call, false) : create_from_file(call, false);
}

static int run_job(const struct call *call)
{
    return call_option(call, "local") ? create_locally(call, true) : create_from_file(call, true);
}

// --- from an experiment that is there

static int run_fork(const struct call *call)
{
    struct remote r;
    int status = EXIT_FAILED;
    if (!remote_open(&r, call)) goto out;
    const struct doc *old = remote_get(&r, "/experiments/%s", remote_segment(&r, call->args[0]));
    const struct doc *row = doc_find(old, "experiment"), *config = doc_find(old, "config");
    if (!row || !config) goto out;
    struct doc *body = doc_new(&r.arena, DOC_MAP), *changed = doc_share(&r.arena, config);
    for (int i = 0; i < call->n_given; i++)
        if (!strcmp(call->given[i]->name, "config") && !apply(changed, &r.arena, call->values[i]))
            goto out;
    struct buf text = BUF_INIT(YAML_MAX_BYTES);
    yaml_write(changed, &text);
    doc_set(body, str_from("config"), doc_new_str(&r.arena, buf_str(&text).ptr));
    buf_done(&text);
    doc_set(body, str_from("context"), doc_share(&r.arena, doc_find(row, "modelDefinition")));
    doc_set(body, str_from("parentId"), doc_new_int(&r.arena, doc_whole(row, "id")));
    if (call_option(call, "paused"))
        doc_set(body, str_from("activate"), doc_new_bool(&r.arena, false));
    const struct doc *answer = remote_call(&r, HTTP_POST, body, "/experiments");
    if (answer) status = after_creation(&r, call, doc_find(answer, "experiment"), "experiment");
out:
    remote_close(&r);
    return status;
}

static int after_continuing(struct remote *r, const struct call *call, int64_t id)
{
    struct buf out = BUF_INIT(4096);
    buf_printf(&out, "Experiment %lld goes on.\n", (long long)id);
    print_data(buf_str(&out));
    buf_done(&out);
    return call_option(call, "follow") ? follow_experiment(r, id) : EXIT_OK;
}

static int run_continue(const struct call *call)
{
    struct remote r;
    int status = EXIT_FAILED;
    if (remote_open(&r, call)) {
        struct doc *body = doc_new(&r.arena, DOC_MAP), *changes = doc_new(&r.arena, DOC_MAP);
        int64_t id = strtoll(call->args[0], NULL, 10);
        bool ok = true;
        for (int i = 0; ok && i < call->n_given; i++)
            if (!strcmp(call->given[i]->name, "config"))
                ok = apply(changes, &r.arena, call->values[i]);
        struct buf text = BUF_INIT(YAML_MAX_BYTES);
        yaml_write(changes, &text);
        doc_set(body, str_from("id"), doc_new_int(&r.arena, id));
        if (changes->n)
            doc_set(body, str_from("overrideConfig"), doc_new_str(&r.arena, buf_str(&text).ptr));
        buf_done(&text);
        const struct doc *answer =
            ok ? remote_call(&r, HTTP_POST, body, "/experiments/continue") : NULL;
        if (answer) status = after_continuing(&r, call, id);
    }
    remote_close(&r);
    return status;
}

#define CONFIG_OPTION                                                                            \
    {                                                                                            \
        "config", 0, "KEY=VALUE", "Changes the configuration: --config searcher.max_length=100." \
    }
#define FOLLOW_OPTIONS                                                                   \
    {"follow", 'f', NULL, "Waits until it ends, showing progress."},                     \
    {                                                                                    \
        "follow-first-trial", 0, NULL, "Shows the log of the first trial until it ends." \
    }

static const struct option create_options[] = {
    MASTER_OPTION,
    FOLLOW_OPTIONS,
    {"local", 0, NULL, "Runs it to its end here and now, without a master in the background."},
    {"paused", 0, NULL, "Does not start it; 'det experiment activate' does."},
    {"template", 0, "NAME", "Fills in what the configuration does not say."},
    CONFIG_OPTION,
};

const struct command cmd_experiment_create = {
    .noun = "experiment",
    .verb = "create",
    .args = "FILE [DIR]",
    .min_args = 1,
    .max_args = 2,
    .help = "Creates an experiment from a configuration and the folder with its code. What "
            ".detignore names is left out.",
    .example = "det experiment create const.yaml . -f",
    .options = create_options,
    .n_options = STATIC_LEN(create_options),
    .run = run_create,
};

const struct command cmd_job_run = {
    .noun = "job",
    .verb = "run",
    .args = "FILE [DIR]",
    .min_args = 1,
    .max_args = 2,
    .help = "Runs a command on some slots, without a search: batch inference, data preparation.",
    .example = "det job run inference.yaml . -f",
    .options = create_options,
    .n_options = STATIC_LEN(create_options),
    .run = run_job,
};

static const struct option fork_options[] = {
    MASTER_OPTION,
    FOLLOW_OPTIONS,
    {"paused", 0, NULL, "Does not start it."},
    CONFIG_OPTION,
};

const struct command cmd_experiment_fork = {
    .noun = "experiment",
    .verb = "fork",
    .args = "ID",
    .min_args = 1,
    .max_args = 1,
    .help = "Creates an experiment like another one, with the changes of --config.",
    .example = "det experiment fork 7 --config hyperparameters.learning_rate=0.1",
    .options = fork_options,
    .n_options = STATIC_LEN(fork_options),
    .run = run_fork,
};

static const struct option continue_options[] = {
    MASTER_OPTION,
    {"follow", 'f', NULL, "Waits until it ends, showing progress."},
    CONFIG_OPTION,
};

const struct command cmd_experiment_continue = {
    .noun = "experiment",
    .verb = "continue",
    .args = "ID",
    .min_args = 1,
    .max_args = 1,
    .help = "Lets an experiment that has ended run on: a single one for longer, trials of a random "
            "or grid search that are not complete, or more of them; any other search if it was "
            "canceled.",
    .example = "det experiment continue 7 --config searcher.max_length.batches=4000",
    .options = continue_options,
    .n_options = STATIC_LEN(continue_options),
    .run = run_continue,
};
