// Unit halving.c: the schedule of all searches of the successive-halving family.
//
// Trials compete in brackets. A bracket has rungs: lengths at which the results are compared. Three
// rules say who of a rung leads:
//   asynchronous  one in divisor of the results so far; whoever gets there continues, at once
//   stopping      the same, but at least one; a trial continues or ends when it reports, for good
//   synchronous   those that nobody still training can push out of the places there are
// Trials that are not among the leaders wait (stopping: end). New ones are created while fewer
// train than may.
//
// Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht, Talwalkar: "A system for massively parallel
// hyperparameter tuning" (2020).
#include "search/method.h"

#include "base/assert.h"
#include "search/bracket.h"
#include "search/rung.h"
#include <math.h>

struct bracket {
    struct bracket_plan plan;
    struct rung *rungs;
    int64_t *n_busy; // trials that train for each rung
    size_t *n_swept; // results of each rung that were asked to close or need not be
    int64_t n_created, n_invalid, n_closed, n_training;
    bool owes; // there may be leaders that wait for their promotion
};

struct halving {
    struct bracket *brackets;
    size_t n_brackets;
    bool stopping;
};

static void halving_init(struct search *s)
{
    struct halving *h = s->schedule;
    const struct searcher_config *cfg = &s->cfg->searcher;
    struct bracket_plan *plans;
    h->n_brackets = bracket_plans(cfg, &s->arena, &plans);
    h->brackets = arena_array(&s->arena, h->n_brackets, sizeof *h->brackets);
    // A trial that is watched while it trains cannot wait, it can only be stopped.
    h->stopping = cfg->halving.stop_once == TRI_TRUE || cfg->max_length.unit == LENGTH_TIME;
    for (size_t i = 0; i < h->n_brackets; i++) {
        struct bracket *b = &h->brackets[i];
        b->plan = plans[i];
        b->rungs = arena_array(&s->arena, b->plan.n_rungs, sizeof *b->rungs);
        b->n_busy = arena_array(&s->arena, b->plan.n_rungs, sizeof *b->n_busy);
        b->n_swept = arena_array(&s->arena, b->plan.n_rungs, sizeof *b->n_swept);
        for (size_t k = 0; k < b->plan.n_rungs; k++)
            rung_init(&b->rungs[k], h->stopping);
    }
}

static void halving_done(struct search *s)
{
    const struct halving *h = s->schedule;
    for (size_t i = 0; i < h->n_brackets; i++)
        for (size_t k = 0; k < h->brackets[i].plan.n_rungs; k++)
            rung_done(&h->brackets[i].rungs[k]);
}

static struct bracket *bracket_of(const struct search *s, int64_t trial)
{
    const struct halving *h = s->schedule;
    return &h->brackets[trial_at(s, trial)->bracket];
}

// How many of n results of a rung lead.
static size_t n_leaders(const struct search *s, const struct bracket *b, size_t rung, size_t n)
{
    const struct halving *h = s->schedule;
    if (rung + 1 == b->plan.n_rungs) return 0;
    if (b->plan.starts) {
        int64_t n_missing = b->plan.starts[rung] - (int64_t)n;
        return (size_t)MAX(0, b->plan.starts[rung + 1] - n_missing);
    }
    size_t lead = (size_t)((double)n / s->cfg->searcher.halving.divisor);
    return h->stopping ? MAX(1, lead) : lead;
}

static int64_t add_result(struct search *s, struct bracket *b, size_t rung, int64_t trial,
                          double loss)
{
    struct rung *r = &b->rungs[rung];
    return rung_add(r, trial, loss, n_leaders(s, b, rung, rung_n(r) + 1));
}

static void train(struct search *s, struct bracket *b, int64_t trial)
{
    size_t rung = (size_t)trial_at(s, trial)->rung;
    b->n_busy[rung]++;
    b->n_training++;
    search_train(s, trial, b->plan.lengths[rung]);
}

// Moves a leader of a rung up. Returns true if its next result is known already: because it has
// exited, or because it has trained that long.
static bool promote(struct search *s, struct bracket *b, size_t rung, int64_t trial)
{
    const struct halving *h = s->schedule;
    struct candidate *t = trial_at(s, trial);
    bool exited = t->flags & HAS_EXITED;
    if ((size_t)t->rung != rung || t->flags & (IS_CLOSING | IS_CLOSED)) return false;
    if (h->stopping && exited) return false;
    t->rung++;
    bool is_ahead =
        s->cfg->searcher.max_length.unit == LENGTH_TIME && t->length >= b->plan.lengths[t->rung];
    if (exited || is_ahead) return true;
    train(s, b, trial);
    return false;
}

