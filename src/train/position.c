// Unit position.c: where a loop is, as JSON, by a field table.
#include "train/training.h"

#include "doc/field.h"
#include "doc/json.h"
#include <math.h>

#define S(member) offsetof(struct training_state, member)

// clang-format off
static const struct field rows[] = {
    {"trial_id", FIELD_INT, S(trial_id), .required = true, .help = "0: not of a cluster."},
    {"seed", FIELD_INT, S(seed), .required = true, .help = "Of the trial."},
    {"batches_trained", FIELD_INT, S(batches), .required = true, FIELD_MIN(0),
     .help = "By each slot."},
    {"epochs_trained", FIELD_INT, S(epochs), .required = true, FIELD_MIN(0), .help = "Complete ones."},
    {"last_checkpoint", FIELD_INT, S(last_checkpoint), .required = true, FIELD_MIN(0),
     .help = "Batches trained at that time."},
    {"last_validation", FIELD_INT, S(last_validation), .required = true, FIELD_MIN(0),
     .help = "Batches trained at that time."},
    {"has_best", FIELD_BOOL, S(has_best), .def = "false", .help = "Whether the next two are known."},
    {"best_metric", FIELD_DOUBLE, S(best_metric), .def = "0", .help = "Of all validations."},
    {"best_batches", FIELD_INT, S(best_batches), .def = "0", FIELD_MIN(0),
     .help = "Batches trained at that time."},
    {"epoch_length", FIELD_INT, S(epoch_length), .required = true, FIELD_MIN(1),
     .help = "Batches of an epoch, for each slot."},
    {"batch_size", FIELD_INT, S(batch_size), .required = true, FIELD_MIN(1),
     .help = "Records of a batch, for each slot."},
    {"slots", FIELD_INT, S(slots), .def = "1", FIELD_MIN(1), .help = "Ranks."},
    {"aggregation_frequency", FIELD_INT, S(aggregation_frequency), .required = true, FIELD_MIN(1),
     .help = "Batches of an optimizer step."},
};
// clang-format on
static const struct field_table table = {.size = sizeof(struct training_state), FIELD_ROWS(rows)};

void training_state_encode(const struct training_state *state, struct buf *out)
{
    struct arena arena = ARENA_INIT;
    struct training_state s = *state;
    s.has_best = s.has_best && isfinite(s.best_metric); // JSON has no other numbers
    if (!s.has_best) s.best_metric = 0;
    struct json_writer w;
    json_init(&w, out, 1);
    json_put_doc(&w, field_write(&arena, &table, &s, false));
    buf_addc(out, '\n');
    arena_done(&arena);
}

int training_state_parse(struct str text, struct training_state *out, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct field_ctx ctx = {.arena = &arena, .diags = &diags};
    struct training_state s = {0};
    struct doc *doc = json_parse(&arena, text, NULL, &diags);
    if (doc) doc = field_normalize(&ctx, &table, doc);
    if (doc && !diags.n_errors) field_read(&ctx, &table, doc, &s);
    int rc = diag_fail(&diags, err);
    if (!rc && !doc) rc = det_fail(err, DET_ECORRUPT, "it is not a map");
    if (!rc) *out = s;
    arena_done(&arena);
    return rc ? DET_ECORRUPT : 0;
}
