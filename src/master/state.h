// master/state.h: what the master has in memory: everything that has not ended. Private to the
// layer.
//
// Functions that take a db_tx change memory at once and add the change to the transaction. Who
// began the transaction submits it as one that must happen.
#pragma once

#include "config/config.h"
#include "db/db.h"
#include "master/master.h"
#include "master/set.h"
#include "rm/rm.h"
#include "sched/sched.h"
#include "search/search.h"
#include "sys/worker.h"
#include <stdatomic.h>

struct waiter;

enum { PENDING_BUCKETS = 1024, AUTH_HASH_BYTES = 32 };

// An allocation from the request for slots to the end of its processes.
struct live_allocation {
    struct live_trial *trial;
    struct allocation row;
    struct arena arena;
    int64_t request_id;                    // of the scheduler: the order of the requests
    bool started;                          // the resource manager has it
    bool backfilled;                       // it may have to give way
    const char *session_token;             // until the task has it
    struct live_session *session;          // of the task's token
    char journal[UUID_TEXT_BYTES];         // that reports come from, see keys.h
    int64_t journal_last;                  // the last number of it that is durable
    struct waiter *waiters;                // requests that wait for a signal
    struct live_allocation *next, *before; // while it is a request: among those of the experiment
    struct loop_timer timer;               // when patience ends
    enum rm_how killed;                    // how it was last, if row.kill
    char *workdir;
    bool pulls, pull_again; // its output: see pull.c
    bool has_exited;        // and will end when all of its output is stored
    struct task_exit exit;
};

// How far a group's reports have come, in this run.
struct reported {
    char *group;
    int64_t steps;
    struct reported *next;
};

struct live_trial {
    struct live_experiment *experiment;
    struct trial row;
    struct arena arena;                 // of the row's texts
    struct arena best, latest;          // of the row's validations
    struct live_allocation *allocation; // NULL: none
    struct reported *reported;          // of run reported_run
    int64_t reported_run;
    uint64_t n_reports;                              // requests with reports, so far
    int64_t last_failure_status, last_failure_steps; // of the run before; status 0: it did not fail
    int64_t checkpoint_steps;                        // batches trained in the latest checkpoint
    bool retries_off;                                // a log policy said so
    bool was_invalid; // its latest run said so, before the experiment was continued
    uint64_t policies_seen, policies_slow; // bits, by their place in the configuration
    bool lines_left_out;                   // from looking for log policies
    struct live_trial *next_ended;
};

struct live_experiment {
    struct master *master;
    const struct pool *pool; // NULL: that of its name is not there any more
    struct experiment row;
    struct job job;
    struct arena arena; // of the rows' texts and the configuration
    struct exp_config cfg;
    const char *config_json; // complete, with secrets
    const char *checkpoint_dir;
    const char *warm_start;     // checkpoint that new trials start from; NULL: none
    const char *warm_start_dir; // where that is, if it is elsewhere; NULL: in checkpoint_dir
    struct policies *policies;  // patterns of the log policies
    struct search *search;
    struct set trials;           // live ones, by number
    struct set earlier;          // those of before it was continued that are not live, by number
    struct search_event *events; // not yet told to the searcher
    size_t n_events, cap_events;
    bool telling;
    struct live_trial *ended;                             // in this event; freed when it is over
    struct live_allocation *first_request, *last_request; // that the scheduler has not granted yet
    int64_t n_requests;
    int64_t untold;               // trials from this number on do not know its state; 0: all do
    struct loop_timer background; // see background.c
    bool background_waits;        // for the transaction before
    bool ends;                    // nothing is left of it but to choose which checkpoints are kept
    struct end_waiter *end_waiters; // requests that are answered when its end is durable
    int group;                      // of the scheduler's latest view
};

struct follower;
struct isolation;
struct pool;
struct prepare;

enum record_noun { RECORD_EXPERIMENT, RECORD_USER, RECORD_TEMPLATE, RECORD_KEY, N_RECORD_NOUN };

enum work_kind {
    WORK_READ,  // the database; the threads have a db_reader each
    WORK_FILES, // archives, directories
    WORK_HASH,  // passwords
    WORK_LOGS,  // output of tasks
    N_WORK
};

