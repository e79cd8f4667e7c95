// Unit run_config.c: the numbers of a run, from what was asked for. Called by defaults.c, loop.c.
#include "accel/accel.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// The smaller limit counts. Updates are counted over all processes. Without a limit the maximum is
// one more than the run has, so that it is never what ends it.
static void resolve_length(det_accel_run_config *c, const det_accel_train_opts *asked)
{
    int64_t steps = c->num_update_steps_per_epoch, max = asked->max_num_train_steps;
    c->num_epochs = asked->num_epochs > 0 ? asked->num_epochs : 0;
    c->max_num_train_steps = max > 0 ? max : c->num_epochs * steps + 1;
    if (max < 0 || !steps) return;
    int64_t needed = ceil_div(max, steps);
    if (!c->num_epochs || needed < c->num_epochs) c->num_epochs = needed;
}

void run_config_resolve(det_accel_run_config *c, const det_accel_train_opts *asked)
{
    c->gradient_accumulation_steps = asked->gradient_accumulation_steps;
    c->gradient_clip_value = asked->gradient_clip_value;
    c->train_total_batch_size =
        c->train_per_device_batch_size * c->num_processes * c->gradient_accumulation_steps;
    c->eval_total_batch_size = c->eval_per_device_batch_size * c->num_processes;
    c->num_local_update_steps_per_epoch =
        ceil_div(c->train_dataloader_len, c->gradient_accumulation_steps);
    c->num_update_steps_per_epoch =
        ceil_div(c->train_dataloader_len * c->num_processes, c->gradient_accumulation_steps);
    c->is_distributed = c->num_processes > 1;
    resolve_length(c, asked);
}

int run_config_check_eval(const det_accel_run_config *c, int64_t n_samples, const char **warning,
                          det_err *err)
{
    *warning = NULL;
    if (!c->is_distributed) return det_ok(err);
    int64_t total = c->eval_total_batch_size, last = n_samples % total;
    if (total > n_samples)
        return det_fail(err, DET_EINVAL,
                        "evaluation: a batch of all %d processes has %lld samples, the dataset "
                        "only %lld: choose a smaller batch size",
                        c->num_processes, (long long)total, (long long)n_samples);
    if (last && last <= total - c->eval_per_device_batch_size)
        *warning = "the last evaluation batch leaves a process without samples";
    else if (last)
        *warning = "the last evaluation batch of one process is smaller than that of the others";
    return det_ok(err);
}

double run_config_loss_factor(const det_accel_run_config *c, int64_t window, bool has_num_items)
{
    // Averaging gradients over processes would divide a loss that is already divided by the items
    // of all of them once more.
    bool undo = has_num_items && c->is_distributed && c->gradient_accumulation_steps > 1;
    return (undo ? c->num_processes : 1) / (double)window;
}

static det_value *loader_opts_dict(const det_loader_opts *o)
{
    det_value *dict = det_value_dict();
    det_value_set(dict, "batch_size", det_value_int(o->batch_size));
    det_value_set(dict, "shuffle", det_value_bool(o->shuffle));
    det_value_set(dict, "drop_last", det_value_bool(o->drop_last));
    det_value_set(dict, "num_workers", det_value_int(o->num_workers));
    return dict;
}

det_value *det_accel_run_config_to_dict(const det_accel_run_config *c)
{
    if (!c) return NULL;
    det_value *d = det_value_dict();
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {
        {"num_epochs", c->num_epochs},
        {"train_per_device_batch_size", c->train_per_device_batch_size},
        {"eval_per_device_batch_size", c->eval_per_device_batch_size},
        {"gradient_accumulation_steps", c->gradient_accumulation_steps},
        {"train_total_batch_size", c->train_total_batch_size},
        {"eval_total_batch_size", c->eval_total_batch_size},
        {"train_dataloader_len", c->train_dataloader_len},
        {"eval_dataloader_len", c->eval_dataloader_len},
        {"num_update_steps_per_epoch", c->num_update_steps_per_epoch},
        {"num_local_update_steps_per_epoch", c->num_local_update_steps_per_epoch},
        {"max_num_train_steps", c->max_num_train_steps},
        {"num_processes", c->num_processes},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        det_value_set(d, counts[i].key, det_value_int(counts[i].value));
    det_value_set(d, "train_dl_kwargs", loader_opts_dict(&c->train_dl_kwargs));
    det_value_set(d, "eval_dl_kwargs", loader_opts_dict(&c->eval_dl_kwargs));
    det_value_set(d, "gradient_clip_value",
                  isinf(c->gradient_clip_value) ? det_value_none()
                                                : det_value_float(c->gradient_clip_value));
    det_value_set(d, "is_local_process_zero", det_value_bool(c->is_local_process_zero));
    det_value_set(d, "is_world_process_zero", det_value_bool(c->is_world_process_zero));
    det_value_set(d, "is_distributed", det_value_bool(c->is_distributed));
    det_value_set(d, "mixed_precision", det_value_str(c->mixed_precision));
    return d;
}
