// Unit checkpoint.c: checkpoints of a program: written into a store, reported through the journal.
#include "client/core.h"

#include "doc/json.h"
#include "base/mem.h"
#include "sys/entropy.h"
#include "sys/fs.h"

enum { TEXT_MAX_BYTES = 4 << 20 };

struct det_checkpoint {
    det_core *core;
    struct ckpt *ckpt;
    struct uuid id;
    char uuid[UUID_TEXT_BYTES];
    char *path;
};

static const char *text_at(const struct doc *map, const char *key)
{
    const struct doc *found = doc_find(map, key);
    return found && found->kind == DOC_STR ? found->text.ptr : NULL;
}

// On a cluster, where the master says; alone, beside the journal.
const char *client_storage(det_core *core)
{
    struct settings *s = &core->settings;
    if (!s->storage) s->storage = arena_printf(&core->arena, "%s/checkpoints", s->folder);
    return s->storage;
}

static int open_store(det_core *core, det_err *err)
{
    return core->store ? det_ok(err) : store_open(client_storage(core), &core->store, err);
}

// --- saving

const char *det_checkpoint_begin(det_core *core, det_checkpoint **out, det_err *err)
{
    struct ckpt *ckpt;
    if (core_check_chief(core, "saving a checkpoint", err) || open_store(core, err)) return NULL;
    struct ckpt_info info = {.trial_id = core->info.trial_id,
                             .steps_completed = core->last_batches};
    uint8_t random[16];
    if (entropy_read(random, sizeof random, err)) return NULL;
    info.id = uuid_v4(random);
    if (ckpt_begin(core->store, &info, &ckpt, err)) return NULL;
    struct det_checkpoint *c = xcalloc(1, sizeof *c);
    *c = (struct det_checkpoint){.core = core, .ckpt = ckpt, .id = info.id};
    uuid_format(info.id, c->uuid);
    const char *file = ckpt_path(ckpt, CKPT_METADATA, err);
    if (!file) {
        det_checkpoint_abort(c);
        return NULL;
    }
    c->path = xstrndup(file, strlen(file) - strlen("/" CKPT_METADATA));
    *out = c;
    return c->path;
}

const char *det_checkpoint_uuid(const det_checkpoint *checkpoint)
{
    return checkpoint->uuid;
}

static void checkpoint_free(struct det_checkpoint *c)
{
    free(c->path);
    free(c);
}

void det_checkpoint_abort(det_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    ckpt_abort(checkpoint->ckpt);
    checkpoint_free(checkpoint);
}

static int parse_metadata(const char *json, struct arena *arena, struct doc **out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.source = "metadata", .max_bytes = TEXT_MAX_BYTES};
    struct doc *doc =
        json ? json_parse(arena, str_from(json), &opts, &diags) : doc_new(arena, DOC_MAP);
    if (!doc) return diag_fail(&diags, err);
    if (doc->kind != DOC_MAP)
        return det_fail(err, DET_EINVAL, "metadata must be a JSON object, found %s",
                        doc_kind_name(doc->kind));
    *out = doc;
    return det_ok(err);
}

// The files of a checkpoint and their sizes, from its manifest.
static int put_files(det_core *core, struct uuid id, struct arena *arena, struct json_writer *w,
                     det_err *err)
{
    struct buf text = BUF_INIT(TEXT_MAX_BYTES * 16);
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.max_bytes = text.max};
    int rc = fs_read(ckpt_file(core->store, id, CKPT_MANIFEST, arena), &text, err);
    if (rc) return rc;
    const struct doc *manifest = json_parse(arena, buf_str(&text), &opts, &diags);
    const struct doc *files = doc_find(manifest, "files");
    json_key(w, "resources");
    json_open_map(w);
    for (const struct doc *f = files ? files->first : NULL; f; f = f->next) {
        int64_t n_bytes = 0;
        doc_integer(doc_find(f, "bytes"), &n_bytes);
        json_key(w, text_at(f, "name"));
        json_put_int(w, n_bytes);
    }
    json_close(w);
    buf_done(&text);
    return det_ok(err);
}

