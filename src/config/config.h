// config/config.h: configuration text to typed, complete, validated structs.
//   exp_config_read  exp_config_write  job_config_read  job_config_write  config_reference
//   config_petname  config_warnings  storage_check  master_config_read  master_config_settings
//
// Text is YAML or JSON of any era of the format; old spellings become those of today. Everything
// wrong is reported at once, with its place. What was read lives in the arena; the structs hold no
// other memory. Strings that were not set are NULL.
//
//     struct arena arena = ARENA_INIT;
//     struct diag_list diags = DIAG_INIT(&arena);
//     struct exp_config cfg;
//     struct config_opts opts = {.source = "const.yaml"};
//     if (exp_config_read(&arena, text, &opts, &cfg, &diags))
//         diag_print(&diags, DIAG_ERROR, &out);
#pragma once

#include "doc/diag.h"
#include "doc/field.h"
#include "entity/entity.h"

// What to run. A class "module:Class" is loaded by a trial runner; text goes to `sh -c`; a list is
// executed directly. With a launch layer, its words go in front, on every node.
enum entrypoint_kind { ENTRYPOINT_NONE, ENTRYPOINT_CLASS, ENTRYPOINT_SHELL, ENTRYPOINT_EXEC };

struct entrypoint {
    enum entrypoint_kind kind;
    const char *text;           // ENTRYPOINT_CLASS, ENTRYPOINT_SHELL
    LIST_OF(const char *) argv; // ENTRYPOINT_EXEC
};

enum searcher_kind {
    SEARCHER_SINGLE,
    SEARCHER_RANDOM,
    SEARCHER_GRID,
    SEARCHER_ADAPTIVE_ASHA,
    SEARCHER_ASYNC_HALVING,
    SEARCHER_ADAPTIVE,
    SEARCHER_ADAPTIVE_SIMPLE,
    SEARCHER_SYNC_HALVING,
    SEARCHER_PBT,
    SEARCHER_TPE,
    SEARCHER_BOHB,
    SEARCHER_CMAES,
    SEARCHER_CUSTOM,
};

enum adaptive_mode { MODE_STANDARD, MODE_AGGRESSIVE, MODE_CONSERVATIVE };

// All methods of the successive-halving family; which members count depends on the kind (see
// config/searcher.c).
struct halving_config {
    enum adaptive_mode mode;        // adaptive*, bohb
    double divisor;                 // > 1
    int64_t max_rungs;              // adaptive*, bohb
    int64_t num_rungs;              // async_halving, sync_halving
    LIST_OF(int64_t) bracket_rungs; // overrides mode and max_rungs when not empty
    enum tri stop_once;    // true: stopping variant; false: promotion; unset: up to the master
    struct length budget;  // adaptive, sync_halving: same unit as max_length, and more than it
    bool train_stragglers; // adaptive, sync_halving
};

// tpe, and the sampling inside bohb.
struct tpe_config {
    int64_t n_startup_trials; // drawn at random before the model is used
    int64_t n_ei_candidates;  // drawn from the good density; the best ratio wins
    double gamma;             // fraction of the results that count as good, at most 25 of them
};

struct cmaes_config {
    struct opt_int population_size; // unset: 4 + floor(3 ln(dimensions))
    double sigma0;                  // initial step, as a fraction of each range
};

struct pbt_config {
    int64_t population_size, num_rounds;
    struct length length_per_round;
    double truncate_fraction;    // replaced by copies of the best after each round: 0 .. 0.5
    double resample_probability; // of each hyperparameter of a copy: 0 .. 1
    double perturb_factor;       // otherwise it is multiplied by 1 + or - this: 0 .. 1
};

// A program that speaks JSON lines.
struct custom_config {
    struct entrypoint command;
    enum length_unit unit;
    const struct doc *options; // the other keys of the searcher, handed to the program as they are
};

