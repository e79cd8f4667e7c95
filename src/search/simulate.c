// Unit simulate.c: search_simulate(): runs a search against trials that only exist on paper.
#include "search/method.h"

#include "base/assert.h"
#include "base/rng.h"

// Something that will happen to a trial.
struct moment {
    double time;
    bool is_close; // closings come first
    int64_t order; // then what was planned first
    int64_t trial;
};

struct sim_trial {
    int64_t trained, length; // length: of the operation
    bool busy, closing;
    int64_t n_ops;
};

struct sim {
    struct search *search;
    const struct sim_world *world;
    struct sim_trial *trials;
    int64_t n_trials, cap_trials, n_busy;
    struct moment *heap;
    size_t n, cap;
    int64_t n_planned;
    bool over;
    struct sim_result *result;
};

static bool is_before(const struct moment *a, const struct moment *b)
{
    if (a->time != b->time) return a->time < b->time;
    if (a->is_close != b->is_close) return a->is_close;
    return a->order < b->order;
}

static void plan(struct sim *sim, int64_t trial, double time, bool is_close)
{
    if (sim->n == sim->cap) {
        sim->cap = MAX(64, 2 * sim->cap);
        sim->heap = xrealloc(sim->heap, sim->cap * sizeof *sim->heap);
    }
    struct moment m = {time, is_close, sim->n_planned++, trial};
    size_t at = sim->n++;
    for (; at > 0 && is_before(&m, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = m;
}

static struct moment next_moment(struct sim *sim)
{
    struct moment first = sim->heap[0], last = sim->heap[--sim->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < sim->n; at = child) {
        if (child + 1 < sim->n && is_before(&sim->heap[child + 1], &sim->heap[child])) child++;
        if (!is_before(&sim->heap[child], &last)) break;
        sim->heap[at] = sim->heap[child];
    }
    sim->heap[at] = last;
    return first;
}

static struct sim_trial *sim_trial(struct sim *sim, int64_t trial)
{
    ASSERT(trial >= 1 && trial <= sim->n_trials);
    return &sim->trials[trial - 1];
}

static void create(struct sim *sim)
{
    if (sim->n_trials == sim->cap_trials) {
        sim->cap_trials = MAX(64, 2 * sim->cap_trials);
        sim->trials = xrealloc(sim->trials, (size_t)sim->cap_trials * sizeof *sim->trials);
    }
    sim->trials[sim->n_trials++] = (struct sim_trial){0};
}

static void carry_out(struct sim *sim, const struct search_op *op)
{
    if (sim->world->on_op) sim->world->on_op(sim->world->user, op);
    if (op->kind == SEARCH_CREATE) create(sim);
    if (op->kind == SEARCH_SHUTDOWN) {
        sim->over = true;
        sim->result->outcome = op->outcome;
        return;
    }
    struct sim_trial *t = sim_trial(sim, op->trial);
    if (op->kind == SEARCH_VALIDATE_AFTER) {
        int64_t more = op->length ? op->length - t->trained : 1;
        t->length = op->length;
        t->busy = true;
        t->n_ops++;
        sim->n_busy++;
        sim->result->n_busy_max = MAX(sim->result->n_busy_max, sim->n_busy);
        plan(sim, op->trial, sim->result->time + (double)MAX(0, more), false);
    } else if (op->kind == SEARCH_CLOSE) {
        if (!t->closing && !t->busy) plan(sim, op->trial, sim->result->time, true);
        t->closing = true;
    }
}

static int ask(struct sim *sim, const struct search_event *event, struct search_ops *ops,
               det_err *err)
{
    struct buf answer = BUF_INIT(JSON_MAX_BYTES);
    int rc = sim->world->ask(sim->world->user, event, &answer, err);
    if (!rc) rc = search_answer(sim->search, buf_str(&answer), ops, err);
    buf_done(&answer);
    return rc;
}

static int tell(struct sim *sim, const struct search_event *event, det_err *err)
{
    const struct sim_world *w = sim->world;
    struct search_ops ops;
    sim->result->n_events++;
    if (w->on_event) w->on_event(w->user, event);
    int rc = search_tell(sim->search, event, &ops, err);
    if (!rc && sim->search->method->schedule->asks) rc = ask(sim, event, &ops, err);
    for (size_t i = 0; !rc && i < ops.n; i++)
        carry_out(sim, &ops.items[i]);
    return rc;
}

// One number for each operation of each trial, whatever the order in which things happen.
static double luck(const struct sim *sim, int64_t trial, int64_t n_ops)
{
    return rng_unit(sim->world->seed, (uint64_t)trial, (uint64_t)n_ops);
}

static int finish_op(struct sim *sim, int64_t trial, det_err *err)
{
    const struct sim_world *w = sim->world;
    struct sim_trial *t = sim_trial(sim, trial);
    double x = luck(sim, trial, t->n_ops);
    struct search_event e = {.trial = trial, .length = t->length};
    t->busy = false;
    sim->n_busy--;
    bool exits = x < w->fail_rate + w->invalid_rate;
    if (exits) {
        e.kind = SEARCH_EXITED;
        e.reason = x < w->fail_rate ? SEARCH_ERRORED : SEARCH_INVALID_HP;
    } else {
        e.kind = SEARCH_VALIDATED;
        e.metric = w->metric(w->user, trial, t->length);
        sim->result->units += (double)MAX(0, t->length - t->trained);
        t->trained = t->length;
    }
    t->closing = t->closing || exits;
    if (t->closing) plan(sim, trial, sim->result->time, true);
    return tell(sim, &e, err);
}

static int run(struct sim *sim, det_err *err)
{
    int rc = tell(sim, &(struct search_event){.kind = SEARCH_START}, err);
    while (!rc && !sim->over) {
        if (!sim->n) return det_fail(err, DET_ESTATE, "the search waits for nothing");
        struct moment m = next_moment(sim);
        sim->result->time = m.time;
        struct search_event closed = {.kind = SEARCH_CLOSED, .trial = m.trial};
        rc = m.is_close ? tell(sim, &closed, err) : finish_op(sim, m.trial, err);
    }
    return rc;
}

int search_simulate(struct search *s, const struct sim_world *world, struct sim_result *out,
                    det_err *err)
{
    *out = (struct sim_result){0};
    struct sim sim = {.search = s, .world = world, .result = out};
    int rc = run(&sim, err);
    out->n_trials = sim.n_trials;
    free(sim.trials);
    free(sim.heap);
    return rc;
}
