// Unit training.c: the training loop. Called by the trainer; everything it does to numbers goes
// through the engine, everything the world hears of goes through the host.
#include "train/training.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "train/ranks.h"
#include <stdarg.h>

// Init draws its random numbers at step 0, so batches begin at 1. Ranks have steps of their own.
static uint64_t random_step(const struct training *run)
{
    const struct context_setup *setup = &run->ctx->setup;
    return (uint64_t)run->state.batches * (uint64_t)setup->size + (uint64_t)setup->rank + 1;
}

// --- lengths

int training_resolve(const struct training *run, det_length *length, det_err *err)
{
    if (length->unit != DET_UNIT_RECORDS) return 0;
    int64_t batch = run->engine->loader_batch_size(run->trial->training) * run->ctx->setup.size;
    if (length->at)
        return det_fail(err, DET_EUNSUPPORTED, "a list of counts must be of batches or epochs");
    *length = det_batches(MAX(length->amount / MAX(batch, 1), 1));
    return 0;
}

int64_t training_remaining(const struct training *run)
{
    const det_length *end = &run->period[BOUNDARY_TRAIN];
    int64_t done = end->unit == DET_UNIT_EPOCHS ? run->state.epochs : run->state.batches;
    return MAX(end->amount - done, 0);
}

double training_progress(const struct training *run)
{
    const det_length *end = &run->period[BOUNDARY_TRAIN];
    double total = (double)end->amount;
    double done = (double)run->state.batches;
    if (end->unit == DET_UNIT_EPOCHS) total *= (double)run->ctx->epoch_length;
    return total > 0 ? MIN(done / total, 1) : 1;
}

// --- periods and boundaries

// Whether a period ends with the batch just trained.
static bool is_due(const struct training *run, const det_length *period)
{
    int64_t count = run->state.batches;
    if (period->unit == DET_UNIT_EPOCHS) {
        if (!run->epoch_ended) return false;
        count = run->state.epochs;
    } else if (period->unit != DET_UNIT_BATCHES) {
        return false;
    }
    for (int i = 0; i < period->n_at; i++)
        if (period->at[i] == count) return true;
    if (period->at) return false;
    return period->amount < 1 || count % period->amount == 0;
}

void training_mark_boundaries(struct training *run)
{
    if (!training_remaining(run)) run->due |= 1u << BOUNDARY_TRAIN;
    for (int i = BOUNDARY_VALIDATE; i < N_BOUNDARIES; i++)
        if (is_due(run, &run->period[i])) run->due |= 1u << i;
    if (run->opts->test_mode) run->due |= 1u << BOUNDARY_TRAIN;
    // Whoever wants the slots back does not wait for the end of the workload.
    det_stop_reason why;
    if (run->host->ops->should_stop(run->host, &why)) run->due |= 1u << BOUNDARY_REPORT;
}

static bool is_validated(const struct training *run)
{
    return run->state.last_validation == run->state.batches;
}

int training_decide_to_leave(struct training *run, det_err *err)
{
    bool requested = run->ctx->stop_requested;
    int rc = ranks_any(&run->ctx->setup, "stop", &requested, err);
    if (rc) return rc;
    if (requested) run->stop_reason = DET_STOP_REQUESTED;
    run->leaving = requested || run->host->ops->should_stop(run->host, &run->stop_reason);
    return 0;
}

static int handle(struct training *run, enum boundary b, det_err *err)
{
    switch (b) {
    case BOUNDARY_VALIDATE:
        return is_validated(run) ? 0 : training_validate(run, err);
    case BOUNDARY_CHECKPOINT:
        return training_checkpoint(run, err);
    default:
        return 0; // progress went out with the report of the workload
    }
}

static int handle_boundaries(struct training *run, det_err *err)
{
    int rc = 0;
    for (enum boundary b = 0; !rc && !run->leaving && b < N_BOUNDARIES; b++) {
        if (!(run->due & 1u << b)) continue;
        rc = handle(run, b, err);
        if (!rc) rc = training_decide_to_leave(run, err);
    }
    run->due = 0;
    return rc;
}

// --- one batch

static int fail_in(const struct training *run, const char *operation, det_err *err)
{
    return det_wrap(err, "trial %s, %s, batch %lld", run->trial->name, operation,
                    (long long)run->state.batches);
}

