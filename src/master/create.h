// master/create.h: from a configuration to an experiment. Private to the layer.
#pragma once

#include "master/auth.h"

struct create_input {
    struct str config;               // YAML or JSON
    const char *context;             // name of a kept archive; NULL: none
    const struct config_text *below; // template and so on
    size_t n_below;
    enum experiment_kind kind;
    int64_t user_id;
    struct viewer viewer; // the same user
    struct opt_int parent_id;
    bool activate;
};

// A complete experiment with its first trials, all of it in tx and nothing of it known to the
// master. What is wrong with the configuration is in diags.
struct live_experiment *create_experiment(struct master *m, const struct create_input *in,
                                          struct diag_list *diags, struct db_tx *tx, det_err *err);

// An experiment that has ended goes on, with changes of its configuration, from its latest
// checkpoints. In the same way, nothing of it is known to the master yet. (continue.c)
struct live_experiment *create_continue(struct master *m, const struct experiment *row,
                                        struct str changes, struct diag_list *diags,
                                        struct db_tx *tx, det_err *err);

// The configuration of last time, with what is different now above it, into e.
int create_read_changed(struct live_experiment *e, struct str changes, struct str stored,
                        struct diag_list *diags, det_err *err);

// Only reads the configuration.
int create_check(struct master *m, const struct create_input *in, struct diag_list *diags,
                 struct live_experiment **out, det_err *err);

// The configuration as the database has it, into e.
int create_read_stored(struct live_experiment *e, struct str config, det_err *err);
void create_copy_row(struct live_experiment *e, const struct experiment *row);

// After e->cfg of a live experiment has changed. Not for generic jobs, whose form is another one.
int create_save_config(struct live_experiment *e, struct db_tx *tx, det_err *err);
