// Unit create.c: experiments come into being: the configuration is read, the place of checkpoints
// tried out, the searcher born, and its first trials with it.
#include "master/create.h"

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "master/policy.h"
#include "storage/storage.h"
#include "sys/clock.h"
#include <math.h>
#include <sodium.h>
#include <sys/stat.h>

static void copy_text(const char **text, struct arena *arena)
{
    if (*text) *text = arena_strdup(arena, *text);
}

void create_copy_row(struct live_experiment *e, const struct experiment *row)
{
    struct arena *a = &e->arena;
    e->row = *row;
    copy_text(&e->row.name, a);
    copy_text(&e->row.description, a);
    copy_text(&e->row.notes, a);
    copy_text(&e->row.searcher_type, a);
    copy_text(&e->row.searcher_metric, a);
    copy_text(&e->row.resource_pool, a);
    copy_text(&e->row.job_id, a);
    copy_text(&e->row.context, a);
    copy_text(&e->row.reason, a);
    e->row.labels.items = arena_array(a, row->labels.n + 1, sizeof(const char *));
    for (size_t i = 0; i < row->labels.n; i++)
        e->row.labels.items[i] = arena_strdup(a, row->labels.items[i]);
}

// --- configuration

// A generic job is an experiment whose only trial runs the command, once: what breaks is not
// repeated.
static void job_as_experiment(const struct job_config *job, struct exp_config *out)
{
    *out = (struct exp_config){
        .text = job->text,
        .name = job->name,
        .description = job->description,
        .data = job->data,
        .workspace = job->workspace,
        .project = job->project,
        .private = job->private,
        .entrypoint = job->entrypoint,
        .launch_layer = job->launch_layer,
        .work_dir = job->work_dir,
        .hyperparameters = {.kind = HP_GROUP, .name = ""},
        .searcher = {.kind = SEARCHER_SINGLE, .smaller_is_better = true, .max_trials = 1},
        .resources = job->resources,
        .environment = job->environment,
        .preemption_timeout_s = job->preemption_timeout_s,
        .debug = job->debug,
        .scheduling_unit = 100,
    };
    out->bind_mounts.items = job->bind_mounts.items;
    out->bind_mounts.n = job->bind_mounts.n;
}

// A task gets the configuration as a variable, and Linux takes none larger than 128 KiB.
enum { CONFIG_MAX_BYTES = 120000 };

static void keep_json(struct live_experiment *e, const struct doc *complete)
{
    struct buf json = BUF_INIT(64 << 20);
    struct json_writer w;
    json_init(&w, &json, 0);
    json_put_doc(&w, complete);
    e->config_json = arena_strdup(&e->arena, buf_str(&json).ptr);
    buf_done(&json);
}

static int read_config(struct live_experiment *e, struct str text, const struct config_opts *opts,
                       struct diag_list *diags, det_err *err)
{
    const struct doc *complete;
    int rc;
    if (e->row.kind == EXPERIMENT_GENERIC) {
        struct job_config job;
        rc = job_config_read(&e->arena, text, opts, &job, diags);
        if (rc) return diag_fail(diags, err);
        complete = job_config_write(&e->arena, &job, CONFIG_WHOLE);
        job_as_experiment(&job, &e->cfg);
    } else {
        rc = exp_config_read(&e->arena, text, opts, &e->cfg, diags);
        if (rc) return diag_fail(diags, err);
        complete = exp_config_write(&e->arena, &e->cfg, CONFIG_WHOLE);
    }
    e->row.private = e->cfg.private;
    keep_json(e, complete);
    size_t n = strlen(e->config_json);
    if (n <= CONFIG_MAX_BYTES) return 0;
    return det_fail(err, DET_ELIMIT, "the complete configuration has %zu bytes; %d are the limit",
                    n, CONFIG_MAX_BYTES);
}

