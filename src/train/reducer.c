// Unit reducer.c: custom reducers: metrics that are made of a whole workload at once.
//
// Each rank reduces its own part, the parts are gathered, and every rank makes the result of all of
// them. A reducer by function is one whose part is the list of its values.
#include "train/ranks.h"

#include "base/mem.h"
#include "base/str.h"

struct det_reducer {
    det_context *ctx;
    char *name; // NULL: it chooses names itself
    const det_reducer_ops *ops;
    void *self;
    det_reducer_opts opts;

    det_reducer_fn fn; // NULL: not by function
    void *fn_user;
    double *values;
    int64_t n, cap;
    int64_t *batch_ends; // of the batches before the present one, in values
    int64_t n_batches, cap_batches;
};

void reducer_free(det_reducer *r)
{
    if (!r) return;
    free(r->values);
    free(r->batch_ends);
    free(r->name);
    free(r);
}

static bool is_left_out(const det_reducer *r, bool training)
{
    return training ? !r->opts.for_training : !r->opts.for_validation;
}

// --- by function

static void list_reset(void *self)
{
    det_reducer *r = self;
    r->n = r->n_batches = 0;
}

// What comes next is of another batch.
static void list_next_batch(det_reducer *r)
{
    if (r->n_batches == r->cap_batches) {
        r->cap_batches = r->cap_batches ? 2 * r->cap_batches : 64;
        r->batch_ends = xrealloc(r->batch_ends, (size_t)r->cap_batches * sizeof *r->batch_ends);
    }
    r->batch_ends[r->n_batches++] = r->n;
}

static det_value *list_per_slot(void *self, det_err *err)
{
    (void)err;
    const det_reducer *r = self;
    det_value *list = det_value_list();
    int64_t at = 0;
    for (int64_t i = 0; i <= r->n_batches; i++) {
        det_value *batch = det_value_push(list, det_value_list());
        for (int64_t end = i < r->n_batches ? r->batch_ends[i] : r->n; at < end; at++)
            det_value_push(batch, det_value_float(r->values[at]));
    }
    return list;
}

int reducer_interleave(const det_value *per_rank, double *out, int64_t *n, det_err *err)
{
    int ranks = det_value_len(per_rank), left = ranks;
    *n = 0;
    for (int i = 0; left; i++) {
        left = 0;
        for (int rank = 0; rank < ranks; rank++) {
            const det_value *batches = det_value_at(per_rank, rank), *batch;
            if (i >= det_value_len(batches)) continue;
            batch = det_value_at(batches, i);
            for (int k = 0; k < det_value_len(batch); k++) {
                int rc = det_value_as_float(det_value_at(batch, k), &out[(*n)++], err);
                if (rc) return rc;
            }
            left++;
        }
    }
    return 0;
}

static int64_t count_values(const det_value *per_rank)
{
    int64_t n = 0;
    for (int rank = 0; rank < det_value_len(per_rank); rank++) {
        const det_value *batches = det_value_at(per_rank, rank);
        for (int i = 0; i < det_value_len(batches); i++)
            n += det_value_len(det_value_at(batches, i));
    }
    return n;
}

static int list_cross_slot(void *self, const det_value *per_slot, det_metrics *out, det_err *err)
{
    const det_reducer *r = self;
    int64_t n = count_values(per_slot);
    double *values = xcalloc((size_t)n + 1, sizeof *values);
    int rc = reducer_interleave(per_slot, values, &n, err);
    if (!rc) det_metric_number(out, r->name, r->fn(values, n, r->fn_user));
    free(values);
    return rc;
}

static const det_reducer_ops list_ops = {list_reset, list_per_slot, list_cross_slot};

void det_reducer_update(det_reducer *r, double value)
{
    if (!r) return;
    if (!r->fn) {
        det_raise(DET_EINVAL, "det_reducer_update: this reducer has operations of its own");
        return;
    }
    if (is_left_out(r, r->ctx->phase == PHASE_TRAINING)) return;
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->values = xrealloc(r->values, (size_t)r->cap * sizeof *r->values);
    }
    r->values[r->n++] = value;
}

// --- wrapping

static bool may_wrap_reducer(const det_context *ctx, const char *name, const void *self)
{
    for (int i = 0; ctx && i < ctx->n_reducers; i++) {
        const det_reducer *r = ctx->reducers[i];
        bool same_name = name && r->name && str_eq(str_from(name), str_from(r->name));
        if (!same_name && (!self || r->self != self)) continue;
        det_raise(DET_ESTATE, "det_wrap_reducer: %s is wrapped already", name ? name : "this one");
        return false;
    }
    if (!ctx) det_raise(DET_EINVAL, "det_wrap_reducer: the context is NULL");
    return ctx != NULL;
}

