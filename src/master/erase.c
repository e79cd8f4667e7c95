// Unit erase.c: deletes experiments: files first, in the background, then the records. A restart in
// between begins anew: what is gone already is no error.
#include "master/erase.h"

#include "base/mem.h"
#include "master/create.h"
#include "master/sweep.h"
#include "storage/storage.h"
#include "sys/log.h"

struct erasure {
    struct master *master;
    int64_t experiment_id;
    struct loop_timer timer;
    struct arena arena;
    const char *dir;
    struct uuid *ids;
    size_t n;
    int rc;
    det_err err;
};

static void done(struct erasure *x)
{
    arena_done(&x->arena);
    free(x);
}

static void on_erased(void *ctx, int code, const det_err *err)
{
    (void)err;
    if (!code) sweep_contexts(ctx);
}

static void finish(void *ctx)
{
    struct erasure *x = ctx;
    struct master *m = x->master;
    struct experiment row;
    struct db_tx *tx = db_tx_new(m->db);
    if (!x->rc) {
        db_experiment_delete(tx, x->experiment_id);
        log_info("experiment %lld: deleted", (long long)x->experiment_id);
    } else if (!db_experiment_find(m->reader, x->experiment_id, &x->arena, &row, NULL)) {
        log_warn("experiment %lld cannot be deleted: %s", (long long)x->experiment_id, x->err.msg);
        experiment_step(row.state, EXPERIMENT_DELETE_FAIL, &row.state, NULL);
        row.reason = x->err.msg;
        db_experiment_save(tx, &row);
    }
    db_tx_submit_must(tx, on_erased, m);
    done(x);
}

// In the background.
static void remove_files(void *ctx, void *own)
{
    struct erasure *x = ctx;
    (void)own;
    struct store *store = NULL;
    x->rc = store_open(x->dir, &store, &x->err);
    for (size_t i = 0; !x->rc && i < x->n; i++) {
        int rc = ckpt_delete(store, x->ids[i], &x->err);
        if (rc != DET_ENOTFOUND) x->rc = rc;
    }
    store_close(store);
}

static int find_checkpoints(struct erasure *x, det_err *err)
{
    const struct db_filter filter = {.experiment_id = x->experiment_id};
    struct db_list list;
    int rc = db_checkpoints_list(x->master->reader, &filter, NULL, &x->arena, &list, err);
    if (rc) return rc;
    const struct checkpoint *all = list.items;
    x->ids = arena_array(&x->arena, list.n + 1, sizeof *x->ids);
    for (size_t i = 0; i < list.n; i++)
        if (all[i].state != CHECKPOINT_DELETED && !uuid_parse(all[i].uuid, &x->ids[x->n], NULL))
            x->n++;
    return 0;
}

static int find_storage(struct erasure *x, det_err *err)
{
    struct live_experiment *e = experiment_new(x->master);
    struct str complete, original;
    int rc = db_experiment_find(x->master->reader, x->experiment_id, &e->arena, &e->row, err);
    if (!rc)
        rc = db_config_find(x->master->reader, x->experiment_id, &e->arena, &complete, &original,
                            err);
    if (!rc) rc = create_read_stored(e, complete, err);
    if (!rc) x->dir = arena_strdup(&x->arena, e->checkpoint_dir);
    experiment_free(e);
    return rc;
}

static void begin(void *ctx)
{
    struct erasure *x = ctx;
    x->rc = find_storage(x, &x->err);
    if (!x->rc) x->rc = find_checkpoints(x, &x->err);
    if (x->rc)
        finish(x);
    else
        worker_run(x->master->workers[WORK_FILES], &(struct work){remove_files, finish, x, 0});
}

void erase_later(struct master *m, int64_t experiment_id)
{
    struct erasure *x = xcalloc(1, sizeof *x);
    x->master = m;
    x->experiment_id = experiment_id;
    x->timer = (struct loop_timer){.fn = begin, .ctx = x};
    loop_timer_set(m->loop, &x->timer, 0);
}

void erase_resume(struct master *m)
{
    struct arena arena = ARENA_INIT;
    struct doc *states = doc_new(&arena, DOC_LIST);
    doc_append(states, doc_new_str(&arena, run_state_names[RUN_DELETING]));
    const struct db_filter filter = {.states = states};
    struct db_list list;
    det_err err;
    if (db_experiments_list(m->reader, &filter, NULL, &arena, &list, &err))
        log_warn("deleted experiments: %s", err.msg);
    else
        for (size_t i = 0; i < list.n; i++)
            erase_later(m, ((const struct experiment *)list.items)[i].id);
    arena_done(&arena);
}
