// Unit options.c: from the command line and the configuration to what is to be done.
#include "runner/options.h"

#include "base/mem.h"
#include "base/number.h"
#include "doc/yaml.h"
#include "runner/slots.h"
#include "sys/fs.h"
#include <sys/random.h>
#include <unistd.h>

enum { CONFIG_MAX_BYTES = 1 << 20 };

// "model_def:MNistTrial"; a file name is understood too: "model_def.c".
static void split_entrypoint(const char *text, struct arena *arena, struct run_options *out)
{
    const char *colon = strrchr(text, ':');
    struct str module = {text, colon ? (size_t)(colon - text) : strlen(text)};
    out->module = arena_strndup(arena, module.ptr, module.len);
    const char *slash = strrchr(out->module, '/');
    out->code_dir =
        slash ? arena_strndup(arena, out->module, (size_t)(slash - out->module) + 1) : ".";
    out->trial = colon && colon[1] ? colon + 1 : NULL;
}

static int read_entrypoint(const struct call *call, struct arena *arena, struct run_options *out,
                           det_err *err)
{
    const struct exp_config *cfg = out->config;
    if (call->n_args) {
        split_entrypoint(call->args[0], arena, out);
        return det_ok(err);
    }
    if (!cfg || cfg->entrypoint.kind != ENTRYPOINT_CLASS)
        return det_fail(err, DET_EINVAL,
                        "which trial? Name it (model_def:MNistTrial), or give a --config with an "
                        "entrypoint of this form");
    split_entrypoint(cfg->entrypoint.text, arena, out);
    return det_ok(err);
}

// --- the configuration

static int read_config(const char *path, struct arena *arena, const struct exp_config **out,
                       det_err *err)
{
    uint32_t seed = 0;
    struct buf file = BUF_INIT(CONFIG_MAX_BYTES);
    struct diag_list diags = DIAG_INIT(arena);
    struct exp_config *cfg = arena_alloc(arena, sizeof *cfg);
    if (getentropy(&seed, sizeof seed)) seed = (uint32_t)getpid();
    const struct config_opts opts = {
        .source = path, .default_seed = seed & INT32_MAX, .entrypoint_optional = true};
    int rc = fs_read(path, &file, err);
    if (!rc) {
        struct str text = {arena_strndup(arena, buf_str(&file).ptr, file.len), file.len};
        rc = exp_config_read(arena, text, &opts, cfg, &diags);
        print_diags(&diags);
        if (rc) det_fail(err, DET_EINVAL, "'%s' is not a valid configuration", path);
    }
    buf_done(&file);
    if (!rc) *out = cfg;
    return rc;
}

// --- hyperparameters

static struct doc *find_or_add(struct doc *map, struct str key, struct arena *arena)
{
    for (struct doc *e = map->first; e; e = e->next)
        if (str_eq(e->key, key)) return e;
    struct doc *value = doc_new(arena, DOC_NULL);
    doc_set(map, key, value);
    return value;
}

// Puts a value to where "optimizer.lr" is.
static int set_hparam(struct doc *root, struct str name, const struct doc *value,
                      struct arena *arena, det_err *err)
{
    struct doc *node = root;
    for (struct str rest = name; rest.ptr;) {
        struct str step = str_cut(&rest, '.');
        if (node->kind == DOC_NULL) node->kind = DOC_MAP;
        if (node->kind != DOC_MAP || !step.len)
            return det_fail(err, DET_EINVAL, "--hparam %.*s: not a name that a value can have",
                            STR_ARG(name));
        node = find_or_add(node, step, arena);
    }
    struct doc kept = *node;
    *node = *value;
    node->next = kept.next;
    node->key = kept.key;
    return det_ok(err);
}