// Adds a result and promotes who leads because of it, unless others come first.
static void report(struct search *s, struct bracket *b, int64_t trial, double loss)
{
    const struct halving *h = s->schedule;
    for (bool again = true; again;) {
        size_t rung = (size_t)trial_at(s, trial)->rung;
        bool exited = trial_at(s, trial)->flags & HAS_EXITED, ends;
        int64_t leader = add_result(s, b, rung, trial, exited ? LOSS_WORST : loss);
        ends = h->stopping ? leader != trial : rung + 1 == b->plan.n_rungs;
        if (ends && !exited) search_close(s, trial);
        again = !(h->stopping && ends) && leader && !b->owes && promote(s, b, rung, leader);
        trial = leader;
    }
}

// The best leader of a rung that waits there; 0: none.
static int64_t waiting_leader(const struct search *s, const struct bracket *b, size_t rung)
{
    const struct rung *r = &b->rungs[rung];
    const struct rung_entry *best = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct rung_entry *e = &r->entries[i];
        if (!e->trial || !e->leads || (best && best->loss <= e->loss)) continue;
        const struct candidate *c = trial_at(s, e->trial);
        if ((size_t)c->rung == rung && !(c->flags & (IS_CLOSING | IS_CLOSED))) best = e;
    }
    return best ? best->trial : 0;
}

// The leader to be promoted next, and its rung; 0: none.
static int64_t next_owed(const struct search *s, const struct bracket *b, size_t *rung)
{
    int64_t trial = 0;
    for (*rung = b->plan.n_rungs; !trial && *rung > 0;)
        trial = waiting_leader(s, b, --*rung);
    return trial;
}

// A trial that is taken back may leave a gap in each of its rungs, but frees one place at most.
static void promote_owed(struct search *s, struct bracket *b)
{
    while (b->owes) {
        size_t rung;
        int64_t trial = next_owed(s, b, &rung);
        b->owes = trial;
        bool exited = trial && trial_at(s, trial)->flags & HAS_EXITED;
        if (!exited && b->n_training >= b->plan.n_concurrent) return;
        if (trial && promote(s, b, rung, trial)) report(s, b, trial, LOSS_WORST);
    }
}

static void fill(struct search *s, struct bracket *b)
{
    const struct halving *h = s->schedule;
    while (b->n_training < b->plan.n_concurrent && b->n_created - b->n_invalid < b->plan.n_trials &&
           search_may_create(s)) {
        int64_t trial = search_create(s);
        trial_at(s, trial)->bracket = b - h->brackets;
        b->n_created++;
        train(s, b, trial);
    }
}

// When nobody can come to a rung any more, those who wait there have waited in vain.
static void sweep(struct search *s, struct bracket *b)
{
    if (b->owes || rung_n(&b->rungs[0]) < (size_t)b->plan.n_trials) return;
    for (size_t rung = 0; rung < b->plan.n_rungs && !b->n_busy[rung]; rung++) {
        const struct rung *r = &b->rungs[rung];
        for (; b->n_swept[rung] < r->n; b->n_swept[rung]++) {
            int64_t trial = r->entries[b->n_swept[rung]].trial;
            if (!trial) continue;
            const struct candidate *t = trial_at(s, trial);
            bool waits = (size_t)t->rung == rung && !(t->flags & (HAS_EXITED | IS_CLOSED));
            if (waits) search_close(s, trial);
        }
    }
}

static void halving_start(struct search *s)
{
    const struct halving *h = s->schedule;
    for (size_t i = 0; i < h->n_brackets; i++)
        fill(s, &h->brackets[i]);
}

// What follows from any event.
static void go_on(struct search *s, struct bracket *b)
{
    promote_owed(s, b);
    fill(s, b);
    sweep(s, b);
}

static void halving_go_on(struct search *s)
{
    const struct halving *h = s->schedule;
    for (size_t i = 0; i < h->n_brackets; i++)
        go_on(s, &h->brackets[i]);
}

