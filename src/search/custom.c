// Unit custom.c: the schedule of searches that a program decides: the lines it reads and writes.
#include "search/method.h"

#include "base/assert.h"
#include <math.h>

struct custom {
    double progress;
    char *state; // JSON text of the program's; NULL: none
};

static const char *const exit_names[] = {"errored", "canceled", "stopped", "invalid_hp"};
static const char *const outcome_names[] = {"completed", "canceled", "failed", NULL};

static void custom_done(struct search *s)
{
    struct custom *c = s->schedule;
    free(c->state);
}

// Nothing happens before the program has answered.
static void custom_start(struct search *s)
{
    (void)s;
}

static void custom_validated(struct search *s, int64_t trial, double loss)
{
    (void)s;
    (void)trial;
    (void)loss;
}

static void custom_exited(struct search *s, int64_t trial, bool was_busy)
{
    (void)s;
    (void)trial;
    (void)was_busy;
}

static double custom_progress(const struct search *s)
{
    return ((const struct custom *)s->schedule)->progress;
}

static void custom_snap(struct search *s, struct snap *io)
{
    struct custom *c = s->schedule;
    snap_double(io, "progress", &c->progress);
    snap_text(io, "state", &c->state);
}

const struct schedule custom_schedule = {
    .size = sizeof(struct custom),
    .done = custom_done,
    .start = custom_start,
    .validated = custom_validated,
    .exited = custom_exited,
    .progress = custom_progress,
    .snap = custom_snap,
    .asks = true,
};

static void put_text_as_json(struct json_writer *w, const char *text)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct doc *doc = text ? json_parse(&arena, str_from(text), NULL, &diags) : NULL;
    if (doc)
        json_put_doc(w, doc);
    else
        json_put_null(w);
    arena_done(&arena);
}

static void put_start(const struct search *s, struct json_writer *w)
{
    const struct custom *c = s->schedule;
    struct arena arena = ARENA_INIT;
    const struct doc *cfg = exp_config_write(&arena, s->cfg, CONFIG_WHOLE);
    json_key(w, "seed");
    json_put_int(w, s->cfg->experiment_seed);
    json_key(w, "searcher");
    json_put_doc(w, doc_find(cfg, "searcher"));
    json_key(w, "hyperparameters");
    json_put_doc(w, doc_find(cfg, "hyperparameters"));
    json_key(w, "trials");
    json_put_int(w, s->n_trials);
    json_key(w, "state");
    put_text_as_json(w, c->state);
    arena_done(&arena);
}

void search_ask(const struct search *s, const struct search_event *event, struct buf *out)
{
    static const char *const names[] = {"start", "validated", "progress", "exited", "closed"};
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, "event");
    json_put_str(&w, names[event->kind]);
    if (event->kind == SEARCH_START) {
        put_start(s, &w);
    } else {
        json_key(&w, "trial");
        json_put_int(&w, event->trial);
    }
    if (event->kind == SEARCH_VALIDATED) {
        json_key(&w, "length");
        json_put_int(&w, event->length);
        json_key(&w, "metric");
        json_put_double(&w, event->metric);
    }
    if (event->kind == SEARCH_EXITED) {
        json_key(&w, "reason");
        json_put_str(&w, exit_names[event->reason]);
    }
    json_close(&w);
    buf_addc(out, '\n');
}

static int read_trial(const struct search *s, const struct doc *op, int64_t *out, det_err *err)
{
    const struct doc *trial = doc_find(op, "trial");
    if (!trial || !doc_integer(trial, out) || *out < 1 || *out > s->n_trials)
        return det_fail(err, DET_EINVAL, "'trial' must be a number from 1 to %lld",
                        (long long)s->n_trials);
    if (trial_at(s, *out)->flags & (IS_CLOSING | IS_CLOSED | HAS_EXITED))
        return det_fail(err, DET_EINVAL, "trial %lld has ended", (long long)*out);
    return det_ok(err);
}

static int do_create(struct search *s, const struct doc *op, det_err *err)
{
    const struct doc *hparams = doc_find(op, "hparams");
    if (!hparams || hparams->kind != DOC_MAP)
        return det_fail(err, DET_EINVAL, "'hparams' must be a map");
    search_create_with(s, hparams);
    return det_ok(err);
}

