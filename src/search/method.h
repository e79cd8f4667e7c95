// search/method.h: what the parts of a search share. Private to the layer.
//
// A search method is a schedule (when trials are created, and how long they train) and a sampler
// (which hyperparameters they get). The table of methods in search.c combines them.
#pragma once

#include "base/mem.h"
#include "search/mt.h"
#include "search/search.h"
#include "search/snap.h"
#include <float.h>

// The loss of trials that failed, and of metrics that are no finite numbers. Smaller is better.
#define LOSS_WORST DBL_MAX

// What a leaf of the hyperparameters is in one trial.
union hp_value {
    int64_t integer; // HP_INT: the value; HP_CATEGORICAL: an index
    double real;     // HP_DOUBLE, HP_LOG: the value
};

enum candidate_flag {
    IS_BUSY = 1,       // has an operation
    IS_CLOSING = 2,    // was asked to close
    HAS_EXITED = 4,    // will not do anything any more
    WAS_INVALID = 8,   // because of its hyperparameters
    HAS_FAILED = 16,   // because of an error
    WAS_CANCELED = 32, // by a person
    IS_CLOSED = 64,
    ALL_FLAGS = 127,
};

// A trial, as the search sees it.
struct candidate {
    int64_t flags;
    int64_t length;  // of the latest operation
    int64_t bracket; // halving: its competition
    int64_t rung;    // halving: the rung it trains for or waits in; pbt: rounds completed
    double units;    // trained so far, as far as is known
};

struct schedule {
    size_t size; // of the state; 0: none
    void (*init)(struct search *s);
    void (*done)(struct search *s); // or NULL
    void (*start)(struct search *s);
    // The trial is not busy any more. was_busy: an operation will not be completed.
    void (*validated)(struct search *s, int64_t trial, double loss);
    void (*exited)(struct search *s, int64_t trial, bool was_busy);
    void (*closed)(struct search *s, int64_t trial); // or NULL
    double (*progress)(const struct search *s);
    void (*snap)(struct search *s, struct snap *io); // trials are loaded already; or NULL
    void (*plan)(const struct exp_config *cfg, struct arena *arena,
                 struct search_plan *out); // NULL: nobody knows
    // Fills in the brackets; NULL: it has no rungs.
    void (*describe)(const struct search *s, struct arena *arena, struct search_view *out);
    bool asks; // operations come by search_answer()
    // Creates what is to be created by now, as far as search_may_create(). NULL: is never late.
    void (*go_on)(struct search *s);
};

struct sampler {
    size_t size; // of the state; 0: none
    void (*init)(struct search *s);
    void (*done)(struct search *s);                             // or NULL
    void (*draw)(struct search *s, union hp_value *out);        // one value for each leaf
    void (*told)(struct search *s, int64_t trial, double loss); // of its latest operation; or NULL
    void (*snap)(struct search *s, struct snap *io);            // or NULL
};

struct method {
    const struct schedule *schedule;
    const struct sampler *sampler;
    bool retries_invalid; // trials with refused hyperparameters do not count
    bool keeps_points;    // the hyperparameters of all trials are part of the state
};

struct search {
    const struct exp_config *cfg;
    const struct method *method;
    struct arena arena; // lives as long as the search
    const struct hparam **leaves;
    size_t n_leaves;
    struct mt rng;
    bool started, over;
    int64_t pace;             // most trials to be created in one event; 0: any number
    int64_t n_paced;          // created in this event
    bool has_more;            // pace has stopped a schedule
    struct candidate *trials; // trial 1 is the first
    union hp_value *points;   // n_leaves for each trial, if the method keeps them
    int64_t n_trials, cap_trials;
    int64_t n_closed, n_failed, n_canceled, n_invalid; // from the flags
    double units;                                      // of all trials
    void *schedule, *sampler;                          // their states
    struct search_op *ops;
    size_t n_ops, cap_ops;
    struct arena ops_arena; // what the operations point to
};

extern const struct schedule flat_schedule, halving_schedule, pbt_schedule, custom_schedule;
extern const struct sampler random_sampler, grid_sampler, tpe_sampler, cmaes_sampler;

const struct method *method_of(enum searcher_kind kind);

static inline struct candidate *trial_at(const struct search *s, int64_t trial)
{
    return &s->trials[trial - 1];
}

static inline union hp_value *point_at(const struct search *s, int64_t trial)
{
    return &s->points[(size_t)(trial - 1) * s->n_leaves];
}

// Operations. A new trial is drawn by the sampler, or is what somebody else decided.
int64_t search_create(struct search *s);
int64_t search_create_copy(struct search *s, const union hp_value *values, int64_t source_trial);
int64_t search_create_with(struct search *s, const struct doc *hparams);
void search_train(struct search *s, int64_t trial, int64_t length);
void search_close(struct search *s, int64_t trial); // nothing if it is closing already
void search_shut_down(struct search *s, enum search_outcome outcome);
void search_end_if_all_closed(struct search *s);
void search_clear_ops(struct search *s); // before new ones

// Asked before each search_create() by schedules that can go on later.
bool search_may_create(struct search *s);

// Memory for trials up to n, for loading.
void search_reserve(struct search *s, int64_t n);

// A value drawn from the range of a leaf, and a point as the document that a trial gets.
union hp_value leaf_draw(const struct hparam *leaf, struct mt *rng);
struct doc *point_to_doc(const struct search *s, const union hp_value *values, struct arena *arena);

// Numbers as positions in [0, 1], for samplers that learn; integers are the middle of their share
// of it. Only for leaves that leaf_is_numeric().
bool leaf_is_numeric(const struct hparam *leaf);
double leaf_to_unit(const struct hparam *leaf, union hp_value value);
union hp_value leaf_from_unit(const struct hparam *leaf, double unit);

// Adds a bracket with room for n_rungs to a plan.
struct plan_bracket *plan_add_bracket(struct search_plan *plan, struct arena *arena,
                                      size_t n_rungs);

// The points of a grid.
int64_t grid_size(const struct exp_config *cfg, struct arena *arena);
