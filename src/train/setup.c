// Unit setup.c: from configuration and arguments to what the loop works with. Called by the
// trainer.
#include "train/setup.h"

#include "base/assert.h"
#include "doc/yaml.h"
#include "storage/storage.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20, REPORTING_BATCHES = 100 };

// --- hyperparameters

static bool is_map(const struct doc *value)
{
    return value->kind == DOC_MAP || value->kind == DOC_NULL;
}

// Constants by their values, and a null for everything else.
static struct doc *constants(struct arena *arena, const struct hparam *space)
{
    const struct hparam **leaf;
    size_t n = hparam_leaves(space, arena, &leaf);
    const struct doc **values = arena_array(arena, n + 1, sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (leaf[i]->kind != HP_CONST) values[i] = doc_new(arena, DOC_NULL);
    return hparam_assemble(space, values, arena);
}

static int check_complete(struct arena *arena, const struct hparam *space, const struct doc *doc,
                          det_err *err)
{
    const struct hparam **leaf;
    size_t n = hparam_leaves(space, arena, &leaf);
    for (size_t i = 0; i < n; i++) {
        if (leaf[i]->kind == HP_CONST) continue;
        const char *path = hparam_path(leaf[i], arena);
        const struct doc *value = settings_find(doc, path);
        if (!value || value->kind == DOC_NULL)
            return det_fail(err, DET_EINVAL,
                            "hyperparameter '%s' is to be searched for: give it a value", path);
    }
    return 0;
}

const struct doc *setup_merge(struct arena *arena, const struct doc *above, const struct doc *below)
{
    struct diag_list diags = DIAG_INIT(arena);
    struct field_ctx ctx = {.arena = arena, .diags = &diags};
    return above && below ? field_merge_maps(&ctx, above, below, is_map) : above ? above : below;
}

const struct doc *setup_hparams(struct arena *arena, const struct hparam *space,
                                const struct doc *values, det_err *err)
{
    if (!space) return values ? values : doc_new(arena, DOC_MAP);
    const struct doc *doc = setup_merge(arena, values, constants(arena, space));
    return check_complete(arena, space, doc, err) ? NULL : doc;
}

// --- configurations

const struct doc *setup_parse(struct arena *arena, const char *text, const char *source,
                              det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct doc *doc = yaml_parse(arena, str_from(text), source, &diags);
    if (diag_fail(&diags, err)) return NULL;
    if (doc && doc->kind == DOC_MAP) return doc;
    det_fail(err, DET_EINVAL, "%s: expected a map, found %s", source,
             doc_kind_name(doc ? doc->kind : DOC_NULL));
    return NULL;
}

int setup_parse_config(struct arena *arena, const char *text, const char *source,
                       struct setup_config *out, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct config_opts opts = {.source = source,
                                     .default_seed = (int64_t)(setup_new_seed() & INT32_MAX),
                                     .entrypoint_optional = true};
    const struct doc *doc = setup_parse(arena, text, source, err);
    if (!doc) return err->code;
    if (!doc_find(doc, "searcher") && !doc_find(doc, "hyperparameters")) {
        struct job_config job;
        if (job_config_read(arena, str_from(text), &opts, &job, &diags))
            return diag_fail(&diags, err);
        *out = (struct setup_config){.data = job.data};
        return 0;
    }
    struct exp_config *cfg = arena_alloc(arena, sizeof *cfg);
    if (exp_config_read(arena, str_from(text), &opts, cfg, &diags)) return diag_fail(&diags, err);
    *out = (struct setup_config){cfg, cfg->data};
    return 0;
}

int setup_read_config(struct arena *arena, const char *path, struct setup_config *out, det_err *err)
{
    struct buf text = BUF_INIT(CONFIG_MAX);
    int rc = fs_read(path, &text, err);
    const char *kept = arena_strndup(arena, text.len ? text.ptr : "", text.len);
    buf_done(&text);
    return rc ? rc : setup_parse_config(arena, kept, arena_strdup(arena, path), out, err);
}

int setup_read_checkpoint(struct arena *arena, const char *dir, struct context_setup *setup,
                          det_err *err)
{
    struct buf text = BUF_INIT(16 << 20);
    const char *path = arena_printf(arena, "%s/" CKPT_CONFIG, dir);
    const struct doc *doc = NULL;
    int rc = fs_read(path, &text, err);
    if (!rc) {
        doc = setup_parse(arena, arena_strdup(arena, text.ptr ? text.ptr : ""), path, err);
        rc = doc ? 0 : err->code;
    }
    buf_done(&text);
    if (rc) return rc;
    const struct doc *hparams = doc_find(doc, "hparams");
    if (!hparams || hparams->kind != DOC_MAP)
        return det_fail(err, DET_ECORRUPT, "'%s' has no hyperparameters", path);
    const struct doc *experiment = doc_find(doc, "experiment_config");
    setup->hparams = hparams;
    if (experiment && experiment->kind == DOC_MAP) {
        const struct doc *data = doc_find(experiment, "data");
        setup->experiment = experiment;
        if (data && data->kind == DOC_MAP) setup->data = setup_merge(arena, setup->data, data);
    }
    return 0;
}

uint64_t setup_new_seed(void)
{
    uint32_t seed = 0;
    if (getentropy(&seed, sizeof seed)) seed = (uint32_t)clock_unix_us();
    return seed;
}

void setup_context(struct context_setup *setup, const struct exp_config *cfg)
{
    setup->aggregation_frequency = 1;
    if (!cfg) return;
    const struct optimizations_config *o = &cfg->optimizations;
    setup->aggregation_frequency = MAX(o->aggregation_frequency, 1);
    setup->sum_aggregated_gradients = !o->average_aggregated_gradients;
    setup->amp = o->mixed_precision != PRECISION_O0;
}

// --- options of training

static det_length from_length(struct length length)
{
    static const det_unit units[] = {
        [LENGTH_BATCHES] = DET_UNIT_BATCHES, [LENGTH_RECORDS] = DET_UNIT_RECORDS,
        [LENGTH_EPOCHS] = DET_UNIT_EPOCHS,   [LENGTH_UNITS] = DET_UNIT_BATCHES,
        [LENGTH_TIME] = DET_UNIT_UNSET,
    };
    return (det_length){.unit = units[length.unit], .amount = length.amount};
}

// In a configuration a period of 0 is none.
static det_length period(det_length given, struct length configured)
{
    if (given.unit != DET_UNIT_UNSET || configured.amount < 1) return given;
    return from_length(configured);
}

static void fill_from_config(det_train_opts *opts, const struct exp_config *cfg)
{
    opts->min_validation_period = period(opts->min_validation_period, cfg->min_validation_period);
    opts->min_checkpoint_period = period(opts->min_checkpoint_period, cfg->min_checkpoint_period);
    opts->max_length = period(opts->max_length, cfg->searcher.max_length);
    if (opts->reporting_period.unit == DET_UNIT_UNSET && cfg->scheduling_unit > 0)
        opts->reporting_period = det_batches(cfg->scheduling_unit);
    if (!opts->metric && cfg->searcher.metric) {
        opts->metric = cfg->searcher.metric;
        opts->larger_is_better = !cfg->searcher.smaller_is_better;
    }
    static const det_checkpoint_policy policies[] = {
        [CHECKPOINT_BEST] = DET_CHECKPOINT_BEST,
        [CHECKPOINT_ALL] = DET_CHECKPOINT_ALL,
        [CHECKPOINT_NONE] = DET_CHECKPOINT_NONE,
    };
    if (opts->checkpoint_policy == DET_CHECKPOINT_BEST)
        opts->checkpoint_policy = policies[cfg->checkpoint_policy];
    opts->initial_validation |= cfg->perform_initial_validation;
}

// NULL if there is no home.
static const char *default_store(struct arena *arena)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && data[0] == '/') return arena_printf(arena, "%s/det/checkpoints", data);
    return home ? arena_printf(arena, "%s/.local/share/det/checkpoints", home) : NULL;
}

void setup_opts(struct arena *arena, det_train_opts *opts, const struct exp_config *cfg)
{
    if (cfg) fill_from_config(opts, cfg);
    if (opts->reporting_period.unit == DET_UNIT_UNSET)
        opts->reporting_period = det_batches(REPORTING_BATCHES);
    bool wants_store = opts->min_checkpoint_period.unit != DET_UNIT_UNSET &&
                       opts->min_checkpoint_period.unit != DET_UNIT_NEVER;
    if (!opts->checkpoint_dir && wants_store) opts->checkpoint_dir = default_store(arena);
    if (opts->test_mode) opts->max_length = det_batches(1);
}

int setup_check_length(const det_train_opts *opts, det_err *err)
{
    if (opts->max_length.unit == DET_UNIT_UNSET)
        return det_fail(err, DET_EINVAL,
                        "max_length is not given, and no configuration has searcher.max_length");
    if (opts->max_length.unit == DET_UNIT_NEVER || opts->max_length.at ||
        opts->max_length.amount < 0)
        return det_fail(err, DET_EINVAL,
                        "max_length must be a number of batches, records or "
                        "epochs");
    return 0;
}