struct master {
    struct master_opts opts;
    const struct master_config *_Atomic cfg; // in force; see settings.h
    const struct doc *settings;              // the same, key by key
    struct loop *loop;
    struct worker *workers[N_WORK];
    struct db *db;
    struct rm *rm;      // of this machine
    struct pool *pools; // see pool.h
    size_t n_pools;
    struct http_server *server;
    struct loop_watch db_watch, rm_watch, signal_watch;
    struct loop_timer schedule_timer, housekeeping_timer, launch_timer;
    struct prepare *prepared; // tasks to be started, the next one first
    struct isolation *isolation;
    int64_t user_storage_from;      // experiments from this one on: see create.c
    struct set experiments, trials; // by id
    struct set allocations;         // assigned ones, by token
    struct set users;               // all of them, by id
    struct sessions *sessions;      // all of them
    int64_t next_experiment, next_trial, next_user, next_token, next_request;
    int lock_fd;
    char *url, *data_dir, *checkpoint_dir;
    const char *tls_cert, *tls_key;    // PEM files in use; NULL: no TLS
    const char *cert_file, *cert_name; // for those who call: what to trust; NULL: no TLS
    const char *cluster_id;
    struct arena arena; // as long as the master
    uint8_t token_key[32];
    uint8_t local_hash[AUTH_HASH_BYTES];               // of the token in master.json
    struct throttle *throttle;                         // of logins
    struct browsers *browsers;                         // codes for their sessions
    struct pending_key *pending_keys[PENDING_BUCKETS]; // by the hash of the key
    struct pending_write *pending_write;
    _Atomic uint64_t n_record_writes;
    uint64_t record_written[1024]; // see record_writes.c
    struct follower *followers;
    int64_t n_followers;       // so far
    struct events *events;     // marks; NULL: nobody has watched yet
    struct watching *watching; // those who watch; NULL: nobody has yet
    int64_t start_us, n_ticks;
    bool has_terminal; // whose end is its own
    bool closes;       // what is under way comes to an end, nothing new begins
    bool checking; // nothing is done about tasks and files before it is known that the database is
                   // whole
    det_err failure; // why it stopped; code 0: it was asked to
};

// --- master.c

// A master without the signals: whoever makes it runs its loop. NULL: err says why.
struct master *master_new(const struct master_opts *opts, det_err *err);
void master_free(struct master *m); // tasks go on

// --- workers.c: threads for what takes long

int workers_open(struct master *m, det_err *err); // after the database
bool workers_drain(struct master *m); // waits for all that is under way; false: there was nothing
void workers_close(struct master *m);

// --- listener.c

int listener_open(struct master *m, struct db_reader *r,
                  det_err *err);       // m->server and where it is: m->url, m->cert_*
void listener_renew(struct master *m); // the files of the certificate have changed

// --- experiment.c

struct live_experiment *experiment_new(struct master *m);
void experiment_free(struct live_experiment *e);
// The same on the loop, if it may have many trials: another thread frees them.
void experiment_discard(struct live_experiment *e);

// From now on it is found and scheduled.
void experiment_link(struct live_experiment *e);

// Tells the searcher and carries out what it answers. The error is that of the searcher, and
// nothing has happened then.
int experiment_tell(struct live_experiment *e, const struct search_event *event, struct db_tx *tx,
                    det_err *err);

int experiment_do(struct live_experiment *e, enum experiment_event event, const char *reason,
                  struct db_tx *tx, det_err *err);

// The last thing before a transaction is submitted: those of its trials that have ended are gone
// afterwards, and if it is stopping and nothing is left of it, it will end.
void experiment_end_if_drained(struct live_experiment *e);
void experiment_end(struct live_experiment *e); // now; e is gone
// Answers a request that waits (http_later) when the end of e, which ends, is durable.
void experiment_await_end(struct live_experiment *e, struct http_request *req);

void experiment_save(struct live_experiment *e, struct db_tx *tx);

// Some of the trials that do not know the experiment's state hear of it.
void experiment_tell_trials(struct live_experiment *e, struct db_tx *tx);

// --- background.c: what concerns more trials than can be seen to at once

enum { BACKGROUND_TRIALS = 250 }; // at a time: a few milliseconds

void background_open(struct live_experiment *e);
void background_close(struct live_experiment *e);
// Soon, if there is something to do and the experiment is linked.
void background_begin(struct live_experiment *e);

