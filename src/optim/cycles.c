// Unit cycles.c: the schedules that move the learning rate and, against it, the momentum:
// OneCycleLR and CyclicLR.
#include "optim/schedule.h"

#include "base/mem.h"
#include "base/str.h"
#include <math.h>

static bool has_setting(const det_optimizer *opt, const char *name)
{
    return setting_find(opt->kind->settings, name) != NULL;
}

static bool require(bool ok, const char *rule, const char *what)
{
    if (!ok) det_raise(DET_EINVAL, "%s: %s", rule, what);
    return ok;
}

// --- OneCycleLR

enum {
    INITIAL_LR,
    MAX_LR,
    MIN_LR,
    MAX_MOMENTUM,
    BASE_MOMENTUM,
    N_LEVELS
}; // rows of schedule_settings

static bool one_cycle_advance(det_lr_scheduler *s)
{
    int64_t total = s->rule_data.one_cycle.total_steps;
    if (s->last_epoch <= total) return true;
    det_raise(DET_ELIMIT, "OneCycleLR: step %lld of a cycle of %lld steps",
              (long long)s->last_epoch + 1, (long long)total);
    return false;
}

static double level(const det_lr_scheduler *s, int group, int which)
{
    return setting_get(&schedule_settings[which], schedule_hyper(s, group));
}

static double anneal(const struct one_cycle_rule *r, double from, double to, double part)
{
    if (r->linear) return (to - from) * part + from;
    return to + (from - to) / 2 * (cos(M_PI * part) + 1);
}

// The phase of now, and how much of it is over.
static const struct one_cycle_phase *phase_of(const det_lr_scheduler *s, double *part)
{
    const struct one_cycle_rule *r = &s->rule_data.one_cycle;
    double now = (double)s->last_epoch, start = 0;
    int i = 0;
    while (i < r->n_phases - 1 && now > r->phase[i].end_step)
        start = r->phase[i++].end_step;
    *part = (now - start) / (r->phase[i].end_step - start);
    return &r->phase[i];
}

static double one_cycle_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    double part;
    const struct one_cycle_phase *p = phase_of(s, &part);
    return anneal(&s->rule_data.one_cycle, level(s, group, p->start_lr), level(s, group, p->end_lr),
                  part);
}

static double one_cycle_momentum(const det_lr_scheduler *s, int group)
{
    if (!s->rule_data.one_cycle.cycle_momentum) return NAN;
    double part;
    const struct one_cycle_phase *p = phase_of(s, &part);
    return anneal(&s->rule_data.one_cycle, level(s, group, p->start_momentum),
                  level(s, group, p->end_momentum), part);
}

static void one_cycle_save(const det_lr_scheduler *s, det_value *dict)
{
    const struct one_cycle_rule *r = &s->rule_data.one_cycle;
    det_value *phases = det_value_set(dict, "_schedule_phases", det_value_list());
    for (int i = 0; i < r->n_phases; i++) {
        const struct one_cycle_phase *p = &r->phase[i];
        det_value *phase = det_value_push(phases, det_value_dict());
        det_value_set(phase, "end_step", det_value_float(p->end_step));
        det_value_set(phase, "start_lr", det_value_str(schedule_settings[p->start_lr].key));
        det_value_set(phase, "end_lr", det_value_str(schedule_settings[p->end_lr].key));
        det_value_set(phase, "start_momentum",
                      det_value_str(schedule_settings[p->start_momentum].key));
        det_value_set(phase, "end_momentum", det_value_str(schedule_settings[p->end_momentum].key));
    }
}

static int load_level(const det_value *phase, const char *key, int *out, det_err *err)
{
    const char *name = NULL;
    int rc = det_value_as_str(det_value_get(phase, key), &name, err);
    if (rc) return det_wrap(err, "%s", key);
    for (int i = 0; i < N_LEVELS; i++) {
        if (!str_eqz(str_from(name), schedule_settings[i].key)) continue;
        *out = i;
        return 0;
    }
    return det_fail(err, DET_EINVAL, "%s: '%s' is unknown", key, name);
}

