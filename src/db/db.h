// db/db.h: the only place that knows SQL. SQLite in WAL mode, or PostgreSQL; one writer thread, any
// readers.
//
// Writing: a transaction is a list of changes, made of the functions below that take a db_tx, and
// submitted as a whole. The writer thread takes all transactions that wait, does them in one
// transaction of the engine, which syncs, and only then reports each as done. So an acknowledgement that is
// sent from the done function is a promise that survives kill -9 and power loss, and a thousand
// clients share one sync. Transactions are done in the order in which they were submitted.
//
//     struct db_tx *tx = db_tx_new(db);
//     db_trial_save(tx, &trial);
//     db_searcher_save(tx, experiment_id, snapshot);     // together or not at all
//     db_tx_submit(tx, answer_client, request);          // later: answer_client(request, err)
//
// When the disk is full a transaction fails with DET_ENOSPC and nothing of it is kept, unless it
// was submitted as one that must happen: then the caller hears of the failure, and the writer tries
// again until there is space. Any other failure to write (a disk that lies about what it has is not
// to be trusted again) is the end: everything after it fails with DET_EUNREACHABLE and the reason.
// So it is when the files are deleted, moved or replaced under a running master, and when another
// master has taken over a database in a server (it is fenced). A server that does not answer is
// another matter: until it does nobody hears anything, and db_refuses() says why.
//
// A file that was there before is checked by a thread of its own (quick_check: damaged bytes, not
// only a damaged header). It can be read meanwhile; transactions wait, and fail if it is damaged.
//
// What is much work and nobody waits for is done by the writer a few milliseconds at a time, and
// goes on after a restart: deleting logs and metrics, moving the logs of an older version, giving
// space back to the file system.
//
// Reading: a reader belongs to one thread. What it finds lives in the arena given.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "entity/entity.h"

struct db;
struct db_tx;
struct db_reader;

// Zero: as usual.
struct db_opts {
    // Of a database in a server: another process writes to it, and this one waits until it no longer
    // does. Called once, with the words that the other left. NULL: there is no waiting, DET_ESTATE.
    void (*standby)(void *ctx, const char *holder);
    void *ctx;
    int stop_fd;        // readable: the wait is over, DET_ECANCELED; 0: none
    const char *holder; // the words that this one leaves; NULL: the name of the machine
};

// where: the path of a file, which is created if it is missing or empty, with mode 0600; or
// postgresql://..., a database in a server, which must be there. opts may be NULL.
// DET_EUNSUPPORTED: it was written by a newer version. An older one is brought up to date; how a
// file was is kept beside it as <path>.v<N>, which takes its time. DET_ENOSPC: there is no space for
// that. DET_ECORRUPT: it is damaged, or its log is missing. DET_EUNREACHABLE: there is no server.
int db_open(const char *where, const struct db_opts *opts, struct db **out, det_err *err);
const char *db_name(const struct db *db); // where it is, for people: without a password
void db_close(struct db *db); // does what was submitted; done functions not yet called are not

// Of a file: makes a backup in the folder every so often if something has changed, and a last one when
// the database is closed; three are kept. (Servers have means of their own.) Each is a database in one file. If the files of the database
// are taken away, what is still open is saved in the same way.
void db_keep_backups(struct db *db, const char *folder, int64_t every_us);

// Makes a whole database of a damaged or missing one: what can be read of it, and the newest backup
// in the folder for what cannot. For when nobody uses it. The report says in words, line by line,
// what was found and what is lost. The damaged file is kept under another name. DET_ENOTFOUND:
// there is nothing to make one of.
int db_recover(const char *path, const char *backups, struct buf *report, det_err *err);

// --- transactions

// code is 0 or DET_E*; err says more. Called by db_dispatch().
typedef void (*db_done_fn)(void *ctx, int code, const det_err *err);

struct db_tx *db_tx_new(struct db *db);
void db_tx_free(struct db_tx *tx); // of one that was not submitted

