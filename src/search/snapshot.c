// Unit snapshot.c: search_snapshot() and search_restore().
#include "search/method.h"

#include "base/assert.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_MAX_TRIALS = 1 << 24 };

// One column for each leaf, named by its number: paths of names are not unique.
static void snap_points(struct search *s, struct snap *io)
{
    for (size_t i = 0; i < s->n_leaves; i++) {
        const struct hparam *leaf = s->leaves[i];
        const size_t n = (size_t)s->n_trials, stride = s->n_leaves * sizeof *s->points;
        union hp_value *first = s->points + i;
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        if (leaf->kind == HP_INT)
            snap_ints(io, key, first, n, stride, leaf->integer.min, leaf->integer.max);
        else if (leaf->kind == HP_CATEGORICAL)
            snap_ints(io, key, first, n, stride, 0, (int64_t)leaf->categorical.n - 1);
        else if (leaf->kind != HP_CONST)
            snap_doubles(io, key, first, n, stride);
    }
}

static void snap_trials(struct search *s, struct snap *io)
{
    size_t n = snap_size(io, "n", (size_t)s->n_trials, SNAPSHOT_MAX_TRIALS);
    // A list that is too short is noticed before memory for it is taken.
    const struct doc *list = io->out ? NULL : doc_find(io->map, "flags");
    if (list && list->kind == DOC_LIST && snap_n_items(list) != n) n = 0;
    search_reserve(s, MAX(1, (int64_t)n)); // columns need a place to start at
    s->n_trials = (int64_t)n;
    struct candidate *t = s->trials;
    snap_ints(io, "flags", &t->flags, n, sizeof *t, 0, ALL_FLAGS);
    snap_ints(io, "length", &t->length, n, sizeof *t, 0, INT64_MAX);
    snap_ints(io, "bracket", &t->bracket, n, sizeof *t, 0, INT64_MAX);
    snap_ints(io, "rung", &t->rung, n, sizeof *t, 0, INT32_MAX);
    snap_doubles(io, "units", &t->units, n, sizeof *t);
}

static void snap_common(struct search *s, struct snap *io)
{
    int64_t version = SNAPSHOT_VERSION, kind = s->cfg->searcher.kind;
    int64_t started = s->started + s->has_more, over = s->over; // 2: creating is not done
    snap_int(io, "version", &version, SNAPSHOT_VERSION, SNAPSHOT_VERSION);
    snap_int(io, "kind", &kind, kind, kind);
    snap_int(io, "started", &started, 0, 2);
    snap_int(io, "over", &over, 0, 1);
    snap_words(io, "rng", s->rng.words, MT_WORDS);
    snap_int(io, "rng_at", &s->rng.at, 0, MT_WORDS);
    snap_double(io, "units", &s->units);
    s->started = started;
    s->has_more = started == 2 && s->method->schedule->go_on;
    s->over = over;
}

static void count_trials(struct search *s)
{
    for (int64_t i = 0; i < s->n_trials; i++) {
        const struct candidate *t = &s->trials[i];
        s->n_closed += !!(t->flags & IS_CLOSED);
        s->n_failed += !!(t->flags & HAS_FAILED);
        s->n_canceled += !!(t->flags & WAS_CANCELED);
        s->n_invalid += !!(t->flags & WAS_INVALID);
    }
}

static void snap_search(struct search *s, struct snap *io)
{
    snap_common(s, io);
    snap_open(io, "trials");
    snap_trials(s, io);
    snap_close(io);
    if (s->method->keeps_points) {
        snap_open(io, "points");
        snap_points(s, io);
        snap_close(io);
    }
    if (!io->out && !io->rc) count_trials(s);
    if (s->method->schedule->snap && !io->rc) {
        snap_open(io, "schedule");
        s->method->schedule->snap(s, io);
        snap_close(io);
    }
    if (s->method->sampler->snap && !io->rc) {
        snap_open(io, "sampler");
        s->method->sampler->snap(s, io);
        snap_close(io);
    }
}

void search_snapshot(const struct search *s, struct buf *out)
{
    struct json_writer w;
    struct snap io = {.out = &w};
    json_init(&w, out, 0);
    json_open_map(&w);
    snap_search((struct search *)s, &io); // saving changes nothing
    json_close(&w);
}

struct search *search_restore(const struct exp_config *cfg, struct str snapshot, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct json_opts opts = {.source = "snapshot", .max_bytes = (size_t)1 << 31};
    struct search *s = search_new(cfg);
    struct snap io = {.err = err, .map = json_parse(&arena, snapshot, &opts, &diags)};
    if (!io.map)
        io.rc = diag_fail(&diags, err);
    else
        snap_search(s, &io);
    arena_done(&arena);
    if (!io.rc) return s;
    search_free(s);
    return NULL;
}