// For a trial that only computes the loss.
static int step_for_trial(struct training *run, det_err *err)
{
    det_context *ctx = run->ctx;
    det_tensor *loss = metrics_loss(run->batch_rows);
    if (!loss)
        return det_fail(err, DET_EINVAL,
                        "it must report a tensor as metric 'loss', because the "
                        "trial has build_model");
    bool norm = det_config_has(&ctx->hparams, "clip_grad_l2_norm");
    bool value = det_config_has(&ctx->hparams, "clip_grad_val");
    if (norm && value)
        return det_fail(err, DET_EHPARAM,
                        "hyperparameters 'clip_grad_l2_norm' and "
                        "'clip_grad_val' do not go together");
    det_backward_loss(ctx, loss);
    det_step_optimizer(ctx, ctx->optimizers[0].opt,
                       .clip_norm = norm ? det_hparam_double(ctx, "clip_grad_l2_norm") : INFINITY,
                       .clip_value = value ? det_hparam_double(ctx, "clip_grad_val") : INFINITY);
    return 0;
}

static int train_batch(struct training *run, const det_value *batch, int64_t epoch_idx,
                       det_err *err)
{
    const det_step step = {batch, epoch_idx, run->state.batches, run->ctx->models[0]};
    run->engine->begin(random_step(run));
    metrics_begin_row(run->batch_rows);
    det_ok(err);
    int rc = run->trial->ops->train_batch(run->trial->self, &step, run->batch_rows, err);
    if (!rc && run->trial->ops->build_model) rc = step_for_trial(run, err);
    if (!rc) context_batch_end(run->ctx);
    rc = user_result(rc, err);
    run->engine->end();
    reducers_next_batch(run->ctx);
    int row_rc = metrics_end_row(run->batch_rows, run->state.batches, rc ? NULL : err);
    if (!rc) rc = row_rc;
    return rc ? fail_in(run, "train_batch", err) : 0;
}

int64_t training_records(const struct training *run, const det_value *batch)
{
    const det_trial *t = run->trial;
    int64_t n = t->ops->batch_length ? t->ops->batch_length(t->self, batch)
                                     : run->engine->batch_length(batch, NULL);
    return MAX(n, 0);
}

static int next_batch(struct training *run, const det_value **out, det_err *err)
{
    det_ok(err);
    *out = run->engine->iter_next(run->iter, err);
    if (!*out && !err->code) det_fail(err, DET_ESTATE, "the loader has no batches");
    if (!*out) return fail_in(run, "training data", err);
    run->n_records += training_records(run, *out);
    return 0;
}

int training_report_batch(struct training *run, det_err *err)
{
    if (!run->host->wants_batches) return 0;
    det_report r = {.kind = DET_REPORT_BATCH,
                    .batches = run->state.batches,
                    .epochs = run->state.epochs,
                    .progress = training_progress(run)};
    return run->host->ops->report(run->host, &r, err);
}

static void find_epoch_end(struct training *run)
{
    run->epoch_ended = run->state.batches % run->ctx->epoch_length == 0;
}

static int count_batch(struct training *run, int64_t epoch_idx, det_err *err)
{
    int rc = 0;
    run->state.batches++;
    find_epoch_end(run);
    if (run->epoch_ended) {
        CALLBACKS(run->ctx, rc, err, on_training_epoch_end, epoch_idx, err);
        run->state.epochs++;
    }
    if (!rc) rc = training_report_batch(run, err);
    training_mark_boundaries(run);
    return rc;
}

static int one_batch(struct training *run, det_err *err)
{
    const det_value *batch;
    int64_t epoch_idx = run->state.batches / run->ctx->epoch_length;
    int rc = next_batch(run, &batch, err);
    if (rc) return rc;
    run->ctx->batch_idx = run->state.batches;
    if (run->state.batches % run->ctx->epoch_length == 0)
        CALLBACKS(run->ctx, rc, err, on_training_epoch_start, epoch_idx, err);
    if (!rc) rc = train_batch(run, batch, epoch_idx, err);
    CALLBACKS(run->ctx, rc, err, on_training_batch_end, run->state.batches, err);
    return rc ? rc : count_batch(run, epoch_idx, err);
}

// --- workloads

int training_report_workload(struct training *run, int64_t n_batches, double seconds, det_err *err)
{
    det_report r = {.kind = DET_REPORT_TRAINING,
                    .batches = run->state.batches,
                    .epochs = run->state.epochs,
                    .progress = training_progress(run),
                    .metrics = run->training,
                    .n_batches = n_batches,
                    .n_records = run->n_records,
                    .seconds = seconds};
    training_hint_workload(run);
    int rc = run->host->ops->report(run->host, &r, err);
    CALLBACKS(run->ctx, rc, err, on_training_workload_end, run->training, run->batch_rows, err);
    return rc;
}

