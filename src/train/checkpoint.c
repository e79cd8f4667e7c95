// Unit checkpoint.c: saves the state of a loop in a store.
//
// Saving makes a copy of everything at once; a thread of the store writes it while training goes
// on. Only a callback that wants to add files of its own makes the loop wait.
#include "train/training.h"

#include "doc/json.h"
#include "base/mem.h"
#include "client/client.h"
#include "storage/storage.h"
#include "train/code.h"
#include "train/ranks.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <unistd.h>
#include <limits.h>

enum { TEXT_MAX = 16 << 20 };

// What is being written: a copy that nobody else has.
struct content {
    const det_engine *engine;
    det_value *state;
    struct buf loop, config, metadata, architecture;
    const struct code *code; // NULL: none
    struct saver *saver;
};

struct saver {
    struct store *store;
    struct ckpt_writer *writer;
    bool is_news; // a checkpoint is complete, but nobody was told
    struct ckpt_info newest;
    char scratch[PATH_MAX]; // the store of a test; empty: none
};

static void content_free(struct content *c)
{
    if (!c) return;
    det_value_free(c->state);
    buf_done(&c->loop);
    buf_done(&c->config);
    buf_done(&c->metadata);
    buf_done(&c->architecture);
    free(c);
}

static int write_files(void *ctx, struct ckpt *ckpt, det_err *err)
{
    struct content *c = ctx;
    int rc = ckpt_put(ckpt, CKPT_LOOP, buf_str(&c->loop), err);
    if (!rc) rc = ckpt_put(ckpt, CKPT_CONFIG, buf_str(&c->config), err);
    if (!rc) rc = ckpt_put(ckpt, CKPT_METADATA, buf_str(&c->metadata), err);
    if (!rc) rc = ckpt_put(ckpt, CKPT_ARCHITECTURE, buf_str(&c->architecture), err);
    if (!rc && c->code) rc = code_write(c->code, ckpt, err);
    if (rc) return rc;
    const char *path = ckpt_path(ckpt, CKPT_STATE, err);
    return path ? c->engine->save(path, c->state, err) : err->code;
}

static void written(void *ctx, const struct ckpt_info *info)
{
    struct content *c = ctx;
    if (info) {
        c->saver->newest = *info;
        c->saver->is_news = true;
    }
    content_free(c);
}

// --- what goes into a checkpoint

static void put_config(const struct training *run, struct buf *out)
{
    const struct context_setup *setup = &run->ctx->setup;
    struct json_writer w;
    json_init(&w, out, 1);
    json_open_map(&w);
    json_key(&w, "trial");
    json_put_str(&w, run->trial->name);
    json_key(&w, "hparams");
    if (setup->hparams)
        json_put_doc(&w, setup->hparams);
    else
        json_put_null(&w);
    json_key(&w, "experiment_config");
    if (setup->experiment)
        json_put_doc(&w, setup->experiment);
    else
        json_put_null(&w);
    json_close(&w);
    buf_addc(out, '\n');
}

static void put_metadata(const struct training *run, struct buf *out)
{
    struct json_writer w;
    json_init(&w, out, 1);
    json_open_map(&w);
    json_key(&w, "steps_completed");
    json_put_int(&w, run->state.batches);
    json_key(&w, "framework");
    json_put_str(&w, run->engine->name);
    json_key(&w, "format");
    json_put_str(&w, "pickle");
    for (int i = 0; i < det_value_len(run->ctx->metadata); i++) {
        const char *text = "";
        det_value_as_str(det_value_at(run->ctx->metadata, i), &text, NULL);
        json_key(&w, det_value_key(run->ctx->metadata, i, NULL));
        json_put_str(&w, text);
    }
    json_close(&w);
    buf_addc(out, '\n');
}

// For people: what was trained. The code is what makes it again.
static void put_architecture(const det_context *ctx, struct buf *out)
{
    for (int i = 0; i < ctx->n_models; i++) {
        if (ctx->n_models > 1) buf_printf(out, "%smodel %d\n", i ? "\n" : "", i);
        ctx->setup.engine->model_describe(ctx->models[i], out);
    }
}

// On all ranks: they give what only they know.
static det_value *collect(struct training *run, det_err *err)
{
    det_value *tree = objects_collect(run->ctx, err);
    int rc = tree ? objects_gather(run->ctx, tree, err) : err->code;
    CALLBACKS(run->ctx, rc, err, on_checkpoint_save_start, tree, err);
    if (!rc) return tree;
    det_value_free(tree);
    return NULL;
}

