// Unit host_ranks.c: the host of a trial with several ranks: what the host of rank 0 says counts
// for all, and only rank 0 tells it anything.
#include "train/host.h"

#include "base/mem.h"

struct host_ranks {
    struct host host; // first
    struct host_ops ops;
    struct host *own; // asked on rank 0 only
    struct dist *dist;
};

static struct host_ranks *ranks(struct host *h)
{
    return (struct host_ranks *)h;
}

static bool is_chief(const struct host_ranks *r)
{
    return !dist_rank(r->dist);
}

static int next_length(struct host *h, det_length *out, det_err *err)
{
    struct host_ranks *r = ranks(h);
    int64_t answer[3] = {0}; // what was returned, unit, amount
    if (is_chief(r)) {
        answer[0] = r->own->ops->next_length(r->own, out, err);
        if (answer[0] < 0) return (int)answer[0]; // the others hear why this rank gives up
        answer[1] = out->unit;
        answer[2] = out->amount;
    }
    int rc = dist_broadcast(r->dist, "length", 0, answer, sizeof answer, err);
    if (rc) return rc;
    *out = (det_length){.unit = (det_unit)answer[1], .amount = answer[2]};
    return (int)answer[0];
}

static int completed(struct host *h, double metric, det_err *err)
{
    struct host_ranks *r = ranks(h);
    return is_chief(r) ? r->own->ops->completed(r->own, metric, err) : 0;
}

static int report(struct host *h, const det_report *report, det_err *err)
{
    struct host_ranks *r = ranks(h);
    return is_chief(r) ? r->own->ops->report(r->own, report, err) : 0;
}

// Rank 0 sends its answer along with the next thing that ranks do together, so that all stop after
// the same batch, and asking costs nothing.
static bool should_stop(struct host *h, det_stop_reason *why)
{
    struct host_ranks *r = ranks(h);
    det_stop_reason now;
    if (is_chief(r) && r->own->ops->should_stop(r->own, &now))
        dist_set_note(r->dist, (uint64_t)now + 1);
    uint64_t note = dist_note(r->dist);
    if (note) *why = (det_stop_reason)(note - 1);
    return note != 0;
}

static bool best_validation(struct host *h, double *out)
{
    struct host_ranks *r = ranks(h);
    double answer[2] = {0};
    if (is_chief(r)) answer[0] = r->own->ops->best_validation(r->own, &answer[1]);
    if (dist_broadcast(r->dist, "best validation", 0, answer, sizeof answer, NULL)) return false;
    *out = answer[1];
    return answer[0] != 0;
}

static void leave(struct host *h, enum host_exit why, const char *text)
{
    struct host_ranks *r = ranks(h);
    if (is_chief(r)) r->own->ops->leave(r->own, why, text);
}

static void ranks_free(struct host *h)
{
    free(h);
}

struct host *host_ranks_new(struct host *own, struct dist *dist)
{
    struct host_ranks *r = xcalloc(1, sizeof *r);
    r->host = *own;
    r->own = own;
    r->dist = dist;
    r->ops = (struct host_ops){
        .next_length = next_length,
        .completed = own->ops->completed ? completed : NULL,
        .report = report,
        .should_stop = should_stop,
        .best_validation = own->ops->best_validation ? best_validation : NULL,
        .leave = own->ops->leave ? leave : NULL,
        .free = ranks_free,
    };
    r->host.ops = &r->ops;
    if (!is_chief(r)) r->host.wants_batches = false;
    dist_set_note(dist, 0);
    return &r->host;
}