struct searcher_config {
    enum searcher_kind kind;
    const char *metric; // NULL: the value that a trial completes an operation with
    bool smaller_is_better;
    // Trials start from the latest checkpoint of a trial, or from a checkpoint, if one is set.
    struct opt_int source_trial_id;
    const char *source_checkpoint_uuid;
    struct length max_length;      // LENGTH_NONE: the training code decides
    const char *time_metric;       // not NULL exactly if max_length.unit is LENGTH_TIME
    int64_t max_trials;            // single: 1; grid, adaptive, sync_halving, pbt, custom: 0
    int64_t max_concurrent_trials; // 0: no limit (the halving family chooses one)
    struct halving_config halving; // adaptive*, *_halving, bohb
    struct tpe_config tpe;         // tpe, bohb
    struct cmaes_config cmaes;
    struct pbt_config pbt;
    struct custom_config custom;
};

const char *searcher_kind_name(enum searcher_kind kind); // "adaptive_asha"

enum storage_kind {
    STORAGE_DEFAULT, // that of the master
    STORAGE_SHARED_FS,
    STORAGE_DIRECTORY,
    STORAGE_S3,
    STORAGE_GCS,
    STORAGE_AZURE,
};

struct storage_config {
    enum storage_kind kind;
    // How many checkpoints are kept at the end.
    int64_t save_experiment_best, save_trial_best, save_trial_latest;
    const char *host_path, *storage_path, *propagation;                   // shared_fs
    const char *container_path;                                           // directory
    const char *bucket, *prefix;                                          // s3, gcs
    const char *access_key, *secret_key, *endpoint_url;                   // s3
    const char *container, *connection_string, *account_url, *credential; // azure
};

// Refuses what checkpoints would be lost with: kinds of storage that det does not write to.
int storage_check(const struct storage_config *s, det_err *err);

struct device {
    const char *host_path, *container_path, *mode;
};

struct resources_config {
    int64_t slots;             // of each trial, or of the job; 0: a task without accelerators
    struct opt_int max_slots;  // of the whole experiment at a time
    double weight;             // for fair share
    struct opt_int priority;   // 1 (first) .. 99; unset: that of the pool
    const char *resource_pool; // "": the default pool
    struct opt_int shm_bytes;
    LIST_OF(struct device) devices;
    enum tri is_single_node;
};

struct bind_mount {
    const char *host_path;
    const char *container_path; // relative: below the working directory
    bool read_only;
    const char *propagation;
};

struct per_device_str {
    const char *cpu, *cuda, *rocm;
};

struct proxy_port {
    int64_t proxy_port;
    bool proxy_tcp, unauthenticated, default_service_id;
};

struct registry_auth {
    const char *username, *password, *auth, *email;
    const char *server_address, *identity_token, *registry_token;
};

struct environment_config {
    const char *python; // an interpreter or a virtual environment; NULL: that of the PATH
    LIST_OF(const char *) requirements; // lines of a file of requirements; relative to the code
    struct per_device_str image;
    struct {
        LIST_OF(const char *) cpu, cuda, rocm; // "NAME=VALUE"; the last of a name wins
    } variables;
    bool force_pull_image;
    struct registry_auth registry_auth;
    const struct doc *ports; // name -> port
    LIST_OF(struct proxy_port) proxy_ports;
    LIST_OF(const char *) add_capabilities, drop_capabilities;
    const struct doc *pod_spec;
};

enum mixed_precision { PRECISION_O0, PRECISION_O1, PRECISION_O2, PRECISION_O3 };

struct optimizations_config {
    int64_t aggregation_frequency;
    bool average_aggregated_gradients, average_training_metrics, gradient_compression;
    enum mixed_precision mixed_precision;
    int64_t tensor_fusion_threshold_mb, tensor_fusion_cycle_time_ms;
    bool auto_tune_tensor_fusion;
    const char *grad_updates_size_file;
};

struct profiling_config {
    bool enabled, sync_timings;
    int64_t begin_on_batch;
    struct opt_int end_after_batch;
};

