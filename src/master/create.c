// Unit create.c: experiments come into being: the configuration is read, the place of checkpoints
// tried out, the searcher born, and its first trials with it.
#include "master/create.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "master/isolation.h"
#include "master/policy.h"
#include "master/pool.h"
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
    copy_text(&e->row.code, a);
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

// The first user has the directory that everybody had when there was only one; what tasks of others
// write is kept apart, so that no task reaches the checkpoints of another user.
static const char *default_storage(const struct live_experiment *e, struct arena *arena)
{
    enum { FIRST_USER = 1 };
    const struct master *m = e->master;
    bool is_old = e->row.id && e->row.id < m->user_storage_from;
    if (is_old || e->row.user_id <= FIRST_USER) return m->checkpoint_dir;
    return arena_printf(arena, "%s/users/%lld/checkpoints", m->data_dir, (long long)e->row.user_id);
}

// Where its checkpoints go.
static const char *storage_dir(const struct live_experiment *e, struct arena *arena)
{
    const struct storage_config *s = &e->cfg.checkpoint_storage;
    switch (s->kind) {
    case STORAGE_DEFAULT:
        return default_storage(e, arena);
    case STORAGE_SHARED_FS:
        if (s->storage_path && s->storage_path[0] == '/') return s->storage_path;
        return arena_printf(arena, "%s/%s", s->host_path, s->storage_path ? s->storage_path : "");
    case STORAGE_DIRECTORY:
        return s->container_path;
    default:
        return NULL;
    }
}

// That it can be written to is found out now and not after hours.
static int choose_storage(struct live_experiment *e, det_err *err)
{
    const struct storage_config *s = &e->cfg.checkpoint_storage;
    struct store *store = NULL;
    e->checkpoint_dir = storage_dir(e, &e->arena);
    if (!e->checkpoint_dir) return storage_check(s, err);
    int rc = s->kind == STORAGE_SHARED_FS
                 ? store_open_below(s->host_path, s->storage_path, &store, err)
                 : store_open(e->checkpoint_dir, &store, err);
    store_close(store);
    return rc ? det_wrap(err, "checkpoint_storage") : 0;
}

// Where the checkpoints of another experiment are.
static int find_start_dir(struct live_experiment *e, struct db_reader *r, int64_t experiment_id,
                          det_err *err)
{
    struct stored_at at;
    int rc = create_find_storage(e->master, r, experiment_id, &e->arena, &at, err);
    if (!rc && !str_eqz(str_from(at.dir), e->checkpoint_dir)) e->warm_start_dir = at.dir;
    return rc;
}

static int check_source(struct live_experiment *e, struct db_reader *r, int64_t experiment_id,
                        const struct viewer *viewer, det_err *err)
{
    struct experiment row;
    int rc = db_experiment_find(r, experiment_id, &e->arena, &row, err);
    if (rc || viewer_may_read(viewer, &row)) return rc;
    return det_fail(err, DET_EDENIED, "experiment %lld, whose checkpoint it is, is private",
                    (long long)experiment_id);
}

// A checkpoint that all trials start from. viewer NULL: it was found allowed before.
static int choose_start(struct live_experiment *e, struct db_reader *r, const struct viewer *viewer,
                        det_err *err)
{
    const struct searcher_config *s = &e->cfg.searcher;
    struct checkpoint c = {0};
    struct trial t;
    int rc = 0;
    if (s->source_checkpoint_uuid) {
        rc = db_checkpoint_find(r, s->source_checkpoint_uuid, &e->arena, &c, err);
        e->warm_start = s->source_checkpoint_uuid;
    } else if (s->source_trial_id.is_set) {
        rc = db_trial_find(r, s->source_trial_id.value, &e->arena, &t, err);
        if (!rc && !t.latest_checkpoint)
            rc = det_fail(err, DET_ENOTFOUND, "trial %lld has no checkpoint", (long long)t.id);
        e->warm_start = rc ? NULL : t.latest_checkpoint;
        if (!rc) c.experiment_id = t.experiment_id;
    }
    if (!rc && c.experiment_id && viewer) rc = check_source(e, r, c.experiment_id, viewer, err);
    if (!rc && e->warm_start) rc = find_start_dir(e, r, c.experiment_id, err);
    return rc ? det_wrap(err, "searcher") : 0;
}

int create_read_config(struct live_experiment *e, struct str text, const struct config_opts *opts,
                       bool lenient, struct diag_list *diags, det_err *err)
{
    struct str copy = {arena_strndup(&e->arena, text.ptr, text.len), text.len};
    int rc = read_config(e, copy, opts, diags, err);
    if (!rc) rc = policies_open(e, lenient, err);
    return rc ? rc : choose_storage(e, err);
}

void create_add_usual(const struct master *m, struct arena *arena, struct config_opts *opts)
{
    const struct doc *usual = master_config_defaults(arena, m->cfg);
    struct config_text *below = arena_array(arena, opts->n_below + 1, sizeof *below);
    if (!usual) return;
    if (opts->n_below) memcpy(below, opts->below, opts->n_below * sizeof *below);
    below[opts->n_below] =
        (struct config_text){.source = "the configuration of the master", .doc = usual};
    opts->below = below;
    opts->n_below++;
}

int create_read_stored(struct live_experiment *e, struct db_reader *r, struct str config,
                       det_err *err)
{
    struct diag_list diags = DIAG_INIT(&e->arena);
    const struct config_opts opts = {.source = "stored configuration"};
    int rc = create_read_config(e, config, &opts, true, &diags, err);
    return rc ? rc : choose_start(e, r, NULL, err);
}

