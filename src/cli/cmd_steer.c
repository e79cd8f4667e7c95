// Unit cmd_steer.c: commands that are one request to the master: pause, kill, delete, labels, names
// and so on. A command is one row of `requests`.
#include "cli/cmd.h"

#include "base/number.h"
#include "cli/follow.h"
#include <stdio.h>
#include <unistd.h>

struct request {
    struct command command;
    enum http_method method;
    bool number;      // the last argument is one
    const char *ends; // what the first argument is a number of, if it may have ended; else NULL
    const char *path; // %1, %2: arguments
    const char *key;  // a body {key: last argument}; "a.b" nests; NULL: none
    const char *done; // what to say; %1, %2 as above
    const char *ask;  // what to ask at a terminal before it is done; NULL: nothing
};

// pattern with %1 and %2 replaced.
static void fill(struct buf *out, const char *pattern, const char *const *arg)
{
    for (const char *p = pattern; *p; p++) {
        if (*p == '%' && (p[1] == '1' || p[1] == '2'))
            buf_addz(out, arg[*++p - '1']);
        else
            buf_addc(out, *p);
    }
}

// {"a": {"b": value}} for "a.b".
static struct doc *body_of(struct arena *arena, const struct request *q, const char *text)
{
    int64_t whole;
    double number;
    struct doc *value = doc_new_str(arena, text);
    if (!q->key) return NULL;
    if (q->number && number_to_int(str_from(text), 10, &whole)) {
        value = doc_new_int(arena, whole);
    } else if (q->number && number_to_double(str_from(text), &number)) {
        value = doc_new_double(arena, number);
    } else if (q->number) {
        print_error("'%s' is not a number", text);
        return NULL;
    }
    const char *dot = strchr(q->key, '.');
    struct doc *map = doc_new(arena, DOC_MAP);
    if (!dot) {
        doc_set(map, str_from(q->key), value);
        return map;
    }
    struct doc *inner = doc_new(arena, DOC_MAP);
    doc_set(inner, str_from(dot + 1), value);
    doc_set(map, (struct str){q->key, (size_t)(dot - q->key)}, inner);
    return map;
}

// At a terminal; others know what they do.
static bool is_meant(const struct call *call, const struct request *q, const char *const *arg)
{
    struct buf question = BUF_INIT(64 << 10);
    char answer[16] = "";
    if (!q->ask || call_option(call, "yes") || !isatty(STDIN_FILENO)) return true;
    fill(&question, q->ask, arg);
    fprintf(stderr, "%s [y/N] ", buf_str(&question).ptr);
    buf_done(&question);
    bool yes = fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
    if (!yes) print_error("nothing was deleted");
    return yes;
}

// What became of it, if that is known already: it may have ended long ago.
static void tell_end(struct remote *r, const struct call *call, const char *what, struct buf *done)
{
    const char *id = call->args[0], *noun = call->command->noun;
    const struct doc *e = doc_find(remote_get(r, "/%ss/%s", what, remote_segment(r, id)), what);
    const char *state = doc_text(e, "state");
    if (!follow_has_ended(state)) return;
    buf_clear(done);
    buf_printf(done, "%c%s %s has ended: %s.\n", noun[0] - 'a' + 'A', noun + 1, id,
               state + strlen("STATE_"));
}

static int run_request(const struct call *call)
{
    const struct request *q = (const void *)call->command; // its first member
    struct remote r;
    struct buf path = BUF_INIT(64 << 10), done = BUF_INIT(64 << 10);
    int status = EXIT_FAILED;
    if (!remote_check_id(call)) return EXIT_USAGE;
    const char *plain[2] = {"", ""}, *encoded[2] = {"", ""};
    if (remote_open(&r, call)) {
        for (int i = 0; i < call->n_args && i < 2; i++) {
            plain[i] = call->args[i];
            encoded[i] = remote_segment(&r, call->args[i]);
        }
        fill(&path, q->path, encoded);
        fill(&done, q->done, plain);
        buf_addc(&done, '\n');
        struct doc *body = body_of(&r.arena, q, call->args[call->n_args - 1]);
        if (q->key && !body)
            status = EXIT_USAGE;
        else if (is_meant(call, q, plain) &&
                 remote_call(&r, q->method, body, "%s", buf_str(&path).ptr))
            status = EXIT_OK;
    }
    if (!status && q->ends) tell_end(&r, call, q->ends, &done);
    if (!status) print_data(buf_str(&done));
    buf_done(&path);
    buf_done(&done);
    remote_close(&r);
    return status;
}

static const struct option request_options[] = {MASTER_OPTION};

static const struct option delete_options[] = {MASTER_OPTION, {"yes", 'y', NULL, "Does not ask."}};

#define REQUEST(options_, noun_, verb_, args_, n, help_, example_) \
    .command = COMMAND(noun_, verb_, args_, n, n, options_, run_request, help_, example_)