static void rest(struct bracket *b, const struct candidate *t)
{
    b->n_busy[t->rung]--;
    b->n_training--;
}

static void halving_validated(struct search *s, int64_t trial, double loss)
{
    struct bracket *b = bracket_of(s, trial);
    rest(b, trial_at(s, trial));
    report(s, b, trial, loss);
    go_on(s, b);
}

// A trial with hyperparameters that were refused has never been.
static void take_back(struct search *s, struct bracket *b, int64_t trial)
{
    const struct halving *h = s->schedule;
    int64_t top = trial_at(s, trial)->rung;
    b->n_invalid++;
    search_close(s, trial);
    for (size_t rung = 0; (int64_t)rung <= top; rung++) {
        struct rung *r = &b->rungs[rung];
        size_t n = rung_n(r);
        rung_remove(r, trial, n_leaders(s, b, rung, n ? n - 1 : 0));
    }
    b->owes = !h->stopping;
}

static void halving_exited(struct search *s, int64_t trial, bool was_busy)
{
    struct bracket *b = bracket_of(s, trial);
    if (was_busy) rest(b, trial_at(s, trial));
    if (trial_at(s, trial)->flags & WAS_INVALID)
        take_back(s, b, trial);
    else if (was_busy)
        report(s, b, trial, LOSS_WORST);
    go_on(s, b);
}

static void halving_closed(struct search *s, int64_t trial)
{
    bracket_of(s, trial)->n_closed++;
}

static double halving_progress(const struct search *s)
{
    const struct halving *h = s->schedule;
    double done = 0;
    for (size_t i = 0; i < h->n_brackets; i++) {
        const struct bracket *b = &h->brackets[i];
        double n = (double)b->plan.n_trials, reported = (double)rung_n(&b->rungs[0]);
        double by_results = reported / (1.2 * n), by_trials = (double)b->n_closed / n;
        done += reported < n ? by_results : MAX(by_results, by_trials);
    }
    return done / (double)h->n_brackets;
}

struct result_row {
    int64_t rung, trial;
    double loss;
};

static size_t gather_rung(const struct rung *r, int64_t rung, struct result_row *out)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct rung_entry *e = &r->entries[i];
        if (!e->trial) continue;
        if (out) out[n] = (struct result_row){rung, e->trial, e->loss};
        n++;
    }
    return n;
}

// All results, if out is not NULL; returns their number.
static size_t gather_results(const struct search *s, struct result_row *out)
{
    const struct halving *h = s->schedule;
    size_t n = 0;
    for (size_t i = 0; i < h->n_brackets; i++) {
        const struct bracket *b = &h->brackets[i];
        for (size_t rung = 0; rung < b->plan.n_rungs; rung++)
            n += gather_rung(&b->rungs[rung], (int64_t)rung, out ? out + n : NULL);
    }
    return n;
}

static bool load_trial(struct search *s, const struct candidate *t)
{
    const struct halving *h = s->schedule;
    if (t->bracket >= (int64_t)h->n_brackets) return false;
    struct bracket *b = &h->brackets[t->bracket];
    if (t->rung >= (int64_t)b->plan.n_rungs) return false;
    b->n_created++;
    b->n_invalid += !!(t->flags & WAS_INVALID);
    b->n_closed += !!(t->flags & IS_CLOSED);
    b->n_busy[t->rung] += !!(t->flags & IS_BUSY);
    b->n_training += !!(t->flags & IS_BUSY);
    return true;
}

static void load(struct search *s, struct snap *io, const struct result_row *rows, size_t n)
{
    const struct halving *h = s->schedule;
    bool good = true;
    for (int64_t i = 1; i <= s->n_trials; i++)
        good = load_trial(s, trial_at(s, i)) && good;
    for (size_t i = 0; good && i < n; i++) {
        good = rows[i].rung <= trial_at(s, rows[i].trial)->rung;
        struct bracket *b = bracket_of(s, rows[i].trial);
        if (good) add_result(s, b, (size_t)rows[i].rung, rows[i].trial, rows[i].loss);
    }
    for (size_t i = 0; i < h->n_brackets; i++)
        h->brackets[i].owes = !h->stopping; // to be found out
    if (!good) snap_fail(io, "trials and rungs do not fit");
}

