// Unit cmd_create.c: det experiment create, fork, continue, and det job run: hands a configuration
// and a folder to the master.
#include "cli/cmd.h"

#include "base/assert.h"
#include "cli/follow.h"
#include "cli/own_master.h"
#include "cli/pack.h"
#include "cli/python.h"
#include "cli/submit.h"
#include <stdlib.h>
#include <sys/stat.h>

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

static const struct doc *upload(struct remote *r, const char *dir, bool *has_python)
{
    struct buf tar = BUF_INIT(PACK_MAX_BYTES);
    struct pack_totals totals = {0};
    det_err err;
    struct doc *answer = NULL;
    int rc = pack_folder(dir, &tar, &totals, &err);
    if (!rc) print_packed(dir, &totals);
    *has_python = totals.has_python;
    const struct http_call call = {.method = HTTP_POST,
                                   .path = "/api/v1/code",
                                   .body = buf_str(&tar),
                                   .content_type = "application/gzip",
                                   .timeout_us = -1};
    if (!rc) rc = http_call_json(r->client, &call, &r->arena, &answer, &err);
    if (rc) print_error("%s", err.msg);
    buf_done(&tar);
    return rc ? NULL : answer;
}

// --- creating

// What the master is told to make. What is NULL or 0 is not said.
struct creation {
    const char *config, *code, *type, *template, *python;
    int64_t parent;
    int64_t continues; // this experiment goes on, with the changes of config
    bool paused;
};

static void set_text(struct arena *arena, struct doc *body, const char *key, const char *text)
{
    if (text) doc_set(body, str_from(key), doc_new_str(arena, text));
}

static void set_number(struct arena *arena, struct doc *body, const char *key, int64_t number)
{
    if (number) doc_set(body, str_from(key), doc_new_int(arena, number));
}

static const struct doc *create(struct remote *r, const struct creation *c)
{
    struct arena *a = &r->arena;
    struct doc *body = doc_new(a, DOC_MAP);
    set_number(a, body, "id", c->continues);
    set_text(a, body, c->continues ? "overrideConfig" : "config", c->config);
    set_text(a, body, "type", c->type);
    set_text(a, body, "code", c->code);
    set_text(a, body, "template", c->template);
    set_text(a, body, "python", c->python);
    set_number(a, body, "parentId", c->parent);
    if (c->paused) doc_set(body, str_from("activate"), doc_new_bool(a, false));
    return remote_call(r, HTTP_POST, body, "/experiments%s", c->continues ? "/continue" : "");
}

static int after_creation(struct remote *r, const struct call *call, const struct doc *answer,
                          const char *what)
{
    int64_t id = doc_whole(doc_find(answer, "experiment"), "id");
    struct buf out = BUF_INIT(4096);
    buf_printf(&out, "Created %s %lld\n", what, (long long)id);
    if (!call_option(call, "paused")) buf_printf(&out, "Activated %s %lld\n", what, (long long)id);
    print_data(buf_str(&out));
    buf_done(&out);
    if (call_option(call, "follow-first-trial")) return follow_first_trial(r, id);
    bool follow = call_option(call, "follow") || call_option(call, "local");
    return follow ? follow_output(r, id, !strcmp(what, "job")) : EXIT_OK;
}

// What a template says is known before the check. False after an error.
static bool add_template(struct remote *r, const char *name, struct submission *s)
{
    if (!name) return true;
    const struct doc *answer = remote_get(r, "/templates/%s", remote_segment(r, name));
    const char *text = doc_text(doc_find(answer, "template"), "config");
    s->low.source = arena_printf(&r->arena, "template '%s'", name);
    s->low.text = str_from(text);
    return answer;
}

static int create_from_file(const struct call *call, bool job)
{
    struct remote r;
    struct submission s = {.job = job};
    int status = EXIT_FAILED;
    struct creation c = {.type = job ? "TYPE_GENERIC" : "TYPE_EXPERIMENT",
                         .template = call_option(call, "template"),
                         .paused = call_option(call, "paused")};
    if (!remote_open(&r, call) || !add_template(&r, c.template, &s)) goto out;
    status = EXIT_USAGE;
    if (!submission_read(&r.arena, call->args[0], &s) || !submission_change(&r.arena, call, &s) ||
        !submission_check(&r.arena, &s))
        goto out;
    status = EXIT_FAILED;
    if (call->n_args > 1) {
        bool has_python;
        const struct doc *uploaded = upload(&r, call->args[1], &has_python);
        if (!uploaded) goto out;
        c.code = doc_text(uploaded, "code");
        if (has_python) c.python = python_of_caller(&r.arena, r.url);
    }
    c.config = s.text;
    const struct doc *answer = create(&r, &c);
    if (answer) status = after_creation(&r, call, answer, job ? "job" : "experiment");
out:
    remote_close(&r);
    return status;
}

static void say_where(const char *home)
{
    struct buf out = BUF_INIT(8192);
    buf_printf(&out, "It is kept in %s: after 'det up', 'det experiment list' shows it.\n", home);
    print_data(buf_str(&out));
    buf_done(&out);
}

