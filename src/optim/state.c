// Unit state.c: state dicts of optimizers, in torch's layout.
//
//     {"state": {0: {"step": tensor(3.), "exp_avg": ...}, ...},
//      "param_groups": [{"lr": 0.001, ..., "params": [0, 1, ...]}, ...]}
#include "optim/optimizer.h"

// --- saving

// The part of a state block that belongs to parameter i, with its shape.
static det_tensor *state_view(const struct group *g, int state, int i)
{
    const det_tensor *t = g->param[i].tensor;
    int64_t from = g->flat.offset[i];
    det_tensor *piece = det_slice(g->state[state], 0, from, from + det_numel(t), 1);
    return det_view(piece, det_shape(t), det_ndim(t));
}

static det_value *step_value(enum step_form form, int64_t step)
{
    if (form == STEP_AS_INT) return det_value_int(step);
    return det_value_tensor(det_scalar((double)step));
}

static det_value *param_dict(const struct optim_kind *kind, const struct group *g, int i)
{
    const struct param *p = &g->param[i];
    det_value *dict = det_value_dict();
    if (kind->step_form != STEP_NOT_SAVED)
        det_value_set(dict, "step", step_value(kind->step_form, p->step));
    for (int s = 0; kind->state[s]; s++) {
        if (p->has >> s & 1)
            det_value_set(dict, kind->state[s], det_value_tensor(state_view(g, s, i)));
        else if (kind->saves_none)
            det_value_set(dict, kind->state[s], det_value_none());
    }
    return dict;
}

static det_value *group_dict(const struct optim_kind *kind, const struct group *g, int first_id)
{
    det_value *dict = det_value_dict(), *ids = det_value_list();
    settings_save(kind->settings, &g->hyper, 0, dict);
    settings_save(schedule_settings, &g->hyper, 0, dict);
    for (int i = 0; i < g->n; i++)
        det_value_push(ids, det_value_int(first_id + i));
    det_value_set(dict, "params", ids);
    return dict;
}

det_value *det_optim_state_dict(const det_optimizer *opt)
{
    if (!opt) return NULL;
    det_value *dict = det_value_dict(), *groups = det_value_list();
    det_value *state = det_value_set(dict, "state", det_value_dict());
    det_scope_begin();
    for (int k = 0, id = 0; k < opt->n_groups; k++) {
        const struct group *g = opt->group[k];
        det_value_push(groups, group_dict(opt->kind, g, id));
        for (int i = 0; i < g->n; i++, id++)
            if (g->param[i].step || g->param[i].has)
                det_value_set_int(state, id, param_dict(opt->kind, g, i));
    }
    det_scope_end();
    det_value_set(dict, "param_groups", groups);
    return dict;
}

// --- loading
// Everything is gone through twice: the first time only checks, so that a failure changes nothing.

static int load_step(const det_value *v, int64_t *step, det_err *err)
{
    det_tensor *t = det_value_as_tensor(v);
    if (!t) return value_as_count(v, step, err);
    if (det_numel(t) != 1) return det_fail(err, DET_ESHAPE, "not a single number");
    *step = (int64_t)det_item(t);
    return 0;
}

static int load_tensor(const struct optim_kind *kind, struct group *g, int i, int state,
                       const det_value *v, bool commit, det_err *err)
{
    if (det_value_kind(v) == DET_KIND_NONE) return 0; // or missing
    det_tensor *from = det_value_as_tensor(v);
    char have[96], want[96];
    if (!from)
        return det_fail(err, DET_EINVAL, "%s is a %s, not a tensor", kind->state[state],
                        det_kind_name(det_value_kind(v)));
    if (!same_shape(from, g->param[i].tensor))
        return det_fail(err, DET_ESHAPE, "%s is %s, the parameter %s", kind->state[state],
                        det_describe(from, have, sizeof have),
                        det_describe(g->param[i].tensor, want, sizeof want));
    if (!commit) return 0;
    if (group_allocate_state(kind, g, 1u << state)) return DET_ENOMEM;
    det_copy_(state_view(g, state, i), from);
    g->param[i].has |= 1u << state;
    return 0;
}

static int load_param(const struct optim_kind *kind, struct group *g, int i, const det_value *dict,
                      bool commit, det_err *err)
{
    int64_t step = dict ? 1 : 0; // kinds that do not save it do not use it either
    const det_value *saved_step = det_value_get(dict, "step");
    int rc = saved_step ? load_step(saved_step, &step, err) : 0;
    if (rc) return det_wrap(err, "step");
    if (commit) {
        g->param[i].step = step;
        g->param[i].has = 0;
    }
    for (int s = 0; kind->state[s] && !rc; s++)
        rc = load_tensor(kind, g, i, s, det_value_get(dict, kind->state[s]), commit, err);
    return rc;
}

// State that is not in the file starts as on the first day.
static void clear_state(const struct optim_kind *kind, struct group *g)
{
    double initial = kind->initial_state ? kind->initial_state(&g->hyper) : 0;
    for (int s = 0; s < UPDATE_MAX_STATE; s++)
        if (g->state[s]) det_fill_(g->state[s], initial);
}

static int load_group(const struct optim_kind *kind, struct group *g, const det_value *saved,
                      const det_value *state, bool commit, det_err *err)
{
    const det_value *ids = det_value_get(saved, "params");
    if (det_value_len(ids) != g->n)
        return det_fail(err, DET_EINVAL, "%d parameters saved, %d here", det_value_len(ids), g->n);
    int rc = settings_load(kind->settings, &g->hyper, 0, saved, commit, err);
    if (!rc) rc = settings_load(schedule_settings, &g->hyper, 0, saved, commit, err);
    if (!rc && commit) clear_state(kind, g);
    for (int i = 0; i < g->n && !rc; i++) {
        int64_t id = 0;
        rc = det_value_as_int(det_value_at(ids, i), &id, err);
        if (!rc) rc = load_param(kind, g, i, det_value_get_int(state, id), commit, err);
        if (rc) rc = det_wrap(err, "parameter %d", i);
    }
    return rc;
}

static int load_all(det_optimizer *opt, const det_value *saved, bool commit, det_err *err)
{
    const det_value *groups = det_value_get(saved, "param_groups");
    if (det_value_len(groups) != opt->n_groups)
        return det_fail(err, DET_EINVAL, "%d groups saved, %d here", det_value_len(groups),
                        opt->n_groups);
    for (int k = 0; k < opt->n_groups; k++) {
        int rc = load_group(opt->kind, opt->group[k], det_value_at(groups, k),
                            det_value_get(saved, "state"), commit, err);
        if (rc) return det_wrap(err, "group %d", k);
    }
    return 0;
}

int det_optim_load_state_dict(det_optimizer *opt, const det_value *state, det_err *err)
{
    if (!opt) return det_fail(err, DET_EINVAL, "load_state_dict: the optimizer is NULL");
    if (sticky_failed())
        return det_fail(err, DET_ESTATE, "load_state_dict: an earlier error waits");
    det_err why = {0};
    int rc = load_all(opt, state, false, &why);
    if (!rc) {
        det_scope_begin();
        bool old = det_set_grad_enabled(false);
        rc = load_all(opt, state, true, &why);
        if (sticky_failed()) rc = det_check(&why);
        det_set_grad_enabled(old);
        det_scope_end();
    }
    if (rc) return det_fail(err, rc, "%s state dict: %s", opt->kind->name, why.msg);
    return det_ok(err);
}