static const struct request requests[] = {
    {REQUEST(request_options, "experiment", "pause", "ID", 1,
             "Lets an experiment save checkpoints and give its slots back. 'activate' goes on.",
             "det experiment pause 7"),
     .method = HTTP_POST, .path = "/experiments/%1/pause",
     .done = "Experiment %1 is being paused: its trials save a checkpoint and stop."},
    {REQUEST(request_options, "experiment", "activate", "ID", 1,
             "Lets a paused experiment go on from its checkpoints.", "det experiment activate 7"),
     .method = HTTP_POST, .path = "/experiments/%1/activate", .done = "Experiment %1 is active."},
    {REQUEST(request_options, "experiment", "cancel", "ID", 1,
             "Lets an experiment save checkpoints and ends it.", "det experiment cancel 7"),
     .method = HTTP_POST, .path = "/experiments/%1/cancel",
     .done = "Experiment %1 is being canceled: its trials save a checkpoint and end.",
     .ends = "experiment"},
    {REQUEST(request_options, "experiment", "kill", "ID", 1, "Ends an experiment at once.",
             "det experiment kill 7"),
     .method = HTTP_POST, .path = "/experiments/%1/kill", .done = "Experiment %1 is being killed.",
     .ends = "experiment"},
    {REQUEST(request_options, "experiment", "archive", "ID", 1,
             "Takes an experiment that has ended out of lists.", "det experiment archive 7"),
     .method = HTTP_POST, .path = "/experiments/%1/archive", .done = "Experiment %1 is archived."},
    {REQUEST(request_options, "experiment", "unarchive", "ID", 1,
             "Brings an experiment back to lists.", "det experiment unarchive 7"),
     .method = HTTP_POST, .path = "/experiments/%1/unarchive",
     .done = "Experiment %1 is no longer archived."},
    {REQUEST(delete_options, "experiment", "delete", "ID", 1,
             "Deletes an experiment that has ended, with its checkpoints.",
             "det experiment delete 7"),
     .method = HTTP_DELETE, .path = "/experiments/%1",
     .done = "Experiment %1 is being deleted, with its checkpoints.",
     .ask = "Delete experiment %1 with all of its checkpoints?"},
    {REQUEST(request_options, "experiment", "label add", "ID LABEL", 2,
             "Gives an experiment a label.", "det experiment label add 7 baseline"),
     .method = HTTP_PUT, .path = "/experiments/%1/labels/%2",
     .done = "Experiment %1 has the label %2."},
    {REQUEST(request_options, "experiment", "label remove", "ID LABEL", 2,
             "Takes a label from an experiment.", "det experiment label remove 7 baseline"),
     .method = HTTP_DELETE, .path = "/experiments/%1/labels/%2",
     .done = "Experiment %1 does not have the label %2."},
    {REQUEST(request_options, "experiment", "set name", "ID NAME", 2, "Names an experiment.",
             "det experiment set name 7 'wider layers'"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "name",
     .done = "Experiment %1 is named %2."},
    {REQUEST(request_options, "experiment", "set description", "ID TEXT", 2,
             "Describes an experiment.", "det experiment set description 7 'with dropout 0.5'"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "description",
     .done = "Experiment %1 is described."},
    {REQUEST(request_options, "experiment", "set log-retention", "ID DAYS", 2,
             "Sets how many days logs are kept after the end of their trial; -1 means for ever.",
             "det experiment set log-retention 7 30"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "logRetentionDays", .number = true,
     .done = "Experiment %1 keeps its logs for %2 days (-1: for ever)."},
    {REQUEST(request_options, "experiment", "set priority", "ID N", 2,
             "Changes the place in the queue: 1 is first, 99 last.",
             "det experiment set priority 7 10"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "resources.priority", .number = true,
     .done = "Experiment %1 has priority %2."},
    {REQUEST(request_options, "experiment", "set weight", "ID N", 2,
             "Changes the share of the slots that an experiment gets beside others.",
             "det experiment set weight 7 2"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "resources.weight", .number = true,
     .done = "Experiment %1 has weight %2."},
    {REQUEST(request_options, "experiment", "set max-slots", "ID N", 2,
             "Limits how many slots an experiment uses at a time; 0: no limit.",
             "det experiment set max-slots 7 4"),
     .method = HTTP_PATCH, .path = "/experiments/%1", .key = "resources.maxSlots", .number = true,
     .done = "The slots of experiment %1 are limited to %2."},
    {REQUEST(request_options, "trial", "kill", "ID", 1, "Ends a trial at once.",
             "det trial kill 12"),
     .method = HTTP_POST, .path = "/trials/%1/kill", .done = "Trial %1 is being killed.",
     .ends = "trial"},
    {REQUEST(delete_options, "checkpoint", "delete", "UUID", 1, "Deletes a checkpoint.",
             "det checkpoint delete 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10"),
     .method = HTTP_DELETE, .path = "/checkpoints/%1", .done = "Checkpoint %1 is being deleted.",
     .ask = "Delete checkpoint %1?"},
    {REQUEST(request_options, "job", "kill", "ID", 1, "Ends a job at once.", "det job kill 7"),
     .method = HTTP_POST, .path = "/experiments/%1/kill", .done = "Job %1 is being killed.",
     .ends = "experiment"},
    {REQUEST(request_options, "job", "update", "JOB PRIORITY", 2,
             "Changes the place in the queue: 1 is first, 99 last. JOB is its name, or the number "
             "of its experiment.",
             "det job update 7 10"),
     .method = HTTP_PATCH, .path = "/jobs/%1", .key = "priority", .number = true,
     .done = "Job %1 has priority %2."},
    {REQUEST(request_options, "slot", "enable", "ID", 1, "Lets work onto a slot again.",
             "det slot enable 1"),
     .method = HTTP_POST, .path = "/slots/%1/enable", .done = "Slot %1 is in use."},
    {REQUEST(request_options, "slot", "disable", "ID", 1, "Lets no new work onto a slot.",
             "det slot disable 1"),
     .method = HTTP_POST, .path = "/slots/%1/disable", .done = "Slot %1 gets no new work."},
    {REQUEST(request_options, "template", "remove", "NAME", 1, "Removes a template.",
             "det template remove gpu"),
     .method = HTTP_DELETE, .path = "/templates/%1", .done = "Template %1 is removed."},
};

const struct command_table cmd_steer_commands = COMMAND_TABLE(requests);