enum log_action { LOG_LABEL_ONLY, LOG_CANCEL_RETRIES, LOG_EXCLUDE_NODE };

struct log_policy {
    const char *name;    // NULL in the old form
    const char *pattern; // RE2 syntax; NULL: switches the built-in policy of that name off
    enum log_action action;
};

struct webhooks_config {
    LIST_OF(int64_t) ids;
    LIST_OF(const char *) names;
    bool exclude;
};

struct batch_system_config {
    struct opt_int slots_per_node;
    const char *gpu_type;
    LIST_OF(const char *) args;
};

enum checkpoint_policy { CHECKPOINT_BEST, CHECKPOINT_ALL, CHECKPOINT_NONE };

struct exp_config {
    struct str text; // as submitted
    const char *name, *description;
    LIST_OF(const char *) labels;
    const struct doc *data;
    const char *workspace, *project; // "": the default one
    bool private;
    struct entrypoint entrypoint;
    const char *launch_layer, *work_dir; // work_dir: of jobs
    struct hparam hyperparameters;       // the root group
    struct searcher_config searcher;
    struct resources_config resources;
    int64_t max_restarts;
    struct storage_config checkpoint_storage;
    enum checkpoint_policy checkpoint_policy;
    struct length min_validation_period, min_checkpoint_period; // amount 0: off
    bool perform_initial_validation;
    int64_t records_per_epoch; // 0: not known
    int64_t scheduling_unit;   // batches between two reports
    int64_t experiment_seed;
    LIST_OF(struct bind_mount) bind_mounts;
    struct environment_config environment;
    struct optimizations_config optimizations;
    struct profiling_config profiling;
    LIST_OF(struct log_policy) log_policies;
    struct opt_int log_retention_days; // -1: forever
    int64_t preemption_timeout_s;
    const struct doc *pachyderm;
    struct webhooks_config webhooks;
    bool debug;
    struct batch_system_config slurm, pbs;
};

// A generic job: something to run on some slots, without a search.
struct job_config {
    struct str text;
    const char *name, *description;
    const struct doc *data;
    const char *workspace, *project;
    bool private;
    struct entrypoint entrypoint;
    const char *launch_layer, *work_dir;
    struct resources_config resources;
    struct environment_config environment;
    LIST_OF(struct bind_mount) bind_mounts;
    int64_t preemption_timeout_s;
    bool debug;
};

// A text of lower precedence: a template, defaults of the cluster or the workspace.
struct config_text {
    const char *source;
    struct str text;
    const struct doc *doc; // the text, parsed already; NULL: not yet
};

struct config_opts {
    const char *source;              // file name for messages
    const struct doc *doc;           // the text, parsed and perhaps changed; NULL: not yet
    const struct config_text *below; // highest precedence first
    size_t n_below;
    const char *default_name; // NULL: a petname from default_seed
    int64_t default_seed;     // of the experiment, 0 .. 2^31 - 1
    bool entrypoint_optional; // for looking at a search without running it
    bool is_new;              // rules hold that configurations of older versions may break
};

// 0, or DET_EINVAL with at least one error in diags (then *out is not to be used). Warnings are
// added in both cases. text must live as long as *out.
int exp_config_read(struct arena *arena, struct str text, const struct config_opts *opts,
                    struct exp_config *out, struct diag_list *diags);
int job_config_read(struct arena *arena, struct str text, const struct config_opts *opts,
                    struct job_config *out, struct diag_list *diags);

// What was said when it was created, from the two texts that are kept: original is as submitted,
// complete also has what templates said. Each warning once.
void config_warnings(struct arena *arena, bool job, struct str original, struct str complete,
                     struct diag_list *out);

// Who gets to see a configuration. What they do not, FIELD_MASK stands for.
enum config_view {
    CONFIG_WHOLE,  // the task: everything; reading it again gives the same struct
    CONFIG_OWNER,  // who created it: no secrets
    CONFIG_PUBLIC, // others: nor values of environment variables, nor who logs in to addresses
};

