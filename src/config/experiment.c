// Unit experiment.c: the top level of experiment and job configurations.
#include "config/tables.h"

#include "base/assert.h"

#define X(member) offsetof(struct exp_config, member)
#define J(member) offsetof(struct job_config, member)
#define W(member) offsetof(struct webhooks_config, member)
#define Q(member) offsetof(struct batch_system_config, member)

static const char *const policies[] = {"best", "all", "none", NULL}; // enum checkpoint_policy

static const struct field id_item = {.name = "", .type = FIELD_INT, FIELD_MIN(1)};
static const struct field bind_mount_item = {
    .name = "", .type = FIELD_TABLE, .table = &bind_mount_table};
static const struct field log_policy_item = {
    .name = "", .type = FIELD_TABLE, .table = &log_policy_table};

// clang-format off
static const struct field seed_rows[] = {
    {"experiment_seed", FIELD_INT, X(experiment_seed), .required = true, FIELD_RANGE(0, 4294967295),
     .help = "The seed of all randomness of the search. Without it, the time of submission."},
};
static const struct field retention_rows[] = {
    {"log_retention_days", FIELD_OPT_INT, X(log_retention_days), FIELD_RANGE(-1, 32767),
     .help = "How many days logs are kept after the end of their trial. -1 means for ever, 0 until the "
             "next clean-up, within ten minutes. Without it, what the master's configuration says; or "
             "for ever."},
};
static const struct field webhook_rows[] = {
    {"webhook_id", FIELD_LIST, W(ids), .item = &id_item,
     .help = "Webhooks that are told about this experiment, by id."},
    {"webhook_name", FIELD_LIST, W(names), .item = &string_item,
     .help = "Webhooks that are told, by name."},
    {"exclude", FIELD_BOOL, W(exclude), .def = "false",
     .help = "Whether no webhook is told at all."},
};

#define BATCH_SYSTEM_ROWS(args_name, program)                                                      \
    {"slots_per_node", FIELD_OPT_INT, Q(slots_per_node), FIELD_MIN(1),                             \
     .help = "How many slots a node has."},                                                        \
    {"gpu_type", FIELD_STR, Q(gpu_type), .help = "The type of GPU to ask for."},                   \
    {args_name, FIELD_LIST, Q(args), .item = &string_item, .merge = field_merge_append,            \
     .help = "More arguments for " program "."}

static const struct field slurm_rows[] = {BATCH_SYSTEM_ROWS("sbatch_args", "sbatch")};
static const struct field pbs_rows[] = {BATCH_SYSTEM_ROWS("pbsbatch_args", "qsub")};
// clang-format on

static const struct field_table seed_table = {.size = sizeof(struct exp_config),
                                              FIELD_ROWS(seed_rows)};
static const struct field_table retention_table = {.size = sizeof(struct exp_config),
                                                   FIELD_ROWS(retention_rows)};
static const struct field_table webhooks_table = {.size = sizeof(struct webhooks_config),
                                                  FIELD_ROWS(webhook_rows)};
static const struct field_table slurm_table = {.size = sizeof(struct batch_system_config),
                                               FIELD_ROWS(slurm_rows)};
static const struct field_table pbs_table = {.size = sizeof(struct batch_system_config),
                                             FIELD_ROWS(pbs_rows)};

// clang-format off
static const struct field integration_rows[] = {
    {"pachyderm", FIELD_MAP, X(pachyderm), .no_effect = "Training code reads its data by itself.",
     .help = "A Pachyderm dataset."},
    {"webhooks", FIELD_TABLE, X(webhooks), .table = &webhooks_table,
     .no_effect = "The master calls no webhooks.",
     .help = "Which webhooks are told about changes."},
};
// clang-format on

static const struct field_table integrations_table = {.size = sizeof(struct exp_config),
                                                      FIELD_ROWS(integration_rows)};

static void check_name(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    const char *name = *(const char *const *)member;
    const struct config_ctx *config = ctx->user;
    if (config->is_new && !name[strspn(name, " \t\r\n")])
        field_error(ctx, value, "must not be empty; leave it out, and a name is made up");
}

// clang-format off
#define OLD_SECTION "It has no meaning any more."

// Fields that experiments and jobs share; M is the offset of a member.
#define NAME_ROWS(M)                                                                               \
    {"name", FIELD_STR, M(name), .check = check_name,                                              \
     .help = "The name that people see. Without it, one is made up."},                             \
    {"description", FIELD_STR, M(description), .help = "Free text."}
