// Unit hosted.c: a run as a training of a det_trainer: how long, reports, checkpoints, and leaving
// in order to go on later. Called by train.c and loop.c.
//
// What goes out as a training or validation metric is what the run history has got meanwhile, so
// metrics of the user's own are reported like those of the trainer.
#include "accel/accel.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"

static void check_rc(int rc, const det_err *err)
{
    if (rc) accel_raise(err);
}

void hosted_init(det_accel *t)
{
    t->hosted = (struct hosted){.n_seen = history_count(t->history), .start_us = clock_mono_us()};
}

// --- reports

static double seconds_since(int64_t start_us)
{
    return (double)(clock_mono_us() - start_us) * 1e-6;
}

// Everything that the history has got since it was last looked at. To be freed.
static struct own_metrics take_news(det_accel *t)
{
    struct hosted *s = &t->hosted;
    size_t room = (size_t)det_accel_history_n_metrics(t->history) + 1; // one of our own
    det_metric_value *values = xcalloc(room, sizeof *values);
    int n = history_news(t->history, s->n_seen, values);
    s->n_seen = history_count(t->history);
    return (struct own_metrics){.value = values, .n = n, .seconds = seconds_since(s->start_us)};
}

// The losses since the last report, and what the history has got.
static void report_training(det_accel *t)
{
    struct hosted *s = &t->hosted;
    det_err err;
    struct loss_tracker all = processes_sum_losses(t, s->part);
    if (!accel_running(t)) return;
    struct own_metrics m = take_news(t);
    det_metric_value *values = (det_metric_value *)m.value;
    if (s->part_batches)
        values[m.n++] = (det_metric_value){"train_loss", loss_tracker_average(&all)};
    m.n_batches = s->part_batches;
    m.n_records = all.count;
    check_rc(own_report_training(t->run, &m, &err), &err);
    free(values);
    s->part_batches = 0;
    s->part = (struct loss_tracker){0};
    s->start_us = clock_mono_us();
}

static void report_validation(det_accel *t)
{
    det_err err;
    struct own_metrics m = take_news(t);
    m.n_batches = t->step;
    m.n_records = t->loss.count;
    check_rc(own_report_validation(t->run, &m, &err), &err);
    free((det_metric_value *)m.value);
    t->eval_batch = t->n_batches;
    t->hosted.start_us = clock_mono_us();
}

// --- lengths

static bool is_reached(const det_accel *t)
{
    const det_length *target = &t->hosted.target;
    int64_t epochs = t->epoch + t->train_done;
    return (target->unit == DET_UNIT_EPOCHS ? epochs : t->n_batches) >= target->amount;
}

static void next_target(det_accel *t)
{
    det_err err;
    int got = own_next_length(t->run, det_epochs(t->config.num_epochs), &t->hosted.target, &err);
    check_rc(got < 0 ? got : 0, &err);
    t->hosted.is_over = got != 1;
}

bool hosted_wants_more(const det_accel *t)
{
    return !t->hosted.is_over;
}

bool hosted_has_evaluated(const det_accel *t)
{
    return t->eval_batch == t->n_batches;
}

// A checkpoint ends a period of reports, so that a run that goes on from it has the same ones.
static void save(det_accel *t, bool asked)
{
    det_err err;
    if (t->hosted.part_batches) report_training(t);
    if (accel_running(t) || t->stopping) check_rc(own_checkpoint(t->run, asked, &err), &err);
}

// A length is reached: an evaluation tells how well, unless there was one just now. Several lengths
// may end here.
static void meet_targets(det_accel *t)
{
    det_err err;
    while (accel_running(t) && !t->hosted.is_over && is_reached(t)) {
        if (t->hosted.part_batches) report_training(t);
        if (t->eval_loader && (!hosted_has_evaluated(t) || own_needs_validation(t->run)))
            loop_run_eval_amid(t);
        else
            check_rc(own_reached(t->run, &err), &err);
        if (accel_running(t)) save(t, true);
        if (accel_running(t)) next_target(t);
    }
}

// Whoever has trained all that was wanted ends as if nobody had asked: a master may want the slots back
// at that very moment.
static bool may_leave(const det_accel *t)
{
    return accel_running(t) && !t->hosted.is_over;
}

static void leave(det_accel *t)
{
    save(t, true);
    if (accel_running(t)) t->leaving = true;
}

// --- in the order of a run

void hosted_start(det_accel *t)
{
    if (accel_running(t)) next_target(t);
}

// A run that was killed right at the end of a length goes on there.
void hosted_go_on(det_accel *t)
{
    if (!t->train_done) meet_targets(t); // else that comes with the end of the epoch
}

void hosted_train_epoch_start(det_accel *t)
{
    det_err err;
    if (accel_running(t) && !t->step) check_rc(own_epoch_start(t->run, &err), &err);
}

void hosted_batch_end(det_accel *t, double loss, int64_t n_samples)
{
    struct hosted *s = &t->hosted;
    det_err err;
    loss_tracker_update(&s->part, loss, n_samples);
    s->part_batches++;
    check_rc(own_batch_end(t->run, &err), &err);
    bool is_last = t->step == t->n_steps; // the end of the epoch is near, with more to report
    if (!is_last && accel_running(t) && own_reports_now(t->run)) report_training(t);
    if (t->step % t->config.gradient_accumulation_steps && !is_last) return;
    if (!is_last && accel_running(t) && own_wants_checkpoint(t->run)) save(t, false);
    if (!is_last) meet_targets(t);
    if (may_leave(t) && own_should_leave(t->run)) leave(t);
}

void hosted_train_epoch_end(det_accel *t)
{
    det_err err;
    if (!accel_running(t)) return;
    check_rc(own_epoch_end(t->run, &err), &err);
    report_training(t);
}

void hosted_eval_start(det_accel *t)
{
    if (!t->hosted.n_evals++) t->hosted.start_us = clock_mono_us();
}

void hosted_eval_end(det_accel *t)
{
    bool is_inner = --t->hosted.n_evals;
    if (t->run && t->eval_kind == EVAL_OF_EPOCH && !is_inner && accel_running(t))
        report_validation(t);
}

void hosted_epoch_end(det_accel *t)
{
    det_err err;
    bool is_wanted = false;
    if (accel_running(t) && !is_reached(t)) save(t, false);
    meet_targets(t);
    if (may_leave(t)) check_rc(own_decide_to_leave(t->run, &is_wanted, &err), &err);
    if (may_leave(t) && is_wanted) leave(t);
}

// The run was stopped; weights are still those that it has trained.
void hosted_stop(det_accel *t)
{
    bool is_between = t->step == 0 && !t->train_done;
    own_leave(t->run, DET_STOP_REQUESTED);
    if (is_between) save(t, true);
}
