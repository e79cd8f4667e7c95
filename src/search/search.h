// search/search.h: hyperparameter search: events in, operations out.
//   search_new  search_restore  search_snapshot  search_free  search_tell  search_answer
//   search_ask  search_set_pace  search_has_more  search_has_open  search_n_trials
//   search_progress  search_describe  search_preview  search_simulate  curves_read
//   search_importance
//
// A search is a deterministic function of its configuration, the experiment's seed and the events
// it was told: no clock, no I/O, no other randomness. So it can be saved as JSON after any event
// and continues exactly as it would have, and the same seed samples the same trials.
//
//     struct search *s = search_new(&cfg);
//     struct search_ops ops;
//     search_tell(s, &(struct search_event){SEARCH_START}, &ops, &err);
//     for (size_t i = 0; i < ops.n; i++)
//         carry_out(&ops.items[i]); // later: validations, exits and closings are told in turn
//     search_free(s);
//
// Trials are numbered from 1 in the order of their creation. Lengths are absolute: the total that a
// trial has trained when it validates.
#pragma once

#include "config/config.h"
#include "entity/entity.h"

struct search;

enum search_event_kind {
    SEARCH_START,
    SEARCH_VALIDATED, // a trial completed its operation
    SEARCH_PROGRESS,  // a trial has trained some more
    SEARCH_EXITED,    // a trial will not complete its operation, nor any other
    SEARCH_CLOSED,    // a trial has ended, as it was asked to or after an exit
    SEARCH_GO_ON,     // there is time for more, see search_set_pace()
};

enum search_exit {
    SEARCH_ERRORED,
    SEARCH_CANCELED,   // by a person
    SEARCH_STOPPED,    // its code ended of its own accord
    SEARCH_INVALID_HP, // its code refuses the hyperparameters; does not count as a trial
};

struct search_event {
    enum search_event_kind kind;
    int64_t trial;
    int64_t length;          // SEARCH_VALIDATED: that of the operation; a time metric, rounded down
    double metric;           // SEARCH_VALIDATED: NaN and infinities count as the worst
    double units;            // SEARCH_PROGRESS: trained so far
    enum search_exit reason; // SEARCH_EXITED
};

enum search_op_kind {
    SEARCH_CREATE,         // a trial; it does nothing yet
    SEARCH_VALIDATE_AFTER, // train up to a length, then validate
    SEARCH_CLOSE,          // end the trial when its operation is complete
    SEARCH_SHUTDOWN,       // the search is over
};

enum search_outcome { SEARCH_COMPLETED, SEARCH_ALL_CANCELED, SEARCH_ALL_FAILED };

// A trial with no operation left that is not closed waits: it should give its slots back, and
// continues from its checkpoint when an operation comes.
struct search_op {
    enum search_op_kind kind;
    int64_t trial;
    struct uuid request_id;      // SEARCH_CREATE
    int64_t trial_seed;          // SEARCH_CREATE: 0 .. 2^31 - 1
    const struct doc *hparams;   // SEARCH_CREATE: a map of plain values
    int64_t source_trial;        // SEARCH_CREATE: start from its latest checkpoint; 0: from nothing
    int64_t length;              // SEARCH_VALIDATE_AFTER; 0: the training code decides
    enum search_outcome outcome; // SEARCH_SHUTDOWN
};

// To be carried out in this order. Valid until the search is told something else, or freed.
struct search_ops {
    const struct search_op *items;
    size_t n;
};

// cfg must live as long as the search.
struct search *search_new(const struct exp_config *cfg);
void search_free(struct search *s);

// At most n trials are created in one event (but a whole population or what a program wants). If
// that is not all, search_has_more(): tell SEARCH_GO_ON, at once or after other events. 0: no
// limit.
void search_set_pace(struct search *s, int64_t n);
bool search_has_more(const struct search *s);

// Everything the search knows, as one line of JSON.
void search_snapshot(const struct search *s, struct buf *out);

// NULL unless the text is a snapshot of a search of this configuration.
struct search *search_restore(const struct exp_config *cfg, struct str snapshot, det_err *err);

// DET_ENOTFOUND for a trial that there is not, DET_EINVAL for an operation that is not the current
// one of its trial, DET_ESTATE for anything before SEARCH_START. The search is as before then. A
// second exit or closing of a trial is ignored.
int search_tell(struct search *s, const struct search_event *event, struct search_ops *ops,
                det_err *err);

// The trial was created and is not closed.
bool search_has_open(const struct search *s, int64_t trial);
int64_t search_n_trials(const struct search *s); // created so far

// 0 .. 1
double search_progress(const struct search *s);

// How far a search that compares its trials at rungs has come. A trial is in every rung that it has
// reached or trains for.
enum search_decision {
    SEARCH_RUNS,     // trains for the rung; it has no metric yet
    SEARCH_WAITS,    // may still go on
    SEARCH_GOES_ON,  // has been promoted to the next rung
    SEARCH_STOPS,    // does not go on
    SEARCH_FINISHES, // was the last rung
    SEARCH_N_DECISIONS
};

const char *search_decision_name(enum search_decision decision); // "promoted"

struct rung_result {
    int64_t trial;
    double metric; // NaN: none yet, or it failed
    enum search_decision decision;
};

struct rung_view {
    int64_t length;
    double cutoff; // the worst metric with which a trial leads now; NaN: none does
    LIST_OF(struct rung_result) results; // the best first, those that run last
};

