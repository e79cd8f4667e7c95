// Unit phases.c: schedules that are a function of the number of updates: the cosine and the
// warmup-stable-decay schedules of pytorch-accelerated, and any setting by a function.
//
// They count from -1, so the first step is update 0; until then that update's value holds as well.
#include "optim/schedule.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

static bool require(bool ok, const char *rule, const char *what)
{
    if (!ok) det_raise(DET_EINVAL, "%s: %s", rule, what);
    return ok;
}

static det_lr_scheduler *start_before_first(det_lr_scheduler *s)
{
    s = schedule_start(s);
    if (!s) return NULL;
    s->last_epoch = -1;
    s->step_count = 0;
    return s;
}

// --- cosine

static double cosine_warmup(const struct phased_cosine_rule *r, double n, double base)
{
    double start = r->warmup_ratio ? r->warmup_ratio * base : r->warmup_start;
    double rise = base - (r->as_upstream ? r->warmup_start : start);
    return start + n * rise / (double)r->warmup;
}

static double phased_cosine_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    const struct phased_cosine_rule *r = &s->rule_data.phased_cosine;
    double base = s->base_lr[group], min = r->min_ratio ? r->min_ratio * base : r->lr_min;
    int64_t n = s->last_epoch, end = r->total - r->cooldown;
    if (n < r->warmup) return cosine_warmup(r, (double)n, base);
    if (n >= (r->as_upstream ? end - r->warmup : end)) return min;
    double part = (double)(n - r->warmup) / (double)(end - r->warmup);
    return min + (base - min) / 2 * (1 + cos(M_PI * pow(part, r->k_decay)));
}

static const struct setting phased_cosine_settings[] = {
    {.key = "total_iterations",
     RULE(phased_cosine_rule, total, SETTING_INT),
     .min = 1,
     .end = 0x1p53},
    {.key = "warmup_iterations",
     RULE(phased_cosine_rule, warmup, SETTING_INT),
     .min = 0,
     .end = 0x1p53},
    {.key = "cooldown_iterations",
     RULE(phased_cosine_rule, cooldown, SETTING_INT),
     .min = 0,
     .end = 0x1p53},
    {.key = "k_decay", RULE(phased_cosine_rule, k_decay, SETTING_REAL)},
    {.key = "lr_min", RULE(phased_cosine_rule, lr_min, SETTING_REAL)},
    {.key = "lr_min_ratio", RULE(phased_cosine_rule, min_ratio, SETTING_REAL)},
    {.key = "warmup_starting_lr", RULE(phased_cosine_rule, warmup_start, SETTING_REAL)},
    {.key = "warmup_starting_lr_ratio", RULE(phased_cosine_rule, warmup_ratio, SETTING_REAL)},
    {.key = "as_upstream", RULE(phased_cosine_rule, as_upstream, SETTING_BOOL)},
    {.key = NULL},
};

static const struct lr_rule phased_cosine_rule = {
    .name = "CosineLrScheduler", .settings = phased_cosine_settings, .lr = phased_cosine_lr};

static bool cosine_opts_good(const det_cosine_opts *o)
{
    const char *rule = phased_cosine_rule.name;
    return require(o->total_num_epochs > 0, rule, "total_num_epochs must be >= 1") &&
           require(o->num_update_steps_per_epoch > 0, rule,
                   "num_update_steps_per_epoch must be >= 1") &&
           require(o->lr_min >= 0 && o->min_lr_ratio >= 0, rule,
                   "lr_min and min_lr_ratio must not be negative") &&
           require(o->num_warmup_epochs >= 0 && o->num_cooldown_epochs >= 0 &&
                       o->num_warmup_epochs + o->num_cooldown_epochs <= o->total_num_epochs,
                   rule, "warmup and cooldown must fit into total_num_epochs");
}