// --local: by the user's own master. If it does not run, it lives as long as this call.
static int create_locally(const struct call *call, bool job)
{
    struct arena arena = ARENA_INIT;
    const char *home = home_dir(&arena), *const options[] = {"--port", "0", NULL};
    char url[1024];
    int status = EXIT_FAILED;
    unsetenv("DET_MASTER");
    unsetenv("DETERMINED_MASTER");
    bool runs = own_master_answers(url, sizeof url);
    pid_t master = runs ? 0 : own_master_start(options, DIES_WITH_US);
    if (runs || master) status = create_from_file(call, job);
    if (master && !own_master_stop(master)) status = EXIT_FAILED;
    if (master && status != EXIT_USAGE) say_where(home);
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
    struct submission s = {0};
    int status = EXIT_FAILED;
    if (!remote_check_id(call)) return EXIT_USAGE;
    if (!remote_open(&r, call)) goto out;
    const struct doc *old = remote_get(&r, "/experiments/%s", remote_segment(&r, call->args[0]));
    const struct doc *row = doc_find(old, "experiment"), *config = doc_find(old, "config");
    if (!row || !config) goto out;
    s.job = !strcmp(doc_text(row, "type"), "TYPE_GENERIC");
    const char *what = s.job ? "job" : "experiment";
    s.source = arena_printf(&r.arena, "%s %lld", what, (long long)doc_whole(row, "id"));
    s.doc = submission_copy(&r.arena, config, s.source);
    status = EXIT_USAGE;
    if (!submission_change(&r.arena, call, &s) || !submission_check(&r.arena, &s)) goto out;
    status = EXIT_FAILED;
    const char *code = doc_text(row, "modelDefinition");
    const struct creation c = {.config = s.text,
                               .code = *code ? code : NULL,
                               .type = doc_text(row, "type"),
                               .parent = doc_whole(row, "id"),
                               .paused = call_option(call, "paused")};
    const struct doc *answer = create(&r, &c);
    if (answer) status = after_creation(&r, call, answer, what);
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
    return call_option(call, "follow") ? follow_output(r, id, false) : EXIT_OK;
}

// The configuration that goes on, as what the changes are read on top of. False after an error.
static bool add_stored(struct remote *r, int64_t id, struct submission *s)
{
    const struct doc *answer = remote_get(r, "/experiments/%lld", (long long)id);
    const struct doc *config = doc_find(answer, "config");
    if (!config) return false;
    s->job = !doc_find(config, "searcher");
    s->source = "--config";
    s->doc = doc_new(&r->arena, DOC_MAP);
    s->low.source = arena_printf(&r->arena, "experiment %lld", (long long)id);
    s->low.doc = submission_copy(&r->arena, config, s->low.source);
    return true;
}

static int run_continue(const struct call *call)
{
    struct remote r;
    struct submission s = {0};
    int64_t id = strtoll(call->args[0], NULL, 10);
    int status = EXIT_FAILED;
    if (!remote_check_id(call)) return EXIT_USAGE;
    if (!remote_open(&r, call) || !add_stored(&r, id, &s)) goto out;
    status = EXIT_USAGE;
    if (!submission_change(&r.arena, call, &s) || !submission_check(&r.arena, &s)) goto out;
    status = EXIT_FAILED;
    const struct creation c = {.continues = id, .config = s.doc->n ? s.text : NULL};
    if (create(&r, &c)) status = after_continuing(&r, call, id);
out:
    remote_close(&r);
    return status;
}

#define CONFIG_OPTION                                                                            \
    {                                                                                            \
        "config", 0, "KEY=VALUE", "Changes the configuration: --config searcher.max_length=100." \
    }
#define FOLLOW_OPTIONS                                                                   \
    {"follow", 'f', NULL, "Shows what it prints, and its progress, until it ends."},     \
    {                                                                                    \
        "follow-first-trial", 0, NULL, "Shows the log of the first trial until it ends." \
    }

static const struct option create_options[] = {
    MASTER_OPTION,
    FOLLOW_OPTIONS,
    {"local", 0, NULL,
     "Runs it to its end here and now; if no master of yours runs, one runs just "
     "for that. The experiment is kept as any other."},
    {"paused", 0, NULL, "Does not start it; 'det experiment activate' does."},
    {"template", 0, "NAME", "Fills in what the configuration does not say."},
    CONFIG_OPTION,
};

static const struct option fork_options[] = {
    MASTER_OPTION,
    FOLLOW_OPTIONS,
    {"paused", 0, NULL, "Does not start it."},
    CONFIG_OPTION,
};

static const struct option continue_options[] = {
    MASTER_OPTION,
    {"follow", 'f', NULL, "Shows what it prints, and its progress, until it ends."},
    CONFIG_OPTION,
};

static const struct command rows[] = {
    {
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
    },
    {
        .noun = "job",
        .verb = "run",
        .args = "FILE [DIR]",
        .min_args = 1,
        .max_args = 2,
        .help =
            "Runs a command on some slots, without a search: batch inference, data preparation.",
        .example = "det job run inference.yaml . -f",
        .options = create_options,
        .n_options = STATIC_LEN(create_options),
        .run = run_job,
    },
    {
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
    },
    {
        .noun = "experiment",
        .verb = "continue",
        .args = "ID",
        .min_args = 1,
        .max_args = 1,
        .help =
            "Lets an experiment that has ended run on: a single one for longer, trials of a random "
            "or grid search that are not complete, or more of them; any other search if it was "
            "canceled.",
        .example = "det experiment continue 7 --config searcher.max_length.batches=4000",
        .options = continue_options,
        .n_options = STATIC_LEN(continue_options),
        .run = run_continue,
    },
};

const struct command_table cmd_create_commands = COMMAND_TABLE(rows);