// Of one that is complete, at core->last_batches.
static int report(det_core *core, struct uuid id, const struct doc *metadata, struct arena *arena,
                  det_err *err)
{
    char uuid[UUID_TEXT_BYTES];
    struct buf body = BUF_INIT(JOURNAL_MAX_LINE);
    struct json_writer w;
    json_init(&w, &body, 0);
    json_open_map(&w);
    json_key(&w, "uuid");
    uuid_format(id, uuid);
    json_put_str(&w, uuid);
    json_key(&w, "trialRunId");
    json_put_int(&w, core->info.run_id);
    json_key(&w, "stepsCompleted");
    json_put_int(&w, core->last_batches);
    json_key(&w, "metadata");
    json_put_doc(&w, metadata);
    int rc = put_files(core, id, arena, &w, err);
    json_close(&w);
    if (!rc) rc = core_report(core, "/api/v1/checkpoints", &body, err);
    buf_done(&body);
    return rc;
}

static int put_metadata(struct det_checkpoint *c, const struct doc *metadata, det_err *err)
{
    struct buf text = BUF_INIT(TEXT_MAX_BYTES);
    struct json_writer w;
    json_init(&w, &text, 1);
    json_put_doc(&w, metadata);
    int rc = buf_ok(&text) ? ckpt_put(c->ckpt, CKPT_METADATA, buf_str(&text), err)
                           : det_fail(err, DET_ELIMIT, "the metadata is too large");
    buf_done(&text);
    return rc;
}

int det_checkpoint_commit(det_checkpoint *checkpoint, const char *metadata, det_err *err)
{
    struct det_checkpoint *c = checkpoint;
    struct arena arena = ARENA_INIT;
    struct doc *doc = NULL;
    int rc = parse_metadata(metadata, &arena, &doc, err);
    if (!rc) rc = put_metadata(c, doc, err);
    if (rc)
        ckpt_abort(c->ckpt);
    else
        rc = ckpt_commit(c->ckpt, NULL, err);
    if (!rc) rc = report(c->core, c->id, doc, &arena, err);
    if (rc) det_wrap(err, "checkpoint %s", c->uuid);
    checkpoint_free(c);
    arena_done(&arena);
    return rc;
}

int client_report_checkpoint(det_core *core, const char *uuid, int64_t batches_trained,
                             det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(TEXT_MAX_BYTES);
    struct doc *metadata = NULL;
    struct uuid id;
    int rc = uuid_parse(uuid, &id, err);
    if (!rc) rc = open_store(core, err);
    if (!rc) rc = fs_read(ckpt_file(core->store, id, CKPT_METADATA, &arena), &text, err);
    if (!rc) rc = parse_metadata(buf_str(&text).ptr, &arena, &metadata, err);
    if (!rc) {
        core->last_batches = batches_trained;
        rc = report(core, id, metadata, &arena, err);
    }
    if (rc) det_wrap(err, "checkpoint %s", uuid);
    buf_done(&text);
    arena_done(&arena);
    return rc;
}

// --- going on

// One of another experiment, whose checkpoints are kept elsewhere.
static int find_elsewhere(det_core *core, struct uuid id, struct ckpt_info *out, det_err *err)
{
    struct store *store = NULL;
    int rc = store_open(core->settings.latest_storage, &store, err);
    if (!rc) rc = ckpt_verify(store, id, out, err);
    if (!rc) core->restored = ckpt_file(store, id, NULL, &core->arena);
    store_close(store);
    return rc;
}

static int find_latest(det_core *core, struct uuid id, struct ckpt_info *out, det_err *err)
{
    struct ckpt_list skipped;
    int rc = open_store(core, err);
    if (!rc) rc = ckpt_verify(core->store, id, out, err);
    // One that is damaged or gone is not the end: the trial goes on from the newest that is whole.
    if (rc == DET_ECORRUPT || rc == DET_ENOTFOUND)
        rc = ckpt_find_newest(core->store, core->info.trial_id, &core->arena, out, &skipped, err);
    if (!rc) core->restored = ckpt_file(core->store, out->id, NULL, &core->arena);
    return rc;
}

int det_core_latest_checkpoint(det_core *core, const char **path, det_err *err)
{
    struct ckpt_info info = {0};
    struct uuid id;
    if (core->restored) {
        *path = core->restored;
        return 1;
    }
    if (!core->settings.latest_checkpoint) return det_ok(err);
    int rc = uuid_parse(core->settings.latest_checkpoint, &id, err);
    if (!rc)
        rc = core->settings.latest_storage ? find_elsewhere(core, id, &info, err)
                                           : find_latest(core, id, &info, err);
    if (rc) return rc;
    core->last_batches = info.steps_completed;
    *path = core->restored;
    det_ok(err);
    return 1;
}