static det_reducer *wrap(det_context *ctx, const char *name, det_reducer_opts opts)
{
    det_reducer *r = xcalloc(1, sizeof *r);
    r->ctx = ctx;
    r->name = name ? xstrdup(name) : NULL;
    r->opts = opts;
    ctx->reducers = xrealloc(ctx->reducers, (size_t)(ctx->n_reducers + 1) * sizeof *ctx->reducers);
    return ctx->reducers[ctx->n_reducers++] = r;
}

det_reducer *det_wrap_reducer_with(det_context *ctx, const char *name, const det_reducer_ops *ops,
                                   void *self, det_reducer_opts opts)
{
    if (!ops || !ops->per_slot_reduce || !ops->cross_slot_reduce) {
        det_raise(DET_EINVAL,
                  "det_wrap_reducer: per_slot_reduce and cross_slot_reduce must be there");
        return NULL;
    }
    if (!may_wrap_reducer(ctx, name, self)) return NULL;
    det_reducer *r = wrap(ctx, name, opts);
    r->ops = ops;
    r->self = self;
    return r;
}

det_reducer *det_wrap_reducer_fn_with(det_context *ctx, const char *name, det_reducer_fn fn,
                                      void *user, det_reducer_opts opts)
{
    if (!name || !fn) {
        det_raise(DET_EINVAL, "det_wrap_reducer_fn: name and function must be given");
        return NULL;
    }
    if (!may_wrap_reducer(ctx, name, NULL)) return NULL;
    det_reducer *r = wrap(ctx, name, opts);
    r->ops = &list_ops;
    r->self = r;
    r->fn = fn;
    r->fn_user = user;
    return r;
}

// --- in the loop

void reducers_reset(det_context *ctx)
{
    for (int i = 0; i < ctx->n_reducers; i++)
        if (ctx->reducers[i]->ops->reset) ctx->reducers[i]->ops->reset(ctx->reducers[i]->self);
}

void reducers_next_batch(det_context *ctx)
{
    for (int i = 0; i < ctx->n_reducers; i++)
        if (ctx->reducers[i]->fn) list_next_batch(ctx->reducers[i]);
}

static int fail(const det_reducer *r, const char *what, det_err *err)
{
    return det_wrap(err, "reducer '%s', %s", r->name ? r->name : "(no name)", what);
}

static int check_names(const det_reducer *r, const det_metrics *out, det_err *err)
{
    if (!r->name) return 0;
    if (det_metrics_len(out) == 1 && metrics_find(out, r->name) == 0) return 0;
    return det_fail(err, DET_EINVAL, "it has a name, so it must report exactly that metric");
}

// What this rank has to give: a list with one entry per reducer. NULL on failure.
static det_value *reduce_own(const det_context *ctx, bool training, det_err *err)
{
    det_value *parts = det_value_list();
    for (int i = 0; i < ctx->n_reducers; i++) {
        det_reducer *r = ctx->reducers[i];
        bool left_out = is_left_out(r, training);
        det_ok(err);
        det_value *part = left_out ? det_value_none() : r->ops->per_slot_reduce(r->self, err);
        det_value_push(parts, part);
        if (!user_result(part ? 0 : -1, err)) continue;
        fail(r, "per_slot_reduce", err);
        det_value_free(parts);
        return NULL;
    }
    return parts;
}

// out has what the index-th reducer makes of the parts of all ranks.
static int reduce_all(det_reducer *r, const det_value *parts, int index, det_metrics *out,
                      det_err *err)
{
    det_value *of_ranks = det_value_list();
    for (int rank = 0; rank < det_value_len(parts); rank++)
        det_value_push(of_ranks, det_value_copy(det_value_at(det_value_at(parts, rank), index)));
    metrics_clear(out);
    metrics_begin_row(out);
    det_ok(err);
    int rc = user_result(r->ops->cross_slot_reduce(r->self, of_ranks, out, err), err);
    int row_rc = metrics_end_row(out, 0, rc ? NULL : err);
    if (!rc) rc = row_rc ? row_rc : check_names(r, out, err);
    if (!rc) rc = metrics_read(out, err);
    det_value_free(of_ranks);
    return rc ? fail(r, "cross_slot_reduce", err) : 0;
}

// However many reducers there are, ranks talk to each other once.
int reducers_finish(det_context *ctx, bool training, det_metrics *out, det_err *err)
{
    if (!ctx->n_reducers) return 0;
    det_value *own = reduce_own(ctx, training, err);
    det_value *parts = own ? ranks_gather(&ctx->setup, "reducers", own, err) : NULL;
    if (!parts) return err->code;
    det_metrics *made = metrics_new(ctx->setup.engine);
    int rc = 0;
    for (int i = 0; !rc && i < ctx->n_reducers; i++) {
        if (is_left_out(ctx->reducers[i], training)) continue;
        rc = reduce_all(ctx->reducers[i], parts, i, made, err);
        if (!rc) metrics_add_all(out, made);
    }
    metrics_free(made);
    det_value_free(parts);
    return rc;
}
