// Unit erase.c: deletes experiments: files first, in the background, then the records. A restart in
// between begins anew: what is gone already is no error.
#include "master/erase.h"

#include "base/mem.h"
#include "master/create.h"
#include "master/events.h"
#include "master/sweep.h"
#include "storage/storage.h"
#include "sys/log.h"

struct erasure {
    struct master *master;
    struct experiment row; // its number alone, before it is read
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
    if (!code) sweep_code(ctx);
}

static void finish(void *ctx)
{
    struct erasure *x = ctx;
    struct master *m = x->master;
    struct db_tx *tx = db_tx_new(m->db);
    if (!x->rc) {
        db_experiment_delete(tx, x->row.id);
        events_mark(m, &(struct event_mark){.kind = EVENT_EXPERIMENT, .experiment_id = x->row.id});
        log_info("experiment %lld: deleted", (long long)x->row.id);
    } else if (x->row.state == EXP_DELETING) {
        log_warn("experiment %lld cannot be deleted: %s", (long long)x->row.id, x->err.msg);
        experiment_step(x->row.state, EXPERIMENT_DELETE_FAIL, &x->row.state, NULL);
        x->row.reason = x->err.msg;
        db_experiment_save(tx, &x->row);
    }
    record_write_begin(m, RECORD_EXPERIMENT, x->row.id);
    db_tx_submit_must(tx, on_erased, m);
    done(x);
}

static void remove_files(void *ctx, void *own)
{
    struct erasure *x = ctx;
    struct store *store = NULL;
    (void)own;
    x->rc = store_open(x->dir, &store, &x->err);
    for (size_t i = 0; !x->rc && i < x->n; i++) {
        int rc = ckpt_delete(store, x->ids[i], &x->err);
        if (rc != DET_ENOTFOUND) x->rc = rc;
    }
    store_close(store);
}

static int find_checkpoints(struct erasure *x, struct db_reader *r, det_err *err)
{
    const struct db_filter filter = {.experiment_id = x->row.id};
    struct arena arena = ARENA_INIT;
    struct db_list list;
    int rc = db_checkpoints_list(r, &filter, NULL, &arena, &list, err);
    const struct checkpoint *all = list.items;
    if (!rc) x->ids = arena_array(&x->arena, list.n + 1, sizeof *x->ids);
    for (size_t i = 0; !rc && i < list.n; i++)
        if (all[i].state != CHECKPOINT_DELETED && !uuid_parse(all[i].uuid, &x->ids[x->n], NULL))
            x->n++;
    arena_done(&arena);
    return rc;
}

static void read(void *ctx, void *own)
{
    struct erasure *x = ctx;
    struct stored_at at;
    x->rc = db_experiment_find(own, x->row.id, &x->arena, &x->row, &x->err);
    if (!x->rc) x->rc = create_find_storage(x->master, own, x->row.id, &x->arena, &at, &x->err);
    if (!x->rc) x->rc = find_checkpoints(x, own, &x->err);
    if (!x->rc) x->dir = at.dir;
}

static void on_read(void *ctx)
{
    struct erasure *x = ctx;
    if (x->rc)
        finish(x);
    else
        worker_run(x->master->workers[WORK_FILES], &(struct work){remove_files, finish, x, 0});
}

void erase_later(struct master *m, int64_t experiment_id)
{
    struct erasure *x = xcalloc(1, sizeof *x);
    x->master = m;
    x->row.id = experiment_id;
    worker_run(m->workers[WORK_READ], &(struct work){read, on_read, x, 0});
}

// --- what a master before this one has not finished

struct leftovers {
    struct master *master;
    struct arena arena;
    struct db_list list; // struct experiment
};

static void find_leftovers(void *ctx, void *own)
{
    struct leftovers *x = ctx;
    struct doc *states = doc_new(&x->arena, DOC_LIST);
    doc_append(states, doc_new_str(&x->arena, exp_state_names[EXP_DELETING]));
    const struct db_filter filter = {.states = states};
    det_err err;
    if (db_experiments_list(own, &filter, NULL, &x->arena, &x->list, &err))
        log_warn("deleted experiments: %s", err.msg);
}

static void erase_leftovers(void *ctx)
{
    struct leftovers *x = ctx;
    for (size_t i = 0; i < x->list.n; i++)
        erase_later(x->master, ((const struct experiment *)x->list.items)[i].id);
    arena_done(&x->arena);
    free(x);
}

void erase_resume(struct master *m)
{
    struct leftovers *x = xcalloc(1, sizeof *x);
    x->master = m;
    worker_run(m->workers[WORK_READ], &(struct work){find_leftovers, erase_leftovers, x, 0});
}