static int one_cycle_load(det_lr_scheduler *s, const det_value *dict, bool commit, det_err *err)
{
    const det_value *phases = det_value_get(dict, "_schedule_phases");
    if (!phases) return 0;
    struct one_cycle_rule *r = &s->rule_data.one_cycle, loaded = *r;
    loaded.n_phases = det_value_len(phases);
    if (loaded.n_phases < 2 || loaded.n_phases > 3)
        return det_fail(err, DET_EINVAL, "%d phases, wants 2 or 3", loaded.n_phases);
    for (int i = 0; i < loaded.n_phases; i++) {
        struct one_cycle_phase *p = &loaded.phase[i];
        const det_value *v = det_value_at(phases, i);
        int rc = det_value_as_float(det_value_get(v, "end_step"), &p->end_step, err);
        if (!rc) rc = load_level(v, "start_lr", &p->start_lr, err);
        if (!rc) rc = load_level(v, "end_lr", &p->end_lr, err);
        if (!rc) rc = load_level(v, "start_momentum", &p->start_momentum, err);
        if (!rc) rc = load_level(v, "end_momentum", &p->end_momentum, err);
        if (rc) return det_wrap(err, "phase %d", i);
    }
    if (commit) *r = loaded;
    return 0;
}

static const struct setting one_cycle_settings[] = {
    {.key = "total_steps", RULE(one_cycle_rule, total_steps, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = "cycle_momentum", RULE(one_cycle_rule, cycle_momentum, SETTING_BOOL)},
    {.key = "use_beta1", RULE(one_cycle_rule, use_beta1, SETTING_BOOL)},
    {.key = NULL},
};

static const struct lr_rule one_cycle_rule = {
    .name = "OneCycleLR",
    .settings = one_cycle_settings,
    .advance = one_cycle_advance,
    .lr = one_cycle_lr,
    .momentum = one_cycle_momentum,
    .save = one_cycle_save,
    .load = one_cycle_load,
};

static struct one_cycle_rule one_cycle_of(const det_one_cycle_opts *o, bool use_beta1)
{
    double up = o->pct_start * (double)o->total_steps;
    double end = (double)o->total_steps - 1;
    struct one_cycle_rule r = {.total_steps = o->total_steps,
                               .linear = o->linear,
                               .cycle_momentum = o->cycle_momentum,
                               .use_beta1 = use_beta1,
                               .n_phases = o->three_phase ? 3 : 2};
    r.phase[0] = (struct one_cycle_phase){up - 1, INITIAL_LR, MAX_LR, MAX_MOMENTUM, BASE_MOMENTUM};
    r.phase[1] = (struct one_cycle_phase){end, MAX_LR, MIN_LR, BASE_MOMENTUM, MAX_MOMENTUM};
    if (o->three_phase) {
        r.phase[1].end_step = 2 * up - 2;
        r.phase[1].end_lr = INITIAL_LR;
        r.phase[2] = (struct one_cycle_phase){end, INITIAL_LR, MIN_LR, MAX_MOMENTUM, MAX_MOMENTUM};
    }
    return r;
}

static void one_cycle_set_levels(det_optimizer *opt, const det_one_cycle_opts *o)
{
    for (int i = 0; i < opt->n_groups; i++) {
        struct hyper *g = &opt->group[i]->hyper;
        g->initial_lr = o->max_lr / o->div_factor;
        g->max_lr = o->max_lr;
        g->min_lr = g->initial_lr / o->final_div_factor;
        if (!o->cycle_momentum) continue;
        g->max_momentum = o->max_momentum;
        g->base_momentum = o->base_momentum;
    }
}

det_lr_scheduler *det_lr_one_cycle_with(det_optimizer *opt, det_one_cycle_opts opts)
{
    static const char name[] = "OneCycleLR";
    if (!require(opt, name, "the optimizer is NULL") || sticky_failed()) return NULL;
    bool use_beta1 = has_setting(opt, "beta1");
    if (!require(opts.max_lr > 0, name, "max_lr must be > 0")) return NULL;
    if (!require(opts.total_steps >= 1, name, "total_steps must be >= 1")) return NULL;
    if (!require(opts.pct_start >= 0 && opts.pct_start <= 1, name, "pct_start must be in 0 .. 1"))
        return NULL;
    if (!require(!opts.cycle_momentum || use_beta1 || has_setting(opt, "momentum"), name,
                 "the optimizer has no momentum to cycle; set cycle_momentum = false"))
        return NULL;
    one_cycle_set_levels(opt, &opts);
    det_lr_scheduler *s = schedule_begin(&one_cycle_rule, opt);
    if (s) s->rule_data.one_cycle = one_cycle_of(&opts, use_beta1);
    return schedule_start(s);
}

// --- CyclicLR

// How far the rate is from the bottom (0) to the top (1) of the cycle, times the decay of the top.
static double cyclic_height(const det_lr_scheduler *s)
{
    const struct cyclic_rule *r = &s->rule_data.cyclic;
    double cycles = 1 + (double)s->last_epoch / r->total_size, cycle = floor(cycles);
    double x = cycles - cycle;
    double height = x <= r->step_ratio ? x / r->step_ratio : (x - 1) / (r->step_ratio - 1);
    switch ((det_cyclic_mode)r->mode) {
    case DET_CYCLIC_TRIANGULAR:
        return height;
    case DET_CYCLIC_TRIANGULAR2:
        return height * (1 / pow(2, cycle - 1));
    case DET_CYCLIC_EXP_RANGE:
        return height * pow(r->gamma, (double)s->last_epoch);
    }
    return height;
}

static double cyclic_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    double base = s->base_lr[group];
    return base + (s->rule_data.cyclic.max_lr[group] - base) * cyclic_height(s);
}

