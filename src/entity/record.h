// entity/record.h: what is kept about each noun, as plain structs with field tables. Part of
// entity/entity.h.
//
// One name per field everywhere: the rows of a table are the columns of the database and the keys
// of the JSON that the API answers with. Texts belong to whoever filled the struct (an arena).
// Times are microseconds since 1970 (UTC), 0 when there is none; JSON shows RFC 3339 or null.
// Measured values that may be missing are NaN then; JSON shows null.
#pragma once

#include "doc/field.h"
#include "entity/state.h"

enum experiment_kind { EXPERIMENT_SEARCH, EXPERIMENT_GENERIC }; // a search, or `det job run`

struct experiment {
    int64_t id;
    enum experiment_kind kind;
    enum exp_state state;
    const char *name, *description, *notes;
    LIST_OF(const char *) labels;
    bool archived;
    int64_t user_id;
    struct opt_int forked_from;
    double progress; // 0 .. 1, NaN: not known
    int64_t start_us, end_us;
    int64_t n_trials;
    const char *searcher_type, *searcher_metric; // no metric: what operations complete with
    bool smaller_is_better;
    struct opt_int best_trial_id;
    double best_metric;
    const char *resource_pool;
    const char *job_id;      // UUID
    const char *code;        // name of the stored archive; NULL: none
    const char *reason;      // why it ended as it did; NULL: nothing to say
    bool private;            // code, logs and files are for the owner and administrators
    struct opt_int log_days; // logs are kept so long after the end of a trial; -1: for ever; not
                             // set: as the master has it
};

struct trial {
    int64_t id, experiment_id;
    int64_t number;         // among the trials of the experiment, from 1: the searcher's name
    const char *request_id; // UUID, drawn by the searcher
    const char *task_id;    // "<experiment>.<request>"
    enum exp_state state;
    const struct doc *hparams;
    int64_t seed;
    int64_t restarts; // counted failures
    int64_t run_id;   // number of its latest allocation; 0: none yet
    int64_t start_us, end_us;
    int64_t total_batches;
    double searcher_metric;                                // best so far
    const struct doc *best_validation, *latest_validation; // {totalBatches, endTime, metrics}
    const char *latest_checkpoint, *warm_start_checkpoint; // UUIDs
    struct opt_int operation; // absolute length that the searcher wants; 0: the code decides
    bool closing;             // the searcher wants nothing after that
    const char *runner_state; // what it says it is doing
    double progress;          // as reported
    const char *reason;
};

struct allocation {
    const char *id; // "<task>.<run>"
    const char *task_id;
    int64_t trial_id, run_id;
    enum allocation_state state;
    int64_t slots;
    int64_t start_us, end_us;
    bool ready;                        // the task called, so it can be asked to stop
    bool preempt, kill;                // what it was asked
    bool preemption_acked, invalid_hp; // what it said
    enum exit_kind exit;
    int64_t exit_status; // 128 + n after signal n
    const char *reason;
    int64_t token;                       // what the resource manager knows it by; never used twice
    int64_t log_offset;                  // how much of its output is in the log
    int64_t assigned_us;                 // when it got its slots
    struct opt_int from_batch, to_batch; // where it began, and how far it came; not set: not known
};

struct checkpoint {
    const char *uuid;
    const char *task_id, *allocation_id;
    int64_t experiment_id, trial_id;
    enum checkpoint_state state;
    int64_t time_us;
    int64_t steps_completed;
    int64_t size_bytes;
    const struct doc *resources; // path -> bytes
    const struct doc *metadata;
    double searcher_metric; // of the validation at the same step
};

// One report: the values of a group ("training", "validation", ...) after some steps.
struct metric_report {
    int64_t trial_id, run_id;
    const char *group;
    int64_t steps_completed;
    int64_t time_us;
    const struct doc *metrics; // name -> value
};

// What all reports of a metric come to.
struct metric_summary {
    const char *group, *name;
    int64_t count;
    double sum, min, max, last;
};

enum log_level {
    LOG_LEVEL_UNSPECIFIED,
    LOG_LEVEL_TRACE,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_CRITICAL,
};

struct log_line {
    int64_t id, trial_id;
    int64_t time_us;
    enum log_level level;
    struct opt_int rank;
    const char *allocation_id, *agent_id, *container_id, *source, *stdtype;
    const char *log; // keeps its newline
};

struct job {
    const char *id; // UUID
    int64_t experiment_id;
    enum job_state state;
    int64_t priority; // 1 (first) .. 99
    double weight;
    const char *resource_pool;
    int64_t submit_us;
    double position; // in the queue, among equal priorities; smaller is earlier
};

struct user {
    int64_t id;
    const char *username, *display_name;
    bool admin, active;
    int64_t modified_us;
};

// Who a token speaks for: a user, or one allocation.
struct session {
    int64_t user_id;
    const char *allocation_id; // NULL: a user's
    int64_t trial_id;
    int64_t expires_us; // 0: never
};

struct config_template {
    const char *name, *config;
    int64_t user_id;
};

extern const struct field_table experiment_table, trial_table, allocation_table, checkpoint_table,
    metric_report_table, metric_summary_table, log_line_table, job_table, user_table, session_table,
    config_template_table;

// How the members of these structs are stored and shown that have no type of their own.
extern const struct field_codec timestamp_codec; // int64_t: microseconds
extern const struct field_codec value_codec;     // double: NaN is null

extern const char *const log_level_names[];

// "2026-01-31T10:20:30.123456Z"
enum { TIME_TEXT_BYTES = 28 };
void time_format(int64_t unix_us, char out[TIME_TEXT_BYTES]);
int time_parse(const char *text, int64_t *out_us, det_err *err);
