// Unit objects.c: everything that was wrapped, as one tree of values, and back.
//
// The tree is what torch.load gives for such a file: lists of state dicts in the order of wrapping,
// callbacks by name. Beyond the four keys that everybody knows there may be the scaler, the random
// numbers, and gradients that wait for their step.
#include "train/training.h"

#include "train/ranks.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/str.h"
#include "storage/storage.h"
#include <unistd.h>

#define CALLBACKS_KEY "callbacks"
#define SCALER "scaler_state_dict"
#define RNG "rng_state"
#define GRADIENTS "gradients"
#define RANK_STATES "rank_states"

// A list of states; files of old have a single one under another name.
struct group {
    const char *key, *old_key, *noun;
};
static const struct group models = {"models_state_dict", "model_state_dict", "model"};
static const struct group optimizers = {"optimizers_state_dict", "optimizer_state_dict",
                                        "optimizer"};
static const struct group schedules = {"lr_schedulers_state_dict", "lr_scheduler", "schedule"};

// --- saving

static int collect_callbacks(det_context *ctx, det_value *dict, det_err *err)
{
    for (int i = 0; i < ctx->n_callbacks; i++) {
        const struct callback *cb = &ctx->callbacks[i];
        if (!cb->ops->state_dict) continue;
        det_ok(err);
        det_value *state = cb->ops->state_dict(cb->self, err);
        int rc = callback_result(state ? 0 : err->code, cb->name, "state_dict", err);
        det_value_set(dict, cb->name, state);
        if (rc) return rc;
    }
    return 0;
}

static void collect_gradients(det_context *ctx, det_value *dict)
{
    det_value *all = det_value_list();
    bool any = false;
    for (int i = 0; i < ctx->n_models; i++) {
        det_value *grads = ctx->setup.engine->grads_state(ctx->models[i]);
        any |= grads != NULL;
        det_value_push(all, grads ? grads : det_value_none());
    }
    if (any)
        det_value_set(dict, GRADIENTS, all);
    else
        det_value_free(all);
}

det_value *objects_collect(det_context *ctx, det_err *err)
{
    const det_engine *engine = ctx->setup.engine;
    det_value *dict = det_value_dict();
    det_value *list = det_value_set(dict, models.key, det_value_list());
    for (int i = 0; i < ctx->n_models; i++)
        det_value_push(list, engine->model_state(ctx->models[i]));
    list = det_value_set(dict, optimizers.key, det_value_list());
    for (int i = 0; i < ctx->n_optimizers; i++)
        det_value_push(list, engine->optim_state(ctx->optimizers[i].opt));
    list = det_value_set(dict, schedules.key, det_value_list());
    for (int i = 0; i < ctx->n_schedules; i++)
        det_value_push(list, engine->lr_state(ctx->schedules[i].schedule));
    int rc = collect_callbacks(ctx, det_value_set(dict, CALLBACKS_KEY, det_value_dict()), err);
    if (ctx->scaler) det_value_set(dict, SCALER, engine->scaler_state(ctx->scaler));
    det_value_set(dict, RNG, engine->rng_state());
    collect_gradients(ctx, dict);
    if (!rc) rc = det_check(err);
    if (!rc) return dict;
    det_value_free(dict);
    return NULL;
}

// What only a rank itself knows is with rank 0 from now on, which writes it.
int objects_gather(const det_context *ctx, det_value *tree, det_err *err)
{
    static const char *const keys[] = {RNG, GRADIENTS};
    if (!ctx->setup.ranks || dist_is_broken(ctx->setup.ranks)) return 0;
    det_value *mine = det_value_dict();
    for (size_t i = 0; i < STATIC_LEN(keys); i++) {
        const det_value *value = det_value_get(tree, keys[i]);
        if (value) det_value_set(mine, keys[i], det_value_copy(value));
    }
    det_value *all = ranks_gather(&ctx->setup, "state of ranks", mine, err);
    if (all) det_value_set(tree, RANK_STATES, all);
    return all ? 0 : err->code;
}

// --- loading

// The tree in which this rank finds its own random numbers and gradients.
static int find_rank_state(const det_context *ctx, const det_value *tree, const det_value **out,
                           det_err *err)
{
    const det_value *all = det_value_get(tree, RANK_STATES);
    int saved = all ? det_value_len(all) : 1, size = ctx->setup.size;
    *out = all && saved == size ? det_value_at(all, ctx->setup.rank) : tree;
    if (saved == size || !det_value_get(tree, GRADIENTS)) return 0;
    return det_fail(err, DET_EINVAL,
                    "it has gradients of %d slots that wait for their step, now there are %d "
                    "slots: go on with %d",
                    saved, size, saved);
}

static int group_check(const det_value *tree, const struct group *g, int n, det_err *err)
{
    const det_value *list = det_value_get(tree, g->key), *single = det_value_get(tree, g->old_key);
    if (list && single)
        return det_fail(err, DET_ECORRUPT, "it has both '%s' and '%s'", g->key, g->old_key);
    int saved = list ? det_value_len(list) : single != NULL;
    if (saved == n) return 0;
    return det_fail(err, DET_EINVAL, "it has %d %s state%s, but %d %s wrapped", saved, g->noun,
                    saved == 1 ? "" : "s", n, n == 1 ? "is" : "are");
}

static const det_value *group_at(const det_value *tree, const struct group *g, int i)
{
    const det_value *list = det_value_get(tree, g->key);
    return list ? det_value_at(list, i) : det_value_get(tree, g->old_key);
}