// Buffers (running averages) are those of rank 0, as the data of other ranks has changed theirs.
static int bring_ranks_together(struct training *run, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    int rc = ranks_share_models(run->ctx, true, err);
    if (!rc) rc = ranks_sum(setup, "records", &run->n_records, err);
    return rc ? rc : ranks_merge_rows(setup, run->batch_rows, ROWS_AVERAGE, err);
}

static int workload(struct training *run, det_err *err)
{
    run->ctx->phase = PHASE_TRAINING;
    context_train_mode(run->ctx, true);
    reducers_reset(run->ctx);
    metrics_clear(run->batch_rows);
    run->n_records = 0;
    run->workload_start_us = clock_mono_us();
    int rc = 0;
    while (!rc && !run->due)
        rc = one_batch(run, err);
    if (!rc) rc = metrics_read(run->batch_rows, err);
    if (!rc) rc = bring_ranks_together(run, err);
    if (rc) return rc;
    metrics_reduce(run->batch_rows, NULL, NULL, run->training);
    rc = reducers_finish(run->ctx, true, run->training, err);
    run->ctx->phase = PHASE_READY;
    double seconds = (double)(clock_mono_us() - run->workload_start_us) * 1e-6;
    if (!rc) rc = training_report_workload(run, det_metrics_rows(run->batch_rows), seconds, err);
    if (!rc) rc = training_poll(run, err);
    return rc ? rc : handle_boundaries(run, err);
}

// Whether a length was reached before, with all that belongs to it. A run that was stopped right at
// the end may not have got to the last validation.
static bool is_behind(const struct training *run)
{
    const det_length *end = &run->period[BOUNDARY_TRAIN];
    int64_t done = end->unit == DET_UNIT_EPOCHS ? run->state.epochs : run->state.batches;
    return done > end->amount || (done == end->amount && is_validated(run));
}

// Trains to a length that the host has given.
static int train_to(struct training *run, det_length length, det_err *err)
{
    run->period[BOUNDARY_TRAIN] = length;
    int rc = training_resolve(run, &run->period[BOUNDARY_TRAIN], err);
    if (rc) return rc;
    if (is_behind(run)) return training_conclude(run, err);
    // A run that was stopped at a boundary may not have got to its validation.
    find_epoch_end(run);
    if (run->state.batches && is_due(run, &run->period[BOUNDARY_VALIDATE]))
        run->due = 1u << BOUNDARY_VALIDATE;
    rc = handle_boundaries(run, err);
    while (!rc && !run->leaving && training_remaining(run)) {
        rc = workload(run, err);
        if (run->opts->test_mode) break;
    }
    if (!rc && !run->leaving && !is_validated(run)) rc = training_validate(run, err);
    return rc ? rc : training_checkpoint(run, err);
}

static int train_all(struct training *run, det_err *err)
{
    int rc = 0;
    while (!rc && !run->leaving) {
        det_length length = {0};
        int got = run->host->ops->next_length(run->host, &length, err);
        if (got <= 0) return got;
        rc = train_to(run, length, err);
        if (!rc) rc = training_flush(run, err); // a length is reached when that is safe
        if (run->opts->test_mode) return rc ? rc : training_reload(run, err);
    }
    return rc;
}

// --- life

static int start_callbacks(struct training *run, det_err *err)
{
    det_context *ctx = run->ctx;
    for (int i = 0; i < ctx->n_callbacks; i++) {
        struct callback *cb = &ctx->callbacks[i];
        cb->started = true;
        if (!cb->ops->on_trial_startup) continue;
        det_ok(err);
        int rc = cb->ops->on_trial_startup(cb->self, run->state.batches, run->resume, err);
        rc = callback_result(rc, cb->name, "on_trial_startup", err);
        if (rc) return rc;
    }
    return 0;
}

static void stop_callbacks(det_context *ctx)
{
    for (int i = ctx->n_callbacks; i-- > 0;) {
        struct callback *cb = &ctx->callbacks[i];
        if (cb->started && cb->ops->on_trial_shutdown) cb->ops->on_trial_shutdown(cb->self);
        cb->started = false;
    }
}

