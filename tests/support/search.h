// tests/support/search.h: searches of literal configurations, told events one by one or simulated.
#pragma once

#include "support/docs.h"

#include "base/assert.h"
#include "search/search.h"
#include <math.h>

// "searcher: {...}\nhyperparameters: {...}" with seed 0 unless it says otherwise.
static inline struct exp_config *config_of(const char *text)
{
    struct exp_config *cfg = arena_alloc(&arena, sizeof *cfg);
    const struct config_opts opts = {.source = "t.yaml", .entrypoint_optional = true};
    if (exp_config_read(&arena, str_from(arena_strdup(&arena, text)), &opts, cfg, &diags))
        fail_msg("%s: %s", text, take_diags(DIAG_ERROR));
    return cfg;
}

static inline struct search_ops tell(struct search *s, struct search_event event)
{
    struct search_ops ops;
    det_err err;
    if (search_tell(s, &event, &ops, &err)) fail_msg("%s", err.msg);
    return ops;
}

static inline struct search_ops start(struct search *s)
{
    return tell(s, (struct search_event){.kind = SEARCH_START});
}

static inline struct search_ops validated(struct search *s, int64_t trial, int64_t length, double m)
{
    return tell(s, (struct search_event){
                       .kind = SEARCH_VALIDATED, .trial = trial, .length = length, .metric = m});
}

static inline struct search_ops exited(struct search *s, int64_t trial, enum search_exit reason)
{
    return tell(s, (struct search_event){.kind = SEARCH_EXITED, .trial = trial, .reason = reason});
}

static inline struct search_ops closed(struct search *s, int64_t trial)
{
    return tell(s, (struct search_event){.kind = SEARCH_CLOSED, .trial = trial});
}

// "create 1, train 1 to 4, close 2, end"
static inline const char *show_ops(struct search_ops ops)
{
    static const char *const outcomes[] = {"end", "end canceled", "end failed"};
    struct buf b = BUF_INIT(1 << 20);
    for (size_t i = 0; i < ops.n; i++) {
        const struct search_op *op = &ops.items[i];
        long long trial = op->trial, length = op->length, source = op->source_trial;
        if (i) buf_addz(&b, ", ");
        if (op->kind == SEARCH_CREATE) buf_printf(&b, "create %lld", trial);
        if (op->kind == SEARCH_CREATE && source) buf_printf(&b, " from %lld", source);
        if (op->kind == SEARCH_VALIDATE_AFTER) buf_printf(&b, "train %lld to %lld", trial, length);
        if (op->kind == SEARCH_CLOSE) buf_printf(&b, "close %lld", trial);
        if (op->kind == SEARCH_SHUTDOWN) buf_addz(&b, outcomes[op->outcome]);
    }
    const char *text = arena_strdup(&arena, b.ptr ? b.ptr : "");
    buf_done(&b);
    return text;
}

// A simulation that remembers how far every trial came.
enum { SIM_TRIALS = 4096 };

struct simulated {
    double (*metric)(int64_t trial, int64_t length);
    int64_t exits_at[SIM_TRIALS]; // the length whose operation ends in an error; 0: none
    int64_t lengths[SIM_TRIALS];
    struct sim_result result;
};

static inline double simulated_metric(void *user, int64_t trial, int64_t length)
{
    struct simulated *sim = user;
    ASSERT(trial < SIM_TRIALS);
    sim->lengths[trial] = length;
    return sim->metric(trial, length);
}

static inline struct simulated *simulate(const struct exp_config *cfg,
                                         double (*metric)(int64_t trial, int64_t length))
{
    struct simulated *sim = arena_alloc(&arena, sizeof *sim);
    sim->metric = metric;
    struct search *s = search_new(cfg);
    struct sim_world world = {.metric = simulated_metric, .user = sim};
    det_err err;
    if (search_simulate(s, &world, &sim->result, &err)) fail_msg("%s", err.msg);
    search_free(s);
    return sim;
}

static inline double worse(int64_t trial, int64_t length)
{
    (void)length;
    return (double)trial / 100;
}

static inline double better(int64_t trial, int64_t length)
{
    return -worse(trial, length);
}

static inline double equal(int64_t trial, int64_t length)
{
    (void)trial;
    (void)length;
    return 0.5;
}

// "4:12 16:3 64:1": how many trials ended at which length.
static inline const char *show_lengths(const struct simulated *sim)
{
    struct buf b = BUF_INIT(1 << 20);
    for (int64_t last = -1;;) {
        int64_t next = INT64_MAX, n = 0;
        for (int64_t i = 1; i <= sim->result.n_trials; i++) {
            int64_t length = sim->lengths[i];
            if (length <= last || length > next) continue;
            n = length == next ? n + 1 : 1;
            next = length;
        }
        if (next == INT64_MAX) break;
        buf_printf(&b, "%s%lld:%lld", b.len ? " " : "", (long long)next, (long long)n);
        last = next;
    }
    const char *text = arena_strdup(&arena, b.ptr ? b.ptr : "");
    buf_done(&b);
    return text;
}
