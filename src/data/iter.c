// Unit iter.c: gives out batches in order while workers make the next ones.
//
// Batches have numbers: 0, 1, 2, ... of this rank. Batch b is made in slot b % n_slots of a ring:
//
//     [released ......... given) [given ......... claimed)  [claimed ...
//      held by the user: at       being made, or ready and   waiting for slots to become free:
//      most one                   waiting to be given out    claimed < released + n_slots
//
// Whoever claims a batch owns its slot until it is ready; then it is the consumer's until released.
// Which thread makes a batch changes nothing in it.
#include "data/loader.h"

#include "base/assert.h"
#include "base/mem.h"
#include "data/stack.h"
#include "tensor/tensor.h"
#include <pthread.h>
#include <signal.h>

enum { PREFETCH_PER_WORKER = 2 };

struct slot {
    det_value *batch;
    int64_t ready; // 1 + number of the batch that is complete in it
    det_err err;   // why it could not be made
};

struct det_iter {
    const det_loader *loader;
    det_iter_opts opts;
    int64_t epoch_batches; // of all ranks
    int64_t end;           // number of the batch after the last one
    int64_t given;
    det_err failure; // once given out, the end
    struct filler filler;
    struct slot *slots;
    int n_slots;

    pthread_t *workers;
    int n_workers;
    pthread_mutex_t lock; // of all below, and of slot.ready
    pthread_cond_t freed, filled;
    int64_t claimed, released;
    bool stopping;
};

// --- which samples a batch has

// Batches of all ranks are numbered through the epochs; rank r has those whose number leaves r.
static struct span span_of(const det_iter *it, int64_t number)
{
    int64_t global = number * it->opts.replicas + it->opts.rank;
    int64_t size = it->loader->opts.batch_size, first = global % it->epoch_batches * size;
    return (struct span){.epoch = it->opts.epoch + (uint64_t)(global / it->epoch_batches),
                         .first = first,
                         .n = MIN(size, it->loader->sampler->length - first)};
}

static int64_t shard_length(int64_t n, int replicas, int rank)
{
    return n / replicas + (n % replicas > rank);
}

// --- workers

static void make_batch(det_iter *it, struct filler *f, int64_t number)
{
    struct slot *slot = &it->slots[number % it->n_slots];
    struct span span = span_of(it, number);
    det_ok(&slot->err);
    filler_run(f, &span, &slot->batch, &slot->err);
}

static void *worker_main(void *arg)
{
    det_iter *it = arg;
    struct filler filler;
    filler_init(&filler, it->loader);
    pthread_mutex_lock(&it->lock);
    for (;;) {
        bool room = it->claimed < it->released + it->n_slots && it->claimed < it->end;
        if (it->stopping) break;
        if (!room) {
            pthread_cond_wait(&it->freed, &it->lock);
            continue;
        }
        int64_t number = it->claimed++;
        pthread_mutex_unlock(&it->lock);
        make_batch(it, &filler, number);
        pthread_mutex_lock(&it->lock);
        it->slots[number % it->n_slots].ready = number + 1;
        pthread_cond_signal(&it->filled);
    }
    pthread_mutex_unlock(&it->lock);
    filler_done(&filler);
    return NULL;
}

// Signals are for the threads of the program.
static int start_worker(det_iter *it)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&it->workers[it->n_workers], NULL, worker_main, it);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) it->n_workers++;
    return error;
}

static void stop_workers(det_iter *it)
{
    pthread_mutex_lock(&it->lock);
    it->stopping = true;
    pthread_cond_broadcast(&it->freed);
    pthread_mutex_unlock(&it->lock);
    for (int i = 0; i < it->n_workers; i++)
        pthread_join(it->workers[i], NULL);
}

// --- iterators

static bool check_opts(const det_loader *l, const det_iter_opts *o)
{
    if (!l)
        det_raise(DET_EINVAL, "det_loader_iter: the loader is NULL");
    else if (o->replicas < 1 || o->rank < 0 || o->rank >= o->replicas)
        det_raise(DET_EINVAL, "det_loader_iter: rank %d of %d", o->rank, o->replicas);
    else if (o->limit < 0 || o->limit > INT64_MAX / o->replicas)
        det_raise(DET_EINVAL, "det_loader_iter: limit is %lld", (long long)o->limit);
    else if (o->skip < 0 || o->skip > INT64_MAX / o->replicas - 1)
        det_raise(DET_EINVAL, "det_loader_iter: skip is %lld", (long long)o->skip);
    else if (o->repeat && !det_loader_length(l))
        det_raise(DET_EINVAL,
                  "det_loader_iter: nothing to repeat: %lld samples are no batch of %lld%s",
                  (long long)det_loader_samples(l), (long long)det_loader_batch_size(l),
                  l->opts.drop_last ? " (drop_last)" : "");
    else
        return true;
    return false;
}

