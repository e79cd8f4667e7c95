// Unit loader.c: a loader is a checked description; iterators (iter.c) do the work.
#include "data/loader.h"

#include "base/assert.h"
#include "base/mem.h"
#include <limits.h>

// NULL, or what is wrong with the options.
static const char *contradiction(const det_loader_opts *o)
{
    if (o->batch_size < 0) return "batch_size is negative";
    if (o->batch_size > INT_MAX) return "batch_size is beyond 2^31";
    if (o->num_workers < 0) return "num_workers is negative";
    if (o->prefetch < 0) return "prefetch is negative";
    if (o->prefetch && !o->num_workers)
        return "prefetch needs workers, but num_workers is 0 (the caller makes the batches)";
    if (o->sampler && o->shuffle) return "shuffle and sampler exclude each other";
    if (o->collate_user && !o->collate) return "collate_user is given, but collate is not";
    return NULL;
}

static det_sampler *own_sampler(const det_loader *l)
{
    int64_t n = l->dataset->length;
    return l->opts.shuffle ? det_sampler_shuffle(n, l->opts.seed) : det_sampler_sequential(n);
}

det_loader *det_loader_new_with(det_dataset *dataset, det_loader_opts opts)
{
    const char *wrong = dataset ? contradiction(&opts) : "the dataset is NULL";
    if (wrong) {
        det_raise(DET_EINVAL, "det_loader_new: %s", wrong);
        if (!opts.borrow_dataset) det_dataset_free(dataset);
        det_sampler_free(opts.sampler);
        return NULL;
    }
    det_loader *l = xmalloc(sizeof *l);
    *l = (det_loader){.dataset = dataset, .sampler = opts.sampler, .opts = opts};
    if (!l->opts.batch_size) l->opts.batch_size = 1;
    if (!l->sampler) l->sampler = own_sampler(l);
    return l;
}

void det_loader_free(det_loader *l)
{
    if (!l) return;
    if (!l->opts.borrow_dataset) det_dataset_free(l->dataset);
    det_sampler_free(l->sampler);
    free(l);
}

int64_t det_loader_length(const det_loader *l)
{
    if (!l) return 0;
    int64_t size = l->opts.batch_size, full = l->sampler->length / size;
    return full + (!l->opts.drop_last && l->sampler->length % size != 0);
}

int64_t det_loader_samples(const det_loader *l)
{
    return l ? l->sampler->length : 0;
}

int64_t det_loader_batch_size(const det_loader *l)
{
    return l ? l->opts.batch_size : 0;
}

uint64_t det_loader_seed(const det_loader *l)
{
    return l ? l->opts.seed : 0;
}

void det_loader_set_seed(det_loader *l, uint64_t seed)
{
    if (!l) return;
    l->opts.seed = seed;
    if (l->opts.sampler) return;
    det_sampler_free(l->sampler);
    l->sampler = own_sampler(l);
}

det_dataset *det_loader_dataset(const det_loader *l)
{
    return l ? l->dataset : NULL;
}
