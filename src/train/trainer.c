// Unit trainer.c: the trainer of det/trainer.h, and the one call that runs a whole task.
#include "train/training.h"
#include "train/setup.h"

#include "base/mem.h"
#include "base/number.h"
#include "client/client.h"

struct det_trainer {
    struct arena arena; // configuration and hyperparameters
    struct setup_config config;
    struct context_setup setup; // of every trial
    struct det_config hparams, data;
    det_core *core;     // NULL: not a task of a cluster
    struct dist *ranks; // NULL: the only one
    struct host *host;  // NULL: one for each training
    det_trial *trials;
    bool has_run;
    struct training run; // of the last training, for its result
    det_train_opts opts;
    struct progress progress; // if the options want it
    det_report_fn on_report;  // behind that
    void *report_user;
    det_result result;
};

const det_engine *engine_default;
static _Thread_local const det_engine *last_engine; // of a trainer, even if it could not be made

const det_engine *trainer_engine(const det_trainer *t)
{
    return t ? t->setup.engine : last_engine;
}

// Other ranks cannot go on either.
static void *raise_err(det_trainer *t, const det_err *err)
{
    if (t) dist_fail(t->ranks, err->code, err->msg);
    det_raise(err->code, "%s", err->msg);
    return NULL;
}

// --- making

static det_trainer *trainer_new(const det_engine *engine)
{
    det_trainer *t = xcalloc(1, sizeof *t);
    last_engine = engine ? engine : engine_default;
    t->setup = (struct context_setup){.engine = last_engine, .size = 1};
    return t;
}

static int check_engine(const det_trainer *t, det_err *err)
{
    if (t->setup.engine) return 0;
    return det_fail(err, DET_ESTATE, "this program has no engine: name one (det_init_opts.engine)");
}

// After configuration and hyperparameters are known. All ranks have the seed of rank 0.
static int complete(det_trainer *t, int64_t seed, det_err *err)
{
    const struct exp_config *cfg = t->config.experiment;
    setup_context(&t->setup, cfg);
    if (seed < 0 && cfg) seed = cfg->experiment_seed;
    t->setup.seed = seed < 0 ? setup_new_seed() : (uint64_t)seed;
    int rc = dist_broadcast(t->ranks, "seed", 0, &t->setup.seed, sizeof t->setup.seed, err);
    if (rc) return rc;
    t->setup.data = t->config.data;
    if (cfg) t->setup.experiment = exp_config_write(&t->arena, cfg, CONFIG_OWNER);
    t->hparams = settings_hparams(t->setup.hparams);
    t->data = settings_data(t->setup.data);
    t->setup.engine->seed(t->setup.seed);
    return 0;
}

// Finds out whether this is a task of a cluster.
static int join_cluster(det_trainer *t, det_err *err)
{
    if (!client_is_task()) return 0;
    t->core = det_core_init(err);
    if (!t->core) return err->code;
    const det_core_info *info = det_core_get_info(t->core);
    t->setup.trial_id = info->trial_id;
    t->setup.experiment_id = info->experiment_id;
    return 0;
}

// Finds out whether this is one of several processes.
static int join_ranks(det_trainer *t, det_err *err)
{
    int rc = dist_join_env(&t->ranks, err);
    t->setup.ranks = t->ranks;
    t->setup.rank = dist_rank(t->ranks);
    t->setup.size = dist_size(t->ranks);
    return rc;
}

static int read_task_config(det_trainer *t, det_err *err)
{
    const char *text = getenv("DET_EXPERIMENT_CONFIG");
    if (!text) return 0;
    return setup_parse_config(&t->arena, arena_strdup(&t->arena, text), "DET_EXPERIMENT_CONFIG",
                              &t->config, err);
}

// Those of the task are above what the program says, which is above the configuration.
static int set_hparams(det_trainer *t, const struct doc *values, det_err *err)
{
    const char *text = getenv("DET_HPARAMS");
    const struct doc *task = text ? setup_parse(&t->arena, text, "DET_HPARAMS", err) : NULL;
    if (text && !task) return err->code;
    const struct exp_config *cfg = t->config.experiment;
    t->setup.hparams = setup_hparams(&t->arena, cfg ? &cfg->hyperparameters : NULL,
                                     setup_merge(&t->arena, task, values), err);
    return t->setup.hparams ? 0 : err->code;
}

static int read_init_opts(det_trainer *t, const det_init_opts *opts, det_err *err)
{
    const struct doc *values = NULL;
    int rc = t->core || !opts->config ? read_task_config(t, err) : 0;
    if (!rc && opts->config && !t->config.experiment)
        rc = setup_read_config(&t->arena, opts->config, &t->config, err);
    if (!rc && opts->hparams) {
        values = setup_parse(&t->arena, opts->hparams, "hparams", err);
        rc = values ? 0 : err->code;
    }
    return rc ? rc : set_hparams(t, values, err);
}

