// Unit search.c: the table of methods, and what all searches have in common: trials, operations,
// the end. Called by whoever runs a search.
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

// In the order of enum searcher_kind; names and fields are in the table of config/searcher.c.
// clang-format off
static const struct method methods[] = {
    [SEARCHER_SINGLE] = {.schedule = &flat_schedule, .sampler = &random_sampler},
    [SEARCHER_RANDOM] = {.schedule = &flat_schedule, .sampler = &random_sampler, .retries_invalid = true},
    [SEARCHER_GRID] = {.schedule = &flat_schedule, .sampler = &grid_sampler},
    [SEARCHER_ADAPTIVE_ASHA] = {.schedule = &halving_schedule, .sampler = &random_sampler},
    [SEARCHER_ASYNC_HALVING] = {.schedule = &halving_schedule, .sampler = &random_sampler},
    [SEARCHER_ADAPTIVE] = {.schedule = &halving_schedule, .sampler = &random_sampler},
    [SEARCHER_ADAPTIVE_SIMPLE] = {.schedule = &halving_schedule, .sampler = &random_sampler},
    [SEARCHER_SYNC_HALVING] = {.schedule = &halving_schedule, .sampler = &random_sampler},
    [SEARCHER_PBT] = {.schedule = &pbt_schedule, .sampler = &random_sampler, .keeps_points = true},
    [SEARCHER_TPE] = {.schedule = &flat_schedule, .sampler = &tpe_sampler, .retries_invalid = true,
                      .keeps_points = true},
    [SEARCHER_BOHB] = {.schedule = &halving_schedule, .sampler = &tpe_sampler, .keeps_points = true},
    [SEARCHER_CMAES] = {.schedule = &flat_schedule, .sampler = &cmaes_sampler, .retries_invalid = true,
                        .keeps_points = true},
    [SEARCHER_CUSTOM] = {.schedule = &custom_schedule, .sampler = &random_sampler},
};
// clang-format on

const struct method *method_of(enum searcher_kind kind)
{
    return &methods[kind];
}

struct search *search_new(const struct exp_config *cfg)
{
    struct search *s = xcalloc(1, sizeof *s);
    s->cfg = cfg;
    s->method = method_of(cfg->searcher.kind);
    s->n_leaves = hparam_leaves(&cfg->hyperparameters, &s->arena, &s->leaves);
    mt_init(&s->rng, (uint32_t)cfg->experiment_seed);
    const struct schedule *schedule = s->method->schedule;
    const struct sampler *sampler = s->method->sampler;
    if (schedule->size) s->schedule = xcalloc(1, schedule->size);
    if (sampler->size) s->sampler = xcalloc(1, sampler->size);
    if (schedule->init) schedule->init(s);
    if (sampler->init) sampler->init(s);
    return s;
}

void search_free(struct search *s)
{
    if (!s) return;
    if (s->method->schedule->done) s->method->schedule->done(s);
    if (s->method->sampler->done) s->method->sampler->done(s);
    free(s->schedule);
    free(s->sampler);
    free(s->trials);
    free(s->points);
    free(s->ops);
    arena_done(&s->ops_arena);
    arena_done(&s->arena);
    free(s);
}

static struct search_op *add_op(struct search *s, enum search_op_kind kind, int64_t trial)
{
    if (s->n_ops == s->cap_ops) {
        s->cap_ops = MAX(16, 2 * s->cap_ops);
        s->ops = xrealloc(s->ops, s->cap_ops * sizeof *s->ops);
    }
    struct search_op *op = &s->ops[s->n_ops++];
    *op = (struct search_op){.kind = kind, .trial = trial};
    return op;
}

void search_reserve(struct search *s, int64_t n)
{
    if (n <= s->cap_trials) return;
    s->cap_trials = MAX(n, 2 * s->cap_trials);
    s->trials = xrealloc(s->trials, (size_t)s->cap_trials * sizeof *s->trials);
    if (s->method->keeps_points)
        s->points = xrealloc(s->points, (size_t)s->cap_trials * s->n_leaves * sizeof *s->points);
}

