// Unit optimizer.c: optimizers, their groups of parameters and the settings of these.
#include "optim/optim.h"
#include "optim/optimizer.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>

// --- groups

static void group_free(struct group *g)
{
    if (!g) return;
    for (int i = 0; i < g->n; i++)
        det_unref(g->param[i].tensor);
    for (int i = 0; i < UPDATE_MAX_STATE; i++)
        det_unref(g->state[i]);
    flat_done(&g->flat);
    free(g->param);
    free(g);
}

int group_allocate_state(const struct optim_kind *kind, struct group *g, unsigned mask)
{
    double initial = kind->initial_state ? kind->initial_state(&g->hyper) : 0;
    for (int i = 0; i < UPDATE_MAX_STATE; i++) {
        if (!(mask >> i & 1) || g->state[i]) continue;
        det_scope_begin();
        g->state[i] = det_ref(det_full(DET_F32, DET_DIMS(g->flat.n_elements), initial));
        det_scope_end();
        if (!g->state[i]) return DET_ENOMEM;
    }
    return 0;
}

float *param_state(const struct group *g, int state, int i)
{
    return (float *)tensor_memory(g->state[state]) + g->flat.offset[i];
}

static bool is_known(const det_optimizer *opt, det_tensor *const *params, int n)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            if (params[i] == params[j]) return true;
        for (int g = 0; g < opt->n_groups; g++)
            for (int j = 0; j < opt->group[g]->n; j++)
                if (params[i] == opt->group[g]->param[j].tensor) return true;
    }
    return false;
}

static int params_ok(const det_optimizer *opt, det_tensor *const *params, int n, det_err *err)
{
    if (n < 1) return det_fail(err, DET_EINVAL, "%s: no parameters", opt->kind->name);
    for (int i = 0; i < n; i++)
        if (!params[i])
            return det_fail(err, DET_EINVAL, "%s: parameter %d is NULL", opt->kind->name, i);
    if (is_known(opt, params, n))
        return det_fail(err, DET_EINVAL, "%s: a parameter is in two groups, or twice in one",
                        opt->kind->name);
    return 0;
}

static struct group *group_new(const det_optimizer *opt, det_tensor *const *params, int n,
                               det_err *err)
{
    struct group *g = xcalloc(1, sizeof *g);
    g->hyper = opt->defaults;
    if (flat_init(&g->flat, params, n, err)) {
        det_wrap(err, "%s", opt->kind->name);
        group_free(g);
        return NULL;
    }
    g->param = xcalloc((size_t)n, sizeof *g->param);
    g->n = n;
    unsigned uses = opt->kind->eager ? opt->kind->uses(&g->hyper) : 0;
    for (int i = 0; i < n; i++)
        g->param[i] = (struct param){.tensor = det_ref(params[i]), .has = uses};
    if (!group_allocate_state(opt->kind, g, uses)) return g;
    group_free(g);
    return NULL;
}

static int add_group(det_optimizer *opt, det_tensor *const *params, int n, det_err *err)
{
    int rc = params_ok(opt, params, n, err);
    if (rc) return rc;
    struct group *g = group_new(opt, params, n, err);
    if (!g) return err->code ? err->code : DET_ENOMEM;
    size_t pieces = (size_t)(g->flat.n_elements / PIECE_ELEMENTS) + 1;
    for (int i = 0; i < opt->n_groups; i++)
        pieces = MAX(pieces, (size_t)(opt->group[i]->flat.n_elements / PIECE_ELEMENTS) + 1);
    opt->piece_sum = xrealloc(opt->piece_sum, pieces * sizeof *opt->piece_sum);
    opt->group = xrealloc(opt->group, (size_t)(opt->n_groups + 1) * sizeof *opt->group);
    opt->group[opt->n_groups] = g;
    return opt->n_groups++;
}

int det_optim_add_params(det_optimizer *opt, det_tensor *const *params, int n)
{
    if (!opt || sticky_failed()) return DET_ESTATE;
    det_err err = {0};
    int rc = add_group(opt, params, n, &err);
    if (err.code) det_raise(err.code, "%s", err.msg);
    return rc;
}

int det_optim_add_group(det_optimizer *opt, det_module *module)
{
    int n = det_module_n_params(module);
    det_tensor **list = xcalloc((size_t)MAX(n, 1), sizeof *list);
    for (int i = 0; i < n; i++)
        list[i] = det_module_param(module, i);
    int rc = det_optim_add_params(opt, list, n);
    free(list);
    return rc;
}

// --- optimizers

det_optimizer *optimizer_new(const struct optim_kind *kind, det_module *module,
                             const struct hyper *opts)
{
    det_optimizer *opt = xcalloc(1, sizeof *opt);
    opt->kind = kind;
    opt->defaults = *opts;
    if (det_optim_add_group(opt, module) == 0) return opt;
    det_optim_free(opt);
    return NULL;
}

void det_optim_free(det_optimizer *opt)
{
    if (!opt) return;
    for (int i = 0; i < opt->n_groups; i++)
        group_free(opt->group[i]);
    free(opt->group);
    free(opt->piece_sum);
    free(opt);
}

int det_optim_n_groups(const det_optimizer *opt)
{
    return opt ? opt->n_groups : 0;
}

// --- settings

static struct group *optimizer_group(const det_optimizer *opt, int group, const char *function)
{
    if (!opt) return NULL;
    if (group >= 0 && group < opt->n_groups) return opt->group[group];
    det_raise(DET_EINVAL, "%s: group %d of %d", function, group, opt->n_groups);
    return NULL;
}

double det_optim_lr(const det_optimizer *opt, int group)
{
    const struct group *g = optimizer_group(opt, group, "det_optim_lr");
    return g ? g->hyper.lr : NAN;
}

void det_optim_set_lr(det_optimizer *opt, int group, double lr)
{
    struct group *g = optimizer_group(opt, group, "det_optim_set_lr");
    if (g) g->hyper.lr = lr;
}

static const struct setting *find_setting(const det_optimizer *opt, const char *name)
{
    const struct setting *row = setting_find(opt->kind->settings, name);
    char names[256];
    if (!row)
        det_raise(DET_EINVAL, "%s has no field '%s'; it has %s", opt->kind->name, name,
                  settings_names(opt->kind->settings, names, sizeof names));
    return row;
}

double det_optim_get(const det_optimizer *opt, int group, const char *field)
{
    const struct group *g = optimizer_group(opt, group, "det_optim_get");
    const struct setting *row = g ? find_setting(opt, field) : NULL;
    return row ? setting_get(row, &g->hyper) : NAN;
}

void det_optim_set(det_optimizer *opt, int group, const char *field, double value)
{
    struct group *g = optimizer_group(opt, group, "det_optim_set");
    const struct setting *row = g ? find_setting(opt, field) : NULL;
    det_err err;
    if (row && setting_set(row, &g->hyper, value, &err))
        det_raise(err.code, "%s: %s", opt->kind->name, err.msg);
}

// --- for other layers

static bool has_param(det_module *const *models, int n_models, const det_tensor *param)
{
    for (int i = 0; i < n_models; i++)
        for (int p = 0, n = det_module_n_params(models[i]); p < n; p++)
            if (det_module_param(models[i], p) == param) return true;
    return false;
}

int optim_n_params_outside(const det_optimizer *opt, det_module *const *models, int n_models)
{
    int n = 0;
    for (int g = 0; g < opt->n_groups; g++)
        for (int i = 0; i < opt->group[g]->n; i++)
            n += !has_param(models, n_models, opt->group[g]->param[i].tensor);
    return n;
}