// A model that was trained as part of a parallel one has "module." before its keys.
static det_value *without_prefix(const det_value *state)
{
    const struct str prefix = STR("module.");
    if (!det_value_len(state)) return NULL;
    for (int i = 0; i < det_value_len(state); i++) {
        const char *key = det_value_key(state, i, NULL);
        if (!key || !str_starts(str_from(key), prefix)) return NULL;
    }
    det_value *plain = det_value_dict();
    for (int i = 0; i < det_value_len(state); i++)
        det_value_set(plain, det_value_key(state, i, NULL) + prefix.len,
                      det_value_copy(det_value_at(state, i)));
    return plain;
}

static int load_model(const det_engine *engine, det_module *model, const det_value *state,
                      det_err *err)
{
    int rc = engine->model_load(model, state, err);
    det_value *plain = rc ? without_prefix(state) : NULL;
    if (plain) rc = engine->model_load(model, plain, err);
    det_value_free(plain);
    return rc;
}

int objects_load_models(det_context *ctx, const det_value *tree, det_err *err)
{
    int rc = group_check(tree, &models, ctx->n_models, err);
    for (int i = 0; !rc && i < ctx->n_models; i++) {
        rc = load_model(ctx->setup.engine, ctx->models[i], group_at(tree, &models, i), err);
        if (rc) det_wrap(err, "model %d", i);
    }
    return rc;
}

static int load_optimizers(det_context *ctx, const det_value *tree, det_err *err)
{
    int rc = group_check(tree, &optimizers, ctx->n_optimizers, err);
    for (int i = 0; !rc && i < ctx->n_optimizers; i++) {
        const det_value *state = group_at(tree, &optimizers, i);
        rc = ctx->setup.engine->optim_load(ctx->optimizers[i].opt, state, err);
        if (rc) det_wrap(err, "optimizer %d", i);
    }
    return rc;
}

static int load_schedules(det_context *ctx, const det_value *tree, det_err *err)
{
    int rc = group_check(tree, &schedules, ctx->n_schedules, err);
    for (int i = 0; !rc && i < ctx->n_schedules; i++) {
        const det_value *state = group_at(tree, &schedules, i);
        rc = ctx->setup.engine->lr_load(ctx->schedules[i].schedule, state, err);
        if (rc) det_wrap(err, "schedule %d", i);
    }
    return rc;
}

static int load_gradients(det_context *ctx, const det_value *tree, det_err *err)
{
    const det_value *all = det_value_get(tree, GRADIENTS);
    int rc = 0;
    for (int i = 0; !rc && i < MIN(det_value_len(all), ctx->n_models); i++) {
        const det_value *grads = det_value_at(all, i);
        if (det_value_kind(grads) == DET_KIND_NONE) continue;
        rc = ctx->setup.engine->grads_load(ctx->models[i], grads, err);
        if (rc) det_wrap(err, "model %d", i);
    }
    return rc;
}

static int load_scaler(struct training *run, const det_value *tree, det_err *err)
{
    det_context *ctx = run->ctx;
    const det_value *scaler = det_value_get(tree, SCALER);
    int rc = 0;
    if (ctx->scaler && scaler)
        rc = run->engine->scaler_load(ctx->scaler, scaler, err);
    else if (ctx->scaler || scaler)
        training_warn(run, "%s: the loss scale starts anew",
                      scaler ? "the checkpoint has a scaler, the trial has none"
                             : "the trial has a scaler, the checkpoint has none");
    return rc;
}

static int load_rng(struct training *run, const det_value *tree, det_err *err)
{
    const det_value *rng = det_value_get(tree, RNG);
    if (rng) return run->engine->rng_load(rng, err);
    training_warn(run, "the checkpoint has no state of random numbers");
    return 0;
}

static int load_callbacks(struct training *run, const det_value *tree, det_err *err)
{
    const det_value *states = det_value_get(tree, CALLBACKS_KEY);
    for (int i = 0; i < run->ctx->n_callbacks; i++) {
        const struct callback *cb = &run->ctx->callbacks[i];
        if (!cb->ops->load_state_dict) continue;
        const det_value *state = det_value_get(states, cb->name);
        if (!state) {
            training_warn(run, "the checkpoint has no state of callback '%s'", cb->name);
            continue;
        }
        int rc = cb->ops->load_state_dict(cb->self, state, err);
        rc = callback_result(rc, cb->name, "load_state_dict", err);
        if (rc) return rc;
    }
    return 0;
}

int objects_load(struct training *run, det_value *tree, det_err *err)
{
    int rc = 0;
    const det_value *mine;
    CALLBACKS(run->ctx, rc, err, on_checkpoint_load_start, tree, err);
    if (!rc) rc = find_rank_state(run->ctx, tree, &mine, err);
    if (!rc) rc = objects_load_models(run->ctx, tree, err);
    if (!rc) rc = load_optimizers(run->ctx, tree, err);
    if (!rc) rc = load_schedules(run->ctx, tree, err);
    if (!rc) rc = load_gradients(run->ctx, mine, err);
    if (!rc) rc = load_scaler(run, tree, err);
    if (!rc) rc = load_rng(run, mine, err);
    return rc ? rc : load_callbacks(run, tree, err);
}

det_value *objects_read(const det_engine *engine, const char *dir, det_err *err)
{
    static const char *const names[] = {CKPT_STATE, "state_dict.pth", "determined/state_dict.pth",
                                        "pedl/state_dict.pth", "checkpoint.pt"};
    struct arena arena = ARENA_INIT;
    det_value *tree = NULL;
    const char *path = NULL;
    for (size_t i = 0; !path && i < STATIC_LEN(names); i++) {
        path = arena_printf(&arena, "%s/%s", dir, names[i]);
        if (access(path, F_OK)) path = NULL;
    }
    if (path)
        tree = engine->load(path, err);
    else
        det_fail(err, DET_ENOTFOUND, "there is no " CKPT_STATE " in '%s'", dir);
    arena_done(&arena);
    return tree;
}
