// Unit fill.c: makes one batch. Called by iter.c, in any thread.
#include "data/loader.h"

#include "base/mem.h"
#include "base/rng.h"
#include "data/stack.h"
#include "tensor/tensor.h"

void filler_init(struct filler *f, const det_loader *loader)
{
    size_t n = (size_t)loader->opts.batch_size;
    *f = (struct filler){.loader = loader};
    f->index = xcalloc(n, sizeof *f->index);
    if (loader->opts.collate) f->samples = xcalloc(n, sizeof *f->samples);
}

void filler_done(struct filler *f)
{
    free(f->index);
    free(f->samples);
}

static int find_indices(struct filler *f, const struct span *span, det_err *err)
{
    int64_t length = f->loader->dataset->length;
    sampler_fill(f->loader->sampler, span->epoch, span->first, span->n, f->index);
    for (int64_t i = 0, place = span->first; i < span->n; i++, place++)
        if (f->index[i] < 0 || f->index[i] >= length)
            return det_fail(err, DET_EINVAL,
                            "the sampler gave index %lld at place %lld of epoch %llu; the dataset "
                            "has %lld samples",
                            (long long)f->index[i], (long long)place,
                            (unsigned long long)span->epoch, (long long)length);
    return 0;
}

// --- samples that lie in memory

static int gather(struct filler *f, int64_t n, det_value **batch, det_err *err)
{
    const det_dataset *d = f->loader->dataset;
    char *columns[DATASET_MAX_COLUMNS];
    if (!*batch || det_size(det_value_as_tensor(det_value_at(*batch, 0)), 0) != n) {
        det_value_free(*batch);
        *batch = columns_new_batch(d->columns, d->n_columns, n, err);
        if (!*batch) return DET_ENOMEM;
    }
    columns_memory(*batch, d->n_columns, columns);
    d->ops->gather(d, f->index, n, columns, 0);
    return 0;
}

// --- samples made one by one

static det_value *make_sample(struct filler *f, const struct span *span, int64_t i, det_err *err)
{
    det_draw draw = {.seed = f->loader->opts.seed, .epoch = span->epoch, .index = span->first + i};
    // The dataset may use det_rand: what comes out must not depend on the thread.
    det_set_rng_state(
        (det_rng_state){.seed = rng_u64(draw.seed, draw.epoch, (uint64_t)draw.index)});
    det_value *v = dataset_item(f->loader->dataset, f->index[i], &draw, err);
    if (!v) det_wrap(err, "sample %lld", (long long)f->index[i]);
    return v;
}

static int stack_sample(det_value **batch, const det_value *first, const det_value *sample,
                        int64_t row, int64_t n, det_err *err)
{
    if (row == 0 && !(*batch && stack_fits(*batch, first, n))) {
        det_value_free(*batch);
        *batch = stack_new(first, n, err);
        if (!*batch) return DET_ENOMEM;
    }
    return stack_put(*batch, first, sample, row, err);
}

static int stack(struct filler *f, const struct span *span, det_value **batch, det_err *err)
{
    det_value *first = NULL;
    int rc = 0;
    for (int64_t i = 0; i < span->n && !rc; i++) {
        det_value *sample = make_sample(f, span, i, err);
        if (!sample) {
            rc = err->code;
            break;
        }
        if (!first) first = sample;
        rc = stack_sample(batch, first, sample, i, span->n, err);
        if (rc) det_wrap(err, "sample %lld", (long long)f->index[i]);
        if (sample != first) det_value_free(sample);
    }
    det_value_free(first);
    return rc;
}

static int collate(struct filler *f, const struct span *span, det_value **batch, det_err *err)
{
    const det_loader_opts *opts = &f->loader->opts;
    det_err own;
    det_ok(&own);
    int64_t n = 0;
    det_value_free(*batch);
    *batch = NULL;
    while (n < span->n && (f->samples[n] = make_sample(f, span, n, &own)))
        n++;
    if (n == span->n) *batch = opts->collate(f->samples, (int)n, opts->collate_user, &own);
    for (int64_t i = 0; i < n; i++)
        det_value_free(f->samples[i]);
    if (*batch || !own.code) return 0;
    return det_fail(err, own.code, "%s", own.msg);
}

// Calls the user's functions as they expect it: without gradients, in a scope, and with a sticky
// error as good as an error returned. Leaves the thread as it was, for it may be the user's.
static int run_user_code(struct filler *f, const struct span *span, det_value **batch, det_err *err)
{
    if (sticky_failed())
        return det_check(err); // the caller's own, from before: their code would do nothing
    det_rng_state rng = det_get_rng_state();
    bool grad = det_set_grad_enabled(false);
    det_scope_begin();
    int rc = f->loader->opts.collate ? collate(f, span, batch, err) : stack(f, span, batch, err);
    det_err raised;
    if (det_check(&raised) && !rc) rc = det_fail(err, raised.code, "%s", raised.msg);
    if (!rc && !*batch)
        rc = det_fail(err, DET_EINVAL, "the collate function gave no batch and no reason");
    det_scope_end();
    det_set_grad_enabled(grad);
    det_set_rng_state(rng);
    return rc;
}

int filler_run(struct filler *f, const struct span *span, det_value **batch, det_err *err)
{
    int rc = find_indices(f, span, err);
    bool in_memory = f->loader->dataset->n_columns && !f->loader->opts.collate;
    if (!rc && in_memory) rc = gather(f, span->n, batch, err);
    if (!rc && !in_memory) rc = run_user_code(f, span, batch, err);
    if (rc) {
        det_value_free(*batch);
        *batch = NULL;
    }
    return rc;
}
