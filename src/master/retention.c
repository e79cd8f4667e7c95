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

void checkpoints_remove(struct master *m, const char *dir, struct checkpoint *const *all, size_t n)
{
    struct removing *r = xcalloc(1, sizeof *r);
    struct db_tx *tx = db_tx_new(m->db);
    r->master = m;
    r->removal = xcalloc(1, sizeof *r->removal);
    r->removal->dir = xstrdup(dir);
    for (size_t i = 0; i < n; i++)
        if (!checkpoint_forget(all[i], tx, NULL)) add(r->removal, all[i]->uuid);
    db_tx_submit(tx, on_durable, r);
}

static bool is_in(const struct db_list *names, const char *name)
{
    const char *const *items = names->items;
    for (size_t i = 0; i < names->n; i++)
        if (str_eqz(str_from(items[i]), name)) return true;
    return false;
}

static void choose(const struct live_experiment *e, const struct db_list *found,
                   const struct db_list *pinned, bool *keep, struct arena *arena)
{
    const struct checkpoint *all = found->items;
    const struct storage_config *s = &e->cfg.checkpoint_storage;
    struct keep_item *items = arena_array(arena, found->n, sizeof *items);
    const struct keep_policy policy = {.experiment_best = s->save_experiment_best,
                                       .trial_best = s->save_trial_best,
                                       .trial_latest = s->save_trial_latest,
                                       .larger_is_better = !e->row.smaller_is_better};
    for (size_t i = 0; i < found->n; i++)
        items[i] = (struct keep_item){.trial_id = all[i].trial_id,
                                      .steps_completed = all[i].steps_completed,
                                      .has_metric = !isnan(all[i].searcher_metric),
                                      .metric = all[i].searcher_metric,
                                      .pinned = is_in(pinned, all[i].uuid)};
    keep_choose(items, found->n, &policy, keep);
}

void retention_apply(struct live_experiment *e)
{
    struct master *m = e->master;
    struct arena arena = ARENA_INIT;
    const char *completed = checkpoint_state_names[CHECKPOINT_COMPLETED];
    struct doc *states = doc_new(&arena, DOC_LIST);
    doc_append(states, doc_new_str(&arena, completed));
    const struct db_filter filter = {.experiment_id = e->row.id, .states = states};
    const struct db_page page = {.limit = -1, .sort = "reportTime"};
    struct db_list found = {0}, pinned = {0};
    det_err err;
    int rc = db_checkpoints_list(m->reader, &filter, &page, &arena, &found, &err);
    if (!rc) rc = db_warm_starts_list(m->reader, &arena, &pinned, &err);
    if (rc) {
        log_warn("experiment %lld: its checkpoints are kept: %s", (long long)e->row.id, err.msg);
        goto out;
    }
    bool *keep = arena_array(&arena, found.n + 1, sizeof *keep);
    struct checkpoint *all = found.items, **gone = arena_array(&arena, found.n + 1, sizeof *gone);
    size_t n = 0;
    choose(e, &found, &pinned, keep, &arena);
    for (size_t i = 0; i < found.n; i++)
        if (!keep[i]) gone[n++] = &all[i];
    if (n) checkpoints_remove(m, e->checkpoint_dir, gone, n);
out:
    arena_done(&arena);
}
