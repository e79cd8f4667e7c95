// Unit cmd_steer.c: commands that are one request to the master: pause, kill, delete, labels, names
// and so on. A command is one row of `requests`.
#include "cli/cmd.h"

#include "base/assert.h"
#include "base/number.h"
#include "cli/remote.h"

struct request {
    const struct command *command;
    enum http_method method;
    bool number;      // the last argument is one
    const char *path; // %1, %2: arguments
    const char *key;  // a body {key: last argument}; "a.b" nests; NULL: none
    const char *done; // what to say; %1, %2 as above
};

static const struct request requests[] = {
    {&cmd_experiment_pause, HTTP_POST, false, "/experiments/%1/pause", NULL,
     "Experiment %1 is being paused: its trials save a checkpoint and stop."},
    {&cmd_experiment_activate, HTTP_POST, false, "/experiments/%1/activate", NULL,
     "Experiment %1 is active."},
    {&cmd_experiment_cancel, HTTP_POST, false, "/experiments/%1/cancel", NULL,
     "Experiment %1 is being canceled: its trials save a checkpoint and end."},
    {&cmd_experiment_kill, HTTP_POST, false, "/experiments/%1/kill", NULL,
     "Experiment %1 is being killed."},
    {&cmd_experiment_archive, HTTP_POST, false, "/experiments/%1/archive", NULL,
     "Experiment %1 is archived."},
    {&cmd_experiment_unarchive, HTTP_POST, false, "/experiments/%1/unarchive", NULL,
     "Experiment %1 is no longer archived."},
    {&cmd_experiment_delete, HTTP_DELETE, false, "/experiments/%1", NULL,
     "Experiment %1 is being deleted, with its checkpoints."},
    {&cmd_experiment_label_add, HTTP_PUT, false, "/experiments/%1/labels/%2", NULL,
     "Experiment %1 has the label %2."},
    {&cmd_experiment_label_remove, HTTP_DELETE, false, "/experiments/%1/labels/%2", NULL,
     "Experiment %1 does not have the label %2."},
    {&cmd_experiment_set_name, HTTP_PATCH, false, "/experiments/%1", "name",
     "Experiment %1 is named %2."},
    {&cmd_experiment_set_description, HTTP_PATCH, false, "/experiments/%1", "description",
     "Experiment %1 is described."},
    {&cmd_experiment_set_priority, HTTP_PATCH, true, "/experiments/%1", "resources.priority",
     "Experiment %1 has priority %2."},
    {&cmd_trial_kill, HTTP_POST, false, "/trials/%1/kill", NULL, "Trial %1 is being killed."},
    {&cmd_checkpoint_delete, HTTP_DELETE, false, "/checkpoints/%1", NULL,
     "Checkpoint %1 is being deleted."},
    {&cmd_job_kill, HTTP_POST, false, "/experiments/%1/kill", NULL, "Job %1 is being killed."},
    {&cmd_job_update, HTTP_PATCH, true, "/jobs/%1", "priority", "Job %1 has priority %2."},
    {&cmd_slot_enable, HTTP_POST, false, "/slots/%1/enable", NULL, "Slot %1 is in use."},
    {&cmd_slot_disable, HTTP_POST, false, "/slots/%1/disable", NULL, "Slot %1 gets no new work."},
    {&cmd_template_remove, HTTP_DELETE, false, "/templates/%1", NULL, "Template %1 is removed."},
};

static const struct request *request_of(const struct call *call)
{
    for (size_t i = 0; i < STATIC_LEN(requests); i++)
        if (requests[i].command == call->command) return &requests[i];
    ASSERT(!"a command without a request");
    return NULL;
}

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
    int64_t number;
    if (!q->key) return NULL;
    if (q->number && !number_to_int(str_from(text), 10, &number)) {
        print_error("'%s' is not a whole number", text);
        return NULL;
    }
    struct doc *value = q->number ? doc_new_int(arena, number) : doc_new_str(arena, text);
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