static void halving_snap(struct search *s, struct snap *io)
{
    size_t n = snap_size(io, "n", gather_results(s, NULL), (size_t)s->n_trials * 64);
    struct result_row *rows = xcalloc(n + 1, sizeof *rows);
    if (io->out) gather_results(s, rows);
    snap_ints(io, "rung", &rows->rung, n, sizeof *rows, 0, INT64_MAX);
    snap_ints(io, "trial", &rows->trial, n, sizeof *rows, 1, s->n_trials);
    snap_doubles(io, "loss", &rows->loss, n, sizeof *rows);
    if (!io->out && !io->rc) load(s, io, rows, n);
    free(rows);
}

// --- for people

static enum search_decision decision_of(const struct search *s, const struct bracket *b,
                                        size_t rung, const struct rung_entry *e)
{
    const struct candidate *t = trial_at(s, e->trial);
    if ((size_t)t->rung > rung) return SEARCH_GOES_ON;
    if (t->flags & HAS_EXITED && e->loss == LOSS_WORST) return SEARCH_STOPS;
    if (rung + 1 == b->plan.n_rungs) return SEARCH_FINISHES;
    return t->flags & (IS_CLOSING | IS_CLOSED | HAS_EXITED) ? SEARCH_STOPS : SEARCH_WAITS;
}

static double metric_of(const struct search *s, double loss)
{
    if (loss == LOSS_WORST) return NAN;
    return s->cfg->searcher.smaller_is_better ? loss : -loss;
}

static int by_loss(const void *a, const void *b)
{
    const struct rung_entry *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static void describe_rung(const struct search *s, const struct bracket *b, size_t rung,
                          struct arena *arena, struct rung_view *out)
{
    const struct rung *r = &b->rungs[rung];
    struct rung_entry *sorted = xcalloc(r->n + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->entries[i].trial) sorted[n++] = r->entries[i];
    qsort(sorted, n, sizeof *sorted, by_loss);
    out->length = b->plan.lengths[rung];
    out->cutoff = r->leaders.n ? metric_of(s, r->entries[r->leaders.items[0]].loss) : NAN;
    out->results.items =
        arena_array(arena, n + (size_t)b->n_busy[rung] + 1, sizeof *out->results.items);
    for (; out->results.n < n; out->results.n++) {
        const struct rung_entry *e = &sorted[out->results.n];
        out->results.items[out->results.n] =
            (struct rung_result){e->trial, metric_of(s, e->loss), decision_of(s, b, rung, e)};
    }
    free(sorted);
}

static void halving_describe(const struct search *s, struct arena *arena, struct search_view *out)
{
    const struct halving *h = s->schedule;
    out->brackets.items = arena_array(arena, h->n_brackets, sizeof *out->brackets.items);
    out->brackets.n = h->n_brackets;
    for (size_t i = 0; i < h->n_brackets; i++) {
        const struct bracket *b = &h->brackets[i];
        struct bracket_view *v = &out->brackets.items[i];
        v->rungs.items = arena_array(arena, b->plan.n_rungs, sizeof *v->rungs.items);
        v->rungs.n = b->plan.n_rungs;
        for (size_t k = 0; k < b->plan.n_rungs; k++)
            describe_rung(s, b, k, arena, &v->rungs.items[k]);
    }
    for (int64_t trial = 1; trial <= s->n_trials; trial++) {
        const struct candidate *t = trial_at(s, trial);
        struct rung_view *r = &out->brackets.items[t->bracket].rungs.items[t->rung];
        if (t->flags & IS_BUSY)
            r->results.items[r->results.n++] = (struct rung_result){trial, NAN, SEARCH_RUNS};
    }
}

static void halving_plan(const struct exp_config *cfg, struct arena *arena, struct search_plan *out)
{
    struct bracket_plan *plans;
    size_t n = bracket_plans(&cfg->searcher, arena, &plans);
    for (size_t i = 0; i < n; i++)
        bracket_preview(&plans[i], cfg->searcher.halving.divisor,
                        plan_add_bracket(out, arena, plans[i].n_rungs));
}

const struct schedule halving_schedule = {
    .size = sizeof(struct halving),
    .init = halving_init,
    .done = halving_done,
    .start = halving_start,
    .go_on = halving_go_on,
    .validated = halving_validated,
    .exited = halving_exited,
    .closed = halving_closed,
    .progress = halving_progress,
    .snap = halving_snap,
    .plan = halving_plan,
    .describe = halving_describe,
};