// Draws what every trial has, after its hyperparameters: first the identifier, then the seed.
int64_t search_create_with(struct search *s, const struct doc *hparams)
{
    search_reserve(s, s->n_trials + 1);
    s->trials[s->n_trials++] = (struct candidate){0};
    struct search_op *op = add_op(s, SEARCH_CREATE, s->n_trials);
    uint8_t random[16];
    mt_bytes(&s->rng, random, sizeof random);
    op->request_id = uuid_v4(random);
    op->trial_seed = (int64_t)mt_upto(&s->rng, INT32_MAX);
    op->hparams = hparams;
    return s->n_trials;
}

int64_t search_create_copy(struct search *s, const union hp_value *values, int64_t source_trial)
{
    int64_t trial = search_create_with(s, point_to_doc(s, values, &s->ops_arena));
    s->ops[s->n_ops - 1].source_trial = source_trial;
    if (s->method->keeps_points) memcpy(point_at(s, trial), values, s->n_leaves * sizeof *values);
    return trial;
}

bool search_may_create(struct search *s)
{
    bool may = !s->pace || s->n_paced < s->pace;
    if (may)
        s->n_paced++;
    else
        s->has_more = true;
    return may;
}

int64_t search_create(struct search *s)
{
    union hp_value *values = arena_array(&s->ops_arena, s->n_leaves, sizeof *values);
    s->method->sampler->draw(s, values);
    return search_create_copy(s, values, 0);
}

void search_train(struct search *s, int64_t trial, int64_t length)
{
    struct candidate *t = trial_at(s, trial);
    t->flags |= IS_BUSY;
    t->length = length;
    add_op(s, SEARCH_VALIDATE_AFTER, trial)->length = length;
}

void search_close(struct search *s, int64_t trial)
{
    struct candidate *t = trial_at(s, trial);
    if (t->flags & IS_CLOSING) return;
    t->flags |= IS_CLOSING;
    add_op(s, SEARCH_CLOSE, trial);
}

void search_shut_down(struct search *s, enum search_outcome outcome)
{
    s->over = true;
    add_op(s, SEARCH_SHUTDOWN, 0)->outcome = outcome;
}

static double loss_of(const struct search *s, double metric)
{
    if (!isfinite(metric)) return LOSS_WORST;
    return s->cfg->searcher.smaller_is_better ? metric : -metric;
}

static void set_units(struct search *s, struct candidate *t, double units)
{
    s->units += units - t->units;
    t->units = units;
}

static void tell_sampler(struct search *s, int64_t trial, double loss)
{
    if (s->method->sampler->told) s->method->sampler->told(s, trial, loss);
}

static int tell_validated(struct search *s, const struct search_event *e, det_err *err)
{
    struct candidate *t = trial_at(s, e->trial);
    bool by_time = s->cfg->searcher.max_length.unit == LENGTH_TIME;
    if (by_time && e->length < t->length) return det_ok(err); // a report on the way
    if (!(t->flags & IS_BUSY))
        return det_fail(err, DET_EINVAL, "trial %lld has no operation to complete",
                        (long long)e->trial);
    if (!by_time && t->length && e->length != t->length)
        return det_fail(err, DET_EINVAL, "trial %lld should validate at length %lld, not %lld",
                        (long long)e->trial, (long long)t->length, (long long)e->length);
    double loss = loss_of(s, e->metric);
    t->flags &= ~IS_BUSY;
    t->length = e->length;
    set_units(s, t, (double)e->length);
    tell_sampler(s, e->trial, loss);
    s->method->schedule->validated(s, e->trial, loss);
    return det_ok(err);
}

