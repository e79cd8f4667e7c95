// Unit own_loop.c: what a trainer with an order of its own has in common with the loop of
// training.c. Called by the layers above.
#include "train/own_loop.h"

#include "train/ranks.h"
#include "train/training.h"
#include <math.h>

int own_loop_open(struct training *run, det_err *err)
{
    const struct own_loop *loop = run->trial->own;
    det_context *ctx = run->ctx;
    struct own_data data = {0};
    det_ok(err);
    int rc = user_result(loop->build(loop->self, ctx, run->opts, &data, err), err);
    ctx->phase = PHASE_READY;
    ctx->epoch_length = data.epoch_length;
    run->trial->training = data.training;
    for (int i = BOUNDARY_VALIDATE; !rc && i < N_BOUNDARIES; i++)
        rc = training_resolve(run, &run->period[i], err);
    if (!rc) training_hint_start(run);
    return rc;
}

int own_loop_run(struct training *run, det_err *err)
{
    const struct own_loop *loop = run->trial->own;
    det_ok(err);
    int rc = user_result(loop->run(loop->self, run, err), err);
    return rc ? rc : training_flush(run, err);
}

// --- lengths

void own_position(struct training *run, int64_t batches, int64_t epochs)
{
    run->state.batches = batches;
    run->state.epochs = epochs;
}

int own_next_length(struct training *run, det_length otherwise, det_length *out, det_err *err)
{
    det_length length = {0};
    int rc = training_flush(run, err); // a length is reached when that is safe
    if (rc) return rc;
    int got = run->host->ops->next_length(run->host, &length, err);
    if (got <= 0) return got;
    if (length.unit == DET_UNIT_UNSET || length.unit == DET_UNIT_NEVER) length = otherwise;
    rc = training_resolve(run, &length, err);
    if (rc) return rc;
    run->period[BOUNDARY_TRAIN] = *out = length;
    return 1;
}

// --- batches and epochs

int own_batch_end(struct training *run, det_err *err)
{
    run->state.batches++;
    run->epoch_ended = false;
    training_mark_boundaries(run);
    return training_report_batch(run, err);
}

int own_epoch_start(struct training *run, det_err *err)
{
    int rc = 0;
    CALLBACKS(run->ctx, rc, err, on_training_epoch_start, run->state.epochs, err);
    return rc;
}

int own_epoch_end(struct training *run, det_err *err)
{
    int rc = 0;
    CALLBACKS(run->ctx, rc, err, on_training_epoch_end, run->state.epochs, err);
    run->state.epochs++;
    run->epoch_ended = true;
    training_mark_boundaries(run);
    return rc;
}

// --- reports

bool own_reports_now(const struct training *run)
{
    return run->due & 1u << BOUNDARY_REPORT;
}

// What rank 0 reports, as a table of one row.
static int fill(struct training *run, det_metrics *out, const struct own_metrics *m, det_err *err)
{
    metrics_clear(out);
    metrics_begin_row(out);
    for (int i = 0; i < m->n; i++)
        det_metric_number(out, m->value[i].name, m->value[i].value);
    int rc = det_check(err);
    int row_rc = metrics_end_row(out, run->state.batches, rc ? NULL : err);
    if (!rc) rc = row_rc;
    return rc ? rc : ranks_merge_rows(&run->ctx->setup, out, ROWS_OF_CHIEF, err);
}

int own_report_training(struct training *run, const struct own_metrics *m, det_err *err)
{
    run->due &= ~(1u << BOUNDARY_REPORT);
    if (!m->n) return 0;
    int rc = fill(run, run->batch_rows, m, err);
    if (rc) return rc;
    metrics_clear(run->training);
    metrics_add_all(run->training, run->batch_rows);
    run->n_records = m->n_records;
    rc = training_report_workload(run, m->n_batches, m->seconds, err);
    return rc ? rc : training_poll(run, err);
}

int own_report_validation(struct training *run, const struct own_metrics *m, det_err *err)
{
    bool wanted = false;
    int rc = fill(run, run->validation, m, err);
    if (!rc) rc = training_take_validation(run, m->n_records, m->seconds, &wanted, err);
    if (wanted) run->due |= 1u << BOUNDARY_CHECKPOINT;
    return rc;
}

// One that went before in another run is not known here.
bool own_needs_validation(const struct training *run)
{
    return run->host->ops->completed && !det_metrics_rows(run->validation);
}

int own_reached(struct training *run, det_err *err)
{
    const struct host *host = run->host;
    double metric = NAN;
    if (!host->ops->completed) return 0;
    if (host->metric) metric = det_metrics_get(run->validation, host->metric);
    return host->ops->completed(run->host, metric, err);
}

// --- leaving

// All ranks hear of what the host wants with the last thing that they did together.
bool own_should_leave(struct training *run)
{
    run->leaving = run->leaving || run->host->ops->should_stop(run->host, &run->stop_reason);
    return run->leaving;
}

int own_decide_to_leave(struct training *run, bool *out, det_err *err)
{
    int rc = run->leaving ? 0 : training_decide_to_leave(run, err);
    if (!rc) *out = run->leaving;
    return rc;
}

void own_leave(struct training *run, det_stop_reason why)
{
    run->leaving = true;
    run->stop_reason = why;
}

bool own_wants_checkpoint(const struct training *run)
{
    return run->due & 1u << BOUNDARY_CHECKPOINT;
}

int own_checkpoint(struct training *run, bool asked, det_err *err)
{
    if (!asked && !own_wants_checkpoint(run)) return 0;
    run->due &= ~(1u << BOUNDARY_CHECKPOINT);
    return training_checkpoint(run, err);
}
