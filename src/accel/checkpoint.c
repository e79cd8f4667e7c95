// Unit checkpoint.c: checkpoints: what torch.load gives a PyTorch program, and what we read back.
#include "accel/accel.h"

#include "det/format.h"

static const char MODEL[] = "model_state_dict", OPTIMIZER[] = "optimizer_state_dict",
                  SCHEDULER[] = "scheduler_state_dict";

static void add_entries(det_value *dict, const det_value *more)
{
    for (int i = 0; i < det_value_len(more); i++) {
        int64_t number;
        const char *key = det_value_key(more, i, &number);
        det_value *copy = det_value_copy(det_value_at(more, i));
        if (key)
            det_value_set(dict, key, copy);
        else
            det_value_set_int(dict, number, copy);
    }
}

det_value *checkpoint_dict(const det_accel *t, const det_accel_save_opts *o)
{
    det_value *dict = det_value_dict();
    det_value_set(dict, MODEL, det_module_state_dict(t->model));
    if (o->optimizer) det_value_set(dict, OPTIMIZER, det_optim_state_dict(t->optimizer));
    if (o->scheduler) det_value_set(dict, SCHEDULER, det_lr_scheduler_state_dict(t->scheduler));
    add_entries(dict, o->checkpoint_kwargs);
    return dict;
}

int checkpoint_restore(det_accel *t, const det_value *dict, const det_accel_load_opts *o,
                       det_err *err)
{
    const det_value *optimizer = o->optimizer ? det_value_get(dict, OPTIMIZER) : NULL,
                    *scheduler = o->scheduler ? det_value_get(dict, SCHEDULER) : NULL;
    if (optimizer && !t->optimizer)
        return det_fail(err, DET_ESTATE,
                        "it has an optimizer, the trainer has none: .optimizer = false");
    if (scheduler && !t->scheduler)
        return det_fail(err, DET_ESTATE,
                        "it has a scheduler, the trainer has none: .scheduler = false");
    int rc = det_module_load_state_dict(t->model, det_value_get(dict, MODEL), true, err);
    if (!rc && optimizer) rc = det_optim_load_state_dict(t->optimizer, optimizer, err);
    if (!rc && scheduler) rc = det_lr_scheduler_load_state_dict(t->scheduler, scheduler, err);
    return rc;
}

// All processes are on one machine.
int checkpoint_write(const det_accel *t, const char *path, const det_value *dict, det_err *err)
{
    return processes_rank(t) ? det_ok(err) : det_pth_save(path, dict, err);
}

bool accel_raise(const det_err *err)
{
    det_raise(err->code, "%s", err->msg);
    return false;
}

bool det_accel_save_checkpoint_with(det_accel *t, const char *path, det_accel_save_opts o)
{
    det_err err;
    if (!t || !path) det_raise(DET_EINVAL, "save_checkpoint: no trainer or no path");
    if (sticky_failed()) return false;
    det_value *dict = checkpoint_dict(t, &o);
    int rc = checkpoint_write(t, path, dict, &err);
    det_value_free(dict);
    return rc ? accel_raise(&err) : true;
}

bool det_accel_load_checkpoint_with(det_accel *t, const char *path, det_accel_load_opts o)
{
    det_err err;
    if (!t || !path) det_raise(DET_EINVAL, "load_checkpoint: no trainer or no path");
    if (sticky_failed()) return false;
    det_value *dict = det_pth_load(path, &err);
    if (!dict) return accel_raise(&err);
    int rc = checkpoint_restore(t, dict, &o, &err);
    if (rc) det_wrap(&err, "load_checkpoint '%s'", path);
    if (!rc && o.content)
        *o.content = dict;
    else
        det_value_free(dict);
    return rc ? accel_raise(&err) : true;
}