static void tell_exited(struct search *s, int64_t trial, enum search_exit reason)
{
    static const int64_t exit_flags[] = {[SEARCH_ERRORED] = HAS_FAILED,
                                         [SEARCH_CANCELED] = WAS_CANCELED,
                                         [SEARCH_STOPPED] = 0,
                                         [SEARCH_INVALID_HP] = WAS_INVALID};
    struct candidate *t = trial_at(s, trial);
    if (t->flags & (HAS_EXITED | IS_CLOSED)) return;
    bool was_busy = t->flags & IS_BUSY;
    t->flags = (t->flags & ~IS_BUSY) | HAS_EXITED;
    t->flags |= exit_flags[reason];
    s->n_failed += reason == SEARCH_ERRORED;
    s->n_canceled += reason == SEARCH_CANCELED;
    s->n_invalid += reason == SEARCH_INVALID_HP;
    if (was_busy) tell_sampler(s, trial, LOSS_WORST);
    s->method->schedule->exited(s, trial, was_busy);
}

// An experiment has failed only if every one of its trials has.
void search_end_if_all_closed(struct search *s)
{
    if (s->over || s->has_more || s->n_closed < s->n_trials) return;
    search_shut_down(s, s->n_failed >= s->n_trials     ? SEARCH_ALL_FAILED
                        : s->n_canceled >= s->n_trials ? SEARCH_ALL_CANCELED
                                                       : SEARCH_COMPLETED);
}

static void tell_closed(struct search *s, int64_t trial)
{
    struct candidate *t = trial_at(s, trial);
    if (t->flags & IS_CLOSED) return;
    // A trial that ends without a word has stopped of its own accord.
    if ((t->flags & IS_BUSY) || !(t->flags & IS_CLOSING)) tell_exited(s, trial, SEARCH_STOPPED);
    t = trial_at(s, trial);
    t->flags |= IS_CLOSED;
    s->n_closed++;
    if (s->method->schedule->closed) s->method->schedule->closed(s, trial);
    if (!s->method->schedule->asks) search_end_if_all_closed(s);
}

static void tell_go_on(struct search *s)
{
    if (s->over || !s->has_more) return;
    s->has_more = false;
    s->method->schedule->go_on(s);
    search_end_if_all_closed(s);
}

static int tell(struct search *s, const struct search_event *e, det_err *err)
{
    if (e->kind == SEARCH_START) {
        if (s->started) return det_fail(err, DET_ESTATE, "the search has started already");
        s->started = true;
        s->method->schedule->start(s);
        return det_ok(err);
    }
    if (!s->started) return det_fail(err, DET_ESTATE, "the search has not started yet");
    if (e->kind == SEARCH_GO_ON) {
        tell_go_on(s);
        return det_ok(err);
    }
    if (e->trial < 1 || e->trial > s->n_trials)
        return det_fail(err, DET_ENOTFOUND, "the search has no trial %lld", (long long)e->trial);
    if (s->over) return det_ok(err);
    if (e->kind == SEARCH_VALIDATED) return tell_validated(s, e, err);
    if (e->kind == SEARCH_PROGRESS && isfinite(e->units))
        set_units(s, trial_at(s, e->trial), MAX(trial_at(s, e->trial)->units, e->units));
    if (e->kind == SEARCH_EXITED) tell_exited(s, e->trial, e->reason);
    if (e->kind == SEARCH_CLOSED) tell_closed(s, e->trial);
    return det_ok(err);
}

void search_clear_ops(struct search *s)
{
    s->n_ops = 0;
    s->n_paced = 0;
    arena_done(&s->ops_arena);
}

int search_tell(struct search *s, const struct search_event *event, struct search_ops *ops,
                det_err *err)
{
    search_clear_ops(s);
    int rc = tell(s, event, err);
    *ops = (struct search_ops){s->ops, s->n_ops};
    return rc;
}

bool search_has_open(const struct search *s, int64_t trial)
{
    return !s->over && trial >= 1 && trial <= s->n_trials &&
           !(s->trials[trial - 1].flags & IS_CLOSED);
}

void search_set_pace(struct search *s, int64_t n)
{
    s->pace = n;
}

bool search_has_more(const struct search *s)
{
    return s->has_more && !s->over;
}

int64_t search_n_trials(const struct search *s)
{
    return s->n_trials;
}

double search_progress(const struct search *s)
{
    if (s->over) return 1;
    double done = s->method->schedule->progress(s);
    return MAX(0, MIN(1, done));
}
