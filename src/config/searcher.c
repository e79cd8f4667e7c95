// Unit searcher.c: the searcher section: which fields each search method has.
#include "config/tables.h"

#include "base/assert.h"

#define S(member) offsetof(struct searcher_config, member)

// In the order of enum adaptive_mode and of enum length_unit.
static const char *const modes[] = {"standard", "aggressive", "conservative", NULL};
static const char *const units[] = {"", "batches", "records", "epochs", NULL};

static const struct field rung_item = {.name = "", .type = FIELD_INT, FIELD_RANGE(1, 64)};

// clang-format off
#define MAX_LENGTH(is_required)                                                                    \
    {"max_length", FIELD_CODEC, S(max_length), .codec = &length_codec, .required = is_required,    \
     FIELD_MIN(1),                                                                                 \
     .help = "How long a trial trains at most. Without it the training code decides."}
#define MAX_TRIALS                                                                                 \
    {"max_trials", FIELD_INT, S(max_trials), .required = true, FIELD_RANGE(1, 10000000),           \
     .help = "How many trials to run in total."}
#define MAX_CONCURRENT                                                                             \
    {"max_concurrent_trials", FIELD_INT, S(max_concurrent_trials), .def = "16",                    \
     FIELD_RANGE(0, 1000000),                                                                      \
     .help = "How many trials may run at the same time. 0 means no limit; methods of the "         \
             "halving family then choose one."}
#define TIME                                                                                       \
    {"time_metric", FIELD_STR, S(time_metric),                                                     \
     .help = "The reported metric that measures how far a trial is, instead of a max_length."},    \
    {"max_time", FIELD_CODEC, S(max_length), .codec = &max_time_codec, FIELD_MIN(1),                   \
     .help = "The value of time_metric at which a trial is complete."}
#define MODE                                                                                       \
    {"mode", FIELD_ENUM, S(halving.mode), .values = modes, .def = "standard",                      \
     .help = "How early bad trials are stopped: aggressive uses the deepest bracket only, "        \
             "conservative all of them."}
#define DIVISOR                                                                                    \
    {"divisor", FIELD_DOUBLE, S(halving.divisor), .def = "4", FIELD_ABOVE(1),                      \
     .help = "From one rung to the next, one in this many trials continues and trains this many "  \
             "times longer."}
#define MAX_RUNGS                                                                                  \
    {"max_rungs", FIELD_INT, S(halving.max_rungs), .def = "5", FIELD_RANGE(1, 64),                 \
     .help = "The largest number of rungs in a bracket."}
#define NUM_RUNGS                                                                                  \
    {"num_rungs", FIELD_INT, S(halving.num_rungs), .required = true, FIELD_RANGE(1, 64),           \
     .help = "The number of rungs."}
#define BRACKET_RUNGS                                                                              \
    {"bracket_rungs", FIELD_LIST, S(halving.bracket_rungs), .item = &rung_item,                    \
     .help = "The number of rungs of each bracket. Overrides mode and max_rungs."}
#define STOP_ONCE                                                                                  \
    {"stop_once", FIELD_TRI, S(halving.stop_once),                                                 \
     .help = "True: a trial that falls behind is stopped for good. False: it is paused and may "   \
             "be promoted later."}
#define BUDGET                                                                                     \
    {"budget", FIELD_CODEC, S(halving.budget), .codec = &length_codec, .required = true,           \
     FIELD_MIN(1),                                                                                 \
     .help = "The total training of all trials together, in the unit of max_length."}
#define STRAGGLERS                                                                                 \
    {"train_stragglers", FIELD_BOOL, S(halving.train_stragglers), .def = "true",                   \
     .no_effect = "Places in a rung go to the best of all its trials: none is late.",              \
     .help = "Whether trials that report after their rung was decided go on training."}
#define TPE                                                                                        \
    {"n_startup_trials", FIELD_INT, S(tpe.n_startup_trials), .def = "10", FIELD_RANGE(0, 1000000), \
     .help = "How many trials are drawn at random before the model of good values is used."},      \
    {"n_ei_candidates", FIELD_INT, S(tpe.n_ei_candidates), .def = "24", FIELD_RANGE(1, 100000),    \
     .help = "How many candidates are drawn from the model; the most promising one becomes a "     \
             "trial."},                                                                            \
    {"gamma", FIELD_DOUBLE, S(tpe.gamma), .def = "0.2", FIELD_RANGE(0.001, 0.5),                   \
     .help = "The fraction of finished trials that count as good, at most 25 of them."}