#define NO_WORKSPACES "All experiments are in one place; labels find them."
#define PLACE_ROWS(M)                                                                              \
    {"data", FIELD_MAP, M(data), .def = "{}",                                                      \
     .help = "Anything the training code wants to know. data.secrets is not shown to others."},    \
    {"workspace", FIELD_STR, M(workspace), .def = "", .no_effect = NO_WORKSPACES,                  \
     .help = "The workspace; needs a project. Empty means the default one."},                      \
    {"project", FIELD_STR, M(project), .def = "", .no_effect = NO_WORKSPACES,                      \
     .help = "The project; needs a workspace. Empty means the default one."},                      \
    {"private", FIELD_BOOL, M(private), .def = "false",                                            \
     .help = "Whether only its owner and administrators see its code, its logs and the files of "  \
             "its checkpoints."}
#define ENTRYPOINT_ROWS(M)                                                                         \
    {"entrypoint", FIELD_CODEC, M(entrypoint), .codec = &entrypoint_codec, .required = true,       \
     .help = "What to run: a trial class (module:Class), a shell command, or a list of words "     \
             "that is executed directly."},                                                        \
    {"entrypoint_script", FIELD_OLD, .into = "entrypoint", .help = "Another name of entrypoint."}, \
    {"launch_layer", FIELD_STR, M(launch_layer),                                                   \
     .help = "A command that starts the entrypoint, on every node: its words go in front."}
#define TASK_ROWS(M)                                                                               \
    {"bind_mounts", FIELD_LIST, M(bind_mounts), .item = &bind_mount_item,                          \
     .merge = field_merge_union, .merge_key = "container_path",                                    \
     .help = "Directories of the host that the task sees."},                                       \
    {"environment", FIELD_TABLE, M(environment), .table = &environment_table,                      \
     .help = "Environment variables, images and ports."}
#define TIMEOUT_ROWS(M)                                                                            \
    {"preemption_timeout", FIELD_INT, M(preemption_timeout_s), .def = "3600", FIELD_MIN(0),        \
     .help = "How many seconds a task has to save its state and end when it must make room."},     \
    {"debug", FIELD_BOOL, M(debug), .def = "false",                                                \
     .no_effect = "Programs decide by themselves how much they log.",                              \
     .help = "Whether more is logged."}

#define OWN_SCHEDULER "The master starts tasks by itself."

static const struct field exp_rows[] = {
    NAME_ROWS(X),
    {"labels", FIELD_LIST, X(labels), .item = &string_item, .merge = field_merge_union,
     .help = "Words to find the experiment by."},
    PLACE_ROWS(X),
    ENTRYPOINT_ROWS(X),
    {"hyperparameters", FIELD_CODEC, X(hyperparameters), .codec = &hparams_codec, .def = "{}",
     .merge = merge_hparams,
     .help = "Constants and ranges to search. Maps without a type are groups."},
    {"searcher", FIELD_TABLE, X(searcher), .table = &searcher_table, .required = true,
     .help = "How hyperparameters are searched, and how long trials train."},
    {"resources", FIELD_TABLE, X(resources), .table = &experiment_resources_table,
     .help = "What each trial needs, and how important it is."},
    {"max_restarts", FIELD_INT, X(max_restarts), .def = "5", FIELD_MIN(0),
     .help = "How often a trial is restarted after a failure."},
    {"checkpoint_storage", FIELD_TABLE, X(checkpoint_storage), .table = &storage_table,
     .help = "Where checkpoints go, and which are kept."},
    {"checkpoint_policy", FIELD_ENUM, X(checkpoint_policy), .values = policies, .def = "best",
     .help = "When a validation causes a checkpoint: best (it is better than all before in the "
             "experiment), all, or none."},
    {"min_validation_period", FIELD_CODEC, X(min_validation_period), .codec = &length_codec,
     .def = "{batches: 0}", FIELD_MIN(0), .convert = convert_period,
     .help = "The longest time between two validations. 0 means only when the searcher asks. A "
             "bare number counts steps."},
    {"min_checkpoint_period", FIELD_CODEC, X(min_checkpoint_period), .codec = &length_codec,
     .def = "{batches: 0}", FIELD_MIN(0), .convert = convert_period,
     .help = "The longest time between two checkpoints. 0 means only when needed. A bare number "
             "counts steps."},
    {"perform_initial_validation", FIELD_BOOL, X(perform_initial_validation), .def = "false",
     .help = "Whether trials are validated before they train."},
    {"records_per_epoch", FIELD_INT, X(records_per_epoch), .def = "0", FIELD_MIN(0),
     .no_effect = "The training data says how long an epoch is.",
     .help = "How many records an epoch has, to convert epochs to batches. 0 leaves epochs to "
             "the training code."},
    {"scheduling_unit", FIELD_INT, X(scheduling_unit), .def = "100", FIELD_MIN(1),
     .help = "How many batches are trained between two reports and checks for preemption."},
    {"batches_per_step", FIELD_OLD, .into = "scheduling_unit",
     .help = "The old name of scheduling_unit."},
    {"reproducibility", FIELD_TABLE, 0, .table = &seed_table,
     .help = "What makes a search repeatable."},
    TASK_ROWS(X),
    {"optimizations", FIELD_TABLE, X(optimizations), .table = &optimizations_table,
     .help = "How distributed and mixed-precision training work."},
    {"profiling", FIELD_TABLE, X(profiling), .table = &profiling_table,
     .no_effect = "det-run --trace records what a training does.",
     .help = "Which batches are profiled."},
    {"log_policies", FIELD_LIST, X(log_policies), .item = &log_policy_item,
     .merge = merge_log_policies,
     .help = "What to do when the log of a trial matches a pattern."},
    {"retention_policy", FIELD_TABLE, 0, .table = &retention_table,
     .help = "How long logs are kept."},
    TIMEOUT_ROWS(X),
    {"integrations", FIELD_TABLE, 0, .table = &integrations_table, .help = "Other systems."},
    {"slurm", FIELD_TABLE, X(slurm), .table = &slurm_table, .no_effect = OWN_SCHEDULER,
     .help = "How tasks run under Slurm."},
    {"pbs", FIELD_TABLE, X(pbs), .table = &pbs_table, .no_effect = OWN_SCHEDULER,
     .help = "How tasks run under PBS."},
    {"data_layer", FIELD_IGNORED, .help = OLD_SECTION},
    {"internal", FIELD_IGNORED, .help = OLD_SECTION},
    {"security", FIELD_IGNORED, .help = OLD_SECTION},
    {"tensorboard_storage", FIELD_IGNORED, .help = OLD_SECTION},
};