det_lr_scheduler *det_lr_cosine_with(det_optimizer *opt, det_cosine_opts o)
{
    if (!cosine_opts_good(&o)) return NULL;
    det_lr_scheduler *s = schedule_begin(&phased_cosine_rule, opt);
    if (!s) return NULL;
    int64_t updates = o.num_update_steps_per_epoch;
    s->rule_data.phased_cosine = (struct phased_cosine_rule){
        .total = o.total_num_epochs * updates,
        .warmup = o.num_warmup_epochs * updates,
        .cooldown = o.num_cooldown_epochs * updates,
        .k_decay = o.k_decay,
        .lr_min = o.lr_min,
        .min_ratio = o.min_lr_ratio,
        .warmup_start = o.warmup_starting_lr,
        .warmup_ratio = o.warmup_starting_lr_ratio,
        .as_upstream = o.as_upstream,
    };
    return start_before_first(s);
}

// --- warmup, stable, decay

static const struct lr_rule wsd_rule;

int det_lr_wsd_n_periods(const det_lr_scheduler *s)
{
    return s && s->rule == &wsd_rule ? (int)s->rule_data.wsd.n_checkpoints : 0;
}

// Period i ends at T / 2^(k - 1 - i): the last one with the run.
det_wsd_period det_lr_wsd_period(const det_lr_scheduler *s, int index)
{
    int n = det_lr_wsd_n_periods(s);
    if (index < 0 || index >= n) return (det_wsd_period){0};
    const struct wsd_rule *r = &s->rule_data.wsd;
    int64_t end = r->total >> (n - 1 - index), start = index ? r->total >> (n - index) : 0;
    int64_t decay = (int64_t)((double)(end - start) * r->decay_ratio);
    return (det_wsd_period){start, end, decay, end - decay};
}

static det_wsd_period period_of(const det_lr_scheduler *s, int64_t n)
{
    int i = 0;
    while (i < det_lr_wsd_n_periods(s) - 1 && det_lr_wsd_period(s, i).period_end <= n)
        i++;
    return det_lr_wsd_period(s, i);
}

static double wsd_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    const struct wsd_rule *r = &s->rule_data.wsd;
    double base = s->base_lr[group], n = (double)s->last_epoch;
    if (s->last_epoch < r->warmup && !r->is_continuation)
        return r->warmup_start + n / (double)r->warmup * (base - r->warmup_start);
    det_wsd_period p = period_of(s, s->last_epoch);
    if (s->last_epoch < p.pre_decay_step) return base;
    double part =
        s->last_epoch >= p.period_end ? 1 : (n - (double)p.pre_decay_step) / (double)p.decay_steps;
    if (r->inverse) return base / (part / r->lr_min + (1 - part));
    return base * (r->lr_min + (1 - r->lr_min) * (1 - sqrt(part)));
}

static void wsd_save(const det_lr_scheduler *s, det_value *dict)
{
    det_value_set(dict, "total_steps", det_value_int(s->rule_data.wsd.total));
}

// A continuation keeps its own length and starts a stable phase of its own.
static int wsd_load(det_lr_scheduler *s, const det_value *dict, bool commit, det_err *err)
{
    int64_t total = s->rule_data.wsd.total;
    const det_value *saved = det_value_get(dict, "total_steps");
    if (saved && value_as_count(saved, &total, err)) return det_wrap(err, "total_steps");
    if (total < 1) return det_fail(err, DET_EINVAL, "total_steps must be >= 1");
    if (!commit) return 0;
    if (s->rule_data.wsd.is_continuation)
        s->last_epoch = -1;
    else
        s->rule_data.wsd.total = total;
    return 0;
}

enum { WSD_MAX_CHECKPOINTS = 32 };

static const struct setting wsd_settings[] = {
    {.key = "num_warmup_steps", RULE(wsd_rule, warmup, SETTING_INT), .min = 0, .end = 0x1p53},
    {.key = "decay_phase_ratio", RULE(wsd_rule, decay_ratio, SETTING_REAL), .min = 0, .end = 1.01},
    {.key = "lr_min", RULE(wsd_rule, lr_min, SETTING_REAL)},
    {.key = "warmup_starting_lr", RULE(wsd_rule, warmup_start, SETTING_REAL)},
    {.key = "inverse_decay", RULE(wsd_rule, inverse, SETTING_BOOL)},
    {.key = "num_checkpoints",
     RULE(wsd_rule, n_checkpoints, SETTING_INT),
     .min = 1,
     .end = WSD_MAX_CHECKPOINTS + 1},
    {.key = NULL},
};