static const struct field single_rows[] = {MAX_LENGTH(false)};
static const struct field random_rows[] = {MAX_TRIALS, MAX_LENGTH(false), MAX_CONCURRENT};
static const struct field grid_rows[] = {MAX_LENGTH(false), MAX_CONCURRENT};
static const struct field asha_rows[] = {
    MAX_TRIALS, MAX_LENGTH(false), TIME, MODE, DIVISOR, MAX_RUNGS, BRACKET_RUNGS, MAX_CONCURRENT,
    STOP_ONCE,
};
static const struct field async_rows[] = {
    MAX_TRIALS, NUM_RUNGS, MAX_LENGTH(false), TIME, DIVISOR, MAX_CONCURRENT, STOP_ONCE,
};
static const struct field adaptive_rows[] = {
    MAX_LENGTH(true), BUDGET, MODE, DIVISOR, MAX_RUNGS, BRACKET_RUNGS, STRAGGLERS,
};
static const struct field simple_rows[] = {
    {"max_trials", FIELD_INT, S(max_trials), .required = true, FIELD_RANGE(1, 2000),
     .help = "How many trials to run in total."},
    MAX_LENGTH(true), MODE, DIVISOR, MAX_RUNGS,
};
static const struct field sync_rows[] = {NUM_RUNGS, MAX_LENGTH(true), BUDGET, DIVISOR, STRAGGLERS};
static const struct field tpe_rows[] = {MAX_TRIALS, MAX_LENGTH(false), MAX_CONCURRENT, TPE};
static const struct field bohb_rows[] = {
    MAX_TRIALS, MAX_LENGTH(false), TIME, MODE, DIVISOR, MAX_RUNGS, BRACKET_RUNGS, MAX_CONCURRENT,
    STOP_ONCE, TPE,
};
static const struct field cmaes_rows[] = {
    MAX_TRIALS, MAX_LENGTH(false), MAX_CONCURRENT,
    {"population_size", FIELD_OPT_INT, S(cmaes.population_size), FIELD_RANGE(2, 100000),
     .help = "The number of trials per generation. Without it, 4 + 3 ln(number of "
             "hyperparameters)."},
    {"sigma0", FIELD_DOUBLE, S(cmaes.sigma0), .def = "0.1667", FIELD_RANGE(0.0001, 10),
     .help = "The first step size, as a fraction of the range of each hyperparameter."},
};

static const struct field replace_rows[] = {
    {"truncate_fraction", FIELD_DOUBLE, S(pbt.truncate_fraction), .required = true,
     FIELD_RANGE(0, 0.5),
     .help = "The fraction of the population that is replaced by copies of the best after each "
             "round."},
};
static const struct field explore_rows[] = {
    {"resample_probability", FIELD_DOUBLE, S(pbt.resample_probability), .required = true,
     FIELD_RANGE(0, 1),
     .help = "The probability that a hyperparameter of a copy is drawn anew."},
    {"perturb_factor", FIELD_DOUBLE, S(pbt.perturb_factor), .required = true, FIELD_RANGE(0, 1),
     .help = "Otherwise it grows or shrinks by this fraction."},
};
// clang-format on

static const struct field_table replace_table = {.size = sizeof(struct searcher_config),
                                                 FIELD_ROWS(replace_rows)};
static const struct field_table explore_table = {.size = sizeof(struct searcher_config),
                                                 FIELD_ROWS(explore_rows)};

// clang-format off
static const struct field pbt_rows[] = {
    {"population_size", FIELD_INT, S(pbt.population_size), .required = true, FIELD_RANGE(1, 100000),
     .help = "How many trials train side by side."},
    {"num_rounds", FIELD_INT, S(pbt.num_rounds), .required = true, FIELD_RANGE(1, 1000000),
     .help = "How many rounds of training, validation and replacement there are."},
    {"length_per_round", FIELD_CODEC, S(pbt.length_per_round), .codec = &length_codec,
     .required = true, FIELD_MIN(1),
     .help = "How long each trial trains in one round."},
    {"replace_function", FIELD_TABLE, 0, .table = &replace_table, .required = true,
     .help = "Which trials are replaced after a round."},
    {"explore_function", FIELD_TABLE, 0, .table = &explore_table, .required = true,
     .help = "How the hyperparameters of copies are changed."},
};
static const struct field custom_rows[] = {
    {"command", FIELD_CODEC, S(custom.command), .codec = &entrypoint_codec,
     .help = "The program that decides. It reads events and writes operations, as lines of JSON."},
    {"unit", FIELD_ENUM, S(custom.unit), .values = units,
     .help = "The unit of the lengths that the program asks for."},
};