static const struct field job_rows[] = {
    NAME_ROWS(J),
    PLACE_ROWS(J),
    ENTRYPOINT_ROWS(J),
    {"work_dir", FIELD_STR, J(work_dir),
     .help = "The directory to run in, absolute or below that of the submitted files. Without it, "
             "the latter itself."},
    {"resources", FIELD_TABLE, J(resources), .table = &job_resources_table,
     .help = "What the job needs."},
    TASK_ROWS(J),
    TIMEOUT_ROWS(J),
};
// clang-format on

static void check_place(struct field_ctx *ctx, const struct doc *map, const char *workspace,
                        const char *project)
{
    if (!workspace || !project || !*workspace == !*project) return;
    const char *given = *workspace ? "workspace" : "project";
    struct field_path path = field_at_key(ctx, str_from(given));
    ctx->path = &path;
    field_error(ctx, doc_find(map, given), "workspace and project go together; %s is missing",
                *workspace ? "project" : "workspace");
    ctx->path = path.up;
}

// Labels are a set.
static void drop_double_labels(struct exp_config *cfg)
{
    size_t n = 0;
    for (size_t i = 0; i < cfg->labels.n; i++) {
        const char *label = cfg->labels.items[i];
        bool known = !label;
        for (size_t k = 0; k < n && !known; k++)
            known = !strcmp(cfg->labels.items[k], label);
        if (!known) cfg->labels.items[n++] = label;
    }
    cfg->labels.n = n;
}

static void check_experiment(struct field_ctx *ctx, const struct doc *map, void *self)
{
    struct exp_config *cfg = self;
    check_place(ctx, map, cfg->workspace, cfg->project);
    if (cfg->searcher.kind == SEARCHER_GRID) check_grid(ctx, map, &cfg->hyperparameters);
    drop_double_labels(cfg);
    complete_log_policies(ctx, map, cfg);
}

static void check_job(struct field_ctx *ctx, const struct doc *map, void *self)
{
    struct job_config *cfg = self;
    check_place(ctx, map, cfg->workspace, cfg->project);
}

const struct field_table exp_config_table = {.size = sizeof(struct exp_config),
                                             FIELD_ROWS(exp_rows),
                                             .check = check_experiment,
                                             .check_always = true};
const struct field_table job_config_table = {.size = sizeof(struct job_config),
                                             FIELD_ROWS(job_rows),
                                             .check = check_job,
                                             .check_always = true};
