// train/progress.h: what a person sees of training: a bar on a terminal, lines elsewhere.
#pragma once

#include "base/buf.h"
#include "det/trainer.h"

struct progress {
    FILE *out;
    bool is_terminal;
    int64_t begin_us; // of the run
    int64_t drawn_us; // when the bar was drawn last; 0: there is none
    // At the first report: what came before, a resumed run's past too, does not count for the rate.
    int64_t first_us, first_batches;
    double first_progress;
    struct buf metrics;     // "loss 0.25  error 0.1" of the last workload
    struct buf line, words; // words: what stands behind the bar
};

void progress_init(struct progress *p, FILE *out);
void progress_done(struct progress *p); // takes the bar away

// Draws or prints what there is to say about a report, to out.
void progress_report(struct progress *p, const det_report *report);

// The last words about a run.
void progress_result(struct progress *p, const det_result *result);
