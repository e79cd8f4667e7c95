// master/policy.h: what certain lines in a trial's output mean. Private to the layer.
#pragma once

#include "master/state.h"

// Compiles the patterns of the configuration. DET_EINVAL names the one that is wrong.
int policies_open(struct live_experiment *e, det_err *err);
void policies_close(struct live_experiment *e);

// Looks at one line: the policies that were seen before, and those that it matches. Any thread.
uint64_t policies_match(const struct policies *p, uint64_t seen, const char *line);

// Does what the policies say that were not seen before; it is logged once for each trial.
void policies_act(struct live_trial *t, uint64_t seen, struct db_tx *tx);