static const struct field common_rows[] = {
    {"metric", FIELD_STR, S(metric),
     .help = "The validation metric to optimize. Without it, the value that the training code "
             "completes an operation with."},
    {"smaller_is_better", FIELD_BOOL, S(smaller_is_better), .def = "true",
     .help = "Whether the metric is to be minimized."},
    {"source_trial_id", FIELD_OPT_INT, S(source_trial_id), FIELD_MIN(1),
     .help = "Every trial starts from the latest checkpoint of this trial."},
    {"source_checkpoint_uuid", FIELD_STR, S(source_checkpoint_uuid),
     .help = "Every trial starts from this checkpoint."},
    {"max_steps", FIELD_OLD, .into = "max_length", .convert = convert_steps,
     .help = "The old form of max_length, in steps of scheduling_unit batches."},
    {"target_trial_steps", FIELD_OLD, .into = "max_length", .convert = convert_steps,
     .help = "The old form of max_length, in steps of scheduling_unit batches."},
    {"step_budget", FIELD_OLD, .into = "budget", .convert = convert_step_budget,
     .help = "The old form of budget, in steps of scheduling_unit batches."},
    {"steps_per_round", FIELD_OLD, .into = "length_per_round", .convert = convert_steps,
     .help = "The old form of length_per_round, in steps of scheduling_unit batches."},
};
// clang-format on

// In the order of enum searcher_kind.
static const struct field_variant kinds[] = {
    {"single", FIELD_ROWS(single_rows)},
    {"random", FIELD_ROWS(random_rows)},
    {"grid", FIELD_ROWS(grid_rows)},
    {"adaptive_asha", FIELD_ROWS(asha_rows)},
    {"async_halving", FIELD_ROWS(async_rows)},
    {"adaptive", FIELD_ROWS(adaptive_rows)},
    {"adaptive_simple", FIELD_ROWS(simple_rows)},
    {"sync_halving", FIELD_ROWS(sync_rows)},
    {"pbt", FIELD_ROWS(pbt_rows)},
    {"tpe", FIELD_ROWS(tpe_rows)},
    {"bohb", FIELD_ROWS(bohb_rows)},
    {"cmaes", FIELD_ROWS(cmaes_rows)},
    {"custom", FIELD_ROWS(custom_rows), .open = true, .rest_offset = S(custom.options)},
};

const char *searcher_kind_name(enum searcher_kind kind)
{
    return kinds[kind].tag;
}

static bool needs_length(enum searcher_kind kind)
{
    return kind == SEARCHER_ADAPTIVE_ASHA || kind == SEARCHER_ASYNC_HALVING ||
           kind == SEARCHER_BOHB;
}

static bool has_budget(enum searcher_kind kind)
{
    return kind == SEARCHER_ADAPTIVE || kind == SEARCHER_SYNC_HALVING;
}

static void check_budget(struct field_ctx *ctx, const struct doc *map,
                         const struct searcher_config *s)
{
    const struct length *budget = &s->halving.budget, *length = &s->max_length;
    if (budget->unit != length->unit)
        field_error(ctx, map, "budget and max_length must have the same unit");
    else if (budget->amount <= length->amount)
        field_error(ctx, map, "budget must be greater than max_length, found %lld and %lld",
                    (long long)budget->amount, (long long)length->amount);
}

static void check_searcher(struct field_ctx *ctx, const struct doc *map, void *self)
{
    struct searcher_config *s = self;
    bool timed = s->max_length.unit == LENGTH_TIME;
    if (s->source_trial_id.is_set && s->source_checkpoint_uuid)
        field_error(ctx, map, "set source_trial_id or source_checkpoint_uuid, not both");
    if (timed != (s->time_metric != NULL))
        field_error(ctx, map, "time_metric and max_time go together; %s is missing",
                    timed ? "time_metric" : "max_time");
    else if (needs_length(s->kind) && s->max_length.unit == LENGTH_NONE)
        field_error(ctx, map, "needs max_length, or time_metric and max_time");
    if (has_budget(s->kind)) check_budget(ctx, map, s);
    if (s->kind == SEARCHER_SINGLE) s->max_trials = s->max_concurrent_trials = 1;
}

const struct field_table searcher_table = {
    .size = sizeof(struct searcher_config),
    FIELD_ROWS(common_rows),
    .tag = "name",
    .tag_help = "The search method.",
    .tag_offset = S(kind),
    .variants = kinds,
    .n_variants = STATIC_LEN(kinds),
    .check = check_searcher,
};
