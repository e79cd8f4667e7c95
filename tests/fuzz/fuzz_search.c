// Fuzz target search: what a search reads: snapshots, answers of programs, recorded curves. The
// first byte says which, and of which kind of search; a snapshot that is accepted has to live on.
#include "fuzz.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "search/search.h"

static const char *const searchers[] = {
    "{name: random, max_trials: 9, max_length: 4, max_concurrent_trials: 3}",
    "{name: grid, max_length: 4}",
    "{name: adaptive_asha, max_trials: 9, max_length: 64, bracket_rungs: [1, 3]}",
    "{name: async_halving, max_trials: 9, max_length: 64, num_rungs: 3, stop_once: true}",
    "{name: sync_halving, num_rungs: 3, max_length: 64, budget: 500}",
    "{name: pbt, population_size: 3, num_rounds: 3, length_per_round: 4, replace_function: "
    "{truncate_fraction: 0.4}, explore_function: {resample_probability: 0.5, perturb_factor: "
    "0.2}}",
    "{name: tpe, max_trials: 20, max_length: 4, n_startup_trials: 3}",
    "{name: bohb, max_trials: 9, max_length: 64, bracket_rungs: [1, 3], n_startup_trials: 2}",
    "{name: cmaes, max_trials: 20, max_length: 4, population_size: 4}",
    "{name: custom, command: x}",
};

static const char space[] = "hyperparameters:\n"
                            "  a: {type: int, minval: 1, maxval: 9, count: 3}\n"
                            "  b: {type: categorical, vals: [x, y]}\n"
                            "  c: {type: log, base: 10, minval: -4, maxval: -1, count: 2}\n"
                            "  d: {type: double, minval: 0, maxval: 1, count: 2}\n";

static void live_on(struct search *s, const struct exp_config *cfg)
{
    struct search_ops ops;
    struct buf snapshot = BUF_INIT(1 << 24);
    search_tell(s, &(struct search_event){SEARCH_START}, &ops, NULL);
    for (int64_t i = 0; i < 60; i++) {
        struct search_event e = {.trial = 1 + i % 7, .metric = (double)(i * 7 % 5)};
        e.kind = i % 11 == 10 ? SEARCH_EXITED : SEARCH_VALIDATED;
        e.reason = i % 4;
        for (e.length = 1; e.length <= 64; e.length *= 4)
            search_tell(s, &e, &ops, NULL);
        if (i % 13 == 12)
            search_tell(s, &(struct search_event){.kind = SEARCH_CLOSED, .trial = e.trial}, &ops,
                        NULL);
    }
    ASSERT(search_progress(s) >= 0);
    search_snapshot(s, &snapshot);
    search_free(search_restore(cfg, buf_str(&snapshot), NULL));
    buf_done(&snapshot);
}

static void try_snapshot(const struct exp_config *cfg, struct str text)
{
    struct search *s = search_restore(cfg, text, NULL);
    if (s) live_on(s, cfg);
    search_free(s);
}

// Lines of answers.
static void try_answers(const struct exp_config *cfg, struct str text)
{
    struct search *s = search_new(cfg);
    struct search_ops ops;
    det_err err;
    search_tell(s, &(struct search_event){SEARCH_START}, &ops, NULL);
    while (text.ptr) {
        struct str line = str_cut(&text, '\n');
        if (search_answer(s, line, &ops, &err)) break;
        for (size_t i = 0; i < ops.n; i++)
            ASSERT(ops.items[i].trial >= 0);
    }
    live_on(s, cfg);
    search_free(s);
}

static void try_curves(struct arena *arena, struct str text)
{
    struct curves curves;
    if (curves_read(text, "fuzz", arena, &curves, NULL)) return;
    for (int64_t i = 1; i < 100; i++)
        curve_at(&curves, i, i * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    struct exp_config cfg;
    const struct config_opts opts = {.source = "fuzz", .entrypoint_optional = true};
    size_t kind = data[0] % (STATIC_LEN(searchers) + 1), n = size - 1;
    char *bytes = xmalloc(n + 1); // of this size exactly, so that reading beyond it is noticed
    memcpy(bytes, data + 1, n);
    struct str text = {bytes, n};
    const char *searcher = searchers[kind % STATIC_LEN(searchers)];
    const char *config = arena_printf(&arena, "searcher: %s\n%s", searcher, space);
    ASSERT(!exp_config_read(&arena, str_from(config), &opts, &cfg, &diags));
    if (kind == STATIC_LEN(searchers))
        try_curves(&arena, text);
    else if (cfg.searcher.kind == SEARCHER_CUSTOM && data[0] & 128)
        try_answers(&cfg, text);
    else
        try_snapshot(&cfg, text);
    free(bytes);
    arena_done(&arena);
    return 0;
}
