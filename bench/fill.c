// Fills the database of a master that does not run with trials that have ended. bench/master.py
// runs it.
//
//     fill DATABASE EXPERIMENT TRIALS
#include "base/number.h"
#include "db/db.h"
#include <stdio.h>
#include <stdlib.h>

enum { TRIALS_AT_ONCE = 1000 };

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
        .id = 1000 + i,
        .experiment_id = experiment,
        .number = i,
        .task_id = arena_printf(&arena, "%lld.%lld", (long long)experiment, (long long)i),
        .state = random % 10 ? RUN_COMPLETED : RUN_ERROR,
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

int main(int argc, char **argv)
{
    struct db *db = NULL;
    det_err err;
    if (argc != 4) fail("usage: fill DATABASE EXPERIMENT TRIALS");
    int64_t experiment = number(argv[2]), n = number(argv[3]);
    if (db_open(argv[1], &db, &err)) fail(err.msg);
    for (int64_t i = 0; i < n;) {
        struct db_tx *tx = db_tx_new(db);
        for (int64_t end = i + TRIALS_AT_ONCE; i < end && i < n; i++)
            add_trial(tx, experiment, i);
        db_tx_submit(tx, NULL, NULL);
        db_wait(db);
    }
    db_close(db);
    return 0;
}