static int open_data(struct training *run, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    int rc = trial_set_loaders(run->trial, run->opts->training, run->opts->validation, err);
    if (rc) return rc;
    int64_t batches = run->engine->loader_length(run->trial->training);
    if (batches < 1) return det_fail(err, DET_EINVAL, "the training data has no batches");
    run->ctx->epoch_length = (batches + setup->size - 1) / setup->size;
    if (run->opts->limit_batches > 0)
        run->ctx->epoch_length = MIN(run->ctx->epoch_length, run->opts->limit_batches);
    rc = ranks_share_int(setup, "length of an epoch", &run->ctx->epoch_length, err);
    if (rc) return rc;
    run->iter = run->engine->iter_open(run->trial->training,
                                       (det_iter_opts){.repeat = true,
                                                       .skip = run->state.batches,
                                                       .replicas = setup->size,
                                                       .rank = setup->rank,
                                                       .limit = run->opts->limit_batches});
    training_hint_start(run);
    rc = det_check(err);
    for (int i = BOUNDARY_VALIDATE; !rc && i < N_BOUNDARIES; i++)
        rc = training_resolve(run, &run->period[i], err);
    return rc ? det_wrap(err, "training data") : 0;
}

static int start(struct training *run, det_err *err)
{
    run->ctx->batch_idx = -1;
    int rc = run->resume ? training_read_state(run, err) : 0;
    run->ctx->initial_batch = run->state.batches;
    if (!rc && run->trial->own) rc = own_loop_open(run, err);
    if (!rc) rc = start_callbacks(run, err);
    if (!rc && !run->trial->own) rc = open_data(run, err);
    if (!rc && run->resume) rc = training_resume(run, err);
    if (!rc) rc = ranks_share_models(run->ctx, false, err);
    CALLBACKS(run->ctx, rc, err, on_training_start, err);
    if (!rc && run->opts->initial_validation && !run->trial->own && !run->state.batches)
        rc = training_validate(run, err);
    return rc;
}

static void leave_host(struct training *run, int rc, const det_err *err)
{
    if (!run->host->ops->leave) return;
    enum host_exit why = run->leaving ? HOST_EXIT_STOPPED : HOST_EXIT_DONE;
    if (rc) why = rc == DET_EHPARAM ? HOST_EXIT_INVALID_HPARAMS : HOST_EXIT_ERROR;
    run->host->ops->leave(run->host, why, rc ? err->msg : NULL);
}

int training_run(struct training *run, det_err *err)
{
    int rc = start(run, err);
    if (!rc) rc = run->trial->own ? own_loop_run(run, err) : train_all(run, err);
    int blamed = rc ? dist_blame(run->ctx->setup.ranks, err) : 0;
    if (blamed) rc = blamed;
    if (rc) dist_fail(run->ctx->setup.ranks, rc, err->msg);
    // Whoever says that hyperparameters cannot work leaves what was trained so far.
    if (rc == DET_EHPARAM && run->state.batches && !training_checkpoint(run, NULL))
        training_flush(run, NULL);
    run->ctx->phase = PHASE_READY;
    stop_callbacks(run->ctx);
    leave_host(run, rc, err);
    return rc;
}

void training_warn(struct training *run, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    det_report r = {.kind = DET_REPORT_WARNING,
                    .batches = run->state.batches,
                    .epochs = run->state.epochs,
                    .progress = training_progress(run),
                    .text = text};
    run->host->ops->report(run->host, &r, NULL);
}

void training_init(struct training *run, det_trial *trial, struct host *host,
                   const det_train_opts *opts)
{
    const det_engine *engine = trial->ctx->setup.engine;
    *run = (struct training){.trial = trial,
                             .ctx = trial->ctx,
                             .engine = engine,
                             .host = host,
                             .opts = opts,
                             .batch_rows = metrics_new(engine),
                             .training = metrics_new(engine),
                             .validation_rows = metrics_new(engine),
                             .validation = metrics_new(engine),
                             .best = metrics_new(engine),
                             .resume = opts->resume ? xstrdup(opts->resume) : NULL};
    run->ctx->stop_requested = false;
    run->ctx->metric = host->metric;
    run->ctx->larger_is_better = host->larger_is_better;
    run->period[BOUNDARY_VALIDATE] = opts->min_validation_period;
    run->period[BOUNDARY_CHECKPOINT] = opts->min_checkpoint_period;
    run->period[BOUNDARY_REPORT] = opts->reporting_period;
}

void training_done(struct training *run)
{
    metrics_free(run->batch_rows);
    metrics_free(run->training);
    metrics_free(run->validation_rows);
    metrics_free(run->validation);
    metrics_free(run->best);
    free(run->resume);
    free(run->checkpoint);
    *run = (struct training){0};
}