int create_find_storage(struct master *m, struct db_reader *r, int64_t experiment_id,
                        struct arena *arena, struct stored_at *out, det_err *err)
{
    struct live_experiment *e = experiment_new(m);
    struct diag_list diags = DIAG_INIT(&e->arena);
    const struct config_opts opts = {.source = "stored configuration"};
    struct str complete, original;
    int rc = db_experiment_find(r, experiment_id, &e->arena, &e->row, err);
    if (!rc) rc = db_config_find(r, experiment_id, &e->arena, &complete, &original, err);
    if (!rc) rc = read_config(e, complete, &opts, &diags, err);
    const char *dir = rc ? NULL : storage_dir(e, &e->arena);
    if (!rc && !dir)
        rc = det_fail(err, DET_EUNSUPPORTED, "the checkpoints of experiment %lld are elsewhere",
                      (long long)experiment_id);
    if (!rc)
        *out = (struct stored_at){
            arena_strdup(arena, dir),
            {.id = e->row.id, .user_id = e->row.user_id, .private = e->row.private}};
    experiment_free(e);
    return rc;
}

static int check_pool(struct live_experiment *e, det_err *err)
{
    const struct resources_config *r = &e->cfg.resources;
    e->pool = pool_find(e->master, r->resource_pool);
    if (!e->pool) return pool_unknown(e->master, r->resource_pool, err);
    e->row.resource_pool = e->job.resource_pool = e->pool->cfg->name;
    e->row.log_days = e->cfg.log_retention_days;
    struct sched_view view = pool_view(e->pool);
    if (sched_could_ever_fit(&view, (int)r->slots)) return 0;
    if (!r->slots)
        return det_fail(err, DET_EINVAL, "resources: pool '%s' takes no tasks without slots",
                        e->pool->cfg->name);
    return det_fail(err, DET_EINVAL, "resources: %lld slots are wanted, pool '%s' has %d",
                    (long long)r->slots, e->pool->cfg->name, view.n_slots);
}

static int check_code(struct live_experiment *e, const char *name, det_err *err)
{
    struct stat st;
    if (!name) return 0;
    bool plain = strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
    const char *path = arena_printf(&e->arena, "%s/code/%s", e->master->data_dir, name);
    if (!plain || stat(path, &st) < 0)
        return det_fail(err, DET_ENOTFOUND, "there is no code '%.64s'; upload it first", name);
    e->row.code = arena_strdup(&e->arena, name);
    return 0;
}

int draft_new(struct master *m, struct db_reader *r, const struct create_input *in, struct draft *d,
              det_err *err)
{
    struct live_experiment *e = d->e = experiment_new(m);
    struct config_opts opts = {
        .source = "config",
        .below = in->below,
        .n_below = in->n_below,
        .default_seed = clock_unix_us() / 1000000 & INT32_MAX,
        .is_new = true,
    };
    if (in->kind == EXPERIMENT_SEARCH) create_add_usual(m, &e->arena, &opts);
    e->row.kind = in->kind;
    e->row.user_id = in->viewer.user_id;
    int rc = create_read_config(e, in->config, &opts, false, &d->diags, err);
    if (!rc) rc = isolation_check(e, err);
    if (!rc) rc = choose_start(e, r, &in->viewer, err);
    if (!rc) rc = check_code(e, in->code, err);
    if (rc) {
        draft_free(d);
        return rc;
    }
    e->search = search_new(&e->cfg);
    search_set_pace(e->search, BACKGROUND_TRIALS);
    return 0;
}

// By a thread that reads, or on the loop.
void draft_free(void *draft)
{
    struct draft *d = draft;
    experiment_discard(d->e);
    db_tx_free(d->tx);
    d->e = NULL;
    d->tx = NULL;
}

int draft_check(struct draft *d, det_err *err)
{
    return check_pool(d->e, err);
}

// --- records

static const char *new_uuid(struct arena *arena)
{
    uint8_t random[16];
    char *text = arena_alloc(arena, UUID_TEXT_BYTES);
    randombytes_buf(random, sizeof random);
    uuid_format(uuid_v4(random), text);
    return text;
}

static void fill_rows(struct live_experiment *e, const struct create_who *in)
{
    const struct exp_config *cfg = &e->cfg;
    struct experiment *row = &e->row;
    row->id = e->master->next_experiment++;
    row->state = in->activate ? EXP_ACTIVE : EXP_PAUSED;
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
    row->job_id = new_uuid(&e->arena);
    e->job = (struct job){
        .id = row->job_id,
        .experiment_id = row->id,
        .priority = cfg->resources.priority.is_set ? cfg->resources.priority.value
                                                   : e->pool->cfg->scheduler.default_priority,
        .weight = cfg->resources.weight > 0 ? cfg->resources.weight : 1,
        .resource_pool = row->resource_pool,
        .submit_us = row->start_us,
        .position = (double)row->start_us,
    };
}

struct live_experiment *draft_begin(struct draft *d, const struct create_input *in,
                                    const struct create_who *who, struct db_tx *tx, det_err *err)
{
    struct live_experiment *e = d->e;
    fill_rows(e, who);
    db_config_save(tx, e->row.id, str_from(e->config_json), in->config);
    db_job_save(tx, &e->job);
    if (experiment_tell(e, &(struct search_event){.kind = SEARCH_START}, tx, err)) return NULL;
    d->e = NULL;
    return e;
}

// --- changing

void create_save_config(struct live_experiment *e, struct db_tx *tx)
{
    keep_json(e, exp_config_write(&e->arena, &e->cfg, CONFIG_WHOLE));
    db_config_change(tx, e->row.id, str_from(e->config_json));
}
