// Unit validate.c: one validation: evaluate, reduce, report, and keep what is best.
#include "train/training.h"

#include "sys/clock.h"
#include "train/ranks.h"
#include <math.h>

// Random numbers of validation are apart from those of training, which must not depend on how often
// we validate.
static uint64_t random_step(const struct training *run, int64_t batch_idx)
{
    const struct context_setup *setup = &run->ctx->setup;
    uint64_t batch = (uint64_t)batch_idx * (uint64_t)setup->size + (uint64_t)setup->rank;
    return UINT64_C(1) << 63 | (uint64_t)run->state.batches << 24 | (batch & 0xffffff);
}

static int evaluate_batch(struct training *run, const det_value *batch, int64_t batch_idx,
                          det_err *err)
{
    const det_step step = {batch, run->state.epochs, batch_idx, run->ctx->models[0]};
    run->engine->begin(random_step(run, batch_idx));
    metrics_begin_row(run->validation_rows);
    det_ok(err);
    int rc = run->trial->ops->evaluate_batch(run->trial->self, &step, run->validation_rows, err);
    rc = user_result(rc, err);
    run->engine->end();
    reducers_next_batch(run->ctx);
    int row_rc = metrics_end_row(run->validation_rows, batch_idx, rc ? NULL : err);
    return rc ? rc : row_rc;
}

static int evaluate_all(struct training *run, det_iter *it, int64_t *n_records, det_err *err)
{
    int64_t batch_idx = 0;
    det_ok(err);
    for (const det_value *batch; (batch = run->engine->iter_next(it, err)); batch_idx++) {
        *n_records += training_records(run, batch);
        int rc = evaluate_batch(run, batch, batch_idx, err);
        if (rc)
            return det_wrap(err, "trial %s, evaluate_batch, batch %lld", run->trial->name,
                            (long long)batch_idx);
        if (run->opts->test_mode) return 0;
    }
    return err->code ? det_wrap(err, "validation data") : 0;
}

// A rank without a batch of its own is fine, as long as another one has some.
static int merge_rows(struct training *run, int64_t *n_records, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    int rc = ranks_merge_rows(setup, run->validation_rows, ROWS_IN_TURN, err);
    if (!rc) rc = ranks_sum(setup, "validation records", n_records, err);
    if (!rc && !det_metrics_rows(run->validation_rows))
        rc = det_fail(err, DET_EINVAL, "the validation data has no batches");
    return rc;
}

static det_combine kind_of(void *user, const char *metric)
{
    const det_trial *t = user;
    return t->ops->evaluation_reducer ? t->ops->evaluation_reducer(t->self, metric)
                                      : DET_COMBINE_AVG;
}

static int evaluate_by_batch(struct training *run, int64_t *n_records, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    int rc = 0;
    metrics_clear(run->validation_rows);
    CALLBACKS(run->ctx, rc, err, on_validation_epoch_start, err);
    if (rc) return rc;
    det_iter *it = run->engine->iter_open(run->trial->validation,
                                          (det_iter_opts){.replicas = setup->size,
                                                          .rank = setup->rank,
                                                          .limit = run->opts->limit_batches});
    rc = det_check(err);
    if (!rc) rc = evaluate_all(run, it, n_records, err);
    run->engine->iter_close(it);
    if (!rc) rc = metrics_read(run->validation_rows, err);
    if (!rc) rc = merge_rows(run, n_records, err);
    CALLBACKS(run->ctx, rc, err, on_validation_epoch_end, run->validation_rows, err);
    if (!rc) metrics_reduce(run->validation_rows, kind_of, run->trial, run->validation);
    return rc;
}

static int evaluate_alone(struct training *run, det_err *err)
{
    const det_trial *t = run->trial;
    run->engine->begin(random_step(run, 0));
    metrics_begin_row(run->validation);
    det_ok(err);
    int rc = t->ops->evaluate_full_dataset(t->self, t->validation, run->validation, err);
    rc = user_result(rc, err);
    run->engine->end();
    int row_rc = metrics_end_row(run->validation, 0, rc ? NULL : err);
    if (!rc) rc = row_rc ? row_rc : metrics_read(run->validation, err);
    return rc ? det_wrap(err, "trial %s, evaluate_full_dataset", t->name) : 0;
}