// A line of environment.requirements as others see it: "-i https://********@host/simple".
const char *config_mask_address(struct arena *arena, const char *line);

// The complete configuration.
struct doc *exp_config_write(struct arena *arena, const struct exp_config *cfg,
                             enum config_view view);
struct doc *job_config_write(struct arena *arena, const struct job_config *cfg,
                             enum config_view view);

// All keys of a configuration, with their values, defaults and meaning, as tables in Markdown.
void config_reference(const struct field_table *table, struct buf *out);

// Three words, for experiments without a name.
const char *config_petname(struct arena *arena, uint64_t seed);

// --- the configuration of a master

enum { MASTER_MAX_SLOTS = 4096 };

struct tls_config {
    enum tri enabled;
    const char *cert, *key; // PEM files, both or neither
};

struct limits_config {
    int64_t max_connections, max_connections_per_address, max_connections_per_user;
    int64_t reserved_connections;
};

enum isolation_choice {
    ISOLATION_BY_USERS, // as many users demand
    ISOLATION_NONE,
    ISOLATION_PRIVATE,
    ISOLATION_STRICT,
    ISOLATION_USERS,
};

enum scheduler_type { SCHEDULER_PRIORITY, SCHEDULER_FAIR_SHARE, SCHEDULER_ROUND_ROBIN };

struct scheduler_config {
    enum scheduler_type type;
    bool preemption;          // with SCHEDULER_PRIORITY
    int64_t default_priority; // 1 (first) .. 99
};

enum pool_kind { POOL_LOCAL }; // slots of the machine of the master

// Slots that work is put on.
struct pool_config {
    enum pool_kind kind;
    const char *name, *description;
    struct scheduler_config scheduler;
    int64_t max_aux_tasks;     // tasks without slots, at a time
    LIST_OF(int64_t) slot_ids; // none: those that no other pool has
};

struct master_config {
    const struct doc *doc; // what the file and the options say; for master_config_settings()
    const char *listen;
    int64_t port;
    struct tls_config tls;
    bool insecure;
    struct opt_int slots; // unset: what the machine has
    enum isolation_choice isolation;
    struct opt_int task_memory, task_processes; // limits of a task
    bool private;
    struct limits_config limits;
    struct scheduler_config scheduler;        // of pools without one of their own
    LIST_OF(struct pool_config) pools;        // at least one
    const char *default_pool;                 // NULL: the first
    struct storage_config checkpoint_storage; // of experiments without one of their own
    struct opt_int log_retention_days;        // the same; -1, or not set: for ever
    const char *db;                           // postgresql://...; NULL: a file
    const char *ui_dir;
};

// The part of the configuration that experiments have, too: what goes below theirs. NULL: nothing.
const struct doc *master_config_defaults(struct arena *arena, const struct master_config *cfg);

struct master_config_opts {
    const char *source;        // file name for messages
    const char *dir;           // what relative paths in the file are relative to; NULL: as they are
    const struct doc *options; // what goes before the file: a map like that, whose places name
                               // options; NULL: none
};

// As exp_config_read(). text may be empty.
int master_config_read(struct arena *arena, struct str text, const struct master_config_opts *opts,
                       struct master_config *out, struct diag_list *diags);

// The complete configuration, without secrets.
struct doc *master_config_write(struct arena *arena, const struct master_config *cfg);

// All keys, one by one: [{"key": "tls.cert", "value": ..., "source": "det.yaml:4"}]. The source is
// a line of the file, an option ("--tls-cert"), or "default".
struct doc *master_config_settings(struct arena *arena, const struct master_config *cfg);

// The keys whose values differ: ["port", "tls.cert"].
struct doc *master_config_changes(struct arena *arena, const struct master_config *before,
                                  const struct master_config *now);

// Every field there is, for the reference.
extern const struct field_table exp_config_table, job_config_table, master_config_table;
