// Unit resume.c: goes on from a checkpoint.
#include "train/training.h"

#include "base/mem.h"
#include "storage/storage.h"
#include "sys/fs.h"
#include "train/setup.h"

enum { TEXT_MAX = 16 << 20 };

int checkpoint_verify(const char *dir, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct store *store = NULL;
    struct uuid id;
    char *path = arena_strdup(&arena, dir);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    char *slash = strrchr(path, '/');
    const char *base = slash == path ? "/" : slash ? path : ".";
    int rc = 0;
    if (uuid_parse(slash ? slash + 1 : path, &id, NULL)) goto out;
    if (slash) *slash = '\0';
    rc = store_open(base, &store, err);
    if (!rc) rc = ckpt_verify(store, id, NULL, err);
out:
    store_close(store);
    arena_done(&arena);
    return rc;
}

static int read_position(const char *dir, struct training_state *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(TEXT_MAX);
    const char *path = arena_printf(&arena, "%s/" CKPT_LOOP, dir);
    int rc = fs_read(path, &text, err);
    if (!rc) {
        rc = training_state_parse(buf_str(&text), out, err);
        if (rc) det_wrap(err, "'%s'", path);
    }
    buf_done(&text);
    arena_done(&arena);
    return rc;
}

int training_read_state(struct training *run, det_err *err)
{
    struct training_state saved;
    const char *dir = run->resume;
    // The newest one was looked for among whole ones; one rank that looks is enough.
    int rc = run->opts->resume && !run->ctx->setup.rank ? checkpoint_verify(dir, err) : 0;
    if (rc) return det_wrap(err, "cannot resume");
    rc = read_position(dir, &saved, err);
    if (rc == DET_ENOTFOUND) {
        training_warn(run, "'%s' has no " CKPT_LOOP ": training starts from its weights", dir);
        return det_ok(err);
    }
    if (rc) return det_wrap(err, "cannot resume");
    if (saved.trial_id != run->ctx->setup.trial_id) return 0; // a warm start
    run->state = saved;
    run->ctx->setup.seed = (uint64_t)saved.seed;
    return 0;
}

// The data is at the same place only if it is cut in the same way.
static void compare_data(struct training *run)
{
    const struct training_state *s = &run->state;
    int64_t batch_size = run->engine->loader_batch_size(run->trial->training);
    if (!s->batches) return;
    // What all slots see in one step must be the same; how many slots share it does not matter.
    int64_t before = s->batch_size * s->slots, now = batch_size * run->ctx->setup.size;
    if (s->epoch_length != run->ctx->epoch_length || before != now)
        training_warn(
            run,
            "the checkpoint was made with %lld batches of %lld records per epoch (%lld slots), "
            "now there are %lld of %lld (%d slots): training does not go on exactly where it was",
            (long long)s->epoch_length, (long long)before, (long long)s->slots,
            (long long)run->ctx->epoch_length, (long long)now, run->ctx->setup.size);
    if (s->aggregation_frequency != run->ctx->setup.aggregation_frequency)
        training_warn(run, "aggregation_frequency was %lld and is %lld now",
                      (long long)s->aggregation_frequency,
                      (long long)run->ctx->setup.aggregation_frequency);
}

static bool same_value(const struct doc *a, const struct doc *b)
{
    double x, y;
    if (!a || !b) return false;
    return doc_number(a, &x) && doc_number(b, &y) ? x == y : doc_equal(a, b);
}

// Another learning rate, say, does not come into effect: that of the optimizer was saved.
static void compare_hparams(struct training *run)
{
    struct arena arena = ARENA_INIT;
    struct context_setup saved = {0};
    struct buf names = BUF_INIT(256);
    const struct doc *now = run->ctx->hparams.doc;
    if (run->state.batches && now && !setup_read_checkpoint(&arena, run->resume, &saved, NULL))
        for (const struct doc *h = now->first; h; h = h->next)
            if (!same_value(h, doc_find(saved.hparams, h->key.ptr)))
                buf_printf(&names, "%s'%s'", names.len ? ", " : "", h->key.ptr);
    if (names.len)
        training_warn(run,
                      "the checkpoint was made with other values of %s; what it has saved, as the "
                      "learning rates of optimizers, stays as it was",
                      buf_str(&names).ptr);
    buf_done(&names);
    arena_done(&arena);
}

int training_resume(struct training *run, det_err *err)
{
    const char *dir = run->resume;
    det_value *tree = objects_read(run->engine, dir, err);
    if (!tree) return det_wrap(err, "cannot resume");
    compare_data(run);
    compare_hparams(run);
    int rc = objects_load(run, tree, err);
    det_value_free(tree);
    return rc ? det_wrap(err, "cannot resume from '%s'", dir) : 0;
}

// All ranks have read it before the first one goes on, which may remove it.
int training_reload(struct training *run, det_err *err)
{
    if (!run->checkpoint) return 0;
    free(run->resume);
    run->resume = xstrdup(run->checkpoint);
    int rc = run->ctx->setup.rank ? 0 : checkpoint_verify(run->resume, err);
    if (!rc) rc = training_resume(run, err);
    if (!rc && run->ctx->setup.ranks) rc = dist_barrier(run->ctx->setup.ranks, "test", err);
    return rc ? det_wrap(err, "the checkpoint of this test") : 0;
}