// Where its checkpoints go. That it can be written to is found out now and not after hours.
static int choose_storage(struct live_experiment *e, det_err *err)
{
    const struct storage_config *s = &e->cfg.checkpoint_storage;
    struct store *store = NULL;
    int rc;
    switch (s->kind) {
    case STORAGE_DEFAULT:
        e->checkpoint_dir = e->master->checkpoint_dir;
        rc = store_open(e->checkpoint_dir, &store, err);
        break;
    case STORAGE_SHARED_FS:
        e->checkpoint_dir = s->storage_path && s->storage_path[0] == '/'
                                ? s->storage_path
                                : arena_printf(&e->arena, "%s/%s", s->host_path,
                                               s->storage_path ? s->storage_path : "");
        rc = store_open_below(s->host_path, s->storage_path, &store, err);
        break;
    case STORAGE_DIRECTORY:
        e->checkpoint_dir = s->container_path;
        rc = store_open(e->checkpoint_dir, &store, err);
        break;
    default:
        return storage_check(s, err);
    }
    store_close(store);
    return rc ? det_wrap(err, "checkpoint_storage") : 0;
}

static int check_source(struct live_experiment *e, int64_t experiment_id,
                        const struct viewer *viewer, det_err *err)
{
    struct experiment row;
    int rc = db_experiment_find(e->master->reader, experiment_id, &e->arena, &row, err);
    if (rc || viewer_may_read(viewer, &row)) return rc;
    return det_fail(err, DET_EDENIED, "experiment %lld, whose checkpoint it is, is private",
                    (long long)experiment_id);
}

// A checkpoint that all trials start from. viewer NULL: it was found allowed before.
static int choose_start(struct live_experiment *e, const struct viewer *viewer, det_err *err)
{
    struct master *m = e->master;
    const struct searcher_config *s = &e->cfg.searcher;
    struct checkpoint c = {0};
    struct trial t = {0};
    int rc = 0;
    if (s->source_checkpoint_uuid) {
        rc = db_checkpoint_find(m->reader, s->source_checkpoint_uuid, &e->arena, &c, err);
        e->warm_start = s->source_checkpoint_uuid;
    } else if (s->source_trial_id.is_set) {
        rc = db_trial_find(m->reader, s->source_trial_id.value, &e->arena, &t, err);
        if (!rc && !t.latest_checkpoint)
            rc = det_fail(err, DET_ENOTFOUND, "trial %lld has no checkpoint", (long long)t.id);
        e->warm_start = rc ? NULL : t.latest_checkpoint;
    }
    int64_t source = c.experiment_id ? c.experiment_id : t.experiment_id;
    if (!rc && source && viewer) rc = check_source(e, source, viewer, err);
    return rc ? det_wrap(err, "searcher") : 0;
}

int create_read_stored(struct live_experiment *e, struct str config, det_err *err)
{
    struct diag_list diags = DIAG_INIT(&e->arena);
    const struct config_opts opts = {.source = "stored configuration"};
    struct str text = {arena_strndup(&e->arena, config.ptr, config.len), config.len};
    int rc = read_config(e, text, &opts, &diags, err);
    if (!rc) rc = policies_open(e, err);
    if (!rc) rc = choose_storage(e, err);
    return rc ? rc : choose_start(e, NULL, err);
}

static int check_slots(struct live_experiment *e, det_err *err)
{
    struct sched_agent agent = rm_agent(e->master->rm, 1);
    if (e->cfg.resources.slots <= agent.n_slots) return 0;
    return det_fail(err, DET_EINVAL, "resources: %lld slots are wanted, this machine has %d",
                    (long long)e->cfg.resources.slots, agent.n_slots);
}

static int check_context(struct live_experiment *e, const char *name, det_err *err)
{
    struct stat st;
    if (!name) return 0;
    bool plain = strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
    const char *path = arena_printf(&e->arena, "%s/contexts/%s", e->master->data_dir, name);
    if (!plain || stat(path, &st) < 0)
        return det_fail(err, DET_ENOTFOUND, "there is no model definition '%.64s'; upload it first",
                        name);
    e->row.context = arena_strdup(&e->arena, name);
    return 0;
}