// Takes tx. done may be NULL.
void db_tx_submit(struct db_tx *tx, db_done_fn done, void *ctx);
// The same, for what has happened in any case and must not be forgotten.
void db_tx_submit_must(struct db_tx *tx, db_done_fn done, void *ctx);

int db_fd(const struct db *db); // readable when done functions wait to be called
void db_dispatch(struct db *db);
void db_wait(struct db *db); // until everything submitted has been tried and dispatched

// 0, or why a change would not be taken now: better refuse new work than queue it. DET_ENOSPC, or
// DET_EUNREACHABLE: it is broken, or so large that its check takes long.
int db_refuses(struct db *db, det_err *err);
bool db_is_full(const struct db *db); // the last attempt found no space
bool db_is_broken(const struct db *db);
bool db_is_damaged(struct db *db);  // broken, because the file is damaged
bool db_is_fenced(struct db *db);   // broken, because another process has taken over
bool db_is_checking(struct db *db); // db_fd() tells when that is over
bool db_is_busy(struct db *db);     // its log (WAL) has become long: who can wait should

// What the owner's log should say.
struct db_note {
    bool is_problem; // somebody has to do something
    char text[512];
};
bool db_next_note(struct db *db, struct db_note *out); // when db_fd() is readable

void db_wait_tidy(struct db *db); // until everything that nobody waits for is done

// Makes the whole transaction fail with DET_ESTATE if the key was used before. Keys are kept for a
// day or more.
void db_key_use(struct db_tx *tx, const char *key, int64_t now_us);
void db_keys_forget(struct db_tx *tx, int64_t before_us); // and journals

// A journal numbers what it sends and sends it in order, so the last number is all to be kept.
void db_journal_use(struct db_tx *tx, const char *journal, int64_t number, int64_t now_us);

// Each writes a whole record: a new one, or in place of the one with the same key.
void db_experiment_save(struct db_tx *tx, const struct experiment *row);
void db_trial_save(struct db_tx *tx, const struct trial *row);
void db_allocation_save(struct db_tx *tx, const struct allocation *row);
void db_checkpoint_save(struct db_tx *tx, const struct checkpoint *row);
void db_job_save(struct db_tx *tx, const struct job *row);
void db_user_save(struct db_tx *tx, const struct user *row);
void db_template_save(struct db_tx *tx, const struct config_template *row);

// complete: JSON with every default; original: as submitted.
void db_config_save(struct db_tx *tx, int64_t experiment_id, struct str complete,
                    struct str original);
void db_config_change(struct db_tx *tx, int64_t experiment_id, struct str complete);
void db_searcher_save(struct db_tx *tx, int64_t experiment_id, struct str snapshot);
void db_searcher_delete(struct db_tx *tx, int64_t experiment_id);

// The value of the searcher's metric at a step, for the checkpoints of that step.
void db_checkpoint_rate(struct db_tx *tx, int64_t trial_id, int64_t steps, double metric);
// The same for one checkpoint, with the value that was reported for its step, if there is one. name
// NULL: nothing.
void db_checkpoint_rate_by(struct db_tx *tx, const char *uuid, const char *name);

// With its trials and all that is theirs; metrics and logs, which nobody can find any more, soon
// after.
void db_experiment_delete(struct db_tx *tx, int64_t id);
void db_template_delete(struct db_tx *tx, const char *name);

// Joins the report to an earlier one of the same run, group and step; the names must differ (the
// caller looks first). Keeps the summaries up to date.
void db_metrics_add(struct db_tx *tx, const struct metric_report *row);
void db_trial_advance(struct db_tx *tx, int64_t trial_id,
                      int64_t steps); // at least so many batches
// A new run begins at a step: what older runs reported beyond it no longer counts.
void db_metrics_roll_back(struct db_tx *tx, int64_t trial_id, int64_t run_id, const char *group,
                          int64_t steps);

