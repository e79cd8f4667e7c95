// Unit retention.c: deletes checkpoints: those that the policy does not keep when an experiment
// ends, and all when it is deleted. Records first, then files: a file without a record is only
// space, a record without its file would be a lie.
#include "master/retention.h"

#include "base/assert.h"
#include "base/mem.h"
#include "storage/storage.h"
#include "sys/log.h"
#include <math.h>

struct removal {
    char *dir;
    struct uuid *ids;
    size_t n;
};

static void free_removal(void *ctx)
{
    struct removal *r = ctx;
    free(r->dir);
    free(r->ids);
    free(r);
}

// In the background.
static void remove_files(void *ctx, void *own)
{
    struct removal *r = ctx;
    (void)own;
    struct store *store = NULL;
    det_err err;
    int rc = store_open(r->dir, &store, &err);
    if (rc) log_warn("checkpoints: %s", err.msg);
    for (size_t i = 0; !rc && i < r->n; i++) {
        int code = ckpt_delete(store, r->ids[i], &err);
        if (code && code != DET_ENOTFOUND) log_warn("checkpoint: %s", err.msg);
    }
    store_close(store);
}

struct removing {
    struct master *master;
    struct removal *removal;
};

static void on_durable(void *ctx, int code, const det_err *err)
{
    struct removing *r = ctx;
    if (code) {
        log_warn("checkpoints are not deleted: %s", err->msg);
        free_removal(r->removal);
    } else {
        worker_run(r->master->workers[WORK_FILES],
                   &(struct work){remove_files, free_removal, r->removal, 0});
    }
    free(r);
}

static void add(struct removal *r, const char *uuid)
{
    struct uuid id;
    if (uuid_parse(uuid, &id, NULL)) return;
    r->ids = xrealloc(r->ids, (r->n + 1) * sizeof *r->ids);
    r->ids[r->n++] = id;
}

static int checkpoint_forget(struct checkpoint *c, struct db_tx *tx, det_err *err)
{
    int rc = checkpoint_step(c->state, CHECKPOINT_DELETE_ALL, &c->state, err);
    if (rc) return rc;
    c->size_bytes = 0;
    db_checkpoint_save(tx, c);
    return 0;
}

// The records in tx, the files in what is returned. By any thread.
static struct removal *forget_all(const char *dir, struct checkpoint *const *all, size_t n,
                                  struct db_tx *tx)
{
    struct removal *r = xcalloc(1, sizeof *r);
    r->dir = xstrdup(dir);
    for (size_t i = 0; i < n; i++)
        if (!checkpoint_forget(all[i], tx, NULL)) add(r, all[i]->uuid);
    return r;
}

static void remove_when_durable(struct master *m, struct removal *removal, struct db_tx *tx)
{
    struct removing *r = xcalloc(1, sizeof *r);
    *r = (struct removing){m, removal};
    db_tx_submit(tx, on_durable, r);
}

void checkpoints_remove(struct master *m, const char *dir, struct checkpoint *const *all, size_t n)
{
    struct db_tx *tx = db_tx_new(m->db);
    struct removal *removal = forget_all(dir, all, n, tx);
    remove_when_durable(m, removal, tx);
}

// --- what the policy keeps. An experiment has not ended before that is known: whoever sees the
// end, or continues it, sees the checkpoints that are left.

struct keeping {
    struct master *master;
    struct arena arena;
    int64_t experiment_id;
    const char *dir;
    struct keep_policy policy;
    struct db_tx *tx;
    struct removal *removal; // NULL: everything is kept
};

static bool is_in(const struct db_list *names, const char *name)
{
    const char *const *items = names->items;
    for (size_t i = 0; i < names->n; i++)
        if (str_eqz(str_from(items[i]), name)) return true;
    return false;
}

static void choose(struct keeping *k, const struct db_list *found, const struct db_list *pinned)
{
    struct checkpoint *all = found->items;
    struct keep_item *items = arena_array(&k->arena, found->n + 1, sizeof *items);
    bool *keep = arena_array(&k->arena, found->n + 1, sizeof *keep);
    struct checkpoint **gone = arena_array(&k->arena, found->n + 1, sizeof *gone);
    size_t n = 0;
    for (size_t i = 0; i < found->n; i++)
        items[i] = (struct keep_item){.trial_id = all[i].trial_id,
                                      .steps_completed = all[i].steps_completed,
                                      .has_metric = !isnan(all[i].searcher_metric),
                                      .metric = all[i].searcher_metric,
                                      .pinned = is_in(pinned, all[i].uuid)};
    keep_choose(items, found->n, &k->policy, keep);
    for (size_t i = 0; i < found->n; i++)
        if (!keep[i]) gone[n++] = &all[i];
    if (!n) return;
    k->tx = db_tx_new(k->master->db);
    k->removal = forget_all(k->dir, gone, n, k->tx);
}

static void read(void *ctx, void *own)
{
    struct keeping *k = ctx;
    struct doc *states = doc_new(&k->arena, DOC_LIST);
    doc_append(states, doc_new_str(&k->arena, checkpoint_state_names[CHECKPOINT_COMPLETED]));
    const struct db_filter filter = {.experiment_id = k->experiment_id, .states = states};
    const struct db_page page = {.limit = -1, .sort = "reportTime"};
    struct db_list found = {0}, pinned = {0};
    det_err err;
    int rc = db_checkpoints_list(own, &filter, &page, &k->arena, &found, &err);
    if (!rc) rc = db_warm_starts_list(own, &k->arena, &pinned, &err);
    if (rc)
        log_warn("experiment %lld: its checkpoints are kept: %s", (long long)k->experiment_id,
                 err.msg);
    else
        choose(k, &found, &pinned);
}

static void on_read(void *ctx)
{
    struct keeping *k = ctx;
    struct live_experiment *e = set_find(&k->master->experiments, k->experiment_id);
    if (k->removal) remove_when_durable(k->master, k->removal, k->tx);
    if (e) experiment_end(e);
    arena_done(&k->arena);
    free(k);
}

// What its trials have reported is on disk.
static void on_reported(void *ctx, int code, const det_err *err)
{
    struct keeping *k = ctx;
    (void)code, (void)err;
    worker_run(k->master->workers[WORK_READ], &(struct work){read, on_read, k, 0});
}

void retention_apply(struct live_experiment *e)
{
    const struct storage_config *s = &e->cfg.checkpoint_storage;
    struct keeping *k = xcalloc(1, sizeof *k);
    k->master = e->master;
    k->experiment_id = e->row.id;
    k->dir = arena_strdup(&k->arena, e->checkpoint_dir);
    k->policy = (struct keep_policy){.experiment_best = s->save_experiment_best,
                                     .trial_best = s->save_trial_best,
                                     .trial_latest = s->save_trial_latest,
                                     .larger_is_better = !e->row.smaller_is_better};
    db_tx_submit_must(db_tx_new(k->master->db), on_reported, k);
}
