// master/policy.h: what certain lines in a trial's output mean. Private to the layer.
#pragma once

#include "master/state.h"

// Compiles the patterns of the configuration. DET_EINVAL names the one that is wrong.
int policies_open(struct live_experiment *e, det_err *err);
void policies_close(struct live_experiment *e);

// Looks at one line. What it says is logged once for each trial.
void policies_apply(struct live_trial *t, const char *line, struct db_tx *tx);