// Lines of one trial; they get their numbers when they are written. Packs them, which takes some
// milliseconds for a megabyte: much of it is better not done by a thread that others wait for.
void db_logs_add(struct db_tx *tx, const struct log_line *lines, size_t n);
void db_log_add(struct db_tx *tx, const struct log_line *row);              // one
void db_logs_delete(struct db_tx *tx, int64_t trial_id, int64_t before_us); // soon

// What a trial used of its machine around a moment; one of that moment is replaced.
struct usage_sample {
    int64_t time_us;
    double cpu; // processors
    int64_t memory_bytes;
    double gpu;               // 0 .. 1; NaN: not known
    int64_t gpu_memory_bytes; // -1: not known
};
void db_sample_add(struct db_tx *tx, int64_t trial_id, const struct usage_sample *sample);

// Tokens are known by their hash only.
void db_session_save(struct db_tx *tx, struct str token_hash, const struct session *row);
void db_session_delete(struct db_tx *tx, struct str token_hash);
void db_sessions_delete_of_user(struct db_tx *tx, int64_t user_id); // not those of tasks
void db_sessions_delete_of_allocation(struct db_tx *tx, const char *allocation_id);
void db_sessions_delete_expired(struct db_tx *tx, int64_t now_us);
void db_password_save(struct db_tx *tx, int64_t user_id, const char *hash);
void db_setting_save(struct db_tx *tx, const char *name, const char *value);
void db_setting_delete(struct db_tx *tx, const char *name);

// --- reading

// From now on (or no longer) a read by the calling thread is a bug, which ends the program in
// builds with tests: for the thread of an event loop, where everybody would wait for the disk.
void db_forbid_reading(bool forbid);

int db_reader_open(struct db *db, struct db_reader **out, det_err *err);
void db_reader_close(struct db_reader *r);

// DET_ENOTFOUND: there is none.
int db_experiment_find(struct db_reader *r, int64_t id, struct arena *a, struct experiment *out,
                       det_err *err);
int db_trial_find(struct db_reader *r, int64_t id, struct arena *a, struct trial *out,
                  det_err *err);
int db_allocation_find(struct db_reader *r, const char *id, struct arena *a, struct allocation *out,
                       det_err *err);
int db_checkpoint_find(struct db_reader *r, const char *uuid, struct arena *a,
                       struct checkpoint *out, det_err *err);
int db_job_find(struct db_reader *r, const char *id, struct arena *a, struct job *out,
                det_err *err);
int db_user_find(struct db_reader *r, int64_t id, struct arena *a, struct user *out, det_err *err);
int db_user_find_name(struct db_reader *r, const char *name, struct arena *a, struct user *out,
                      det_err *err);
int db_template_find(struct db_reader *r, const char *name, struct arena *a,
                     struct config_template *out, det_err *err);
int db_password_find(struct db_reader *r, int64_t user_id, struct arena *a, const char **out,
                     det_err *err);
int db_setting_find(struct db_reader *r, const char *name, struct arena *a, const char **out,
                    det_err *err);
int db_config_find(struct db_reader *r, int64_t experiment_id, struct arena *a,
                   struct str *complete, struct str *original, det_err *err);
int db_searcher_find(struct db_reader *r, int64_t experiment_id, struct arena *a, struct str *out,
                     det_err *err);
int db_key_find(struct db_reader *r, const char *key, bool *out, det_err *err);
int db_journal_find(struct db_reader *r, const char *journal, int64_t *out, det_err *err); // or 0

// The place of a record in an order, by value: it stays where it is when the record moves.
struct db_cursor {
    bool is_set;
    int64_t row;
    enum { CURSOR_INT, CURSOR_REAL, CURSOR_TEXT } kind; // of the value that the order is by
    int64_t integer;
    double real;
    const char *text;
};

// Lists. A page begins after the record with the key `after` (an id, a UUID, a name) in the chosen
// order, so later pages cost what the first one costs; NULL: at the start.
struct db_page {
    struct db_cursor
        *cursor; // if it is set, the page begins behind it; it is moved to the page's end
    const char *after;
    int64_t offset;   // skipped first; for clients that count
    int64_t limit;    // 0: 100; negative: all
    const char *sort; // name of a field; NULL: by key
    bool descending;
    bool want_total;
};

