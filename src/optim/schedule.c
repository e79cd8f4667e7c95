// Unit schedule.c: stepping, saving and loading learning-rate schedules, whatever their rule.
#include "optim/schedule.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

#define COMMON(key_, member, type_) \
    .key = (key_), .offset = offsetof(det_lr_scheduler, member), .type = (type_)

static const struct setting common_settings[] = {
    {COMMON("base_lrs", base_lr, SETTING_REALS)},
    {COMMON("last_epoch", last_epoch, SETTING_INT)},
    {COMMON("_step_count", step_count, SETTING_INT)},
    {.key = "verbose", .type = SETTING_FALSE},
    {.key = "_get_lr_called_within_step", .type = SETTING_FALSE},
    {COMMON("_last_lr", last_lr, SETTING_REALS)},
    {.key = NULL},
};

// ReduceLROnPlateau is not built on the others in torch and has fewer.
static const struct setting metric_settings[] = {
    {COMMON("last_epoch", last_epoch, SETTING_INT)},
    {.key = "verbose", .type = SETTING_FALSE},
    {COMMON("_last_lr", last_lr, SETTING_REALS)},
    {.key = NULL},
};

static const struct setting *shared_settings(const det_lr_scheduler *s)
{
    return s->rule->on_metric ? metric_settings : common_settings;
}

struct hyper *schedule_hyper(const det_lr_scheduler *s, int group)
{
    return &s->opt->group[group]->hyper;
}

double *schedule_list(const det_lr_scheduler *s, double value)
{
    double *list = xcalloc((size_t)s->n_groups, sizeof *list);
    for (int i = 0; i < s->n_groups; i++)
        list[i] = value;
    return list;
}

det_lr_scheduler *schedule_begin(const struct lr_rule *rule, det_optimizer *opt)
{
    if (!opt) det_raise(DET_EINVAL, "%s: the optimizer is NULL", rule->name);
    if (!opt || sticky_failed()) return NULL;
    det_lr_scheduler *s = xcalloc(1, sizeof *s);
    s->rule = rule;
    s->opt = opt;
    s->n_groups = opt->n_groups;
    s->base_lr = schedule_list(s, 0);
    s->last_lr = schedule_list(s, 0);
    for (int i = 0; i < s->n_groups; i++) {
        struct hyper *g = schedule_hyper(s, i);
        if (isnan(g->initial_lr) && !rule->on_metric) g->initial_lr = g->lr;
        s->base_lr[i] = g->initial_lr;
        s->last_lr[i] = g->lr;
    }
    return s;
}

det_lr_scheduler *schedule_start(det_lr_scheduler *s)
{
    if (s && !s->rule->on_metric) {
        s->last_epoch = -1;
        det_lr_scheduler_step(s);
    }
    if (s && sticky_failed()) {
        det_lr_scheduler_free(s);
        return NULL;
    }
    return s;
}

void det_lr_scheduler_free(det_lr_scheduler *s)
{
    if (!s) return;
    if (s->rule->done) s->rule->done(s);
    free(s->base_lr);
    free(s->last_lr);
    free(s);
}

// Adam calls it beta1.
static void set_momentum(const det_optimizer *opt, struct hyper *g, double momentum)
{
    const struct setting *row = setting_find(opt->kind->settings, "momentum");
    if (!row) row = setting_find(opt->kind->settings, "beta1");
    det_err err;
    if (row && setting_set(row, g, momentum, &err)) det_raise(err.code, "%s", err.msg);
}

static void remember_rates(det_lr_scheduler *s)
{
    for (int i = 0; i < s->n_groups; i++)
        s->last_lr[i] = schedule_hyper(s, i)->lr;
}

void det_lr_scheduler_step(det_lr_scheduler *s)
{
    if (!s || sticky_failed()) return;
    if (s->rule->on_metric) {
        det_raise(DET_EINVAL, "%s wants a metric: det_lr_scheduler_step_metric", s->rule->name);
        return;
    }
    s->step_count++;
    s->last_epoch++;
    if (s->rule->advance && !s->rule->advance(s)) return;
    for (int i = 0; i < s->n_groups; i++) {
        struct hyper *g = schedule_hyper(s, i);
        double momentum = s->rule->momentum ? s->rule->momentum(s, i) : NAN;
        if (!isnan(momentum)) set_momentum(s->opt, g, momentum);
        g->lr = s->rule->lr(s, i, g->lr);
    }
    remember_rates(s);
}

void det_lr_scheduler_step_metric(det_lr_scheduler *s, double metric)
{
    if (!s || sticky_failed()) return;
    if (!s->rule->on_metric) {
        det_raise(DET_EINVAL, "%s takes no metric: det_lr_scheduler_step", s->rule->name);
        return;
    }
    s->last_epoch++;
    s->rule->on_metric(s, metric);
    remember_rates(s);
}

bool det_lr_scheduler_wants_metric(const det_lr_scheduler *s)
{
    return s && s->rule->on_metric;
}

det_optimizer *det_lr_scheduler_optimizer(const det_lr_scheduler *s)
{
    return s ? s->opt : NULL;
}

int64_t det_lr_scheduler_updates(const det_lr_scheduler *s)
{
    return s ? s->last_epoch : -1;
}

double det_lr_scheduler_last(const det_lr_scheduler *s, int group)
{
    return s && group >= 0 && group < s->n_groups ? s->last_lr[group] : NAN;
}

// --- state

det_value *det_lr_scheduler_state_dict(const det_lr_scheduler *s)
{
    if (!s) return NULL;
    det_value *dict = det_value_dict();
    settings_save(s->rule->settings, s, s->n_groups, dict);
    if (s->rule->save) s->rule->save(s, dict);
    settings_save(shared_settings(s), s, s->n_groups, dict);
    return dict;
}

static int load(det_lr_scheduler *s, const det_value *state, bool commit, det_err *err)
{
    int rc = settings_load(s->rule->settings, s, s->n_groups, state, commit, err);
    if (!rc) rc = settings_load(shared_settings(s), s, s->n_groups, state, commit, err);
    if (!rc && s->rule->load) rc = s->rule->load(s, state, commit, err);
    return rc;
}

int det_lr_scheduler_load_state_dict(det_lr_scheduler *s, const det_value *state, det_err *err)
{
    if (!s) return det_fail(err, DET_EINVAL, "load_state_dict: the schedule is NULL");
    if (det_value_kind(state) != DET_KIND_DICT)
        return det_fail(err, DET_EINVAL, "%s state dict: wants a dict, got %s", s->rule->name,
                        det_kind_name(det_value_kind(state)));
    if (load(s, state, false, err)) return det_wrap(err, "%s state dict", s->rule->name);
    load(s, state, true, err);
    return det_ok(err);
}
