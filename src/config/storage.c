// Unit storage.c: the checkpoint_storage section.
#include "config/tables.h"

#include "base/assert.h"
#include "base/path.h"

#define S(member) offsetof(struct storage_config, member)

static bool has_parent_step(const char *path)
{
    for (struct str rest = str_from(path); rest.ptr;)
        if (str_eqz(str_cut(&rest, '/'), "..")) return true;
    return false;
}

static void check_prefix(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    if (has_parent_step(*(const char *const *)member))
        field_error(ctx, value, "must not contain '..'");
}

void check_absolute(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    if ((*(const char *const *)member)[0] != '/')
        field_error(ctx, value, "must be an absolute path, found %s", field_show(ctx, value));
}

// clang-format off
static const struct field common_rows[] = {
    {"save_experiment_best", FIELD_INT, S(save_experiment_best), .def = "0", FIELD_MIN(0),
     .help = "How many of the best checkpoints of the whole experiment are kept when it ends."},
    {"save_trial_best", FIELD_INT, S(save_trial_best), .def = "1", FIELD_MIN(0),
     .help = "How many of the best checkpoints of each trial are kept."},
    {"save_trial_latest", FIELD_INT, S(save_trial_latest), .def = "1", FIELD_MIN(0),
     .help = "How many of the latest checkpoints of each trial are kept."},
};

#define OLD_PATH "This path has no meaning any more."
#define PREFIX_ROW                                                                                 \
    {"prefix", FIELD_STR, S(prefix), .check = check_prefix,                                        \
     .help = "Put in front of every object name in the bucket."}
#define BUCKET_ROW {"bucket", FIELD_STR, S(bucket), .required = true, .help = "The bucket."}

static const struct field shared_fs_rows[] = {
    {"host_path", FIELD_STR, S(host_path), .required = true, .check = check_absolute,
     .help = "A directory that is the same on all machines."},
    {"storage_path", FIELD_STR, S(storage_path),
     .help = "Where below host_path the checkpoints go: relative to it, or absolute and inside "
             "of it."},
    {"propagation", FIELD_STR, S(propagation), .def = "rprivate", .no_effect = "Checkpoints are written where they are kept.",
     .help = "The mount propagation of the directory."},
    {"container_path", FIELD_IGNORED, .help = OLD_PATH},
    {"checkpoint_path", FIELD_IGNORED, .help = OLD_PATH},
    {"tensorboard_path", FIELD_IGNORED, .help = OLD_PATH},
};
static const struct field directory_rows[] = {
    {"container_path", FIELD_STR, S(container_path), .required = true,
     .help = "A directory that is there where the task runs, by your own arrangement."},
};
static const struct field s3_rows[] = {
    BUCKET_ROW, PREFIX_ROW,
    {"access_key", FIELD_STR, S(access_key), .secret = true,
     .help = "The access key; without it, that of the environment."},
    {"secret_key", FIELD_STR, S(secret_key), .secret = true, .help = "The secret key."},
    {"endpoint_url", FIELD_STR, S(endpoint_url), .help = "The server, if it is not that of AWS."},
};
static const struct field gcs_rows[] = {BUCKET_ROW, PREFIX_ROW};
static const struct field azure_rows[] = {
    {"container", FIELD_STR, S(container), .required = true, .help = "The container."},
    {"connection_string", FIELD_STR, S(connection_string), .secret = true,
     .help = "How to connect. Either this or account_url."},
    {"account_url", FIELD_STR, S(account_url),
     .help = "The account. Either this or connection_string."},
    {"credential", FIELD_STR, S(credential), .secret = true,
     .help = "The credential that goes with account_url."},
};
// clang-format on

#define NO_OBJECTS                                                                               \
    "det writes checkpoints to directories: use shared_fs or directory, which may be a mounted " \
    "bucket"

// In the order of enum storage_kind.
static const struct field_variant kinds[] = {
    {.tag = ""},
    {"shared_fs", FIELD_ROWS(shared_fs_rows)},
    {"directory", FIELD_ROWS(directory_rows)},
    {"s3", FIELD_ROWS(s3_rows), .refused = NO_OBJECTS},
    {"gcs", FIELD_ROWS(gcs_rows), .refused = NO_OBJECTS},
    {"azure", FIELD_ROWS(azure_rows), .refused = NO_OBJECTS},
};

static void check_shared_fs(struct field_ctx *ctx, const struct doc *map,
                            const struct storage_config *s)
{
    if (!s->storage_path) return;
    bool relative = s->storage_path[0] != '/';
    const char *whole = relative ? arena_printf(ctx->arena, "%s/%s", s->host_path, s->storage_path)
                                 : s->storage_path;
    if (!path_is_inside(path_normal(ctx->arena, whole), path_normal(ctx->arena, s->host_path)))
        field_error(
            ctx, doc_find(map, "storage_path"),
            "storage_path must either be a relative directory or a subdirectory of host_path");
}

static void check_storage(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct storage_config *s = self;
    if (s->kind == STORAGE_SHARED_FS) check_shared_fs(ctx, map, s);
    if (s->kind != STORAGE_AZURE) return;
    if (!s->connection_string == !s->account_url)
        field_error(ctx, map, "needs exactly one of connection_string and account_url");
    if (s->credential && !s->account_url)
        field_error(ctx, map, "credential goes with account_url, not with connection_string");
}

const struct field_table storage_table = {
    .size = sizeof(struct storage_config),
    FIELD_ROWS(common_rows),
    .tag = "type",
    .tag_help = "Where checkpoints are kept. Without it, where the master keeps them.",
    .tag_optional = true,
    .tag_offset = S(kind),
    .variants = kinds,
    .n_variants = STATIC_LEN(kinds),
    .check = check_storage,
};

int storage_check(const struct storage_config *s, det_err *err)
{
    const struct field_variant *v = &kinds[s->kind];
    if (!v->refused) return det_ok(err);
    return det_fail(err, DET_EUNSUPPORTED, "checkpoint_storage.type: %s is refused: %s", v->tag,
                    v->refused);
}