// What records must be like; zero: anything.
struct db_filter {
    int64_t experiment_id, trial_id;
    const struct doc *states;       // a list of names
    const struct doc *users;        // a list of user ids
    const struct doc *labels;       // a list: all of them
    const char *name, *description; // contained
    const char *search; // contained in the name, the description or a label; or the id itself
    bool has_below, has_above;
    double below, above; // the best value of the searcher's metric
    int64_t ended_after_us;
    enum tri archived;
    bool unfinished; // not terminated; experiments and trials: not ended
};

// DET_EINVAL: there is no order by that field.
struct db_list {
    void *items; // records
    size_t n;
    int64_t total; // with want_total
    int64_t next;  // of logs: there may be more, behind (newest first: before) this line; 0: no
    int64_t seen;  // of logs: the last line that was looked at
};

int db_experiments_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err);
int db_trials_list(struct db_reader *r, const struct db_filter *filter, const struct db_page *page,
                   struct arena *a, struct db_list *out, det_err *err);
int db_allocations_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err);
int db_checkpoints_list(struct db_reader *r, const struct db_filter *filter,
                        const struct db_page *page, struct arena *a, struct db_list *out,
                        det_err *err);
int db_users_list(struct db_reader *r, const struct db_page *page, struct arena *a,
                  struct db_list *out, det_err *err);
// All of them, those that end first in front.
struct stored_session {
    struct str hash;
    struct session row;
};
int db_sessions_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err);
int db_templates_list(struct db_reader *r, const struct db_page *page, struct arena *a,
                      struct db_list *out, det_err *err);
// Settings whose names begin with prefix.
struct setting {
    const char *name, *value;
};
int db_settings_list(struct db_reader *r, const char *prefix, struct arena *a, struct db_list *out,
                     det_err *err);
// Names of checkpoints that some trial started from.
int db_warm_starts_list(struct db_reader *r, struct arena *a,
                        struct db_list *out, // of const char *
                        det_err *err);
// Trials (int64_t) that have a log, but ended longer ago than the days of their experiment, or else
// usual_days (-1: for ever).
int db_old_logs_list(struct db_reader *r, int64_t now_us, int64_t usual_days, struct arena *a,
                     struct db_list *out, det_err *err);
// Names of code that some experiment has.
int db_contexts_list(struct db_reader *r, struct arena *a, struct db_list *out, // of const char *
                     det_err *err);
int db_labels_list(struct db_reader *r, struct arena *a, struct db_list *out, // of const char *
                   det_err *err);

// Reports that count, by step, then group, in pages. Zero everything else.
struct db_metrics {
    int64_t trial_id;
    const char *group;   // NULL: all groups
    int64_t after;       // only of later steps; -1: all
    int64_t skip;        // so many first
    struct arena *arena; // as long as pages are asked for
    // What db_metrics_page() leaves here.
    bool has_more;
    // Private.
    bool is_open;
    struct db_lane *lanes;
    size_t n_lanes;
};

// The next page. It ends with all reports of its last step, so it may have some more than limit.
int db_metrics_page(struct db_reader *r, struct db_metrics *m, int64_t limit, struct arena *a,
                    struct db_list *out, det_err *err);

// Reports of a group that count, by step.
int db_metrics_list(struct db_reader *r, int64_t trial_id, const char *group, int64_t after_steps,
                    int64_t limit, struct arena *a, struct db_list *out, det_err *err);
int db_metric_summaries(struct db_reader *r, int64_t trial_id, struct arena *a, struct db_list *out,
                        det_err *err);

// One metric of every trial of an experiment that has it, by trial; NaN: no value was finite.
struct metric_value {
    int64_t trial_id;
    double min, max, last;
};
int db_metric_values(struct db_reader *r, int64_t experiment_id, const char *group,
                     const char *name, struct arena *a, struct db_list *out, det_err *err);

