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

static int64_t *counter(const det_accel *t, int i)
{
    return (int64_t *)((char *)t + counters[i].offset);
}

static det_value *position_dict(const det_accel *t)
{
    det_value *dict = det_value_dict();
    for (int i = 0; i < N_COUNTERS; i++)
        det_value_set(dict, counters[i].key, det_value_int(*counter(t, i)));
    det_value_set(dict, "train_done", det_value_bool(t->train_done));
    det_value_set(dict, "loss_total", det_value_float(t->loss.total));
    det_value_set(dict, "seed", det_value_int((int64_t)t->seed));
    det_value_set(dict, "train_dataloader_len", det_value_int(t->config.train_dataloader_len));
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
    t->loss.total = total;
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

int det_accel_save_training_state(det_accel *t, const char *path, det_err *err)
{
    if (!t || !path) return det_fail(err, DET_EINVAL, "save_training_state: no trainer or no path");
    if (!t->resumable)
        return det_fail(err, DET_ESTATE, "save_training_state: not amid an update or evaluation");
    det_value *dict = checkpoint_dict(t, &(det_accel_save_opts){0});
    det_value_set(dict, "position", position_dict(t));
    det_value_set(dict, "run_history", history_state(t->history));
    det_value_set(dict, "callbacks", callbacks_dict(t));
    int rc = checkpoint_write(t, path, dict, err);
    det_value_free(dict);
    return rc;
}

int training_state_load(det_accel *t, const char *path, det_err *err)
{
    det_value *dict = det_pth_load(path, err);
    if (!dict) return err->code;
    int rc = position_load(t, det_value_get(dict, "position"), err);
    if (!rc) rc = history_load(t->history, det_value_get(dict, "run_history"), err);
    if (!rc) rc = checkpoint_restore(t, dict, &(det_accel_load_opts){0}, err);
    if (!rc) det_accel_history_set_epoch(t->history, t->first_epoch + t->epoch);
    if (!rc) t->callback_states = det_value_copy(det_value_get(dict, "callbacks"));
    if (rc) rc = det_wrap(err, "resume from '%s'", path);
    det_value_free(dict);
    return rc;
}
