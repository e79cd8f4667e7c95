// train/train.h: training, for the layers above.
//
// A program that runs trials (det-run) loads the module with the trial, and then needs one call:
//
//     const det_trial_entry *entry = trial_find("MNistTrial", err);
//     struct train_task task = {.trial = entry, .config = &cfg, .opts = {.max_length = ...}};
//     int rc = train_run(&task, err);
//
// The loop reaches numbers through an engine and the world through a host (train/engine.h,
// train/host.h); both can be replaced.
#pragma once

#include "doc/doc.h"
#include "config/config.h"
#include "det/trainer.h"
#include "train/engine.h"
#include "train/host.h"
#include "train/own_loop.h"
#include "train/progress.h"

// The trial that DET_TRIAL has made known under a name; NULL: the only one. If there is none, the
// error lists those that there are.
const det_trial_entry *trial_find(const char *name, det_err *err);

struct train_task {
    const det_trial_entry *trial;
    // Unless this is a task of a cluster, whose settings come from there:
    const struct exp_config *config; // NULL: none. Fills what opts leaves unset
    const struct doc *hparams;       // a map; NULL: the constants of config
    int64_t seed;                    // negative: that of config, or a new one
    int64_t trial_id, experiment_id; // 0: not of a cluster
    det_train_opts opts;
    struct host *host;        // NULL: the cluster's, or a local one that obeys opts
    const det_engine *engine; // NULL: engine_default
    // Called with what came out, before everything is freed. May be NULL.
    void (*on_result)(const det_result *result, void *user);
    void *result_user;
    bool *is_follower; // set to true if it failed because another rank did. May be NULL
};

// Builds the trial, trains it as far as the host says, frees it. A DET_EHPARAM is not a failure of
// the program: the host has been told.
int train_run(const struct train_task *task, det_err *err);
