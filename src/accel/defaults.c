// Unit defaults.c: what each step of the trainer does unless it is replaced.
#include "accel/accel.h"

// --- setup

// A sampler gives an order of its own.
static det_loader_opts merged(det_loader_opts o, const det_accel_dl_kwargs *kwargs)
{
    o.borrow_dataset = true;
    if (!kwargs) return o;
    if (kwargs->batch_size >= 0) o.batch_size = kwargs->batch_size;
    if (kwargs->num_workers >= 0) o.num_workers = kwargs->num_workers;
    if (kwargs->prefetch >= 0) o.prefetch = kwargs->prefetch;
    if (kwargs->seed >= 0) o.seed = (uint64_t)kwargs->seed;
    if (kwargs->collate) o.collate = kwargs->collate, o.collate_user = kwargs->collate_user;
    if (kwargs->sampler) o.sampler = kwargs->sampler;
    o.drop_last = o.drop_last || kwargs->drop_last;
    o.shuffle = o.shuffle && !o.sampler;
    return o;
}

// One thread prepares batches while the others compute; upstream's one process per core would take
// the cores from them.
static det_loader_opts get_default_train_dl_kwargs(det_accel *t, int64_t batch_size)
{
    return (det_loader_opts){
        .batch_size = batch_size, .shuffle = t->shuffle, .num_workers = 1, .seed = t->seed};
}

static det_loader_opts get_default_eval_dl_kwargs(det_accel *t, int64_t batch_size)
{
    return (det_loader_opts){.batch_size = batch_size, .num_workers = 1, .seed = t->seed};
}

static det_loader *create_train_dataloader(det_accel *t, int64_t batch_size,
                                           const det_accel_dl_kwargs *kwargs)
{
    t->train_dl_kwargs = merged(t->ops.get_default_train_dl_kwargs(t, batch_size), kwargs);
    return det_loader_new_with(t->train_dataset, t->train_dl_kwargs);
}

static det_loader *create_eval_dataloader(det_accel *t, int64_t batch_size,
                                          const det_accel_dl_kwargs *kwargs)
{
    t->eval_dl_kwargs = merged(t->ops.get_default_eval_dl_kwargs(t, batch_size), kwargs);
    return det_loader_new_with(t->eval_dataset, t->eval_dl_kwargs);
}

static det_lr_scheduler *create_scheduler(det_accel *t)
{
    return t->create_scheduler ? t->create_scheduler(t->optimizer, &t->config) : NULL;
}

// --- hooks

static void nothing(det_accel *t)
{
    (void)t;
}

static void train_epoch_start(det_accel *t)
{
    det_module_train(t->model, true);
}

static void eval_epoch_start(det_accel *t)
{
    det_module_train(t->model, false);
}

static det_accel_batch_output calculate_batch_loss(det_accel *t, const det_value *batch)
{
    det_tensor *outputs = det_forward(t->model, det_batch_at(batch, 0));
    det_tensor *targets = det_batch_at(batch, 1);
    return (det_accel_batch_output){.loss = t->loss_func(outputs, targets, t->loss_opts),
                                    .model_outputs = outputs,
                                    .batch_size = det_size(targets, 0)};
}

static void backward_step(det_accel *t, det_tensor *loss)
{
    (void)t;
    det_backward(loss);
}

static void optimizer_step(det_accel *t)
{
    det_optim_step(t->optimizer);
}

// Schedules are laid out over the updates of all processes (num_update_steps_per_epoch).
static void scheduler_step(det_accel *t)
{
    for (int i = 0; i < t->config.num_processes; i++)
        det_lr_scheduler_step(t->scheduler);
}

static void optimizer_zero_grad(det_accel *t)
{
    det_optim_zero_grad(t->optimizer);
}

// --- internal

// All processes draw other random numbers; weights are the same in all of them.
static void prepare_model_and_optimizer(det_accel *t)
{
    det_manual_seed(t->seed + (uint64_t)processes_rank(t));
    det_optim_zero_grad(t->optimizer);
}

// Process r of n has batches r, r + n, ... of an epoch. Those that update together must have the
// same number of them; in an evaluation every batch counts.
static int64_t local_length(const det_accel *t, const det_loader *loader, bool even)
{
    int n = processes_count(t);
    return (det_loader_length(loader) + (even ? 0 : n - 1 - processes_rank(t))) / n;
}

static det_accel_run_config create_run_config(det_accel *t, const det_accel_train_opts *asked)
{
    det_accel_run_config c = {
        .num_processes = processes_count(t),
        .train_dl_kwargs = t->train_dl_kwargs,
        .eval_dl_kwargs = t->eval_dl_kwargs,
        .train_per_device_batch_size = det_loader_batch_size(t->train_loader),
        .eval_per_device_batch_size = det_loader_batch_size(t->eval_loader),
        .train_dataloader_len = local_length(t, t->train_loader, true),
        .eval_dataloader_len = local_length(t, t->eval_loader, false),
        .is_local_process_zero = processes_rank(t) == 0,
        .is_world_process_zero = processes_rank(t) == 0,
        .mixed_precision = t->bf16 ? "bf16" : "no",
    };
    run_config_resolve(&c, asked);
    return c;
}

static void clip_gradients(det_accel *t)
{
    det_optim_clip_grad_value(t->optimizer, t->config.gradient_clip_value);
}

const det_accel_ops det_accel_default = {
    .create_train_dataloader = create_train_dataloader,
    .get_default_train_dl_kwargs = get_default_train_dl_kwargs,
    .create_eval_dataloader = create_eval_dataloader,
    .get_default_eval_dl_kwargs = get_default_eval_dl_kwargs,
    .create_scheduler = create_scheduler,
    .training_run_start = nothing,
    .training_run_epoch_end = nothing,
    .training_run_end = nothing,
    .train_epoch_start = train_epoch_start,
    .calculate_train_batch_loss = calculate_batch_loss,
    .backward_step = backward_step,
    .optimizer_step = optimizer_step,
    .scheduler_step = scheduler_step,
    .optimizer_zero_grad = optimizer_zero_grad,
    .train_epoch_end = nothing,
    .eval_epoch_start = eval_epoch_start,
    .calculate_eval_batch_loss = calculate_batch_loss,
    .eval_epoch_end = nothing,
    .evaluation_run_start = nothing,
    .evaluation_run_end = nothing,
    .prepare_model_and_optimizer = prepare_model_and_optimizer,
    .prepare_dataloaders = nothing, // the iterators share batches out
    .create_run_config = create_run_config,
    .run_training = loop_run_training,
    .run_train_epoch = loop_run_train_epoch,
    .clip_gradients = clip_gradients,
    .run_eval_epoch = loop_run_eval_epoch,
};
