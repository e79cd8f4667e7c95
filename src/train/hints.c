// Unit hints.c: warnings about what is allowed, and rarely meant.
#include "train/training.h"

// A batch that does not divide by the number of slots is smaller for all of them.
static void warn_of_rest(struct training *run)
{
    int64_t size = run->ctx->setup.size,
            batch = run->engine->loader_batch_size(run->trial->training);
    if (size < 2 || !det_config_has(&run->ctx->hparams, "global_batch_size")) return;
    int64_t global = det_hparam_int(run->ctx, "global_batch_size");
    int64_t seen = batch * size;
    if (batch == global / size && seen != global)
        training_warn(run,
                      "global_batch_size is %lld, but %lld slots with %lld records each see %lld",
                      (long long)global, (long long)size, (long long)batch, (long long)seen);
}

// What an optimizer changes and no model has is not in checkpoints either.
static void warn_of_params_outside(struct training *run)
{
    const det_context *ctx = run->ctx;
    for (int i = 0; i < ctx->n_optimizers; i++) {
        int n = run->engine->n_params_outside(ctx->optimizers[i].opt, ctx->models, ctx->n_models);
        if (n)
            training_warn(run,
                          "%d parameter%s of optimizer %d %s in no wrapped model (det_wrap_model): "
                          "checkpoints are without %s",
                          n, n == 1 ? "" : "s", i, n == 1 ? "is" : "are", n == 1 ? "it" : "them");
    }
}

void training_hint_start(struct training *run)
{
    warn_of_rest(run);
    warn_of_params_outside(run);
}

// Once: what is no number usually stays so, and nothing that is learnt from it is of use.
static void warn_of_nan(struct training *run)
{
    int column;
    int64_t row = run->has_nan ? -1 : metrics_find_nan(run->batch_rows, &column);
    if (row < 0) return;
    run->has_nan = true;
    training_warn(run, "metric '%s' of batch %lld is not a number; is the learning rate too high?",
                  det_metrics_name(run->batch_rows, column),
                  (long long)run->state.batches - det_metrics_rows(run->batch_rows) + row);
}

void training_hint_workload(struct training *run)
{
    warn_of_nan(run);
}

void training_hint_validation(struct training *run)
{
    int column;
    if (run->has_nan || metrics_find_nan(run->validation, &column) < 0) return;
    run->has_nan = true;
    training_warn(run,
                  "validation metric '%s' is not a number; is the learning rate too high, or a "
                  "validation sample not a number?",
                  det_metrics_name(run->validation, column));
}