int create_check(struct master *m, const struct create_input *in, struct diag_list *diags,
                 struct live_experiment **out, det_err *err)
{
    struct live_experiment *e = experiment_new(m);
    const struct config_opts opts = {
        .source = "config",
        .below = in->below,
        .n_below = in->n_below,
        .default_seed = clock_unix_us() / 1000000 & INT32_MAX,
        .is_new = true,
    };
    e->row.kind = in->kind;
    struct str text = {arena_strndup(&e->arena, in->config.ptr, in->config.len), in->config.len};
    int rc = read_config(e, text, &opts, diags, err);
    if (!rc) rc = policies_open(e, err);
    if (!rc) rc = choose_storage(e, err);
    if (!rc) rc = choose_start(e, &in->viewer, err);
    if (!rc) rc = check_slots(e, err);
    if (!rc) rc = check_context(e, in->context, err);
    if (rc)
        experiment_free(e);
    else
        *out = e;
    return rc;
}

// --- records

enum { DEFAULT_PRIORITY = 42 };

static const char *new_uuid(struct arena *arena)
{
    uint8_t random[16];
    char *text = arena_alloc(arena, UUID_TEXT_BYTES);
    randombytes_buf(random, sizeof random);
    uuid_format(uuid_v4(random), text);
    return text;
}

static void fill_rows(struct live_experiment *e, const struct create_input *in)
{
    const struct exp_config *cfg = &e->cfg;
    struct experiment *row = &e->row;
    row->id = e->master->next_experiment++;
    row->state = in->activate ? RUN_ACTIVE : RUN_PAUSED;
    row->name = cfg->name;
    row->description = cfg->description;
    row->labels.items = cfg->labels.items;
    row->labels.n = cfg->labels.n;
    row->user_id = in->user_id;
    row->forked_from = in->parent_id;
    row->start_us = clock_unix_us();
    row->searcher_type = searcher_kind_name(cfg->searcher.kind);
    row->searcher_metric = cfg->searcher.metric;
    row->smaller_is_better = cfg->searcher.smaller_is_better;
    row->resource_pool = "default";
    row->job_id = new_uuid(&e->arena);
    e->job = (struct job){
        .id = row->job_id,
        .experiment_id = row->id,
        .priority =
            cfg->resources.priority.is_set ? cfg->resources.priority.value : DEFAULT_PRIORITY,
        .weight = cfg->resources.weight > 0 ? cfg->resources.weight : 1,
        .resource_pool = row->resource_pool,
        .submit_us = row->start_us,
        .position = (double)row->start_us,
    };
}

struct live_experiment *create_experiment(struct master *m, const struct create_input *in,
                                          struct diag_list *diags, struct db_tx *tx, det_err *err)
{
    struct live_experiment *e;
    if (create_check(m, in, diags, &e, err)) return NULL;
    fill_rows(e, in);
    db_config_save(tx, e->row.id, str_from(e->config_json), in->config);
    db_job_save(tx, &e->job);
    e->search = search_new(&e->cfg);
    search_set_pace(e->search, CHORE_TRIALS);
    if (experiment_tell(e, &(struct search_event){.kind = SEARCH_START}, tx, err)) {
        experiment_free(e);
        return NULL;
    }
    return e;
}

// --- changing

int create_save_config(struct live_experiment *e, struct db_tx *tx, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct str complete, original;
    int rc = db_config_find(e->master->reader, e->row.id, &arena, &complete, &original, err);
    if (!rc) {
        keep_json(e, exp_config_write(&e->arena, &e->cfg, CONFIG_WHOLE));
        db_config_save(tx, e->row.id, str_from(e->config_json), original);
    }
    arena_done(&arena);
    return rc;
}

// --- going on

int create_read_changed(struct live_experiment *e, struct str changes, struct str stored,
                        struct diag_list *diags, det_err *err)
{
    const struct config_text below = {.source = "stored configuration", .text = stored};
    const struct config_opts opts = {.source = "overrideConfig", .below = &below, .n_below = 1};
    struct str text = {arena_strndup(&e->arena, changes.ptr, changes.len), changes.len};
    int rc = read_config(e, text, &opts, diags, err);
    if (!rc) rc = policies_open(e, err);
    if (!rc) rc = choose_storage(e, err);
    return rc ? rc : check_slots(e, err);
}
