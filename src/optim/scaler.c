// Unit scaler.c: loss scaling for mixed precision: torch's GradScaler.
//
// Each optimizer goes through these stages in an iteration; det_scaler_update brings all back to
// READY.
//
//     READY --unscale--> UNSCALED --step--> STEPPED --scaler_again--> READY
//       |                                      ^
//       +----------------step------------------+
#include "optim/optim.h"
#include "optim/optimizer.h"

#include "base/mem.h"
#include <math.h>

enum stage { STAGE_READY, STAGE_UNSCALED, STAGE_STEPPED };

struct scaled {
    const det_optimizer *opt;
    enum stage stage;
    bool found_inf; // in the gradients of now
    bool had_inf;   // in those of steps before
};

struct det_scaler {
    det_scaler_opts opts; // scale of now in init_scale
    int64_t growth_tracker;
    struct scaled *scaled;
    int n_scaled;
};

#define OPT(member) .key = #member, .offset = offsetof(det_scaler_opts, member)
#define POSITIVE .min = 0x1p-1022, .end = INFINITY
static const struct setting scaler_settings[] = {
    {.key = "scale",
     .offset = offsetof(det_scaler_opts, init_scale),
     .type = SETTING_REAL,
     POSITIVE},
    {OPT(growth_factor), .type = SETTING_REAL, POSITIVE},
    {OPT(backoff_factor), .type = SETTING_REAL, POSITIVE},
    {OPT(growth_interval), .type = SETTING_INT, .min = 1, .end = 0x1p53},
    {.key = NULL},
};

det_scaler *det_scaler_new_with(det_scaler_opts opts)
{
    det_err err;
    if (settings_check(scaler_settings, "GradScaler", &opts, &err)) {
        det_raise(err.code, "%s", err.msg);
        return NULL;
    }
    det_scaler *s = xcalloc(1, sizeof *s);
    s->opts = opts;
    return s;
}

void det_scaler_free(det_scaler *s)
{
    if (!s) return;
    free(s->scaled);
    free(s);
}

static bool is_off(const det_scaler *s)
{
    return !s || !s->opts.enabled;
}

double det_scaler_scale_value(const det_scaler *s)
{
    return is_off(s) ? 1 : s->opts.init_scale;
}

det_tensor *det_scaler_scale(det_scaler *s, det_tensor *loss)
{
    return is_off(s) ? loss : det_mul_scalar(loss, s->opts.init_scale);
}

static struct scaled *find_scaled(det_scaler *s, const det_optimizer *opt)
{
    for (int i = 0; i < s->n_scaled; i++)
        if (s->scaled[i].opt == opt) return &s->scaled[i];
    s->scaled = xrealloc(s->scaled, (size_t)(s->n_scaled + 1) * sizeof *s->scaled);
    s->scaled[s->n_scaled] = (struct scaled){.opt = opt};
    return &s->scaled[s->n_scaled++];
}

static void unscale(const det_scaler *s, struct scaled *mine, det_optimizer *opt)
{
    mine->found_inf = !optimizer_unscale(opt, 1 / s->opts.init_scale);
    mine->stage = STAGE_UNSCALED;
}

void det_scaler_unscale(det_scaler *s, det_optimizer *opt)
{
    if (is_off(s) || !opt || sticky_failed()) return;
    struct scaled *mine = find_scaled(s, opt);
    if (mine->stage == STAGE_READY)
        unscale(s, mine, opt);
    else
        det_raise(DET_ESTATE, "det_scaler_unscale: done already since the last det_scaler_update");
}

void scaler_unscale_once(det_scaler *s, det_optimizer *opt)
{
    if (is_off(s) || !opt || sticky_failed()) return;
    struct scaled *mine = find_scaled(s, opt);
    if (mine->stage == STAGE_READY) unscale(s, mine, opt);
}

void scaler_again(det_scaler *s, const det_optimizer *opt)
{
    if (is_off(s) || !opt || sticky_failed()) return;
    struct scaled *mine = find_scaled(s, opt);
    mine->had_inf |= mine->found_inf;
    mine->stage = STAGE_READY;
}

bool det_scaler_step(det_scaler *s, det_optimizer *opt)
{
    if (!opt || sticky_failed()) return false;
    if (is_off(s)) {
        det_optim_step(opt);
        return !sticky_failed();
    }
    struct scaled *mine = find_scaled(s, opt);
    if (mine->stage == STAGE_READY) unscale(s, mine, opt);
    if (mine->stage == STAGE_STEPPED) {
        det_raise(DET_ESTATE, "det_scaler_step: done already since the last det_scaler_update");
        return false;
    }
    mine->stage = STAGE_STEPPED;
    if (mine->found_inf) return false;
    det_optim_step(opt);
    return !sticky_failed();
}

// torch keeps the scale as f32 and does not let it grow to infinity.
static void multiply_scale(det_scaler *s, double factor)
{
    float scale = (float)(s->opts.init_scale * factor);
    if (isfinite(scale)) s->opts.init_scale = scale;
    s->growth_tracker = 0;
}

void det_scaler_update(det_scaler *s)
{
    if (is_off(s) || sticky_failed()) return;
    if (!s->n_scaled) {
        det_raise(DET_ESTATE, "det_scaler_update: no optimizer was unscaled or stepped before");
        return;
    }
    bool found_inf = false;
    for (int i = 0; i < s->n_scaled; i++)
        found_inf |= s->scaled[i].found_inf || s->scaled[i].had_inf;
    s->n_scaled = 0;
    if (found_inf)
        multiply_scale(s, s->opts.backoff_factor);
    else if (++s->growth_tracker == s->opts.growth_interval)
        multiply_scale(s, s->opts.growth_factor);
}

det_value *det_scaler_state_dict(const det_scaler *s)
{
    det_value *dict = det_value_dict();
    if (is_off(s)) return dict;
    settings_save(scaler_settings, &s->opts, 0, dict);
    det_value_set(dict, "_growth_tracker", det_value_int(s->growth_tracker));
    return dict;
}

int det_scaler_load_state_dict(det_scaler *s, const det_value *state, det_err *err)
{
    if (is_off(s)) return det_ok(err);
    if (!det_value_len(state))
        return det_fail(err, DET_EINVAL,
                        "GradScaler: the state dict is empty, perhaps of a disabled one");
    int64_t tracker = s->growth_tracker;
    const det_value *saved_tracker = det_value_get(state, "_growth_tracker");
    int rc = saved_tracker ? value_as_count(saved_tracker, &tracker, err) : 0;
    if (!rc) rc = settings_load(scaler_settings, &s->opts, 0, state, false, err);
    if (rc) return det_wrap(err, "GradScaler state dict");
    s->growth_tracker = tracker;
    return settings_load(scaler_settings, &s->opts, 0, state, true, err);
}
