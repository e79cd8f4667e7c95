// Unit trainer.c: making a trainer, and looking at it.
#include "accel/accel.h"

#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "engine/engine.h"

// A table of function pointers, completed from another one.
static det_accel_ops complete(const det_accel_ops *given)
{
    enum { N = sizeof(det_accel_ops) / sizeof(void (*)(void)) };
    void (*all[N])(void), (*own[N])(void) = {NULL};
    memcpy(all, &det_accel_default, sizeof all);
    if (given) memcpy(own, given, sizeof own);
    for (int i = 0; i < N; i++)
        if (own[i]) all[i] = own[i];
    det_accel_ops ops;
    memcpy(&ops, all, sizeof ops);
    return ops;
}

// PT_ACC_LIMIT_BATCHES: a number, or "none".
static void add_limit_of_environment(det_accel *t)
{
    struct str text = str_from(getenv("PT_ACC_LIMIT_BATCHES"));
    int64_t n;
    if (!text.len || str_eqz(text, "none")) return;
    if (number_to_int(text, 10, &n) && n > 0)
        callbacks_add(&t->callbacks, det_accel_callback_limit_batches(n));
    else
        det_raise(DET_EINVAL, "PT_ACC_LIMIT_BATCHES: wants a number >= 1 or none, got '%s'",
                  text.ptr);
}

static void add_list(det_accel *t, det_accel_callbacks list)
{
    for (int i = 0; i < list.n; i++)
        callbacks_add(&t->callbacks, list.items[i]);
}

static void add_callbacks(det_accel *t, const det_accel_opts *o)
{
    add_limit_of_environment(t);
    if (o->callbacks.items)
        add_list(t, o->callbacks);
    else
        add_list(t, (det_accel_callbacks)DET_ACCEL_CALLBACKS(DET_ACCEL_DEFAULT_CALLBACKS));
}

static void check(const det_accel *t)
{
    if (!t->model || !t->loss_func)
        det_raise(DET_EINVAL, "trainer: the %s is NULL", t->model ? "loss function" : "model");
    if (t->trainer && own_trainer_engine(t->trainer) != &engine_det)
        det_raise(DET_EINVAL, "trainer: .trainer has another engine than that of this library");
}

uint64_t accel_seed(const det_accel *t)
{
    enum { UPSTREAM_SEED = 42 };
    if (t->asked_seed >= 0) return (uint64_t)t->asked_seed;
    return t->trainer && !t->owns_trainer ? det_trainer_seed(t->trainer) : UPSTREAM_SEED;
}

det_accel *det_accel_new_with(det_module *model, det_accel_loss_fn loss_func,
                              det_optimizer *optimizer, det_accel_opts o)
{
    det_accel *t = xcalloc(1, sizeof *t);
    t->ops = complete(o.ops);
    t->self = o.self;
    t->model = model;
    t->optimizer = optimizer;
    t->loss_func = loss_func;
    t->loss_opts = o.loss_opts;
    t->history = o.run_history ? o.run_history : det_accel_history_new();
    t->trainer = o.trainer;
    if (o.trainer) t->ranks = own_trainer_ranks(o.trainer);
    t->bf16 = o.bf16;
    t->asked_seed = o.seed;
    t->seed = accel_seed(t);
    t->out = o.out ? o.out : stdout;
    check(t);
    add_callbacks(t, &o);
    if (sticky_failed()) {
        det_accel_free(t);
        return NULL;
    }
    EVENT(t, on_init_end);
    return t;
}

void det_accel_free(det_accel *t)
{
    if (!t) return;
    callbacks_done(&t->callbacks);
    det_lr_scheduler_free(t->scheduler);
    det_loader_free(t->train_loader);
    det_loader_free(t->eval_loader);
    det_accel_history_free(t->history);
    det_value_free(t->callback_states);
    if (t->owns_trainer) det_trainer_free(t->trainer);
    det_optim_free(t->optimizer);
    det_module_free(t->model);
    free(t);
}

// --- looking at it

void *det_accel_self(det_accel *t)
{
    return t ? t->self : NULL;
}

det_module *det_accel_model(det_accel *t)
{
    return t ? t->model : NULL;
}

det_optimizer *det_accel_optimizer(det_accel *t)
{
    return t ? t->optimizer : NULL;
}

det_lr_scheduler *det_accel_scheduler(det_accel *t)
{
    return t ? t->scheduler : NULL;
}

det_accel_history *det_accel_run_history(det_accel *t)
{
    return t ? t->history : NULL;
}

const det_accel_run_config *det_accel_get_run_config(const det_accel *t)
{
    return t && t->has_config ? &t->config : NULL;
}

det_dataset *det_accel_train_dataset(det_accel *t)
{
    return t ? t->train_dataset : NULL;
}

det_dataset *det_accel_eval_dataset(det_accel *t)
{
    return t ? t->eval_dataset : NULL;
}

det_loader *det_accel_train_dataloader(det_accel *t)
{
    return t ? t->train_loader : NULL;
}

det_loader *det_accel_eval_dataloader(det_accel *t)
{
    return t ? t->eval_loader : NULL;
}

int64_t det_accel_step(const det_accel *t)
{
    return t ? t->step : 0;
}

int64_t det_accel_n_steps(const det_accel *t)
{
    return t ? t->n_steps : 0;
}

int64_t det_accel_updates(const det_accel *t)
{
    return t ? t->updates : 0;
}

bool det_accel_is_intermediate(const det_accel *t)
{
    return t && t->eval_kind == EVAL_INTERMEDIATE;
}

bool det_accel_is_resumable(const det_accel *t)
{
    return t && t->resumable;
}

// --- for steps and callbacks

void det_accel_stop(det_accel *t, const char *fmt, ...)
{
    if (!t || t->stopping) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->stop_message, sizeof t->stop_message, fmt, args);
    va_end(args);
    t->stopping = true;
}

void det_accel_print(det_accel *t, const char *fmt, ...)
{
    if (!t || processes_rank(t)) return;
    va_list args;
    va_start(args, fmt);
    vfprintf(t->out, fmt, args);
    va_end(args);
    fputc('\n', t->out);
    fflush(t->out);
}

void det_accel_call_event(det_accel *t, const char *event, void *arg)
{
    if (t) EVENT(t, on_event, event, arg);
}

void det_accel_add_callback(det_accel *t, det_accel_callback *c)
{
    if (t)
        callbacks_add(&t->callbacks, c);
    else
        det_accel_callback_free(c);
}
