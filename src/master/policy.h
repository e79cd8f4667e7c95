// master/policy.h: what certain lines in a trial's output mean. Private to the layer.
#pragma once

#include "master/state.h"
#include "sys/pattern.h"

// Compiles the patterns of the configuration. DET_EINVAL names the one that is wrong;
// lenient: it is left out instead, because an older version has taken it.
int policies_open(struct live_experiment *e, bool lenient, det_err *err);
void policies_close(struct live_experiment *e);

// Looking for them in some lines, by any thread. Bits are places in the configuration.
struct policy_scan {
    const struct policies *policies;
    uint64_t seen; // before: not looked for again
    uint64_t found, gave_up;
    size_t longest;     // line in bytes that was given up
    int64_t n_left_out; // lines that were not looked at
    struct matcher *match;
};

void policy_scan_begin(struct policy_scan *s, const struct live_trial *t); // on the loop
void policy_scan_line(struct policy_scan *s, struct str line);
void policy_scan_end(struct policy_scan *s);

// On the loop: what was found counts from now on, and is said in the trial's log, once.
void policies_note(struct live_trial *t, const struct policy_scan *s, struct db_tx *tx);

// After a restart, and when the trial has ended.
int policies_restore(struct master *m, struct db_reader *r, det_err *err);
void policies_forget(const struct live_trial *t, struct db_tx *tx);
