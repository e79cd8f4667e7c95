// config/tables.h: what several tables of this layer share. Private to the layer.
#pragma once

#include "config/config.h"

extern const struct field_table searcher_table, storage_table, environment_table, bind_mount_table,
    log_policy_table, experiment_resources_table, job_resources_table, optimizations_table,
    profiling_table;

// struct length: {batches: 100}, or a bare number; the same with unit LENGTH_TIME: a number
extern const struct field_codec length_codec, max_time_codec;
// struct opt_int: a number of bytes, or "4 GiB"
extern const struct field_codec bytes_codec;
// struct entrypoint: a string or a list of strings
extern const struct field_codec entrypoint_codec;
// struct hparam: the whole tree
extern const struct field_codec hparams_codec;

// The row of a list of strings.
extern const struct field string_item;

// field_ctx.user of everything in this layer.
struct config_ctx {
    int64_t batches_per_step; // what a step was in the days of steps
    bool is_new;              // of config_opts
};

// Numbers of steps become {batches: N}. A budget has the limit it had then; a period may have a
// unit of its own already.
const struct doc *convert_steps(struct field_ctx *ctx, const struct doc *value);
const struct doc *convert_step_budget(struct field_ctx *ctx, const struct doc *value);
const struct doc *convert_period(struct field_ctx *ctx, const struct doc *value);

// Hyperparameters: group by group; anything else is replaced as a whole. Policies: by name.
const struct doc *merge_hparams(struct field_ctx *ctx, const struct field *f,
                                const struct doc *high, const struct doc *low);
const struct doc *merge_log_policies(struct field_ctx *ctx, const struct field *f,
                                     const struct doc *high, const struct doc *low);

// The document of a text, YAML or JSON; a text with nothing in it gives an empty map. NULL after an
// error.
const struct doc *config_parse(struct field_ctx *ctx, struct str text, const char *source);

// Rules that need more than one table.
void check_grid(struct field_ctx *ctx, const struct doc *map, const struct hparam *root);
void check_absolute(struct field_ctx *ctx, const struct doc *value, const void *member);
void complete_log_policies(struct field_ctx *ctx, const struct doc *map, struct exp_config *cfg);