static int run_request(const struct call *call)
{
    const struct request *q = request_of(call);
    struct remote r;
    struct buf path = BUF_INIT(64 << 10), done = BUF_INIT(64 << 10);
    int status = EXIT_FAILED;
    if (remote_open(&r, call)) {
        const char *plain[2] = {"", ""}, *encoded[2] = {"", ""};
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
        else if (remote_call(&r, q->method, body, "%s", buf_str(&path).ptr))
            status = EXIT_OK;
    }
    if (!status) print_data(buf_str(&done));
    buf_done(&path);
    buf_done(&done);
    remote_close(&r);
    return status;
}

static const struct option request_options[] = {MASTER_OPTION};

#define REQUEST(symbol, noun_, verb_, args_, n, help_, example_)             \
    const struct command symbol = {.noun = noun_,                            \
                                   .verb = verb_,                            \
                                   .args = args_,                            \
                                   .min_args = n,                            \
                                   .max_args = n,                            \
                                   .help = help_,                            \
                                   .example = example_,                      \
                                   .options = request_options,               \
                                   .n_options = STATIC_LEN(request_options), \
                                   .run = run_request};

REQUEST(cmd_experiment_pause, "experiment", "pause", "ID", 1,
        "Lets an experiment save checkpoints and give its slots back. 'activate' goes on.",
        "det experiment pause 7")
REQUEST(cmd_experiment_activate, "experiment", "activate", "ID", 1,
        "Lets a paused experiment go on from its checkpoints.", "det experiment activate 7")
REQUEST(cmd_experiment_cancel, "experiment", "cancel", "ID", 1,
        "Lets an experiment save checkpoints and ends it.", "det experiment cancel 7")
REQUEST(cmd_experiment_kill, "experiment", "kill", "ID", 1, "Ends an experiment at once.",
        "det experiment kill 7")
REQUEST(cmd_experiment_archive, "experiment", "archive", "ID", 1,
        "Takes an experiment that has ended out of lists.", "det experiment archive 7")
REQUEST(cmd_experiment_unarchive, "experiment", "unarchive", "ID", 1,
        "Brings an experiment back to lists.", "det experiment unarchive 7")
REQUEST(cmd_experiment_delete, "experiment", "delete", "ID", 1,
        "Deletes an experiment that has ended, with its checkpoints.", "det experiment delete 7")
REQUEST(cmd_experiment_label_add, "experiment", "label add", "ID LABEL", 2,
        "Gives an experiment a label.", "det experiment label add 7 baseline")
REQUEST(cmd_experiment_label_remove, "experiment", "label remove", "ID LABEL", 2,
        "Takes a label from an experiment.", "det experiment label remove 7 baseline")
REQUEST(cmd_experiment_set_name, "experiment", "set name", "ID NAME", 2, "Names an experiment.",
        "det experiment set name 7 'wider layers'")
REQUEST(cmd_experiment_set_description, "experiment", "set description", "ID TEXT", 2,
        "Describes an experiment.", "det experiment set description 7 'with dropout 0.5'")
REQUEST(cmd_experiment_set_priority, "experiment", "set priority", "ID N", 2,
        "Changes the place in the queue: 1 is first, 99 last.", "det experiment set priority 7 10")
REQUEST(cmd_trial_kill, "trial", "kill", "ID", 1, "Ends a trial at once.", "det trial kill 12")
REQUEST(cmd_checkpoint_delete, "checkpoint", "delete", "UUID", 1, "Deletes a checkpoint.",
        "det checkpoint delete 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10")
REQUEST(cmd_job_kill, "job", "kill", "ID", 1, "Ends a job at once.", "det job kill 7")
REQUEST(cmd_job_update, "job", "update", "JOB PRIORITY", 2,
        "Changes the place in the queue: 1 is first, 99 last.",
        "det job update 0d9c2a4e-5f0b-4c9e-9f5a-3a4c7e1f2b10 10")
REQUEST(cmd_slot_enable, "slot", "enable", "ID", 1, "Lets work onto a slot again.",
        "det slot enable 1")
REQUEST(cmd_slot_disable, "slot", "disable", "ID", 1, "Lets no new work onto a slot.",
        "det slot disable 1")
REQUEST(cmd_template_remove, "template", "remove", "NAME", 1, "Removes a template.",
        "det template remove gpu")