static double cyclic_momentum(const det_lr_scheduler *s, int group)
{
    const struct cyclic_rule *r = &s->rule_data.cyclic;
    if (!r->cycle_momentum) return NAN;
    return r->max_momentum[group] -
           (r->max_momentum[group] - r->base_momentum[group]) * cyclic_height(s);
}

static void cyclic_done(det_lr_scheduler *s)
{
    free(s->rule_data.cyclic.max_lr);
    free(s->rule_data.cyclic.base_momentum);
    free(s->rule_data.cyclic.max_momentum);
}

static const char *const cyclic_modes[] = {"triangular", "triangular2", "exp_range", NULL};

static const struct setting cyclic_settings[] = {
    {.key = "max_lrs", RULE(cyclic_rule, max_lr, SETTING_REALS)},
    {.key = "total_size", RULE(cyclic_rule, total_size, SETTING_REAL), .min = 1, .end = INFINITY},
    {.key = "step_ratio", RULE(cyclic_rule, step_ratio, SETTING_REAL)},
    {.key = "mode", RULE(cyclic_rule, mode, SETTING_CHOICE), .choices = cyclic_modes},
    {.key = "gamma", RULE(cyclic_rule, gamma, SETTING_REAL)},
    {.key = "cycle_momentum", RULE(cyclic_rule, cycle_momentum, SETTING_BOOL)},
    {.key = "base_momentums", RULE(cyclic_rule, base_momentum, SETTING_REALS)},
    {.key = "max_momentums", RULE(cyclic_rule, max_momentum, SETTING_REALS)},
    {.key = NULL},
};

static const struct lr_rule cyclic_rule = {
    .name = "CyclicLR",
    .settings = cyclic_settings,
    .lr = cyclic_lr,
    .momentum = cyclic_momentum,
    .done = cyclic_done,
};

static struct cyclic_rule cyclic_of(const det_lr_scheduler *s, const det_cyclic_opts *o)
{
    double up = (double)o->step_size_up;
    double down = o->step_size_down < 0 ? up : (double)o->step_size_down;
    return (struct cyclic_rule){
        .total_size = up + down,
        .step_ratio = up / (up + down),
        .gamma = o->gamma,
        .mode = o->mode,
        .cycle_momentum = o->cycle_momentum,
        .max_lr = schedule_list(s, o->max_lr),
        .base_momentum = schedule_list(s, o->base_momentum),
        .max_momentum = schedule_list(s, o->max_momentum),
    };
}

det_lr_scheduler *det_lr_cyclic_with(det_optimizer *opt, det_cyclic_opts opts)
{
    static const char name[] = "CyclicLR";
    if (!require(opt, name, "the optimizer is NULL") || sticky_failed()) return NULL;
    if (!require(opts.base_lr >= 0 && opts.max_lr > 0, name, "base_lr and max_lr must be given"))
        return NULL;
    if (!require(opts.step_size_up >= 1 && opts.step_size_down, name, "steps must be >= 1"))
        return NULL;
    if (!require((unsigned)opts.mode <= DET_CYCLIC_EXP_RANGE, name, "the mode is unknown"))
        return NULL;
    if (!require(!opts.cycle_momentum || has_setting(opt, "momentum"), name,
                 "the optimizer has no momentum to cycle; set cycle_momentum = false"))
        return NULL;
    for (int i = 0; i < opt->n_groups; i++)
        opt->group[i]->hyper.lr = opts.base_lr;
    det_lr_scheduler *s = schedule_begin(&cyclic_rule, opt);
    if (s) s->rule_data.cyclic = cyclic_of(s, &opts);
    s = schedule_start(s);
    for (int i = 0; s && i < s->n_groups; i++)
        s->base_lr[i] = opts.base_lr; // from the second step on, as in torch
    return s;
}