// Rank 0 does, on all of the data; the others get what came out.
static int evaluate_full_dataset(struct training *run, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    metrics_clear(run->validation);
    int rc = setup->rank ? 0 : evaluate_alone(run, err);
    return rc ? rc : ranks_merge_rows(setup, run->validation, ROWS_OF_CHIEF, err);
}

static int evaluate(struct training *run, int64_t *n_records, det_err *err)
{
    context_train_mode(run->ctx, false);
    reducers_reset(run->ctx);
    run->ctx->phase = PHASE_VALIDATION;
    bool grad_before = run->engine->set_grad_enabled(false);
    int rc = run->trial->ops->evaluate_batch ? evaluate_by_batch(run, n_records, err)
                                             : evaluate_full_dataset(run, err);
    if (!rc) rc = reducers_finish(run->ctx, false, run->validation, err);
    run->engine->set_grad_enabled(grad_before);
    run->ctx->phase = PHASE_READY;
    return rc;
}

// --- the metric that decides

static int find_metric(const struct training *run, double *out, det_err *err)
{
    *out = NAN;
    if (!run->host->metric) return 0;
    if (metrics_find(run->validation, run->host->metric) < 0)
        return det_fail(err, DET_EINVAL,
                        "the metric '%s' decides what is best, but validation does not report it",
                        run->host->metric);
    *out = det_metrics_get(run->validation, run->host->metric);
    return 0;
}

// Strictly better than all before; NaN never is, unless there is nothing else.
static bool is_best(struct training *run, double metric)
{
    double best = run->state.best_metric;
    bool known = run->state.has_best;
    if (run->host->ops->best_validation) known = run->host->ops->best_validation(run->host, &best);
    if (!known || (isnan(best) && !isnan(metric))) return true;
    return run->host->larger_is_better ? metric > best : metric < best;
}

static void keep_best(struct training *run, double metric)
{
    bool larger = run->host->larger_is_better;
    double best = run->state.best_metric;
    bool better = !run->state.has_best || isnan(best) || (larger ? metric > best : metric < best);
    if (!run->host->metric || !better) return;
    run->state.has_best = true;
    run->state.best_metric = metric;
    run->state.best_batches = run->state.batches;
    metrics_clear(run->best);
    metrics_add_all(run->best, run->validation);
}

static int report(struct training *run, int64_t n_records, double seconds, det_err *err)
{
    det_report r = {.kind = DET_REPORT_VALIDATION,
                    .batches = run->state.batches,
                    .epochs = run->state.epochs,
                    .progress = training_progress(run),
                    .metrics = run->validation,
                    .n_batches = det_metrics_rows(run->validation_rows),
                    .n_records = n_records,
                    .seconds = seconds};
    return run->host->ops->report(run->host, &r, err);
}

int training_take_validation(struct training *run, int64_t n_records, double seconds, bool *wanted,
                             det_err *err)
{
    double metric;
    int rc = find_metric(run, &metric, err);
    if (rc) return rc;
    run->state.last_validation = run->state.batches;
    CALLBACKS(run->ctx, rc, err, on_validation_end, run->validation, err);
    if (rc) return rc;
    bool best = is_best(run, metric);
    keep_best(run, metric);
    if (!training_remaining(run) && run->host->ops->completed)
        rc = run->host->ops->completed(run->host, metric, err);
    if (!rc) rc = report(run, n_records, seconds, err);
    training_hint_validation(run);
    det_checkpoint_policy policy = run->opts->checkpoint_policy;
    *wanted = policy == DET_CHECKPOINT_ALL ||
              (policy == DET_CHECKPOINT_BEST && (best || !run->host->metric));
    return rc;
}

int training_validate(struct training *run, det_err *err)
{
    int64_t start_us = clock_mono_us(), n_records = 0;
    bool wanted = false;
    int rc = 0;
    CALLBACKS(run->ctx, rc, err, on_validation_start, err);
    if (!rc) rc = evaluate(run, &n_records, err);
    if (rc) return rc;
    double seconds = (double)(clock_mono_us() - start_us) * 1e-6;
    rc = training_take_validation(run, n_records, seconds, &wanted, err);
    return !rc && wanted ? training_checkpoint(run, err) : rc;
}

int training_conclude(struct training *run, det_err *err)
{
    double metric;
    if (!run->host->ops->completed) return 0;
    if (!det_metrics_rows(run->validation)) return training_validate(run, err); // in another run
    int rc = find_metric(run, &metric, err);
    return rc ? rc : run->host->ops->completed(run->host, metric, err);
}
