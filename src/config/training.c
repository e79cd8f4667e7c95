// Unit training.c: the sections about how training runs: optimizations and profiling.
#include "config/tables.h"

#define O(member) offsetof(struct optimizations_config, member)
#define P(member) offsetof(struct profiling_config, member)

static const char *const precisions[] = {"O0", "O1", "O2", "O3", NULL}; // enum mixed_precision

#define ONE_EXCHANGE "All gradients of a step are exchanged together."

// clang-format off
static const struct field optimization_rows[] = {
    {"aggregation_frequency", FIELD_INT, O(aggregation_frequency), .def = "1", FIELD_MIN(1),
     .help = "How many batches are trained before gradients are exchanged and applied."},
    {"average_aggregated_gradients", FIELD_BOOL, O(average_aggregated_gradients), .def = "true",
     .help = "Whether gradients of several batches are averaged, not added."},
    {"average_training_metrics", FIELD_BOOL, O(average_training_metrics), .def = "true",
     .no_effect = "Training metrics are always averaged over all workers.",
     .help = "Whether training metrics are averaged over all workers."},
    {"gradient_compression", FIELD_BOOL, O(gradient_compression), .def = "false",
     .no_effect = "Gradients are exchanged as they are.",
     .help = "Whether gradients are exchanged in half precision."},
    {"mixed_precision", FIELD_ENUM, O(mixed_precision), .values = precisions, .def = "O0",
     .help = "O0 trains in full precision, O1 to O3 use half precision more and more."},
    {"tensor_fusion_threshold", FIELD_INT, O(tensor_fusion_threshold_mb), .def = "64", FIELD_MIN(0),
     .no_effect = ONE_EXCHANGE,
     .help = "How many megabytes of gradients are exchanged together at most."},
    {"tensor_fusion_cycle_time", FIELD_INT, O(tensor_fusion_cycle_time_ms), .def = "1",
     FIELD_MIN(0), .no_effect = ONE_EXCHANGE,
     .help = "How many milliseconds gradients are collected before they are exchanged."},
    {"auto_tune_tensor_fusion", FIELD_BOOL, O(auto_tune_tensor_fusion), .def = "false",
     .no_effect = ONE_EXCHANGE,
     .help = "Whether threshold and cycle time are tuned while training."},
    {"grad_updates_size_file", FIELD_STR, O(grad_updates_size_file), .no_effect = ONE_EXCHANGE,
     .help = "A file that the sizes of gradient exchanges are written to."},
};

static const struct field profiling_rows[] = {
    {"enabled", FIELD_BOOL, P(enabled), .def = "false", .help = "Whether trials are profiled."},
    {"begin_on_batch", FIELD_INT, P(begin_on_batch), .def = "0", FIELD_MIN(0),
     .help = "The first batch to profile."},
    {"end_after_batch", FIELD_OPT_INT, P(end_after_batch), FIELD_MIN(0),
     .help = "The last batch to profile."},
    {"sync_timings", FIELD_BOOL, P(sync_timings), .def = "true",
     .help = "Whether the device is waited for before a time is taken."},
};
// clang-format on

static void check_profiling(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct profiling_config *p = self;
    if (p->end_after_batch.is_set && p->end_after_batch.value < p->begin_on_batch)
        field_error(ctx, map,
                    "begin_on_batch must not be greater than end_after_batch, found %lld and %lld",
                    (long long)p->begin_on_batch, (long long)p->end_after_batch.value);
}

const struct field_table optimizations_table = {.size = sizeof(struct optimizations_config),
                                                FIELD_ROWS(optimization_rows)};
const struct field_table profiling_table = {
    .size = sizeof(struct profiling_config), FIELD_ROWS(profiling_rows), .check = check_profiling};