static int read_hparam(struct doc *root, const char *text, struct arena *arena, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    struct str rest = str_from(text);
    struct str name = str_cut(&rest, '=');
    if (!rest.len || !name.len)
        return det_fail(err, DET_EINVAL, "--hparam '%s' must have the form NAME=VALUE", text);
    const struct doc *value = yaml_parse(arena, rest, "--hparam", &diags);
    int rc = diag_fail(&diags, err);
    if (rc) return det_wrap(err, "'%s'", text);
    name.ptr = arena_strndup(arena, name.ptr, name.len);
    return set_hparam(root, name, value ? value : doc_new(arena, DOC_NULL), arena, err);
}

static int read_hparams(const struct call *call, struct arena *arena, struct run_options *out,
                        det_err *err)
{
    struct doc *root = doc_new(arena, DOC_MAP);
    for (int i = 0; i < call->n_given; i++) {
        if (strcmp(call->given[i]->name, "hparam") != 0) continue;
        int rc = read_hparam(root, call->values[i], arena, err);
        if (rc) return rc;
    }
    if (root->n) out->hparams = root;
    return det_ok(err);
}

// --- numbers

// *out stays if the option was not given.
static int read_number(const struct call *call, const char *name, int64_t min, int64_t *out,
                       det_err *err)
{
    const char *text = call_option(call, name);
    int64_t value;
    if (!text) return det_ok(err);
    if (!number_to_int(str_from(text), 10, &value) || value < min)
        return det_fail(err, DET_EINVAL, "--%s must be a number from %lld on, found '%s'", name,
                        (long long)min, text);
    *out = value;
    return det_ok(err);
}

static int read_length(const struct call *call, det_length *out, det_err *err)
{
    int64_t epochs = 0, batches = 0;
    int rc = read_number(call, "epochs", 1, &epochs, err);
    if (!rc) rc = read_number(call, "batches", 1, &batches, err);
    if (rc) return rc;
    if (epochs && batches)
        return det_fail(err, DET_EINVAL, "--epochs and --batches do not go together");
    if (epochs) *out = det_epochs(epochs);
    if (batches) *out = det_batches(batches);
    return rc;
}

// --- where checkpoints go

static const char *checkpoint_dir(const struct call *call, const struct exp_config *cfg,
                                  struct arena *arena)
{
    const char *given = call_option(call, "checkpoint-dir");
    if (given) return given;
    const struct storage_config *s = cfg ? &cfg->checkpoint_storage : NULL;
    if (s && s->kind == STORAGE_DIRECTORY) return s->container_path;
    if (!s || s->kind != STORAGE_SHARED_FS) return "checkpoints";
    if (!s->storage_path) return s->host_path;
    if (s->storage_path[0] == '/') return s->storage_path;
    return arena_printf(arena, "%s/%s", s->host_path, s->storage_path);
}

int options_read(const struct call *call, struct arena *arena, struct run_options *out,
                 det_err *err)
{
    const char *config = call_option(call, "config");
    int64_t seed = -1, slots = 1;
    *out = (struct run_options){.resume = call_option(call, "resume") != NULL,
                                .test_mode = call_option(call, "test-mode") != NULL,
                                .metrics_file = call_option(call, "metrics"),
                                .tensorboard_dir = call_option(call, "tensorboard"),
                                .trace_file = call_option(call, "trace")};
    int rc = config ? read_config(config, arena, &out->config, err) : 0;
    if (!rc && out->config) rc = storage_check(&out->config->checkpoint_storage, err);
    if (!rc) rc = read_entrypoint(call, arena, out, err);
    if (!rc) rc = read_hparams(call, arena, out, err);
    if (!rc) rc = read_length(call, &out->length, err);
    if (!rc) rc = read_number(call, "seed", 0, &seed, err);
    if (!rc) rc = read_number(call, "slots", 1, &slots, err);
    if (!rc) rc = read_number(call, "limit-batches", 1, &out->limit_batches, err);
    if (!rc && slots > SLOTS_MAX)
        rc = det_fail(err, DET_EINVAL, "--slots must be at most %d", SLOTS_MAX);
    out->seed = seed;
    out->slots = (int)slots;
    out->checkpoint_dir = checkpoint_dir(call, out->config, arena);
    return rc;
}
