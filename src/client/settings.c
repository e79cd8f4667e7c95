// Unit settings.c: what a program is told by its environment. Read once, by core.c.
#include "client/core.h"

#include "doc/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/clock.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENV_MAX_BYTES = 16 << 20, PATIENCE_US = 60 * 1000000 };

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int env_int(const char *name, int64_t *out, det_err *err)
{
    const char *text = env(name);
    if (!text || number_to_int(str_from(text), 10, out)) return det_ok(err);
    return det_fail(err, DET_EINVAL, "%s must be an integer, found '%.60s'", name, text);
}

static int parse_json(struct arena *arena, const char *what, const char *text,
                      const struct doc **out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.source = what, .max_bytes = ENV_MAX_BYTES};
    const struct doc *doc = json_parse(arena, str_from(text), &opts, &diags);
    if (!doc) return diag_fail(&diags, err);
    if (doc->kind != DOC_MAP)
        return det_fail(err, DET_EINVAL, "%s must be a JSON object, found %s", what,
                        doc_kind_name(doc->kind));
    *out = doc;
    return det_ok(err);
}

// --- values

static void set_section(struct arena *arena, struct doc *values, const char *name,
                        const struct doc *section)
{
    doc_set(values, str_from(name),
            section && section->kind == DOC_MAP ? doc_share(arena, section)
                                                : doc_new(arena, DOC_MAP));
}

static int read_values(const det_core_opts *opts, struct arena *arena, struct settings *out,
                       det_err *err)
{
    const struct doc *hparams = NULL, *config = NULL;
    const char *hparams_text = env("DET_HPARAMS"), *config_text = env("DET_EXPERIMENT_CONFIG");
    if (!hparams_text) hparams_text = opts->hparams ? opts->hparams : "{}";
    if (!config_text) config_text = opts->config ? opts->config : "{}";
    int rc = parse_json(arena, "DET_HPARAMS", hparams_text, &hparams, err);
    if (!rc) rc = parse_json(arena, "DET_EXPERIMENT_CONFIG", config_text, &config, err);
    if (rc) return rc;
    struct doc *values = doc_new(arena, DOC_MAP);
    set_section(arena, values, "hparams", hparams);
    set_section(arena, values, "data", doc_find(config, "data"));
    set_section(arena, values, "config", config);
    out->values = values;
    return det_ok(err);
}

// --- lengths

static struct length length_of(const struct doc *doc)
{
    static const enum length_unit units[] = {LENGTH_EPOCHS, LENGTH_BATCHES, LENGTH_RECORDS};
    struct length length = {LENGTH_NONE, 0};
    if (doc_integer(doc, &length.amount)) length.unit = LENGTH_UNITS;
    for (int i = 0; doc && doc->kind == DOC_MAP && i < 3; i++)
        if (doc_integer(doc_find(doc, length_unit_name(units[i])), &length.amount))
            length.unit = units[i];
    return length;
}

static void read_length(const det_core_opts *opts, struct settings *out)
{
    const struct doc *searcher = doc_find(doc_find(out->values, "config"), "searcher");
    out->length = length_of(doc_find(searcher, "max_length"));
    if (opts->epochs)
        out->length = (struct length){LENGTH_EPOCHS, opts->epochs};
    else if (opts->batches)
        out->length = (struct length){LENGTH_BATCHES, opts->batches};
    else if (opts->records)
        out->length = (struct length){LENGTH_RECORDS, opts->records};
    else if (out->length.unit == LENGTH_NONE)
        out->length = (struct length){LENGTH_EPOCHS, 1};
}

// --- the folder

