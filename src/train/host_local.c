// Unit host_local.c: the host of a run that nobody but its own program knows of.
#include "train/host.h"

#include "doc/json.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20 };

struct host_local {
    struct host host; // first
    const det_train_opts *opts;
    bool was_asked; // for a length: there is only one
    int fd;         // of the metrics file; -1: none
    struct buf line;
};

static struct host_local *local(struct host *h)
{
    return (struct host_local *)h;
}

static int next_length(struct host *h, det_length *out, det_err *err)
{
    struct host_local *l = local(h);
    (void)err;
    if (l->was_asked) return 0;
    l->was_asked = true;
    *out = l->opts->max_length;
    return 1;
}

// --- lines of metrics

static void put_metrics(struct json_writer *w, const det_metrics *m)
{
    json_key(w, "metrics");
    json_open_map(w);
    for (int i = 0; i < det_metrics_len(m); i++) {
        json_key(w, det_metrics_name(m, i));
        json_put_double(w, det_metrics_at(m, 0, i));
    }
    json_close(w);
}

static void format_line(struct buf *out, const det_report *r)
{
    struct json_writer w;
    json_init(&w, out, 0);
    json_open_map(&w);
    json_key(&w, "kind");
    json_put_str(&w, r->kind == DET_REPORT_TRAINING ? "training" : "validation");
    json_key(&w, "batches");
    json_put_int(&w, r->batches);
    json_key(&w, "epochs");
    json_put_int(&w, r->epochs);
    put_metrics(&w, r->metrics);
    json_close(&w);
    buf_addc(out, '\n');
}

static int append_line(struct host_local *l, det_err *err)
{
    struct str text = buf_str(&l->line);
    if (!buf_ok(&l->line))
        return det_fail(err, DET_ELIMIT, "metrics of one report are longer than %d bytes",
                        LINE_MAX_BYTES);
    while (text.len) {
        ssize_t n = write(l->fd, text.ptr, text.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return det_fail(err, errno == ENOSPC ? DET_ENOSPC : DET_EIO, "cannot write '%s': %s",
                            l->opts->metrics_file, strerror(errno));
        text.ptr += n;
        text.len -= (size_t)n;
    }
    return 0;
}

static int report(struct host *h, const det_report *r, det_err *err)
{
    struct host_local *l = local(h);
    if (l->opts->on_report) l->opts->on_report(r, l->opts->report_user);
    if (l->fd < 0 || (r->kind != DET_REPORT_TRAINING && r->kind != DET_REPORT_VALIDATION)) return 0;
    buf_clear(&l->line);
    format_line(&l->line, r);
    return append_line(l, err);
}

// --- the rest

static bool should_stop(struct host *h, det_stop_reason *why)
{
    const struct host_local *l = local(h);
    if (!l->opts->stop || !*l->opts->stop) return false;
    *why = DET_STOP_REQUESTED;
    return true;
}

static void local_free(struct host *h)
{
    struct host_local *l = local(h);
    if (l->fd >= 0) close(l->fd);
    buf_done(&l->line);
    free(l);
}

static const struct host_ops local_ops = {
    .next_length = next_length,
    .report = report,
    .should_stop = should_stop,
    .free = local_free,
};

struct host *host_local_new(const det_train_opts *opts, det_err *err)
{
    int fd = -1;
    if (opts->metrics_file) {
        fd = open(opts->metrics_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (fd < 0) {
            det_fail(err, DET_EIO, "cannot open '%s': %s", opts->metrics_file, strerror(errno));
            return NULL;
        }
    }
    struct host_local *l = xcalloc(1, sizeof *l);
    l->host = (struct host){.ops = &local_ops,
                            .metric = opts->metric,
                            .larger_is_better = opts->larger_is_better,
                            .wants_batches = opts->on_report != NULL};
    l->opts = opts;
    l->fd = fd;
    l->line = BUF_INIT(LINE_MAX_BYTES);
    return &l->host;
}

void host_free(struct host *h)
{
    if (h) h->ops->free(h);
}