// One metric over time, thinned out to about max_points: of each stretch of steps the least and the
// greatest value are kept, so that no spike is lost.
struct metric_point {
    int64_t steps, time_us;
    double value;
};
int db_metric_series(struct db_reader *r, const struct metric_report *which, const char *name,
                     int64_t max_points, struct arena *a, struct db_list *out, det_err *err);

// The same for charts, fast however many points there are: at most max_points stretches (buckets),
// each with the least, the greatest and the last value in it. With very many points a bucket's
// border is that of some hundred points which are kept together.
struct db_series {
    // What is asked for.
    int64_t trial_id;
    const char *group, *name;
    bool by_time;       // stretches are of time, not of steps
    int64_t from, to;   // steps, or microseconds; both count; INT64_MIN, INT64_MAX: open
    int64_t max_points; // at least 1
    // What db_series_read() leaves here.
    struct db_bucket {
        int64_t steps, time_us; // of the last point
        int64_t n;              // values in it; 0: the last one is not finite
        double min, max, last;
    } * buckets;
    size_t n;
    int64_t n_points; // in all of them
};
int db_series_read(struct db_reader *r, struct db_series *s, struct arena *a, det_err *err);

// What a trial used over time, thinned out to at most max_points stretches of equal length: means of
// processors and GPUs, the most of memory. Of struct usage_sample.
int db_samples_list(struct db_reader *r, int64_t trial_id, int64_t max_points, struct arena *a,
                    struct db_list *out, det_err *err);

// Trials of an experiment: those with the best values of the searcher's metric first, then those
// without one. Of int64_t.
int db_best_trials(struct db_reader *r, const struct experiment *e, int64_t limit, struct arena *a,
                   struct db_list *out, det_err *err);

// The trials of an experiment by their number in it. Of struct trial_number.
struct trial_number {
    int64_t number, id;
};
int db_trial_numbers(struct db_reader *r, int64_t experiment_id, struct arena *a,
                     struct db_list *out, det_err *err);

// Names of metrics that trials of an experiment have reported.
struct metric_name {
    const char *group, *name;
    int64_t n_trials;
};
int db_metric_names(struct db_reader *r, int64_t experiment_id, struct arena *a,
                    struct db_list *out, det_err *err);

struct log_filter {
    int64_t trial_id;
    int64_t after_id, before_id; // 0: no bound
    int64_t after_us, before_us;
    const struct doc *levels, *ranks, *stdtypes, *sources; // lists
    const char *search;                                    // contained
    bool any_case;                                         // of ASCII letters in the search
    bool newest_first;
    int64_t limit;      // 0: 1000
    int64_t max_effort; // bytes of text to go through at most, about; 0: any number
};
// Ends at the limit, at about 32 MB of text, or at the effort: then next is where to go on.
int db_logs_list(struct db_reader *r, const struct log_filter *filter, struct arena *a,
                 struct db_list *out, det_err *err);

// A walk through a log, from its beginning, in slices: counts the lines that the filter lets
// through, and finds those of them that contain filter->search.
struct log_mark {
    int64_t line; // from 0, among the lines that the filter lets through
    int64_t id;
};

struct log_walk {
    // Where it is; zero: at the beginning. What comes out is handed in to go on.
    int64_t seen;    // the last line that was looked at
    int64_t n_lines; // that were let through up to there
    // What this slice found.
    LIST_OF(struct log_mark) marks; // of about every thousandth line: where one can begin to read
    LIST_OF(struct log_mark) found; // filter->limit at most
    bool at_end;                    // there is no more, for now
};
int db_logs_walk(struct db_reader *r, const struct log_filter *filter, struct log_walk *walk,
                 struct arena *a, det_err *err);

// One more than the largest number given out so far.
int db_next_ids(struct db_reader *r, int64_t *experiment, int64_t *trial, int64_t *user,
                det_err *err);
