// Unit rules.c: the table of learning-rate schedules: step by step what torch 1.13 does.
//
// Most rules multiply the present rate (so several schedules work on one optimizer), as torch's do.
#include "optim/schedule.h"

#include "base/mem.h"
#include <math.h>

static bool positive(const char *rule, const char *name, int64_t value)
{
    if (value >= 1) return true;
    det_raise(DET_EINVAL, "%s: %s must be >= 1, got %lld", rule, name, (long long)value);
    return false;
}

// --- StepLR

static double step_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)group;
    const struct step_rule *r = &s->rule_data.step;
    return s->last_epoch == 0 || s->last_epoch % r->step_size ? lr : lr * r->gamma;
}

static const struct setting step_settings[] = {
    {.key = "step_size", RULE(step_rule, step_size, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = "gamma", RULE(step_rule, gamma, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule step_rule = {
    .name = "StepLR", .settings = step_settings, .lr = step_lr};

det_lr_scheduler *det_lr_step_decay(det_optimizer *opt, int64_t step_size, double gamma)
{
    if (!positive("StepLR", "step_size", step_size)) return NULL;
    det_lr_scheduler *s = schedule_begin(&step_rule, opt);
    if (s) s->rule_data.step = (struct step_rule){step_size, gamma};
    return schedule_start(s);
}

// --- MultiStepLR

static double multi_step_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)group;
    const struct multi_step_rule *r = &s->rule_data.multi_step;
    int times = 0;
    for (int i = 0; i < r->n; i++)
        times += r->milestone[i] == s->last_epoch;
    return times ? lr * pow(r->gamma, times) : lr;
}

// torch has a Counter: milestone -> how often.
static void multi_step_save(const det_lr_scheduler *s, det_value *dict)
{
    const struct multi_step_rule *r = &s->rule_data.multi_step;
    det_value *counter = det_value_set(dict, "milestones", det_value_dict());
    for (int i = 0; i < r->n; i++) {
        int64_t times = 0;
        const det_value *before = det_value_get_int(counter, r->milestone[i]);
        if (before) det_value_as_int(before, &times, NULL);
        det_value_set_int(counter, r->milestone[i], det_value_int(times + 1));
    }
}

// Appends times copies of at.
static void add_milestone(struct multi_step_rule *r, int64_t at, int64_t times)
{
    r->milestone = xrealloc(r->milestone, (size_t)(r->n + times) * sizeof *r->milestone);
    while (times-- > 0)
        r->milestone[r->n++] = at;
}

static int multi_step_load(det_lr_scheduler *s, const det_value *dict, bool commit, det_err *err)
{
    enum { MAX_TIMES = 1 << 10 };
    const det_value *counter = det_value_get(dict, "milestones");
    struct multi_step_rule *r = &s->rule_data.multi_step;
    if (counter && commit) r->n = 0;
    for (int i = 0; i < det_value_len(counter); i++) {
        int64_t at = 0, times = 0;
        bool is_number = !det_value_key(counter, i, &at);
        int rc = det_value_as_int(det_value_at(counter, i), &times, err);
        if (rc) return det_wrap(err, "milestones");
        if (!is_number || times < 0 || times > MAX_TIMES)
            return det_fail(err, DET_EINVAL, "milestones: not a table of counts");
        if (commit) add_milestone(r, at, times);
    }
    return 0;
}

static void multi_step_done(det_lr_scheduler *s)
{
    free(s->rule_data.multi_step.milestone);
}

static const struct setting multi_step_settings[] = {
    {.key = "gamma", RULE(multi_step_rule, gamma, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule multi_step_rule = {
    .name = "MultiStepLR",
    .settings = multi_step_settings,
    .lr = multi_step_lr,
    .save = multi_step_save,
    .load = multi_step_load,
    .done = multi_step_done,
};

det_lr_scheduler *det_lr_multi_step(det_optimizer *opt, const int64_t *milestones, int n,
                                    double gamma)
{
    det_lr_scheduler *s = schedule_begin(&multi_step_rule, opt);
    if (!s) return NULL;
    struct multi_step_rule *r = &s->rule_data.multi_step;
    r->gamma = gamma;
    for (int i = 0; i < n; i++)
        add_milestone(r, milestones[i], 1);
    return schedule_start(s);
}

// --- ExponentialLR

static double exponential_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)group;
    return s->last_epoch == 0 ? lr : lr * s->rule_data.exponential.gamma;
}

static const struct setting exponential_settings[] = {
    {.key = "gamma", RULE(exponential_rule, gamma, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule exponential_rule = {
    .name = "ExponentialLR", .settings = exponential_settings, .lr = exponential_lr};

det_lr_scheduler *det_lr_exponential(det_optimizer *opt, double gamma)
{
    det_lr_scheduler *s = schedule_begin(&exponential_rule, opt);
    if (s) s->rule_data.exponential.gamma = gamma;
    return schedule_start(s);
}

// --- CosineAnnealingLR

static double cosine_lr(const det_lr_scheduler *s, int group, double lr)
{
    const struct cosine_rule *r = &s->rule_data.cosine;
    double t = (double)s->last_epoch, t_max = (double)r->t_max;
    if (s->last_epoch == 0) return lr;
    if ((s->last_epoch - 1 - r->t_max) % (2 * r->t_max) == 0) // at the bottom there is no ratio
        return lr + (s->base_lr[group] - r->eta_min) * (1 - cos(M_PI / t_max)) / 2;
    return (1 + cos(M_PI * t / t_max)) / (1 + cos(M_PI * (t - 1) / t_max)) * (lr - r->eta_min) +
           r->eta_min;
}

static const struct setting cosine_settings[] = {
    {.key = "T_max", RULE(cosine_rule, t_max, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = "eta_min", RULE(cosine_rule, eta_min, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule cosine_rule = {
    .name = "CosineAnnealingLR", .settings = cosine_settings, .lr = cosine_lr};

det_lr_scheduler *det_lr_cosine_annealing(det_optimizer *opt, int64_t t_max, double eta_min)
{
    if (!positive("CosineAnnealingLR", "T_max", t_max)) return NULL;
    det_lr_scheduler *s = schedule_begin(&cosine_rule, opt);
    if (s) s->rule_data.cosine = (struct cosine_rule){t_max, eta_min};
    return schedule_start(s);
}

// --- CosineAnnealingWarmRestarts

static bool restarts_advance(det_lr_scheduler *s)
{
    struct restarts_rule *r = &s->rule_data.restarts;
    if (++r->t_cur >= r->t_i) {
        r->t_cur -= r->t_i;
        r->t_i *= r->t_mult;
    }
    return true;
}

static double restarts_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    const struct restarts_rule *r = &s->rule_data.restarts;
    double angle = M_PI * (double)r->t_cur / (double)r->t_i;
    return r->eta_min + (s->base_lr[group] - r->eta_min) * (1 + cos(angle)) / 2;
}

static const struct setting restarts_settings[] = {
    {.key = "T_0", RULE(restarts_rule, t_0, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = "T_i", RULE(restarts_rule, t_i, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = "T_mult", RULE(restarts_rule, t_mult, SETTING_INT), .min = 1, .end = 0x1p31},
    {.key = "eta_min", RULE(restarts_rule, eta_min, SETTING_REAL)},
    {.key = "T_cur", RULE(restarts_rule, t_cur, SETTING_INT)},
    {.key = NULL},
};

static const struct lr_rule restarts_rule = {.name = "CosineAnnealingWarmRestarts",
                                             .settings = restarts_settings,
                                             .advance = restarts_advance,
                                             .lr = restarts_lr};

det_lr_scheduler *det_lr_cosine_warm_restarts(det_optimizer *opt, int64_t t_0, int64_t t_mult,
                                              double eta_min)
{
    if (!positive("CosineAnnealingWarmRestarts", "T_0", t_0)) return NULL;
    if (!positive("CosineAnnealingWarmRestarts", "T_mult", t_mult)) return NULL;
    det_lr_scheduler *s = schedule_begin(&restarts_rule, opt);
    if (s) s->rule_data.restarts = (struct restarts_rule){t_0, t_0, t_mult, -1, eta_min};
    return schedule_start(s);
}

// --- LinearLR

static double linear_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)group;
    const struct linear_rule *r = &s->rule_data.linear;
    double change = r->end_factor - r->start_factor;
    if (s->last_epoch == 0) return lr * r->start_factor;
    if (s->last_epoch > r->total_iters) return lr;
    return lr * (1 + change / ((double)r->total_iters * r->start_factor +
                               (double)(s->last_epoch - 1) * change));
}

static const struct setting linear_settings[] = {
    {.key = "start_factor", RULE(linear_rule, start_factor, SETTING_REAL)},
    {.key = "end_factor", RULE(linear_rule, end_factor, SETTING_REAL)},
    {.key = "total_iters", RULE(linear_rule, total_iters, SETTING_INT), .min = 1, .end = 0x1p53},
    {.key = NULL},
};

static const struct lr_rule linear_rule = {
    .name = "LinearLR", .settings = linear_settings, .lr = linear_lr};

det_lr_scheduler *det_lr_linear_warmup(det_optimizer *opt, double start_factor, double end_factor,
                                       int64_t total_iters)
{
    if (!positive("LinearLR", "total_iters", total_iters)) return NULL;
    if (!(start_factor > 0 && start_factor <= 1 && end_factor >= 0 && end_factor <= 1)) {
        det_raise(DET_EINVAL, "LinearLR: factors %g and %g are not in 0 .. 1 (the first above 0)",
                  start_factor, end_factor);
        return NULL;
    }
    det_lr_scheduler *s = schedule_begin(&linear_rule, opt);
    if (s) s->rule_data.linear = (struct linear_rule){start_factor, end_factor, total_iters};
    return schedule_start(s);
}

// --- PolynomialLR

static double polynomial_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)group;
    const struct polynomial_rule *r = &s->rule_data.polynomial;
    double t = (double)s->last_epoch, total = (double)r->total_iters;
    if (s->last_epoch == 0 || s->last_epoch > r->total_iters) return lr;
    return lr * pow((1 - t / total) / (1 - (t - 1) / total), r->power);
}

static const struct setting polynomial_settings[] = {
    {.key = "total_iters",
     RULE(polynomial_rule, total_iters, SETTING_INT),
     .min = 1,
     .end = 0x1p53},
    {.key = "power", RULE(polynomial_rule, power, SETTING_REAL)},
    {.key = NULL},
};

static const struct lr_rule polynomial_rule = {
    .name = "PolynomialLR", .settings = polynomial_settings, .lr = polynomial_lr};

det_lr_scheduler *det_lr_polynomial(det_optimizer *opt, int64_t total_iters, double power)
{
    if (!positive("PolynomialLR", "total_iters", total_iters)) return NULL;
    det_lr_scheduler *s = schedule_begin(&polynomial_rule, opt);
    if (s) s->rule_data.polynomial = (struct polynomial_rule){total_iters, power};
    return schedule_start(s);
}

// --- LambdaLR

static double lambda_lr(const det_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    const struct lambda_rule *r = &s->rule_data.lambda;
    return s->base_lr[group] * r->factor(s->last_epoch, group, r->user);
}

// A function cannot be saved; torch writes None for each, and wants the key.
static void lambda_save(const det_lr_scheduler *s, det_value *dict)
{
    det_value *list = det_value_set(dict, "lr_lambdas", det_value_list());
    for (int i = 0; i < s->n_groups; i++)
        det_value_push(list, det_value_none());
}

static const struct setting no_settings[] = {{.key = NULL}};

static const struct lr_rule lambda_rule = {
    .name = "LambdaLR", .settings = no_settings, .lr = lambda_lr, .save = lambda_save};

det_lr_scheduler *det_lr_lambda(det_optimizer *opt,
                                double (*factor)(int64_t step, int group, void *user), void *user)
{
    if (!factor) {
        det_raise(DET_EINVAL, "LambdaLR: the function is NULL");
        return NULL;
    }
    det_lr_scheduler *s = schedule_begin(&lambda_rule, opt);
    if (s) s->rule_data.lambda = (struct lambda_rule){factor, user};
    return schedule_start(s);
}
