// Unit patience.c: when to stop because nothing gets better. Called by early_stopping.c and by the
// accelerated trainer.
#include "callbacks/callbacks.h"

bool patience_take(struct patience *p, double value, int64_t epoch)
{
    if (watch_is_best(&p->watch, value, p->threshold)) {
        watch_take(&p->watch, value, epoch);
        p->n_bad = 0;
    } else {
        p->n_bad++;
    }
    return p->n_bad >= p->patience;
}

det_value *patience_state(const struct patience *p)
{
    det_value *dict = watch_state(&p->watch);
    det_value_set(dict, "n_bad", det_value_int(p->n_bad));
    return dict;
}

int patience_load(struct patience *p, const det_value *state, det_err *err)
{
    int rc = watch_load(&p->watch, state, err);
    return rc ? rc : det_value_as_int(det_value_get(state, "n_bad"), &p->n_bad, err);
}
