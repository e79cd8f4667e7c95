// Unit loop.c: the order of things: a run, its epochs, their batches. Called by train.c.
//
// A step that fails, or a callback that stops the run, is noticed before the next step or event:
// STEP and EVENT do nothing from then on, so the functions below read as if nothing could happen.
#include "accel/accel.h"

#include "base/assert.h"
#include <math.h>

void loss_tracker_update(struct loss_tracker *l, double loss, int64_t n)
{
    l->total += loss * (double)n;
    l->count += n;
}

double loss_tracker_average(const struct loss_tracker *l)
{
    return l->count ? l->total / (double)l->count : NAN;
}

bool accel_running(const det_accel *t)
{
    return !t->stopping && !t->leaving && !sticky_failed();
}

void accel_note_callback(det_accel *t, const char *name)
{
    if (!t->failed_callback && sticky_failed()) t->failed_callback = name;
}

// --- an epoch's batches

static det_iter *epoch_iter(det_accel *t, det_loader *loader, uint64_t epoch, int64_t skip)
{
    return det_loader_iter(loader, .epoch = epoch, .skip = skip, .replicas = processes_count(t),
                           .rank = processes_rank(t));
}

static const det_value *next_batch(const det_accel *t, det_iter *it)
{
    if (t->step >= t->n_steps || !accel_running(t)) return NULL;
    det_err err = {0};
    const det_value *batch = det_iter_next(it, &err);
    if (!batch && err.code) det_raise(err.code, "%s", err.msg);
    return batch;
}

static int64_t limited(int64_t n, int64_t limit)
{
    return limit && limit < n ? limit : n;
}

static det_accel_batch_output calculate(det_accel *t, const det_value *batch,
                                        det_accel_batch_output (*loss_of)(det_accel *,
                                                                          const det_value *))
{
    bool before = det_set_autocast(t->bf16);
    det_accel_batch_output out = loss_of(t, batch);
    det_set_autocast(before);
    if (!out.loss) det_raise(DET_EINVAL, "a batch was calculated without a loss");
    t->batch_loss = det_item(out.loss);
    if (accel_running(t)) loss_tracker_update(&t->loss, t->batch_loss, out.batch_size);
    return out;
}

static void record_loss(det_accel *t, const char *metric)
{
    struct loss_tracker all = processes_sum_losses(t, t->loss);
    if (accel_running(t)) det_accel_history_update(t->history, metric, loss_tracker_average(&all));
}

// --- training

// Batches of the update that this one belongs to. Updates start afresh each epoch and the last one
// may be shorter: its loss is divided by its real length, or its gradients would be too small.
static int64_t window_of(const det_accel *t)
{
    int64_t size = t->config.gradient_accumulation_steps, start = t->step - t->step % size;
    return MIN(size, t->n_steps - start);
}

static bool ends_window(const det_accel *t)
{
    return (t->step + 1) % t->config.gradient_accumulation_steps == 0 || t->step + 1 == t->n_steps;
}

static void train_batch(det_accel *t, const det_value *batch)
{
    det_accel_batch_output out = calculate(t, batch, t->ops.calculate_train_batch_loss);
    double factor = run_config_loss_factor(&t->config, window_of(t), out.num_items_in_batch);
    if (factor != 1) out.loss = det_mul_scalar(out.loss, factor);
    EVENT(t, on_train_step_end, batch, &out);
    STEP(t, backward_step, out.loss);
}

// Gradients are cut once, when they are complete: cutting sums on the way gives other sums.
static void update(det_accel *t)
{
    processes_average_gradients(t);
    if (isfinite(t->config.gradient_clip_value)) STEP(t, clip_gradients);
    STEP(t, optimizer_step);
    if (t->scheduler) STEP(t, scheduler_step);
    STEP(t, optimizer_zero_grad);
    t->updates++;
}

static bool has_max_updates(const det_accel *t)
{
    bool is_task = t->run && own_trainer_is_task(t->trainer); // its searcher says how long
    return !is_task && t->updates * t->config.num_processes >= t->config.max_num_train_steps;
}

static bool is_at_end(const det_accel *t)
{
    return has_max_updates(t) || !hosted_wants_more(t);
}

static void train_step(det_accel *t, const det_value *batch)
{
    det_scope_begin();
    det_rng_set_step((uint64_t)t->n_batches);
    t->resumable = t->step % t->config.gradient_accumulation_steps == 0;
    EVENT(t, on_train_step_start);
    t->resumable = false;
    int64_t n_before = t->loss.count;
    if (accel_running(t)) train_batch(t, batch);
    if (accel_running(t) && ends_window(t)) update(t);
    det_scope_end();
    if (!accel_running(t)) return;
    t->n_batches++;
    t->step++;
    hosted_batch_end(t, t->batch_loss, t->loss.count - n_before);
}