static struct content *content_new(struct training *run, det_err *err)
{
    det_value *tree = collect(run, err);
    if (!tree) return NULL;
    det_value *copy = run->engine->snapshot(tree, err);
    det_value_free(tree);
    if (!copy) return NULL;
    struct content *c = xcalloc(1, sizeof *c);
    *c = (struct content){.engine = run->engine,
                          .state = copy,
                          .loop = BUF_INIT(TEXT_MAX),
                          .config = BUF_INIT(TEXT_MAX),
                          .metadata = BUF_INIT(TEXT_MAX),
                          .architecture = BUF_INIT(TEXT_MAX),
                          .code = run->code,
                          .saver = run->saver};
    training_state_encode(&run->state, &c->loop);
    put_config(run, &c->config);
    put_metadata(run, &c->metadata);
    put_architecture(run->ctx, &c->architecture);
    return c;
}

// --- saving

// What rank 0 knows of a checkpoint that is complete.
struct news {
    int64_t batches; // -1: none
    char uuid[UUID_TEXT_BYTES];
    char dir[PATH_MAX];
};

static int hear_news(struct training *run, struct news *out, det_err *err)
{
    struct dist *ranks = run->ctx->setup.ranks;
    struct saver *s = run->saver;
    *out = (struct news){.batches = -1};
    if (s && s->is_news) {
        struct arena arena = ARENA_INIT;
        out->batches = s->newest.steps_completed;
        uuid_format(s->newest.id, out->uuid);
        snprintf(out->dir, sizeof out->dir, "%s", ckpt_file(s->store, s->newest.id, NULL, &arena));
        s->is_news = false;
        arena_done(&arena);
    }
    if (dist_is_broken(ranks)) return 0;
    return dist_broadcast(ranks, "checkpoint", 0, out, sizeof *out, err);
}

static bool is_best(const struct training *run, int64_t batches)
{
    return run->state.has_best && run->state.best_batches == batches;
}

// Tells everybody about a checkpoint that is complete.
static int announce(struct training *run, det_err *err)
{
    struct news news;
    int rc = hear_news(run, &news, err);
    if (rc || news.batches < 0) return rc;
    free(run->checkpoint);
    run->checkpoint = xstrdup(news.dir);
    det_report r = {.kind = DET_REPORT_CHECKPOINT,
                    .batches = news.batches,
                    .epochs = news.batches / run->ctx->epoch_length,
                    .progress = training_progress(run),
                    .text = run->checkpoint,
                    .uuid = news.uuid,
                    .is_best = is_best(run, news.batches)};
    rc = run->host->ops->report(run->host, &r, err);
    CALLBACKS(run->ctx, rc, err, on_checkpoint_upload_end, news.uuid, err);
    return rc;
}

static bool has_write_end(const det_context *ctx)
{
    for (int i = 0; i < ctx->n_callbacks; i++)
        if (ctx->callbacks[i].ops->on_checkpoint_write_end) return true;
    return false;
}

// Callbacks may add files before the checkpoint is closed.
static int save_now(struct training *run, struct content *c, const struct ckpt_info *info,
                    det_err *err)
{
    struct ckpt *ckpt;
    int rc = ckpt_begin(run->saver->store, info, &ckpt, err);
    if (rc) return rc;
    rc = write_files(c, ckpt, err);
    if (!rc) {
        char *path = xstrdup(ckpt_path(ckpt, CKPT_STATE, err)), *slash = strrchr(path, '/');
        *slash = '\0';
        CALLBACKS(run->ctx, rc, err, on_checkpoint_write_end, path, err);
        free(path);
    }
    if (rc) {
        ckpt_abort(ckpt);
        return rc;
    }
    rc = ckpt_commit(ckpt, &run->saver->newest, err);
    run->saver->is_news = !rc;
    return rc;
}

// A rank that does not write.
static int save_elsewhere(struct training *run, det_err *err)
{
    det_value *tree = collect(run, err);
    if (!tree) return err->code;
    det_value_free(tree);
    return announce(run, err);
}

static int save(struct training *run, det_err *err)
{
    if (run->ctx->setup.rank) return save_elsewhere(run, err);
    const struct ckpt_info info = {.trial_id = run->state.trial_id,
                                   .steps_completed = run->state.batches};
    struct content *c = content_new(run, err);
    if (!c) return err->code;
    if (has_write_end(run->ctx)) {
        int rc = save_now(run, c, &info, err);
        content_free(c);
        return rc ? rc : announce(run, err);
    }
    const struct ckpt_job job = {info, write_files, written, c};
    int rc = ckpt_writer_start(run->saver->writer, &job, err);
    if (!rc) return announce(run, err); // the one before
    content_free(c);
    return rc;
}

