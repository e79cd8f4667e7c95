// Unit context_info.c: what a trial may ask its context.
#include "train/context.h"

#include "base/assert.h"
#include "base/str.h"

const det_config *det_context_hparams(const det_context *ctx)
{
    return ctx ? &ctx->hparams : NULL;
}

const det_config *det_context_data_config(const det_context *ctx)
{
    return ctx ? &ctx->data : NULL;
}

const det_config *det_context_experiment_config(const det_context *ctx)
{
    return ctx ? &ctx->experiment : NULL;
}

void *det_context_arg(const det_context *ctx)
{
    return ctx ? ctx->arg : NULL;
}

int64_t det_context_global_batch_size(const det_context *ctx)
{
    return ctx ? det_hparam_int(ctx, "global_batch_size") : 0;
}

int64_t det_context_per_slot_batch_size(const det_context *ctx)
{
    return ctx ? det_context_global_batch_size(ctx) / ctx->setup.size : 0;
}

int det_context_rank(const det_context *ctx)
{
    return ctx ? ctx->setup.rank : 0;
}

int det_context_size(const det_context *ctx)
{
    return ctx ? ctx->setup.size : 0;
}

int64_t det_context_trial_id(const det_context *ctx)
{
    return ctx ? ctx->setup.trial_id : 0;
}

int64_t det_context_experiment_id(const det_context *ctx)
{
    return ctx ? ctx->setup.experiment_id : 0;
}

uint64_t det_context_trial_seed(const det_context *ctx)
{
    return ctx ? ctx->setup.seed : 0;
}

int64_t det_context_initial_batch(const det_context *ctx)
{
    return ctx ? ctx->initial_batch : 0;
}

// --- position

static bool has_position(const det_context *ctx, const char *function)
{
    if (ctx && ctx->batch_idx >= 0) return true;
    det_raise(DET_ESTATE, "%s: training has not begun", function);
    return false;
}

int64_t det_context_current_epoch(const det_context *ctx)
{
    if (!has_position(ctx, "det_context_current_epoch")) return 0;
    return ctx->batch_idx / ctx->epoch_length;
}

int64_t det_context_current_batch(const det_context *ctx)
{
    return has_position(ctx, "det_context_current_batch") ? ctx->batch_idx : 0;
}

bool det_context_is_epoch_start(const det_context *ctx)
{
    return has_position(ctx, "det_context_is_epoch_start") &&
           ctx->batch_idx % ctx->epoch_length == 0;
}

bool det_context_is_epoch_end(const det_context *ctx)
{
    return has_position(ctx, "det_context_is_epoch_end") &&
           (ctx->batch_idx + 1) % ctx->epoch_length == 0;
}

const char *det_context_metric(const det_context *ctx, bool *larger_is_better)
{
    if (larger_is_better) *larger_is_better = ctx && ctx->larger_is_better;
    return ctx ? ctx->metric : NULL;
}

void det_context_set_metadata(det_context *ctx, const char *key, const char *text)
{
    if (!ctx || !key || !text) {
        det_raise(DET_EINVAL, "det_context_set_metadata: context, key and text must be given");
        return;
    }
    static const struct str reserved[] = {STR("steps_completed"), STR("framework"), STR("format")};
    for (size_t i = 0; i < STATIC_LEN(reserved); i++)
        if (str_eq(reserved[i], str_from(key))) {
            det_raise(DET_EINVAL, "det_context_set_metadata: '%s' is set by the loop", key);
            return;
        }
    if (!ctx->metadata) ctx->metadata = det_value_dict();
    det_value_set(ctx->metadata, key, det_value_str(text));
}

void det_context_set_stop_requested(det_context *ctx, bool stop)
{
    if (ctx) ctx->stop_requested = stop;
}
