// cli/follow.h: watching experiments and trials until they end. Private to the layer.
#pragma once

#include "cli/remote.h"

struct follow_opts {
    bool goes_on;      // with the lines to come, until the trial ends
    bool names_trials; // each line says whose it is
    int64_t tail;      // of those that are there, only the last so many; negative: all
};

// Prints the lines of a trial's log.
int follow_logs(struct remote *r, int64_t trial, const struct follow_opts *opts);

// Whether an experiment in this state will not change any more.
bool follow_has_ended(const char *state);

// Waits for an experiment to end, with a progress bar on a terminal. EXIT_OK if it completed.
int follow_experiment(struct remote *r, int64_t experiment);

// The same with what its trials print, above the bar.
int follow_output(struct remote *r, int64_t experiment, bool is_job);

// Only what its trials print, as it comes, until the experiment ends.
int follow_trials(struct remote *r, int64_t experiment, const struct follow_opts *opts);

// Waits for the experiment's first trial and follows its log. Returns as follow_experiment does.
int follow_first_trial(struct remote *r, int64_t experiment);

// Sentences about the first trials of an experiment, at most max, that did not go well: why, and
// what they printed last. False, after saying why, if the master does not tell.
bool why_trials(struct remote *r, const char *experiment, int max, struct buf *out);