int training_checkpoint(struct training *run, det_err *err)
{
    struct training_state *s = &run->state;
    det_err own;
    if (!err) err = &own;
    if (!run->opts->checkpoint_dir || s->last_checkpoint == s->batches) return 0;
    s->last_checkpoint = s->batches;
    s->trial_id = run->ctx->setup.trial_id;
    s->seed = (int64_t)run->ctx->setup.seed;
    s->epoch_length = run->ctx->epoch_length;
    s->batch_size = run->engine->loader_batch_size(run->trial->training);
    s->slots = run->ctx->setup.size;
    s->aggregation_frequency = run->ctx->setup.aggregation_frequency;
    int rc = save(run, err);
    return rc ? det_wrap(err, "checkpoint at batch %lld", (long long)s->batches) : 0;
}

int training_poll(struct training *run, det_err *err)
{
    if (!run->opts->checkpoint_dir) return 0;
    int rc = run->saver ? ckpt_writer_poll(run->saver->writer, err) : 0;
    return rc ? det_wrap(err, "checkpoint") : announce(run, err);
}

int training_flush(struct training *run, det_err *err)
{
    if (!run->opts->checkpoint_dir) return 0;
    int rc = run->saver ? ckpt_writer_wait(run->saver->writer, err) : 0;
    return rc ? det_wrap(err, "checkpoint") : announce(run, err);
}

static int find_newest(struct training *run, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct ckpt_info info;
    struct ckpt_list skipped = {0};
    struct store *store = NULL;
    int rc = store_open(run->opts->checkpoint_dir, &store, err);
    if (rc) return rc;
    rc = ckpt_find_newest(store, run->ctx->setup.trial_id, &arena, &info, &skipped, err);
    for (size_t i = 0; i < skipped.n_damaged; i++)
        training_warn(run, "checkpoint %s is not used: %s", skipped.damaged[i].name,
                      skipped.damaged[i].reason);
    if (!rc) run->resume = xstrdup(ckpt_file(store, info.id, NULL, &arena));
    store_close(store);
    arena_done(&arena);
    return rc == DET_ENOTFOUND ? det_ok(err) : rc;
}

static int read_code(struct training *run, det_err *err)
{
    run->code = code_read(run->opts->code_dir, run->opts->checkpoint_dir, err);
    if (!run->code) return err->code;
    struct buf text = BUF_INIT(TEXT_MAX);
    if (code_left_out(run->code, &text)) training_warn(run, "%s", text.ptr);
    buf_done(&text);
    return 0;
}

// A test keeps nothing, unless a master wants to know where its checkpoint is.
static bool keeps_checkpoints(const struct training *run)
{
    return !run->opts->test_mode || client_is_task();
}

static int make_scratch(char *path, size_t n, det_err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, n, "%s/det-test-XXXXXX", dir && *dir ? dir : "/tmp");
    return mkdtemp(path) ? 0 : fs_fail(err, "make a folder like", path);
}

static void remove_scratch(struct training *run)
{
    char *dir = run->saver->scratch, *slash = strrchr(dir, '/');
    int fd = -1;
    det_err err;
    *slash = '\0';
    int rc = dir_open(slash == dir ? "/" : dir, 0, &fd, &err);
    if (!rc) rc = dir_remove(fd, slash + 1, &err);
    if (rc) training_warn(run, "something is left of this test: %s", err.msg);
    if (fd >= 0) close(fd);
}

static int open_store(struct training *run, det_err *err)
{
    struct saver *s = run->saver = xcalloc(1, sizeof *run->saver);
    int rc = 0;
    if (run->opts->resume_newest && !run->resume) rc = find_newest(run, err);
    if (!rc && !keeps_checkpoints(run)) rc = make_scratch(s->scratch, sizeof s->scratch, err);
    if (!rc)
        rc = store_open(s->scratch[0] ? s->scratch : run->opts->checkpoint_dir, &s->store, err);
    if (rc) return rc;
    s->writer = ckpt_writer_new(s->store, err);
    if (!s->writer) return err->code;
    return run->opts->code_dir ? read_code(run, err) : 0;
}

// Rank 0 writes, and knows where to go on from.
int training_open_store(struct training *run, det_err *err)
{
    const struct context_setup *setup = &run->ctx->setup;
    int rc = 0;
    if (run->opts->checkpoint_dir && !setup->rank) rc = open_store(run, err);
    return rc ? rc : ranks_share_text(setup, "checkpoint to go on from", &run->resume, err);
}

void training_close(struct training *run)
{
    if (run->iter) run->engine->iter_close(run->iter);
    run->iter = NULL;
    if (!keeps_checkpoints(run)) {
        free(run->checkpoint);
        run->checkpoint = NULL;
    }
    if (!run->saver) return;
    ckpt_writer_free(run->saver->writer);
    store_close(run->saver->store);
    if (run->saver->scratch[0]) remove_scratch(run);
    free(run->saver);
    run->saver = NULL;
    code_free(run->code);
    run->code = NULL;
}