struct bracket_view {
    LIST_OF(struct rung_view) rungs; // by length
};

struct search_view {
    LIST_OF(struct bracket_view) brackets; // none: it is no search with rungs
};

// The view lives in the arena.
void search_describe(const struct search *s, struct arena *arena, struct search_view *out);
bool search_has_rungs(const struct exp_config *cfg);

// What a search does if all goes well: how many trials train to which lengths. Each bracket is a
// competition of its own.
struct plan_rung {
    int64_t length;   // 0: the training code decides
    int64_t n_trials; // that end there
};

struct plan_bracket {
    int64_t n_trials;
    int64_t n_concurrent;
    LIST_OF(struct plan_rung) rungs; // by length
};

struct search_plan {
    int64_t n_trials;
    double units; // trained by all trials together; 0 if the training code decides
    LIST_OF(struct plan_bracket) brackets;
    LIST_OF(struct plan_rung) lengths; // of all brackets together
};

// "batches", "epochs" ...; "units" if the configuration does not say.
const char *search_unit(const struct exp_config *cfg);

// The plan lives in the arena. DET_EUNSUPPORTED for a custom search.
int search_preview(const struct exp_config *cfg, struct arena *arena, struct search_plan *out,
                   det_err *err);

// A simulation: trials that train one unit per unit of time, all at the same speed.
struct sim_world {
    // What a trial reports at a length. Asked once for each validation.
    double (*metric)(void *user, int64_t trial, int64_t length);
    void (*on_op)(void *user, const struct search_op *op);          // or NULL
    void (*on_event)(void *user, const struct search_event *event); // before it is told; or NULL
    // For a custom search: what its program answers to an event. Fills answer or fails.
    int (*ask)(void *user, const struct search_event *event, struct buf *answer, det_err *err);
    void *user;
    double fail_rate, invalid_rate; // the probability that an operation ends in such an exit
    uint64_t seed;                  // of the exits
};

struct sim_result {
    int64_t n_trials, n_events, n_busy_max; // n_busy_max: most trials with an operation at a time
    double units;                           // trained by all trials together
    double time;                            // when the last trial ended
    enum search_outcome outcome;
};

// Tells the search everything from SEARCH_START until it shuts down.
int search_simulate(struct search *s, const struct sim_world *world, struct sim_result *out,
                    det_err *err);

// Recorded learning curves, as lines of JSON:
//
//     {"curve": [[1, 0.91], [2, 0.64], [8, 0.30]]}
//
// One line for each trial: [length, metric] pairs by rising length. Other keys ("hparams") are for
// people. Trial n gets line n; after the last line comes the first again.
struct curve {
    size_t n;
    const double *lengths, *metrics;
};

struct curves {
    size_t n;
    const struct curve *items;
};

int curves_read(struct str text, const char *source, struct arena *arena, struct curves *out,
                det_err *err);

// Between two points on the line through them; outside, the nearest point.
double curve_at(const struct curves *curves, int64_t trial, int64_t length);

// Which hyperparameter matters how much for a metric: the share of its variance that is explained
// by each alone, found by functional analysis of variance over a forest of regression trees. The
// rest is explained by several together, or by chance. Ranges are measured as the search draws from
// them: a logarithmic one by the exponent.
//
// Hutter, Hoos, Leyton-Brown: "An efficient approach for assessing hyperparameter importance"
// (2014).
struct importance_trial {
    const struct doc *hparams;
    double metric; // passed over unless it is finite
};

struct importance {
    const char *name; // "optimizer.learning_rate"
    double share;     // 0 .. 1
};

struct importance_list {
    LIST_OF(struct importance) items; // the greatest first; none: too few trials, or all equal
    size_t n_trials;                  // that were looked at
};

// Of hyperparameters that the search can vary. Of very many trials some are looked at, spread over
// all of them. Lives in the arena; the same trials give the same shares.
void search_importance(const struct exp_config *cfg, const struct importance_trial *trials,
                       size_t n, struct arena *arena, struct importance_list *out);

// A custom search is decided by a program that reads events and writes operations, one line of JSON
// each: search_tell() gives no operations then, but after each event other than SEARCH_PROGRESS the
// program is to be asked, and its answer gives them:
//
//     {"event": "start", "seed": 7, "searcher": {...}, "hyperparameters": {...}, "trials": 0,
//      "state": null}
//     {"event": "validated", "trial": 1, "length": 100, "metric": 0.25}
//     {"event": "exited", "trial": 1, "reason": "errored"}    or canceled, stopped, invalid_hp
//     {"event": "closed", "trial": 1}
//
//     {"operations": [{"op": "create", "hparams": {"lr": 0.1}},          trials are 1, 2, 3, ...
//                     {"op": "validate_after", "trial": 1, "length": 100},
//                     {"op": "close", "trial": 1},
//                     {"op": "shutdown", "outcome": "completed"}],       or canceled, failed
//      "progress": 0.5, "state": {"any": "value"}}
//
// All keys of an answer may be missing. The last state is part of the snapshot; a program that is
// started again is told "start" with that state and the number of trials so far. Without a shutdown
// the search is over when all its trials are closed.
void search_ask(const struct search *s, const struct search_event *event, struct buf *out);

// DET_EINVAL for anything else than an answer; the search cannot go on then.
int search_answer(struct search *s, struct str line, struct search_ops *ops, det_err *err);