// $DET_HOME/<name>, else $XDG_DATA_HOME/det/<name>, else ~/.local/share/det/<name>.
static char *data_path(const char *name, det_err *err)
{
    struct buf path = BUF_INIT(4096);
    const char *home = env("DET_HOME"), *xdg = env("XDG_DATA_HOME"), *user = env("HOME");
    if (home)
        buf_printf(&path, "%s/%s", home, name);
    else if (xdg)
        buf_printf(&path, "%s/det/%s", xdg, name);
    else if (user)
        buf_printf(&path, "%s/.local/share/det/%s", user, name);
    if (path.len && buf_ok(&path)) return buf_take(&path);
    buf_done(&path);
    det_fail(err, DET_EINVAL, "there is no place for files: set DET_HOME, XDG_DATA_HOME or HOME");
    return NULL;
}

// On a cluster it is the task's own; a local run gets one named by the time.
static int choose_folder(const det_core_opts *opts, struct arena *arena, struct settings *out,
                         const det_core_info *info, det_err *err)
{
    const char *given = out->master ? env("DET_RUN_DIR") : opts->folder;
    char name[64];
    out->folder = given ? arena_strdup(arena, given) : NULL;
    if (given) return det_ok(err);
    if (out->master)
        snprintf(name, sizeof name, "trials/%lld", (long long)info->trial_id);
    else
        snprintf(name, sizeof name, "local/%lld-%ld", (long long)(clock_unix_us() / 1000),
                 (long)getpid());
    char *path = data_path(name, err);
    if (!path) return DET_EINVAL;
    out->folder = arena_strdup(arena, path);
    free(path);
    return det_ok(err);
}

// --- all of it

static int read_numbers(const det_core_opts *opts, det_core_info *info, det_err *err)
{
    int64_t rank = 0, size = 1;
    info->trial_seed = opts->trial_seed;
    int rc = env_int("DET_TRIAL_ID", &info->trial_id, err);
    if (!rc) rc = env_int("DET_EXPERIMENT_ID", &info->experiment_id, err);
    if (!rc) rc = env_int("DET_TRIAL_RUN_ID", &info->run_id, err);
    if (!rc) rc = env_int("DET_TRIAL_SEED", &info->trial_seed, err);
    if (!rc) rc = env_int("RANK", &rank, err);
    if (!rc) rc = env_int("WORLD_SIZE", &size, err);
    if (!rc && (rank < 0 || size < 1 || rank >= size))
        rc = det_fail(err, DET_EINVAL, "RANK %lld of WORLD_SIZE %lld makes no sense",
                      (long long)rank, (long long)size);
    info->rank = (int)rank;
    info->size = (int)size;
    return rc;
}

static const char *copy(struct arena *arena, const char *text)
{
    return text ? arena_strdup(arena, text) : NULL;
}

// Without a trial there is nothing to report to: a script that only has DET_MASTER set, for the
// command line, is a local one.
bool client_is_task(void)
{
    return http_master_address() && env("DET_ALLOCATION_ID");
}

int settings_read(const det_core_opts *opts, struct arena *arena, struct settings *out,
                  det_core_info *info, det_err *err)
{
    bool on_cluster = client_is_task();
    *out = (struct settings){
        .master = on_cluster ? copy(arena, http_master_address()) : NULL,
        .token = copy(arena, env("DET_SESSION_TOKEN")),
        .ca_file = copy(arena, env("DET_MASTER_CERT_FILE")),
        .cert_name = copy(arena, env("DET_MASTER_CERT_NAME")),
        .allocation = copy(arena, env("DET_ALLOCATION_ID")),
        .storage = copy(arena, env("DET_CHECKPOINT_STORAGE")),
        .latest_checkpoint = copy(arena, env("DET_LATEST_CHECKPOINT")),
        .latest_storage = copy(arena, env("DET_LATEST_CHECKPOINT_STORAGE")),
        .patience_us = opts->patience_ms ? opts->patience_ms * 1000 : PATIENCE_US,
    };
    info->is_local = !on_cluster;
    int rc = read_numbers(opts, info, err);
    if (!rc) rc = read_values(opts, arena, out, err);
    if (!rc) rc = choose_folder(opts, arena, out, info, err);
    if (rc) return rc;
    read_length(opts, out);
    info->folder = out->folder;
    return det_ok(err);
}