static void init_state(det_iter *it)
{
    const det_loader_opts *l = &it->loader->opts;
    int ahead = l->prefetch ? l->prefetch : PREFETCH_PER_WORKER * l->num_workers;
    it->epoch_batches = det_loader_length(it->loader);
    if (it->opts.limit)
        it->epoch_batches = MIN(it->epoch_batches, it->opts.limit * it->opts.replicas);
    it->end = it->opts.repeat ? INT64_MAX / it->opts.replicas - 1 : det_iter_length(it);
    it->given = it->claimed = it->released = it->opts.skip;
    it->n_slots = ahead + 1;
    it->slots = xcalloc((size_t)it->n_slots, sizeof *it->slots);
    it->workers = xcalloc((size_t)l->num_workers + 1, sizeof *it->workers);
    filler_init(&it->filler, it->loader);
    pthread_mutex_init(&it->lock, NULL);
    pthread_cond_init(&it->freed, NULL);
    pthread_cond_init(&it->filled, NULL);
}

det_iter *det_loader_iter_with(det_loader *l, det_iter_opts opts)
{
    if (!opts.replicas) opts.replicas = 1;
    if (!check_opts(l, &opts)) return NULL;
    det_iter *it = xcalloc(1, sizeof *it);
    it->loader = l;
    it->opts = opts;
    init_state(it);
    for (int i = 0; i < l->opts.num_workers; i++) {
        int error = start_worker(it);
        if (!error) continue;
        det_raise(DET_EIO, "det_loader_iter: worker thread %d cannot be started (error %d)", i,
                  error);
        det_iter_free(it);
        return NULL;
    }
    return it;
}

void det_iter_free(det_iter *it)
{
    if (!it) return;
    stop_workers(it);
    for (int i = 0; i < it->n_slots; i++)
        det_value_free(it->slots[i].batch);
    filler_done(&it->filler);
    pthread_mutex_destroy(&it->lock);
    pthread_cond_destroy(&it->freed);
    pthread_cond_destroy(&it->filled);
    free(it->workers);
    free(it->slots);
    free(it);
}

int64_t det_iter_length(const det_iter *it)
{
    return it ? shard_length(it->epoch_batches, it->opts.replicas, it->opts.rank) : 0;
}

int64_t det_iter_position(const det_iter *it)
{
    return it ? it->given : 0;
}

// The batch given out last goes back to the ring; what somebody kept of it stays theirs.
static void release(det_iter *it)
{
    if (it->released == it->given) return;
    struct slot *slot = &it->slots[it->released % it->n_slots];
    if (!stack_reusable(slot->batch)) {
        det_value_free(slot->batch);
        slot->batch = NULL;
    }
    pthread_mutex_lock(&it->lock);
    it->released = it->given;
    pthread_cond_signal(&it->freed);
    pthread_mutex_unlock(&it->lock);
}

static void wait_for(det_iter *it, int64_t number)
{
    struct slot *slot = &it->slots[number % it->n_slots];
    pthread_mutex_lock(&it->lock);
    while (slot->ready != number + 1)
        pthread_cond_wait(&it->filled, &it->lock);
    pthread_mutex_unlock(&it->lock);
}

const det_value *det_iter_next(det_iter *it, det_err *err)
{
    if (!it) {
        det_fail(err, DET_EINVAL, "det_iter_next: the iterator is NULL");
        return NULL;
    }
    if (it->failure.code) {
        if (err) *err = it->failure;
        return NULL;
    }
    det_ok(err);
    release(it);
    if (it->given >= it->end) return NULL;
    struct slot *slot = &it->slots[it->given % it->n_slots];
    if (it->n_workers)
        wait_for(it, it->given);
    else
        make_batch(it, &it->filler, it->given);
    if (slot->err.code) {
        it->failure = slot->err;
        if (err) *err = it->failure;
        return NULL;
    }
    it->given++;
    return slot->batch;
}