void loop_run_train_epoch(det_accel *t, det_loader *loader)
{
    t->place = (struct place){t->epoch + 1, NULL, true};
    t->n_steps = limited(t->config.train_dataloader_len, t->limit_batches);
    STEP(t, train_epoch_start);
    EVENT(t, on_train_epoch_start);
    hosted_train_epoch_start(t);
    // Runs that continue a history continue the order of samples, too.
    uint64_t epoch = (uint64_t)(t->first_epoch - 1 + t->epoch);
    det_iter *it = epoch_iter(t, loader, epoch, t->step);
    for (const det_value *batch; !is_at_end(t) && (batch = next_batch(t, it));)
        train_step(t, batch);
    det_iter_free(it);
    STEP(t, train_epoch_end);
    record_loss(t, "train_loss_epoch");
    if (!accel_running(t)) return;
    t->train_done = t->resumable = true;
    EVENT(t, on_train_epoch_end);
    t->resumable = false;
    hosted_train_epoch_end(t);
}

// --- evaluation

static const char *eval_metric(const det_accel *t)
{
    static const char *const names[] = {[EVAL_OF_EPOCH] = "eval_loss_epoch",
                                        [EVAL_INTERMEDIATE] = "intermediate_eval_loss",
                                        [EVAL_ALONE] = "evaluation_loss"};
    return names[t->eval_kind];
}

static void eval_step(det_accel *t, const det_value *batch)
{
    det_scope_begin();
    EVENT(t, on_eval_step_start);
    if (accel_running(t)) {
        det_accel_batch_output out = calculate(t, batch, t->ops.calculate_eval_batch_loss);
        EVENT(t, on_eval_step_end, batch, &out);
    }
    det_scope_end();
    if (accel_running(t)) t->step++;
}

static void rewind_epoch(det_accel *t)
{
    t->step = 0;
    t->loss = (struct loss_tracker){0};
}

void loop_run_eval_epoch(det_accel *t, det_loader *loader)
{
    rewind_epoch(t);
    t->place = (struct place){t->eval_kind == EVAL_ALONE ? 0 : t->epoch + 1, "evaluation", true};
    t->n_steps = limited(t->config.eval_dataloader_len, t->limit_batches);
    hosted_eval_start(t);
    STEP(t, eval_epoch_start);
    EVENT(t, on_eval_epoch_start);
    bool grads = det_set_grad_enabled(false);
    det_iter *it = epoch_iter(t, loader, 0, 0);
    for (const det_value *batch; (batch = next_batch(t, it));)
        eval_step(t, batch);
    det_iter_free(it);
    det_set_grad_enabled(grads);
    STEP(t, eval_epoch_end);
    record_loss(t, eval_metric(t));
    EVENT(t, on_eval_epoch_end);
    hosted_eval_end(t);
}

static void eval_amid(det_accel *t, enum eval_kind kind)
{
    int64_t step = t->step, n_steps = t->n_steps;
    struct loss_tracker loss = t->loss;
    struct place place = t->place;
    t->eval_kind = kind;
    STEP(t, run_eval_epoch, t->eval_loader);
    if (sticky_failed()) return; // the message will be about this evaluation
    t->place = place;
    t->step = step;
    t->n_steps = n_steps;
    t->loss = loss;
    t->eval_kind = EVAL_OF_EPOCH;
    det_module_train(t->model, true);
}

void loop_run_intermediate_eval(det_accel *t)
{
    eval_amid(t, EVAL_INTERMEDIATE);
}

void loop_run_eval_amid(det_accel *t)
{
    eval_amid(t, EVAL_OF_EPOCH);
}

// --- runs

static void run_epoch(det_accel *t)
{
    if (!t->train_done) STEP(t, run_train_epoch, t->train_loader);
    if (t->eval_loader && !hosted_has_evaluated(t)) STEP(t, run_eval_epoch, t->eval_loader);
    if (accel_running(t)) t->place = (struct place){t->epoch + 1, NULL, false};
    STEP(t, training_run_epoch_end);
    if (!accel_running(t)) return;
    t->epoch++;
    t->train_done = false;
    rewind_epoch(t);
    t->resumable = true;
    EVENT(t, on_training_run_epoch_end);
    t->resumable = false;
    hosted_epoch_end(t);
    if (!accel_running(t)) return;
    det_accel_history_set_epoch(t->history, det_accel_history_current_epoch(t->history) + 1);
}

// What stopped the run is told once; then the run ends as any other.
static void announce_stop(det_accel *t)
{
    if (!t->stopping) return;
    t->stopping = false;
    det_accel_print(t, "%s", t->stop_message);
    if (t->run) hosted_stop(t);
    EVENT(t, on_stop_training_error);
}

void loop_run_training(det_accel *t)
{
    STEP(t, training_run_start);
    EVENT(t, on_training_run_start);
    training_state_resume_callbacks(t);
    hosted_go_on(t);
    while (accel_running(t) && !is_at_end(t))
        run_epoch(t);
    if (accel_running(t) && has_max_updates(t))
        det_accel_print(t, "Reached the maximum of %lld training steps",
                        (long long)t->config.max_num_train_steps);
    announce_stop(t);
    STEP(t, training_run_end);
    t->resumable = true;
    EVENT(t, on_training_run_end);
    t->resumable = false;
}

void loop_run_evaluation(det_accel *t)
{
    t->eval_kind = EVAL_ALONE;
    STEP(t, evaluation_run_start);
    EVENT(t, on_evaluation_run_start);
    STEP(t, run_eval_epoch, t->eval_loader);
    announce_stop(t);
    STEP(t, evaluation_run_end);
    EVENT(t, on_evaluation_run_end);
}