// Negative: it has none.
static int64_t task_seed(void)
{
    int64_t seed = -1;
    const char *text = getenv("DET_TRIAL_SEED");
    return text && number_to_int(str_from(text), 10, &seed) ? seed : -1;
}

det_trainer *det_init_with(det_init_opts opts)
{
    det_err err;
    det_trainer *t = trainer_new(opts.engine);
    int rc = check_engine(t, &err);
    if (!rc) rc = join_ranks(t, &err);
    if (!rc) rc = join_cluster(t, &err);
    if (!rc) rc = read_init_opts(t, &opts, &err);
    if (!rc) rc = complete(t, opts.seed < 0 ? task_seed() : opts.seed, &err);
    if (!rc) return t;
    raise_err(t, &err);
    det_trainer_free(t);
    return NULL;
}

static void forget_run(det_trainer *t)
{
    if (t->has_run) training_done(&t->run);
    t->has_run = false;
}

void det_trainer_free(det_trainer *t)
{
    if (!t) return;
    forget_run(t);
    while (t->trials) {
        det_trial *trial = t->trials;
        t->trials = trial->next;
        trial_free(trial);
    }
    det_core_close(t->core, NULL); // what was not delivered waits for whoever started the task
    dist_leave(t->ranks);
    arena_done(&t->arena);
    free(t);
}

// --- asking

const det_config *det_trainer_hparams(const det_trainer *t)
{
    return t ? &t->hparams : NULL;
}

const det_config *det_trainer_data_config(const det_trainer *t)
{
    return t ? &t->data : NULL;
}

uint64_t det_trainer_seed(const det_trainer *t)
{
    return t ? t->setup.seed : 0;
}

int det_trainer_rank(const det_trainer *t)
{
    return t ? t->setup.rank : 0;
}

int det_trainer_size(const det_trainer *t)
{
    return t ? t->setup.size : 0;
}

int64_t det_shard_batch_size(const det_trainer *t, int64_t global_batch_size)
{
    if (!t) return 0;
    if (global_batch_size < t->setup.size) {
        det_raise(DET_EINVAL, "det_shard_batch_size: a batch of %lld for %d slots",
                  (long long)global_batch_size, t->setup.size);
        return 0;
    }
    return global_batch_size / t->setup.size;
}

// --- trials

static det_trial *build_trial(det_trainer *t, const det_trial_ops *ops, det_trial_opts opts,
                              const struct context_setup *setup, det_err *err)
{
    det_trial *trial = trial_new(ops, opts, setup, err);
    if (!trial && t->core && err->code == DET_EHPARAM)
        det_core_report_invalid_hparams(t->core, NULL);
    if (!trial) return NULL;
    trial->next = t->trials;
    return t->trials = trial;
}

det_trial *det_build_trial_with(det_trainer *t, const det_trial_ops *ops, det_trial_opts opts)
{
    det_err err;
    if (!t) return NULL;
    if (!ops) {
        det_raise(DET_EINVAL, "det_build_trial: there are no operations");
        return NULL;
    }
    det_trial *trial = build_trial(t, ops, opts, &t->setup, &err);
    return trial ? trial : raise_err(t, &err);
}

static int load_trial(det_trainer *t, const det_trial_ops *ops, det_trial_opts opts,
                      const char *dir, det_trial **out, det_err *err)
{
    struct context_setup setup = t->setup;
    int rc = checkpoint_verify(dir, err);
    if (!rc) rc = setup_read_checkpoint(&t->arena, dir, &setup, err);
    if (rc) return rc;
    det_value *tree = objects_read(setup.engine, dir, err);
    if (!tree) return err->code;
    det_trial *trial = build_trial(t, ops, opts, &setup, err);
    rc = trial ? objects_load_models(trial->ctx, tree, err) : err->code;
    det_value_free(tree);
    if (!rc) *out = trial;
    return rc;
}

// The directory of a checkpoint of the cluster.
static int fetch_checkpoint(det_trainer *t, const det_checkpoint_source *source, const char **dir,
                            det_err *err)
{
    if (!t->core)
        return det_fail(err, DET_ESTATE,
                        "only a task of a cluster can have a checkpoint by the number of its trial "
                        "or its UUID: start it with 'det job run', or give the directory");
    return client_fetch_checkpoint(t->core, source->trial_id, source->uuid, dir, err);
}

