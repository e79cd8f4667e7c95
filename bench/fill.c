// Fills the database of a master that does not run with trials that have ended, and with reports
// and lines of output of them: half of those belong to the first trial, the others have the same
// number each. bench/master.py runs it.
//
//     fill DATABASE EXPERIMENT TRIALS [REPORTS LINES]
#include "base/number.h"
#include "db/db.h"
#include <stdio.h>
#include <stdlib.h>

enum { AT_ONCE = 1000, FIRST_TRIAL = 1000 };

static void fail(const char *text)
{
    fprintf(stderr, "fill: %s\n", text);
    exit(1);
}

static int64_t number(const char *text)
{
    int64_t x;
    if (!number_to_int(str_from(text), 10, &x) || x < 1) fail("a number above 0 was expected");
    return x;
}

static struct doc *hparams_of(struct arena *arena, uint64_t random)
{
    struct doc *map = doc_new(arena, DOC_MAP);
    doc_set(map, STR("learning_rate"), doc_new_double(arena, (double)(random % 1000) / 1e4));
    doc_set(map, STR("layers"), doc_new_int(arena, (int64_t)(random >> 10) % 8));
    doc_set(map, STR("optimizer"), doc_new_str(arena, random >> 20 & 1 ? "adam" : "sgd"));
    return map;
}

static void add_trial(struct db_tx *tx, int64_t experiment, int64_t i)
{
    struct arena arena = ARENA_INIT;
    uint64_t random = (uint64_t)i * 0x9E3779B97F4A7C15ull;
    const struct trial row = {
        .id = FIRST_TRIAL + i,
        .experiment_id = experiment,
        .number = FIRST_TRIAL + i,
        .task_id = arena_printf(&arena, "%lld.%lld", (long long)experiment, (long long)i),
        .state = random % 10 ? EXP_COMPLETED : EXP_ERROR,
        .hparams = hparams_of(&arena, random),
        .run_id = 1,
        .restarts = (int64_t)(random >> 8) % 3,
        .start_us = 1700000000000000 + i * 1000000,
        .end_us = 1700000000000000 + i * 1000000 + (int64_t)(random >> 40),
        .total_batches = (int64_t)(random >> 16) % 1000,
        .searcher_metric = (double)(random >> 12) / 1e15,
    };
    db_trial_save(tx, &row);
    arena_done(&arena);
}

static void add_report(struct db_tx *tx, int64_t trial, int64_t i)
{
    struct arena arena = ARENA_INIT;
    struct doc *metrics = doc_new(&arena, DOC_MAP);
    doc_set(metrics, STR("loss"), doc_new_double(&arena, 1.0 / (double)(i + 1)));
    doc_set(metrics, STR("accuracy"), doc_new_double(&arena, 1 - 1.0 / (double)(i + 2)));
    const struct metric_report row = {
        .trial_id = trial,
        .run_id = 1,
        .group = i % 10 ? "training" : "validation",
        .steps_completed = i,
        .time_us = 1700000000000000 + i * 1000000,
        .metrics = metrics,
    };
    db_metrics_add(tx, &row);
    arena_done(&arena);
}

static void add_line(struct db_tx *tx, int64_t trial, int64_t i)
{
    char text[100];
    snprintf(text, sizeof text, "step %lld: loss %.6f, 512 images per second\n", (long long)i,
             1.0 / (double)(i + 1));
    const struct log_line row = {
        .trial_id = trial,
        .time_us = 1700000000000000 + i * 1000000,
        .level = i % 100 ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
        .rank = {true, 0},
        .source = "task",
        .stdtype = "stdout",
        .log = text,
    };
    db_log_add(tx, &row);
}

// Calls add for things 0 to n - 1 of the owner, in transactions of some at a time.
static void fill(struct db *db, int64_t owner, int64_t n,
                 void (*add)(struct db_tx *tx, int64_t owner, int64_t i))
{
    for (int64_t i = 0; i < n;) {
        struct db_tx *tx = db_tx_new(db);
        for (int64_t end = i + AT_ONCE; i < end && i < n; i++)
            add(tx, owner, i);
        db_tx_submit(tx, NULL, NULL);
        db_wait(db);
    }
}

static void fill_trials(struct db *db, int64_t n_trials, int64_t n_all,
                        void (*add)(struct db_tx *tx, int64_t trial, int64_t i))
{
    int64_t n_each = n_all / 2 / n_trials;
    fill(db, FIRST_TRIAL, n_all / 2, add);
    for (int64_t t = 1; t < n_trials;) {
        struct db_tx *tx = db_tx_new(db);
        for (int64_t end = t + AT_ONCE; t < end && t < n_trials; t++)
            for (int64_t i = 0; i < n_each; i++)
                add(tx, FIRST_TRIAL + t, i);
        db_tx_submit(tx, NULL, NULL);
        db_wait(db);
    }
}

int main(int argc, char **argv)
{
    struct db *db = NULL;
    det_err err;
    if (argc != 4 && argc != 6) fail("usage: fill DATABASE EXPERIMENT TRIALS [REPORTS LINES]");
    int64_t experiment = number(argv[2]), n_trials = number(argv[3]);
    if (db_open(argv[1], NULL, &db, &err)) fail(err.msg);
    if (argc == 6) fill_trials(db, n_trials, number(argv[4]), add_report);
    if (argc == 6) fill_trials(db, n_trials, number(argv[5]), add_line);
    fill(db, experiment, n_trials, add_trial);
    db_wait_tidy(db);
    db_close(db);
    return 0;
}
