// cli/plotted.h: metrics of trials, read from the master as lines of plots. Private to the layer.
#pragma once

#include "cli/remote.h"
#include "plot/plot.h"

struct metric_ref {
    const char *group, *name;
};

struct plotted_query {
    const char *experiment; // a number
    const char *trials;     // "best:8", "all", "12,13"
    bool by_time;           // x: seconds since the start of the trial; else batches
    double smooth;          // 0 to 0.99
    int max_points;
};

// What trials of the experiment have reported, those of the searcher first. *n is 0 if nothing.
// False after the error was printed.
bool plotted_metrics(struct remote *r, const struct doc *experiment, struct metric_ref **out,
                     size_t *n);

// The curves of one metric. n_lines is 0 if no trial has any. All of it lives in the remote's arena.
bool plotted_read(struct remote *r, const struct plotted_query *q, const struct metric_ref *metric,
                  struct plot *out);