static const struct lr_rule wsd_rule = {
    .name = "WSDLrScheduler",
    .settings = wsd_settings,
    .lr = wsd_lr,
    .save = wsd_save,
    .load = wsd_load,
};

static bool wsd_opts_good(const det_wsd_opts *o, int64_t total)
{
    const char *rule = wsd_rule.name;
    return require(!o->total_steps || !(o->total_num_epochs || o->num_update_steps_per_epoch), rule,
                   "give total_steps, or epochs and updates per epoch, not both") &&
           require(total > 0, rule, "total_steps must be >= 1") &&
           require(o->decay_phase_ratio >= 0 && o->decay_phase_ratio <= 1, rule,
                   "decay_phase_ratio must be in 0 .. 1") &&
           require(o->lr_min >= 0, rule, "lr_min must not be negative") &&
           require(o->num_checkpoints >= 1 && o->num_checkpoints <= WSD_MAX_CHECKPOINTS, rule,
                   "num_checkpoints must be in 1 .. 32") &&
           require(o->num_checkpoints < 2 || o->decay_phase_ratio <= 1.0 / 3, rule,
                   "with several checkpoints decay_phase_ratio must be <= 1/3, or decays overlap");
}

static bool warmup_below_base(const det_lr_scheduler *s)
{
    double max = 0;
    for (int i = 0; i < s->n_groups; i++)
        max = MAX(max, s->base_lr[i]);
    return require(s->rule_data.wsd.warmup_start <= max, wsd_rule.name,
                   "warmup_starting_lr is above the optimizer's learning rate");
}

det_lr_scheduler *det_lr_wsd_with(det_optimizer *opt, det_wsd_opts o)
{
    int64_t total =
        o.total_steps ? o.total_steps : o.total_num_epochs * o.num_update_steps_per_epoch;
    if (!wsd_opts_good(&o, total)) return NULL;
    det_lr_scheduler *s = schedule_begin(&wsd_rule, opt);
    if (!s) return NULL;
    s->rule_data.wsd = (struct wsd_rule){
        .total = total,
        .warmup = o.num_warmup_steps < 0 ? total / 10 : o.num_warmup_steps,
        .n_checkpoints = o.num_checkpoints,
        .decay_ratio = o.decay_phase_ratio,
        .lr_min = o.lr_min,
        .warmup_start = o.warmup_starting_lr,
        .inverse = o.inverse_decay,
        .is_continuation = o.is_continuation,
    };
    if (!warmup_below_base(s)) {
        det_lr_scheduler_free(s);
        return NULL;
    }
    return start_before_first(s);
}

// --- any setting by a function

static bool field_advance(det_lr_scheduler *s)
{
    const struct field_rule *r = &s->rule_data.field;
    for (int i = 0; i < s->n_groups; i++) {
        double value = r->value(s->last_epoch, i, r->base[i], r->user);
        if (!isnan(value)) det_optim_set(s->opt, i, r->field, value);
    }
    return !sticky_failed();
}

// The rate is left alone, unless it is the field: then it has been set already.
static double field_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    return schedule_hyper(s, group)->lr;
}

static void field_done(det_lr_scheduler *s)
{
    free(s->rule_data.field.base);
    free(s->rule_data.field.field);
}

static const struct setting field_settings[] = {
    {.key = "base_values", RULE(field_rule, base, SETTING_REALS)},
    {.key = NULL},
};

static const struct lr_rule field_rule = {
    .name = "StatefulScheduler",
    .settings = field_settings,
    .advance = field_advance,
    .lr = field_lr,
    .done = field_done,
};

det_lr_scheduler *det_lr_field(det_optimizer *opt, const char *field, det_field_fn value,
                               void *user)
{
    if (!require(field && value, field_rule.name, "the field or the function is NULL")) return NULL;
    det_lr_scheduler *s = schedule_begin(&field_rule, opt);
    if (!s) return NULL;
    s->rule_data.field = (struct field_rule){
        .base = schedule_list(s, 0), .field = xstrdup(field), .value = value, .user = user};
    for (int i = 0; i < s->n_groups; i++)
        s->rule_data.field.base[i] = det_optim_get(opt, i, field);
    return start_before_first(s);
}