det_trial *det_load_checkpoint_trial_with(det_trainer *t, const det_trial_ops *ops,
                                          det_checkpoint_source source)
{
    det_err err;
    det_trial *trial = NULL;
    const char *dir = source.directory;
    if (!t) return NULL;
    if (!ops || !!source.directory + !!source.trial_id + !!source.uuid != 1) {
        det_raise(DET_EINVAL, "det_load_checkpoint_trial: give operations, and one of directory, "
                              "trial_id and uuid");
        return NULL;
    }
    int rc = dir ? 0 : fetch_checkpoint(t, &source, &dir, &err);
    if (rc) return raise_err(t, &err);
    if (!load_trial(t, ops, source.trial, dir, &trial, &err)) return trial;
    det_wrap(&err, "checkpoint '%s'", dir);
    return raise_err(t, &err);
}

// --- training

static void fill_result(det_trainer *t)
{
    const struct training *run = &t->run;
    t->result = (det_result){
        .training = det_metrics_rows(run->training) ? run->training : NULL,
        .validation = det_metrics_rows(run->validation) ? run->validation : NULL,
        .best_validation = det_metrics_rows(run->best) ? run->best : NULL,
        .batches = run->state.batches,
        .epochs = run->state.epochs,
        .best_batches = run->state.best_batches,
        .stop_reason = run->leaving ? run->stop_reason : DET_STOP_LENGTH,
        .checkpoint = run->checkpoint,
        .seed = run->ctx->setup.seed,
    };
}

static void pass_warning(const char *text, void *run)
{
    training_warn(run, "%s", text);
}

static int run_training(det_trainer *t, det_trial *trial, struct host *host, det_err *err)
{
    struct training *run = &t->run;
    training_init(run, trial, host, &t->opts);
    t->has_run = true;
    const det_engine *engine = t->setup.engine;
    det_warning_handler before =
        engine->set_warning_handler((det_warning_handler){pass_warning, run});
    int rc = training_open_store(run, err);
    if (!rc)
        rc = training_run(run, err);
    else if (t->core && rc == DET_EHPARAM) // so says another rank
        det_core_report_invalid_hparams(t->core, NULL);
    training_close(run);
    engine->set_warning_handler(before);
    if (!rc) fill_result(t);
    return rc;
}

// On a cluster the master knows where checkpoints are, and from which one to go on.
static int take_checkpoints(det_core *core, det_train_opts *opts, det_err *err)
{
    opts->checkpoint_dir = client_storage(core);
    opts->resume = NULL;
    opts->resume_newest = false;
    int rc = det_core_latest_checkpoint(core, &opts->resume, err);
    return rc < 0 ? rc : 0;
}

static struct host *choose_host(det_trainer *t, det_err *err)
{
    if (t->host) return t->host;
    return t->core ? host_cluster_new(t->core, &t->opts, err) : host_local_new(&t->opts, err);
}

static int train_for_host(det_trainer *t, det_trial *trial, struct host *host, det_err *err)
{
    if (!t->ranks) return run_training(t, trial, host, err);
    struct host *all = host_ranks_new(host, t->ranks);
    int rc = run_training(t, trial, all, err);
    host_free(all);
    return rc;
}

static void show_report(const det_report *report, void *user)
{
    det_trainer *t = user;
    progress_report(&t->progress, report);
    if (t->on_report) t->on_report(report, t->report_user);
}

static void show_begin(det_trainer *t)
{
    if (!t->opts.progress) return;
    t->on_report = t->opts.on_report;
    t->report_user = t->opts.report_user;
    t->opts.on_report = show_report;
    t->opts.report_user = t;
    progress_init(&t->progress, t->opts.progress);
}

static void show_end(det_trainer *t, int rc)
{
    if (!t->opts.progress) return;
    if (!rc) progress_result(&t->progress, &t->result);
    progress_done(&t->progress);
}

static int train_chosen(det_trainer *t, det_trial *trial, det_err *err)
{
    show_begin(t);
    struct host *host = choose_host(t, err);
    int rc = host ? train_for_host(t, trial, host, err) : err->code;
    show_end(t, rc);
    if (!t->host) host_free(host);
    return rc;
}

// Only rank 0 tells anybody anything.
static void keep_silent(det_train_opts *opts)
{
    opts->metrics_file = NULL;
    opts->on_report = NULL;
    opts->progress = NULL;
}

// What was asked for, completed by the configuration.
static int prepare(det_trainer *t, const det_train_opts *opts, det_err *err)
{
    forget_run(t);
    t->opts = *opts;
    if (t->setup.rank) keep_silent(&t->opts);
    int rc = t->core ? take_checkpoints(t->core, &t->opts, err) : 0;
    if (!rc) setup_opts(&t->arena, &t->opts, t->config.experiment);
    return rc;
}

