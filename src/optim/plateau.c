// Unit plateau.c: ReduceLROnPlateau, the schedule that looks at a metric.
#include "optim/schedule.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

enum { MODE_MIN, MODE_MAX };
enum { THRESHOLD_REL, THRESHOLD_ABS };

static bool is_better(const struct plateau_rule *r, double metric)
{
    if (r->mode == MODE_MIN && r->threshold_mode == THRESHOLD_REL)
        return metric < r->best * (1 - r->threshold);
    if (r->mode == MODE_MIN) return metric < r->best - r->threshold;
    if (r->threshold_mode == THRESHOLD_REL) return metric > r->best * (r->threshold + 1);
    return metric > r->best + r->threshold;
}

static void reduce_rates(det_lr_scheduler *s)
{
    const struct plateau_rule *r = &s->rule_data.plateau;
    for (int i = 0; i < s->n_groups; i++) {
        struct hyper *g = schedule_hyper(s, i);
        double lr = MAX(g->lr * r->factor, r->min_lr[i]);
        if (g->lr - lr > r->eps) g->lr = lr;
    }
}

static void plateau_on_metric(det_lr_scheduler *s, double metric)
{
    struct plateau_rule *r = &s->rule_data.plateau;
    if (is_better(r, metric)) {
        r->best = metric;
        r->num_bad_epochs = 0;
    } else {
        r->num_bad_epochs++;
    }
    if (r->cooldown_counter > 0) {
        r->cooldown_counter--;
        r->num_bad_epochs = 0;
    }
    if (r->num_bad_epochs > r->patience) {
        reduce_rates(s);
        r->cooldown_counter = r->cooldown;
        r->num_bad_epochs = 0;
    }
}

static void plateau_done(det_lr_scheduler *s)
{
    free(s->rule_data.plateau.min_lr);
}

static const char *const modes[] = {"min", "max", NULL};
static const char *const threshold_modes[] = {"rel", "abs", NULL};

static const struct setting plateau_settings[] = {
    {.key = "factor", RULE(plateau_rule, factor, SETTING_REAL)},
    {.key = "min_lrs", RULE(plateau_rule, min_lr, SETTING_REALS)},
    {.key = "patience", RULE(plateau_rule, patience, SETTING_INT)},
    {.key = "cooldown", RULE(plateau_rule, cooldown, SETTING_INT)},
    {.key = "cooldown_counter", RULE(plateau_rule, cooldown_counter, SETTING_INT)},
    {.key = "mode", RULE(plateau_rule, mode, SETTING_CHOICE), .choices = modes},
    {.key = "threshold", RULE(plateau_rule, threshold, SETTING_REAL)},
    {.key = "threshold_mode",
     RULE(plateau_rule, threshold_mode, SETTING_CHOICE),
     .choices = threshold_modes},
    {.key = "best", RULE(plateau_rule, best, SETTING_REAL)},
    {.key = "num_bad_epochs", RULE(plateau_rule, num_bad_epochs, SETTING_INT)},
    {.key = "mode_worse", RULE(plateau_rule, mode_worse, SETTING_REAL)},
    {.key = "eps", RULE(plateau_rule, eps, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule plateau_rule = {
    .name = "ReduceLROnPlateau",
    .settings = plateau_settings,
    .on_metric = plateau_on_metric,
    .done = plateau_done,
};

det_lr_scheduler *det_lr_plateau_with(det_optimizer *opt, det_plateau_opts o)
{
    if (o.factor >= 1 || o.factor < 0) {
        det_raise(DET_EINVAL, "ReduceLROnPlateau: factor must be >= 0 and < 1, got %g", o.factor);
        return NULL;
    }
    det_lr_scheduler *s = schedule_begin(&plateau_rule, opt);
    if (!s) return NULL;
    double worst = o.max ? -INFINITY : INFINITY;
    s->rule_data.plateau = (struct plateau_rule){
        .factor = o.factor,
        .threshold = o.threshold,
        .eps = o.eps,
        .best = worst,
        .mode_worse = worst,
        .patience = o.patience,
        .cooldown = o.cooldown,
        .mode = o.max ? MODE_MAX : MODE_MIN,
        .threshold_mode = o.abs_threshold ? THRESHOLD_ABS : THRESHOLD_REL,
        .min_lr = schedule_list(s, o.min_lr),
    };
    return schedule_start(s);
}
