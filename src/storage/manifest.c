// Unit manifest.c: manifests as JSON, by a field table. Called by write.c and verify.c.
#include "storage/manifest.h"

#include "base/crc32c.h"
#include "doc/json.h"
#include "base/path.h"
#include "storage/storage.h"

enum { VERSION = 1 };

#define M(member) offsetof(struct manifest, member)
#define F(member) offsetof(struct manifest_file, member)

// clang-format off
static const struct field file_rows[] = {
    {"name", FIELD_STR, F(name), .required = true, .help = "Path below the checkpoint."},
    {"bytes", FIELD_INT, F(n_bytes), .required = true, FIELD_MIN(0), .help = "Size."},
    {"crc32c", FIELD_INT, F(crc32c), .required = true, FIELD_RANGE(0, UINT32_MAX),
     .help = "Checksum of the content."},
};
static const struct field_table file_table = {.size = sizeof(struct manifest_file),
                                              FIELD_ROWS(file_rows)};
static const struct field file_item = {.type = FIELD_TABLE, .table = &file_table};

static const struct field rows[] = {
    {"version", FIELD_INT, M(version), .required = true, FIELD_RANGE(VERSION, VERSION),
     .help = "Of this format."},
    {"id", FIELD_STR, M(id), .required = true, .help = "Of the checkpoint."},
    {"trial_id", FIELD_INT, M(trial_id), .required = true, .help = "Of its trial."},
    {"steps_completed", FIELD_INT, M(steps_completed), .required = true, FIELD_MIN(0),
     .help = "Batches trained."},
    {"saved_us", FIELD_INT, M(saved_us), .required = true, .help = "Microseconds since 1970."},
    {"files", FIELD_LIST, M(files), .required = true, .item = &file_item, .help = "All of them."},
    {"checksum", FIELD_INT, M(checksum), .required = true, FIELD_RANGE(0, UINT32_MAX),
     .help = "CRC-32C of this text with a 0 here."},
};
static const struct field_table table = {.size = sizeof(struct manifest), FIELD_ROWS(rows)};
// clang-format on

static void encode_as_it_is(const struct manifest *m, struct buf *out)
{
    struct arena arena = ARENA_INIT;
    struct json_writer w;
    json_init(&w, out, 1);
    json_put_doc(&w, field_write(&arena, &table, m, false));
    buf_addc(out, '\n');
    arena_done(&arena);
}

void manifest_encode(const struct manifest *m, struct buf *out)
{
    struct manifest copy = *m;
    copy.version = VERSION;
    copy.checksum = 0;
    encode_as_it_is(&copy, out);
    copy.checksum = crc32c_add(0, out->ptr, out->len);
    buf_clear(out);
    encode_as_it_is(&copy, out);
}

static int check_names(const struct manifest *m, det_err *err)
{
    for (size_t i = 0; i < m->files.n; i++) {
        const char *name = m->files.items[i].name;
        if (!path_is_plain(str_from(name)))
            return det_fail(err, DET_ECORRUPT, "the file name '%.200s' leads elsewhere", name);
        if (i && strcmp(m->files.items[i - 1].name, name) >= 0)
            return det_fail(err, DET_ECORRUPT, "'%.200s' is out of order", name);
    }
    return det_ok(err);
}

static int check_text(struct str text, const struct manifest *m, det_err *err)
{
    struct buf again = BUF_INIT(MANIFEST_MAX_BYTES);
    manifest_encode(m, &again);
    bool same = buf_ok(&again) && str_eq(text, buf_str(&again));
    buf_done(&again);
    return same ? det_ok(err) : det_fail(err, DET_ECORRUPT, "its checksum is wrong");
}

int manifest_parse(struct str text, struct arena *arena, struct manifest *out, det_err *err)
{
    const struct json_opts opts = {.max_bytes = MANIFEST_MAX_BYTES};
    struct diag_list diags = DIAG_INIT(arena);
    struct field_ctx ctx = {.arena = arena, .diags = &diags};
    struct manifest m = {0};
    det_err why = {0};
    struct doc *doc = json_parse(arena, text, &opts, &diags);
    if (doc) doc = field_normalize(&ctx, &table, doc);
    if (doc && !diags.n_errors) field_read(&ctx, &table, doc, &m);
    int rc = diag_fail(&diags, &why);
    if (!rc && !doc) rc = det_fail(&why, DET_ECORRUPT, "it is not a map");
    if (!rc) rc = check_names(&m, &why);
    if (!rc) rc = check_text(text, &m, &why);
    if (rc) return det_fail(err, DET_ECORRUPT, CKPT_MANIFEST ": %.600s", why.msg);
    *out = m;
    return det_ok(err);
}
