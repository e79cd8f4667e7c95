// Unit host_cluster.c: the host of a task: the master says how long to train and when to stop.
//
// A length that was reached is reported last, after the validation and the checkpoint that belong
// to it, so that what the searcher decides upon is never lost: a task that is killed before is
// started again, and validates again.
#include "train/host.h"

#include "base/mem.h"
#include "client/client.h"

struct host_cluster {
    struct host host;   // first
    struct host *local; // does what the options say
    det_core *core;
    det_search_op *op; // NULL: none yet
    bool is_reached;   // but the master does not know
    double metric;     // then: what came out
};

static struct host_cluster *cluster(struct host *h)
{
    return (struct host_cluster *)h;
}

// --- operations

static int tell_reached(struct host_cluster *c, det_err *err)
{
    if (!c->is_reached) return 0;
    c->is_reached = false;
    return det_search_op_complete(c->op, c->metric, err);
}

// Units of no name are batches, as in configurations.
static int length_of(const det_search_op *op, det_length *out, det_err *err)
{
    int64_t n;
    if (!det_search_op_batches(op, &n, NULL)) {
        *out = det_batches(n);
    } else if (!det_search_op_epochs(op, &n, NULL)) {
        *out = det_epochs(n);
    } else {
        int rc = det_search_op_records(op, &n, err);
        if (rc) return rc;
        *out = det_records(n);
    }
    return 1;
}

static int next_length(struct host *h, det_length *out, det_err *err)
{
    struct host_cluster *c = cluster(h);
    int rc = tell_reached(c, err);
    if (!rc) rc = det_core_next_search_op(c->core, &c->op, err);
    return rc == 1 ? length_of(c->op, out, err) : rc;
}

static int completed(struct host *h, double metric, det_err *err)
{
    struct host_cluster *c = cluster(h);
    (void)err;
    c->is_reached = true;
    c->metric = metric;
    return 0;
}

// --- reports

typedef int (*report_metrics_fn)(det_core *core, int64_t batches, const det_metric_value *metrics,
                                 int n, det_err *err);

static int send_metrics(det_core *core, const det_report *r, report_metrics_fn send, det_err *err)
{
    int n = det_metrics_len(r->metrics);
    det_metric_value *values = xcalloc((size_t)n + 1, sizeof *values);
    for (int i = 0; i < n; i++)
        values[i] =
            (det_metric_value){det_metrics_name(r->metrics, i), det_metrics_at(r->metrics, 0, i)};
    int rc = send(core, r->batches, values, n, err);
    free(values);
    return rc;
}

static int send_training(struct host_cluster *c, const det_report *r, det_err *err)
{
    int rc = send_metrics(c->core, r, det_core_report_training_metrics, err);
    if (rc) return rc;
    return det_search_op_report_progress(c->op, r->progress * (double)det_search_op_length(c->op),
                                         err);
}

static int report(struct host *h, const det_report *r, det_err *err)
{
    struct host_cluster *c = cluster(h);
    int rc = c->local->ops->report(c->local, r, err);
    if (rc) return rc;
    switch (r->kind) {
    case DET_REPORT_TRAINING:
        return send_training(c, r, err);
    case DET_REPORT_VALIDATION:
        return send_metrics(c->core, r, det_core_report_validation_metrics, err);
    case DET_REPORT_CHECKPOINT:
        return client_report_checkpoint(c->core, r->uuid, r->batches, err);
    case DET_REPORT_BATCH:
    case DET_REPORT_WARNING:
        break;
    }
    return 0;
}

// --- the rest

static bool should_stop(struct host *h, det_stop_reason *why)
{
    struct host_cluster *c = cluster(h);
    if (!det_core_should_preempt(c->core)) return c->local->ops->should_stop(c->local, why);
    *why = DET_STOP_PREEMPTED;
    return true;
}

// If it cannot be known, a checkpoint too many is better than one too few.
static bool best_validation(struct host *h, double *out)
{
    return det_core_best_validation(cluster(h)->core, out, NULL) == 1;
}

static void leave(struct host *h, enum host_exit why, const char *text)
{
    struct host_cluster *c = cluster(h);
    (void)text; // whoever runs the task shows it; its output is kept
    if (why == HOST_EXIT_INVALID_HPARAMS)
        det_core_report_invalid_hparams(c->core, NULL);
    else if (why != HOST_EXIT_ERROR)
        tell_reached(c, NULL);
}

static void cluster_free(struct host *h)
{
    host_free(cluster(h)->local);
    free(h);
}

static const struct host_ops cluster_ops = {
    .next_length = next_length,
    .completed = completed,
    .report = report,
    .should_stop = should_stop,
    .best_validation = best_validation,
    .leave = leave,
    .free = cluster_free,
};

struct host *host_cluster_new(det_core *core, const det_train_opts *opts, det_err *err)
{
    struct host *local = host_local_new(opts, err);
    if (!local) return NULL;
    struct host_cluster *c = xcalloc(1, sizeof *c);
    c->host = *local;
    c->host.ops = &cluster_ops;
    c->local = local;
    c->core = core;
    return &c->host;
}
