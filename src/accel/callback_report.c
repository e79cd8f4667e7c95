// Unit callback_report.c: the callbacks that tell people how it goes.
#include "accel/accel.h"

#include "base/mem.h"
#include "base/str.h"
#include "sys/clock.h"
#include <unistd.h>

// --- what is going on

static void progress_training_start(void *self, det_accel *t)
{
    (void)self;
    det_accel_print(t, "Starting training run");
}

static void progress_epoch_start(void *self, det_accel *t)
{
    (void)self;
    det_accel_print(t, "Starting epoch %lld",
                    (long long)det_accel_history_current_epoch(t->history));
}

static void progress_training_end(void *self, det_accel *t)
{
    (void)self;
    det_accel_print(t, "Finishing training run");
}

static void progress_evaluation_start(void *self, det_accel *t)
{
    (void)self;
    det_accel_print(t, "Starting evaluation run");
}

static void progress_evaluation_end(void *self, det_accel *t)
{
    (void)self;
    det_accel_print(t, "Finishing evaluation run");
}

det_accel_callback *det_accel_callback_print_progress(void)
{
    static const det_accel_callback_ops ops = {
        .name = "PrintProgressCallback",
        .on_training_run_start = progress_training_start,
        .on_train_epoch_start = progress_epoch_start,
        .on_training_run_end = progress_training_end,
        .on_evaluation_run_start = progress_evaluation_start,
        .on_evaluation_run_end = progress_evaluation_end,
    };
    return det_accel_callback_new(&ops, NULL);
}

// --- metrics

static void print_metrics(det_accel *t, bool of_training)
{
    for (int i = 0; i < det_accel_history_n_metrics(t->history); i++) {
        const char *name = det_accel_history_name(t->history, i);
        if ((strstr(name, "train") != NULL) == of_training)
            det_accel_print(t, "%s: %.6g", name, det_accel_history_latest(t->history, name));
    }
}

static void metrics_train_epoch_end(void *self, det_accel *t)
{
    (void)self;
    print_metrics(t, true);
}

static void metrics_eval_epoch_end(void *self, det_accel *t)
{
    (void)self;
    print_metrics(t, false);
}

det_accel_callback *det_accel_callback_print_metrics(void)
{
    static const det_accel_callback_ops ops = {
        .name = "PrintMetricsCallback",
        .on_train_epoch_end = metrics_train_epoch_end,
        .on_eval_epoch_end = metrics_eval_epoch_end,
    };
    return det_accel_callback_new(&ops, NULL);
}

// --- a bar on terminals; a file would only get one long line of it

struct bar {
    int64_t start_us, drawn_us;
};

enum { BAR_WIDTH = 30, BAR_INTERVAL_US = 100000 };

static bool is_shown(const det_accel *t)
{
    return !processes_rank(t) && isatty(fileno(t->out));
}

static void draw(struct bar *b, det_accel *t, int64_t done)
{
    int64_t total = t->n_steps, now = clock_mono_us(), elapsed = now - b->start_us;
    if (total < 1) return;
    char cells[BAR_WIDTH + 1];
    int filled = (int)(done * BAR_WIDTH / total);
    for (int i = 0; i < BAR_WIDTH; i++)
        cells[i] = i < filled ? '#' : '-';
    cells[BAR_WIDTH] = '\0';
    double per_second = elapsed > 0 ? (double)done * 1e6 / (double)elapsed : 0;
    fprintf(t->out, "\r%3lld%% |%s| %lld/%lld %.1f batches/s", (long long)(done * 100 / total),
            cells, (long long)done, (long long)total, per_second);
    fflush(t->out);
    b->drawn_us = now;
}

static void bar_epoch_start(void *self, det_accel *t)
{
    *(struct bar *)self = (struct bar){.start_us = clock_mono_us()};
    if (is_shown(t)) draw(self, t, 0);
}

static void bar_step_end(void *self, det_accel *t, const det_value *batch,
                         const det_accel_batch_output *out)
{
    (void)batch, (void)out;
    struct bar *b = self;
    if (is_shown(t) && clock_mono_us() - b->drawn_us >= BAR_INTERVAL_US) draw(b, t, t->step + 1);
}

static void bar_epoch_end(void *self, det_accel *t)
{
    if (!is_shown(t)) return;
    draw(self, t, t->step);
    fputc('\n', t->out);
}

det_accel_callback *det_accel_callback_progress_bar(void)
{
    static const det_accel_callback_ops ops = {
        .name = "ProgressBarCallback",
        .on_train_epoch_start = bar_epoch_start,
        .on_train_step_end = bar_step_end,
        .on_train_epoch_end = bar_epoch_end,
        .on_eval_epoch_start = bar_epoch_start,
        .on_eval_step_end = bar_step_end,
        .on_eval_epoch_end = bar_epoch_end,
        .free = free,
    };
    return det_accel_callback_new(&ops, xcalloc(1, sizeof(struct bar)));
}