static int do_train(struct search *s, const struct doc *op, det_err *err)
{
    int64_t trial = 0, length;
    const struct doc *value = doc_find(op, "length");
    int rc = read_trial(s, op, &trial, err);
    if (rc) return rc;
    const struct candidate *t = trial_at(s, trial);
    if (t->flags & IS_BUSY)
        return det_fail(err, DET_EINVAL, "trial %lld has an operation already", (long long)trial);
    if (!value || !doc_integer(value, &length) || length < MAX(1, t->length))
        return det_fail(err, DET_EINVAL, "'length' must be an integer of at least %lld",
                        (long long)MAX(1, t->length));
    search_train(s, trial, length);
    return det_ok(err);
}

static int do_close(struct search *s, const struct doc *op, det_err *err)
{
    int64_t trial = 0;
    int rc = read_trial(s, op, &trial, err);
    if (!rc) search_close(s, trial);
    return rc;
}

static int do_shutdown(struct search *s, const struct doc *op, det_err *err)
{
    const struct doc *outcome = doc_find(op, "outcome");
    for (int i = 0; outcome_names[i]; i++) {
        bool is_it = outcome ? outcome->kind == DOC_STR && str_eqz(outcome->text, outcome_names[i])
                             : i == SEARCH_COMPLETED;
        if (!is_it) continue;
        search_shut_down(s, (enum search_outcome)i);
        return det_ok(err);
    }
    return det_fail(err, DET_EINVAL, "'outcome' must be completed, canceled or failed");
}

static const struct {
    const char *name;
    int (*carry_out)(struct search *s, const struct doc *op, det_err *err);
} operations[] = {
    {"create", do_create},
    {"validate_after", do_train},
    {"close", do_close},
    {"shutdown", do_shutdown},
};

static int do_operation(struct search *s, const struct doc *op, det_err *err)
{
    const struct doc *name = doc_find(op, "op");
    for (size_t i = 0; name && name->kind == DOC_STR && i < STATIC_LEN(operations); i++)
        if (str_eqz(name->text, operations[i].name)) return operations[i].carry_out(s, op, err);
    return det_fail(err, DET_EINVAL, "'op' must be one of create, validate_after, close, shutdown");
}

static void keep_state(struct custom *c, const struct doc *state)
{
    struct buf text = BUF_INIT(JSON_MAX_BYTES);
    struct json_writer w;
    json_init(&w, &text, 0);
    json_put_doc(&w, state);
    free(c->state);
    c->state = buf_take(&text);
}

static int take_answer(struct search *s, const struct doc *answer, det_err *err)
{
    struct custom *c = s->schedule;
    if (answer->kind != DOC_MAP)
        return det_fail(err, DET_EINVAL, "an answer must be a map, not %s",
                        doc_kind_name(answer->kind));
    const struct doc *list = doc_find(answer, "operations"), *state = doc_find(answer, "state");
    const struct doc *progress = doc_find(answer, "progress");
    double done = c->progress;
    if (list && list->kind != DOC_LIST)
        return det_fail(err, DET_EINVAL, "'operations' must be a list");
    if (progress && (!doc_number(progress, &done) || !isfinite(done)))
        return det_fail(err, DET_EINVAL, "'progress' must be a number");
    c->progress = done;
    if (state) keep_state(c, state);
    int64_t i = 0;
    for (const struct doc *op = list ? list->first : NULL; op && !s->over; op = op->next, i++)
        if (do_operation(s, op, err)) return det_wrap(err, "operations[%lld]", (long long)i);
    search_end_if_all_closed(s);
    return det_ok(err);
}

int search_answer(struct search *s, struct str line, struct search_ops *ops, det_err *err)
{
    ASSERT(s->method->schedule->asks);
    *ops = (struct search_ops){0};
    if (s->over) return det_ok(err);
    search_clear_ops(s);
    struct diag_list diags = DIAG_INIT(&s->ops_arena);
    const struct doc *answer = json_parse(&s->ops_arena, line, NULL, &diags);
    int rc = answer ? take_answer(s, answer, err) : diag_fail(&diags, err);
    if (rc) {
        s->over = true;
        return det_wrap(err, "the answer of the search program");
    }
    *ops = (struct search_ops){s->ops, s->n_ops};
    return det_ok(err);
}
