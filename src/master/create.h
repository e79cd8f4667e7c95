// master/create.h: from a configuration to an experiment. Private to the layer.
#pragma once

#include "master/auth.h"

// An experiment that is being made: nothing of it is known to the master yet. Threads that read
// make it ready; the loop looks at what only it knows and puts it into the world.
struct draft {
    struct live_experiment *e;
    struct arena *arena;    // of the request
    struct diag_list diags; // what is wrong with the configuration, and warnings
    struct db_tx *tx;       // what is to be written with it; NULL: nothing yet
    // One that goes on:
    uint64_t read_at;    // see record_writes_now()
    struct str original; // configuration as it was submitted
    bool has_search;     // the search goes on where it was
};

struct create_input {
    struct str config;               // YAML or JSON
    const char *code;                // name of a kept archive; NULL: none
    const struct config_text *below; // template and so on
    size_t n_below;
    enum experiment_kind kind;
    struct viewer viewer; // who wants it
};

// From a configuration, in d->arena. By any thread. On failure d->diags may say more, and d->e is
// NULL.
int draft_new(struct master *m, struct db_reader *r, const struct create_input *in, struct draft *d,
              det_err *err);
// An experiment that has ended, with changes of its configuration. Likewise. (continue.c)
int draft_continue(struct master *m, struct db_reader *r, int64_t experiment_id, struct str changes,
                   struct draft *d, det_err *err);
void draft_free(void *draft); // what was not taken of it

// On the loop: whether it can be here at all.
int draft_check(struct draft *d, det_err *err);

struct create_who {
    int64_t user_id;
    struct opt_int parent_id;
    bool activate;
};

// On the loop: the experiment with its first trials, all of it in tx. NULL: the searcher says why.
struct live_experiment *draft_begin(struct draft *d, const struct create_input *in,
                                    const struct create_who *who, struct db_tx *tx, det_err *err);
struct live_experiment *draft_go_on(struct draft *d, struct db_tx **tx, det_err *err);

// --- for continue.c and restore.c

// Reads a configuration, its patterns and its place for checkpoints into e. lenient: see policy.h.
int create_read_config(struct live_experiment *e, struct str text, const struct config_opts *opts,
                       bool lenient, struct diag_list *diags, det_err *err);

// The configuration as the database has it, into e.
// Puts what the master's configuration says about all experiments below everything else. By any
// thread.
void create_add_usual(const struct master *m, struct arena *arena, struct config_opts *opts);

int create_read_stored(struct live_experiment *e, struct db_reader *r, struct str config,
                       det_err *err);
void create_copy_row(struct live_experiment *e, const struct experiment *row);

// Where the checkpoints of an experiment are, and whose they are.
struct stored_at {
    const char *dir;
    struct experiment row; // only id, user_id and private
};
int create_find_storage(struct master *m, struct db_reader *r, int64_t experiment_id,
                        struct arena *arena, struct stored_at *out, det_err *err);

// After e->cfg of a live experiment has changed. Not for generic jobs, whose form is another one.
void create_save_config(struct live_experiment *e, struct db_tx *tx);
