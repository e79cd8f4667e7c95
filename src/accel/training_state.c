// Unit training_state.c: saves a run and resumes it at the very same place. Called by train.c.
//
// Random numbers need no saving: they are a function of the seed and the number of the batch.
#include "accel/accel.h"

#include "det/format.h"

enum { STEP_COUNTER = 1 };

static const struct {
    const char *key;
    size_t offset;
} counters[] = {
    {"epoch", offsetof(det_accel, epoch)},
    [STEP_COUNTER] = {"step", offsetof(det_accel, step)},
    {"n_batches", offsetof(det_accel, n_batches)},
    {"updates", offsetof(det_accel, updates)},
    {"first_epoch", offsetof(det_accel, first_epoch)},
    {"loss_count", offsetof(det_accel, loss.count)},
};

enum { N_COUNTERS = sizeof counters / sizeof *counters };

static const int64_t COUNTER_MAX = INT64_C(1) << 53;

static int64_t *counter(det_accel *t, int i)
{
    return (int64_t *)((char *)t + counters[i].offset);
}

// Losses are those of all processes, for the first one to go on with.
static det_value *position_dict(det_accel *t)
{
    det_value *dict = det_value_dict();
    struct loss_tracker mine = t->loss;
    t->loss = processes_sum_losses(t, t->loss);
    for (int i = 0; i < N_COUNTERS; i++)
        det_value_set(dict, counters[i].key, det_value_int(*counter(t, i)));
    det_value_set(dict, "train_done", det_value_bool(t->train_done));
    det_value_set(dict, "eval_batch", det_value_int(t->eval_batch));
    det_value_set(dict, "loss_total", det_value_float(t->loss.total));
    det_value_set(dict, "seed", det_value_int((int64_t)t->seed));
    det_value_set(dict, "train_dataloader_len", det_value_int(t->config.train_dataloader_len));
    t->loss = mine;
    return dict;
}

static int counters_load(const det_value *dict, int64_t *out, det_err *err)
{
    for (int i = 0; i < N_COUNTERS; i++) {
        int rc = det_value_as_int(det_value_get(dict, counters[i].key), &out[i], err);
        if (rc) return det_wrap(err, "%s", counters[i].key);
        if (out[i] < 0 || out[i] > COUNTER_MAX)
            return det_fail(err, DET_ECORRUPT, "%s is %lld", counters[i].key, (long long)out[i]);
    }
    return 0;
}

// The order of samples must be that of the run that was saved, or the rest of its epoch would be
// another one.
static int check_order(const det_accel *t, const det_value *dict, int64_t step, det_err *err)
{
    int64_t seed, n_batches;
    int rc = det_value_as_int(det_value_get(dict, "seed"), &seed, err);
    if (!rc) rc = det_value_as_int(det_value_get(dict, "train_dataloader_len"), &n_batches, err);
    if (rc) return rc;
    if ((uint64_t)seed != t->seed)
        return det_fail(err, DET_EINVAL, "it has seed %lld, the trainer %llu", (long long)seed,
                        (unsigned long long)t->seed);
    if (step && n_batches != t->config.train_dataloader_len)
        return det_fail(err, DET_EINVAL, "it is amid an epoch of %lld batches, here are %lld",
                        (long long)n_batches, (long long)t->config.train_dataloader_len);
    return 0;
}

// Files of before do not have it: after whole epochs there was an evaluation.
static void eval_batch_load(det_accel *t, const det_value *dict)
{
    const det_value *saved = det_value_get(dict, "eval_batch");
    t->eval_batch = t->step || t->train_done ? -1 : t->n_batches;
    if (saved) det_value_as_int(saved, &t->eval_batch, NULL);
}

static int position_load(det_accel *t, const det_value *dict, det_err *err)
{
    int64_t value[N_COUNTERS];
    bool train_done;
    double total;
    int rc = counters_load(dict, value, err);
    if (!rc) rc = check_order(t, dict, value[STEP_COUNTER], err);
    if (!rc) rc = det_value_as_bool(det_value_get(dict, "train_done"), &train_done, err);
    if (!rc) rc = det_value_as_float(det_value_get(dict, "loss_total"), &total, err);
    if (rc) return rc;
    for (int i = 0; i < N_COUNTERS; i++)
        *counter(t, i) = value[i];
    t->train_done = train_done;
    eval_batch_load(t, dict);
    t->loss.total = total;
    if (processes_rank(t)) t->loss = (struct loss_tracker){0};
    return det_ok(err);
}

static det_value *callbacks_dict(const det_accel *t)
{
    det_value *dict = det_value_dict();
    for (int i = 0; i < t->callbacks.n; i++) {
        const det_accel_callback *c = t->callbacks.item[i];
        if (c->ops->state_dict) det_value_set(dict, c->ops->name, c->ops->state_dict(c->self));
    }
    return dict;
}

// A callback that was not there then starts afresh.
void training_state_resume_callbacks(det_accel *t)
{
    for (int i = 0; i < t->callbacks.n; i++) {
        const det_accel_callback *c = t->callbacks.item[i];
        const det_value *state = det_value_get(t->callback_states, c->ops->name);
        det_err err;
        if (state && c->ops->load_state_dict && c->ops->load_state_dict(c->self, state, &err))
            det_raise(err.code, "resume: %s: %s", c->ops->name, err.msg);
    }
    det_value_free(t->callback_states);
    t->callback_states = NULL;
}

void training_state_put(det_accel *t, det_value *dict)
{
    det_value_set(dict, "position", position_dict(t));
    det_value_set(dict, "run_history", history_state(t->history));
    det_value_set(dict, "callbacks", callbacks_dict(t));
}

int training_state_take(det_accel *t, const det_value *dict, det_err *err)
{
    int rc = position_load(t, det_value_get(dict, "position"), err);
    if (!rc) rc = history_load(t->history, det_value_get(dict, "run_history"), err);
    if (rc) return rc;
    det_accel_history_set_epoch(t->history, t->first_epoch + t->epoch);
    det_value_free(t->callback_states);
    t->callback_states = det_value_copy(det_value_get(dict, "callbacks"));
    return 0;
}

bool det_accel_save_training_state(det_accel *t, const char *path)
{
    det_err err;
    if (!t || !path) det_raise(DET_EINVAL, "save_training_state: no trainer or no path");
    if (t && !t->resumable)
        det_raise(DET_ESTATE, "save_training_state: not amid an update or evaluation");
    if (sticky_failed()) return false;
    det_value *dict =
        checkpoint_dict(t, &(det_accel_save_opts){.optimizer = true, .scheduler = true});
    training_state_put(t, dict);
    int rc = checkpoint_write(t, path, dict, &err);
    det_value_free(dict);
    return rc ? accel_raise(&err) : true;
}

int training_state_load(det_accel *t, const char *path, det_err *err)
{
    det_value *dict = det_pth_load(path, err);
    if (!dict) return err->code;
    int rc = training_state_take(t, dict, err);
    if (!rc)
        rc = checkpoint_restore(t, dict,
                                &(det_accel_load_opts){.optimizer = true, .scheduler = true}, err);
    if (rc) rc = det_wrap(err, "resume from '%s'", path);
    det_value_free(dict);
    return rc;
}