// --- record_writes.c: records that are read to be changed: of users, of experiments that have ended

// The transaction that is being put together, and submitted before the loop turns, writes it.
void record_write_begin(struct master *m, enum record_noun noun, int64_t id);
// It has been written, and that is durable, without any of the above.
void record_write_mark(struct master *m, enum record_noun noun, int64_t id);

bool record_write_is_pending(const struct master *m, enum record_noun noun, int64_t id);
// What was read then may be out of date; read_at: record_writes_now() from before. By any thread.
uint64_t record_writes_now(const struct master *m);
bool record_is_stale(const struct master *m, enum record_noun noun, int64_t id, uint64_t read_at);
void record_writes_close(struct master *m);

// --- trial.c

struct live_trial *trial_new(struct live_experiment *e); // not yet in any set
void trial_free(struct live_trial *t);
struct live_trial *trial_restore(struct live_experiment *e, struct db_reader *r,
                                 const struct trial *row); // likewise
void trial_create(struct live_experiment *e, const struct search_op *op, struct db_tx *tx);
void trial_do(struct live_trial *t, enum trial_event event, struct db_tx *tx);

// Brings about what its state calls for: slots, a signal, its end.
void trial_react(struct live_trial *t, struct db_tx *tx);
void trial_save(struct live_trial *t, struct db_tx *tx);

// The searcher has something for it to do.
bool trial_has_work(const struct live_trial *t);

// A run of it has ended.
void trial_exited(struct live_trial *t, const struct allocation *run, struct db_tx *tx);

void trial_forget_reports(struct live_trial *t);

// --- continue.c

// Trials of before the experiment was continued that its search has not come to yet.
int continue_find_earlier(struct live_experiment *e, struct db_reader *r, det_err *err);

// Tells the search how a trial that is complete ended.
void continue_tell(struct live_trial *t, struct db_tx *tx);

// --- allocation.c

struct live_allocation *allocation_new(struct live_trial *t);
void allocation_request(struct live_trial *t); // the scheduler will see it
void allocation_free(struct live_allocation *a);
void allocation_assign(struct live_allocation *a, bool backfilled);
void allocation_save(struct live_allocation *a, struct db_tx *tx);

// Asks it to stop, and ends it when patience ends; one that cannot be asked is ended at once,
// unless it is about to end of itself.
void allocation_preempt(struct live_allocation *a, bool spare, struct db_tx *tx);
void allocation_kill(struct live_allocation *a, enum rm_how how, struct db_tx *tx);

void allocation_on_rm(struct master *m, const struct rm_event *event);
void allocation_exited(struct live_allocation *a); // has_exited, and all is known about it

// Signals that were given before a restart are given again.
void allocation_resume(struct live_allocation *a);

// One that could not be started, or was not found again, comes to an end.
void allocation_abandon(struct live_allocation *a, enum exit_kind system, const char *reason);

// --- waiters.c: requests that wait for a preemption signal

int wait_for_preemption(struct http_request *req, struct live_allocation *a, int64_t timeout_us);
void wake_waiters(struct live_allocation *a, bool preempt);
void waiters_close(struct master *m); // while their requests exist

// --- launch.c: what a task is given

// Prepares files in the background, then starts.
void launch(struct live_allocation *a);
char *launch_workdir(const struct master *m, int64_t token); // of a run; yours to free
void launch_clean(struct master *m, const char *workdir);    // in the background; NULL: nothing

// What was to be started next is not; the next master will see that.
void launch_close(struct master *m);

// --- schedule.c

void schedule_soon(struct master *m);
void schedule_start(struct master *m);

// What the scheduler sees now, and why something still waits, in words: that may be found out by
// another thread, which does not need the allocations any more.
struct picture *picture_take(struct master *m);
void picture_free(struct picture *p);
#define PICTURE_NONE SIZE_MAX
size_t picture_find(const struct picture *p, const struct live_allocation *a); // or PICTURE_NONE
void picture_explain(struct picture *p, size_t request, struct buf *out);

// --- logs.c

void logs_say(struct live_trial *t, enum log_level level, struct db_tx *tx, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// --- retention.c

// Deletes the checkpoints that the policy does not keep; then experiment_end() is called.
void retention_apply(struct live_experiment *e);

// --- restore.c

int master_restore(struct master *m, struct db_reader *r, det_err *err);