static int train(det_trainer *t, det_trial *trial, const det_train_opts *opts, det_err *err)
{
    trial_adopt(trial, opts->training);
    trial_adopt(trial, opts->validation);
    int rc = prepare(t, opts, err);
    if (!rc && !t->core) rc = setup_check_length(&t->opts, err);
    if (rc) return rc;
    if (opts->aggregation_frequency > 0)
        trial->ctx->setup.aggregation_frequency = opts->aggregation_frequency;
    return train_chosen(t, trial, err);
}

const det_result *det_train_with(det_trainer *t, det_trial *trial, det_train_opts opts)
{
    det_err err;
    const det_engine *engine = trainer_engine(t);
    if (!t || !trial) {
        if (engine && opts.training) engine->loader_free(opts.training);
        if (engine && opts.validation) engine->loader_free(opts.validation);
        return NULL;
    }
    return train(t, trial, &opts, &err) ? raise_err(t, &err) : &t->result;
}

// --- loops of their own

det_trainer *own_trainer_new(uint64_t seed)
{
    det_err err;
    det_trainer *t = trainer_new(NULL);
    int rc = check_engine(t, &err);
    t->setup.hparams = setup_hparams(&t->arena, NULL, NULL, &err);
    if (!rc) rc = complete(t, (int64_t)seed, &err);
    if (!rc) return t;
    raise_err(t, &err);
    det_trainer_free(t);
    return NULL;
}

struct dist *own_trainer_ranks(const det_trainer *t)
{
    return t->ranks;
}

const det_engine *own_trainer_engine(const det_trainer *t)
{
    return t->setup.engine;
}

bool own_trainer_is_task(const det_trainer *t)
{
    return t->core != NULL;
}

int own_loop_train(det_trainer *t, const struct own_loop *loop, const det_train_opts *opts,
                   const det_result **out, det_err *err)
{
    det_err own;
    if (!err) err = &own;
    int rc = prepare(t, opts, err);
    if (rc) return rc;
    struct context_setup setup = t->setup;
    if (loop->seed >= 0) setup.seed = (uint64_t)loop->seed;
    det_trial *trial = trial_new_own(loop, &setup);
    rc = train_chosen(t, trial, err);
    trial_free(trial);
    if (rc) dist_fail(t->ranks, rc, err->msg);
    *out = rc ? NULL : &t->result;
    return rc;
}

// --- a whole task

static int take_task(det_trainer *t, const struct train_task *task, det_err *err)
{
    struct context_setup *setup = &t->setup;
    int rc = 0;
    if (t->core) {
        rc = read_task_config(t, err);
        if (!rc) rc = set_hparams(t, task->hparams, err);
    } else {
        t->host = task->host;
        if (task->config) t->config = (struct setup_config){task->config, task->config->data};
        setup->trial_id = task->trial_id;
        setup->experiment_id = task->experiment_id;
        setup->hparams = setup_hparams(
            &t->arena, task->config ? &task->config->hyperparameters : NULL, task->hparams, err);
        rc = setup->hparams ? 0 : err->code;
    }
    return rc ? rc : complete(t, t->core ? task_seed() : task->seed, err);
}

static int build_and_train(det_trainer *t, const struct train_task *task, det_err *err)
{
    const det_trial_opts opts = {task->trial->name, task->trial->arg};
    det_trial *trial = build_trial(t, task->trial->ops, opts, &t->setup, err);
    if (trial) return train(t, trial, &task->opts, err);
    if (t->host && t->host->ops->leave)
        t->host->ops->leave(t->host,
                            err->code == DET_EHPARAM ? HOST_EXIT_INVALID_HPARAMS : HOST_EXIT_ERROR,
                            err->msg);
    return err->code;
}

int train_run(const struct train_task *task, det_err *err)
{
    det_err own;
    if (!err) err = &own;
    det_trainer *t = trainer_new(task->engine);
    int rc = check_engine(t, err);
    if (!rc) rc = join_ranks(t, err);
    if (!rc && !task->host) rc = join_cluster(t, err);
    if (!rc) rc = take_task(t, task, err);
    if (!rc) rc = build_and_train(t, task, err);
    if (rc && task->is_follower) *task->is_follower = dist_blame(t->ranks, NULL);
    if (rc) dist_fail(t->ranks, rc, err->msg);
    if (!rc && task->on_result) task->on_result(&t->result, task->result_user);
    int closed = det_core_close(t->core, rc ? NULL : err);
    t->core = NULL;
    det_trainer_free(t);
    return rc ? rc : closed;
}
