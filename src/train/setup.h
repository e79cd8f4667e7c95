// train/setup.h: what a run is made of: configuration, hyperparameters, seed. Private to the layer.
#pragma once

#include "train/context.h"
#include "train/train.h"

// The hyperparameters of a trial: constants of the space (may be NULL), and above them values (may
// be NULL). Something to search that has no value is an error. NULL on failure.
const struct doc *setup_hparams(struct arena *arena, const struct hparam *space,
                                const struct doc *values, det_err *err);

// YAML or JSON text that is a map.
const struct doc *setup_parse(struct arena *arena, const char *text, const char *source,
                              det_err *err);
// What a configuration says. That of a job has neither a searcher nor hyperparameters, and only its
// data counts here.
struct setup_config {
    const struct exp_config *experiment; // NULL: none
    const struct doc *data;              // NULL: none
};
int setup_read_config(struct arena *arena, const char *path, struct setup_config *out,
                      det_err *err);
int setup_parse_config(struct arena *arena, const char *text, const char *source,
                       struct setup_config *out, det_err *err);

// One map above another; either may be NULL.
const struct doc *setup_merge(struct arena *arena, const struct doc *above,
                              const struct doc *below);

uint64_t setup_new_seed(void);

// What the configuration says about the context of a trial.
void setup_context(struct context_setup *setup, const struct exp_config *cfg);

// Fills what opts leaves unset from the configuration, or with defaults. Texts live in the arena.
void setup_opts(struct arena *arena, det_train_opts *opts, const struct exp_config *cfg);
// Whether there is a length that one can train to.
int setup_check_length(const det_train_opts *opts, det_err *err);

// The hyperparameters that a checkpoint was trained with, and its configuration; data settings that
// setup has stay above those of the checkpoint.
int setup_read_checkpoint(struct arena *arena, const char *dir, struct context_setup *setup,
                          det_err *err);
