// Unit link.c: frames between the first ranks of nodes, and how nodes hear of each other's failures.
// Called by across.c and rendezvous.c.
#include "dist/link.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include <stdlib.h>

enum { WAIT_MS = 50, FAREWELL_US = 2000000 };

enum frame_kind { FRAME_DATA = 0x64657401, FRAME_FAILURE, FRAME_FAREWELL };

struct frame {
    uint32_t kind;
    int32_t culprit; // FRAME_FAILURE, whose bytes are a det_err
    uint64_t n_bytes;
    struct stamp stamp;
};

struct link {
    struct wire *wire;
    bool told[LINK_N_SIDE]; // of the failure or of the end
};

bool link_has(const struct dist *d, enum link_side side)
{
    return side == LINK_BELOW ? d->node > 0 : d->node + 1 < d->n_nodes;
}

int link_open(struct dist *d, const struct link_opts *opts, det_err *err)
{
    struct wire *wire;
    int rc = wire_tcp_open(d, opts, &wire, err);
    if (rc) return rc;
    d->link = xcalloc(1, sizeof *d->link);
    d->link->wire = wire;
    return 0;
}

// --- sending

static int send_frame(struct dist *d, enum link_side to, const struct frame *f, const void *bytes,
                      det_err *err)
{
    struct wire *w = d->link->wire;
    int rc = w->ops->send(w, to, f, sizeof *f, err);
    return rc || !f->n_bytes ? rc : w->ops->send(w, to, bytes, (size_t)f->n_bytes, err);
}

static void tell(struct dist *d, const struct frame *f, const void *bytes)
{
    struct wire *w = d->link->wire;
    int64_t end_us = clock_mono_us() + FAREWELL_US;
    for (enum link_side side = 0; side < LINK_N_SIDE; side++) {
        if (!link_has(d, side) || d->link->told[side]) continue;
        d->link->told[side] = true;
        send_frame(d, side, f, bytes, NULL);
    }
    while (w->ops->is_sending(w) && clock_mono_us() < end_us)
        w->ops->wait(w, WAIT_MS);
}

void link_tell_failure(struct dist *d)
{
    const struct frame f = {
        .kind = FRAME_FAILURE, .culprit = d->culprit, .n_bytes = sizeof d->failure};
    if (d->link) tell(d, &f, &d->failure);
}

// The other node may be gone because something else has failed there, or here.
static int lost(struct dist *d, enum link_side side, const det_err *why, det_err *err)
{
    det_err failure;
    int rc = shared_check(d, err);
    if (rc) return rc;
    int other = side == LINK_BELOW ? d->first - 1 : d->first + d->size;
    det_fail(&failure, DET_EUNREACHABLE, "node %d, with rank %d, is gone: %s",
             side == LINK_BELOW ? d->node - 1 : d->node + 1, other, why->msg);
    return shared_break(d, other, &failure, err);
}

int link_send(struct dist *d, enum link_side to, const void *bytes, size_t n, det_err *err)
{
    struct frame f = {.kind = FRAME_DATA, .n_bytes = n, .stamp = *stamp_of(d, 0)};
    det_err why;
    f.stamp.note = d->shared->note; // of the first rank of all, which counts
    return send_frame(d, to, &f, bytes, &why) ? lost(d, to, &why, err) : 0;
}

int link_flush(struct dist *d, det_err *err)
{
    struct wire *w = d->link->wire;
    while (w->ops->is_sending(w)) {
        w->ops->wait(w, WAIT_MS);
        int rc = shared_check(d, err);
        if (rc) return rc;
    }
    return 0;
}

// --- receiving

static int receive(struct dist *d, enum link_side from, void *bytes, size_t n, det_err *err)
{
    struct wire *w = d->link->wire;
    det_err why;
    for (size_t done = 0; done < n;) {
        size_t before = done;
        if (w->ops->receive(w, from, (char *)bytes + done, n - done, &done, &why))
            return lost(d, from, &why, err);
        if (done > before) continue;
        w->ops->wait(w, WAIT_MS);
        int rc = shared_check(d, err);
        if (rc) return rc;
    }
    return 0;
}

static int receive_failure(struct dist *d, enum link_side from, const struct frame *f, det_err *err)
{
    det_err failure = {0};
    int rc = 0;
    if (f->n_bytes == sizeof failure) rc = receive(d, from, &failure, sizeof failure, err);
    if (rc) return rc;
    failure.msg[sizeof failure.msg - 1] = 0;
    if (failure.code >= 0) det_fail(&failure, DET_EUNREACHABLE, "another node has failed");
    d->link->told[from] = true;
    return shared_break(d, f->culprit, &failure, err);
}

static int differ(struct dist *d, enum link_side from, const struct stamp *theirs, det_err *err)
{
    det_err failure;
    char mine[160], other[160];
    int rank = from == LINK_BELOW ? d->first - 1 : d->first + d->size;
    stamp_describe(stamp_of(d, 0), mine, sizeof mine);
    stamp_describe(theirs, other, sizeof other);
    det_fail(&failure, DET_ESTATE, "ranks do not do the same: rank %d is in %s, rank %d in %s",
             d->first, mine, rank, other);
    return shared_break(d, rank, &failure, err);
}

static int receive_head(struct dist *d, enum link_side from, struct frame *f, det_err *err)
{
    det_err why;
    int rc = receive(d, from, f, sizeof *f, err);
    if (rc) return rc;
    switch (f->kind) {
    case FRAME_DATA:
        return stamp_same(stamp_of(d, 0), &f->stamp) ? 0 : differ(d, from, &f->stamp, err);
    case FRAME_FAILURE:
        return receive_failure(d, from, f, err);
    case FRAME_FAREWELL:
        det_fail(&why, DET_EUNREACHABLE, "it has left before the others were done");
        return lost(d, from, &why, err);
    default:
        det_fail(&why, DET_EUNREACHABLE, "it sends what cannot be understood");
        return lost(d, from, &why, err);
    }
}

int link_receive(struct dist *d, enum link_side from, void *bytes, size_t n, struct stamp *stamp,
                 det_err *err)
{
    struct frame f;
    int rc = receive_head(d, from, &f, err);
    if (!rc && f.n_bytes != n) rc = differ(d, from, &f.stamp, err);
    if (!rc) rc = receive(d, from, bytes, n, err);
    if (!rc && stamp) *stamp = f.stamp;
    return rc;
}

int link_receive_any(struct dist *d, enum link_side from, char **bytes, size_t *n, det_err *err)
{
    struct frame f;
    det_err failure;
    int rc = receive_head(d, from, &f, err);
    if (rc) return rc;
    char *memory = f.n_bytes < SIZE_MAX / 2 ? malloc((size_t)f.n_bytes + 1) : NULL;
    if (!memory) {
        det_fail(&failure, DET_ENOMEM, "no memory for %llu bytes of other nodes",
                 (unsigned long long)f.n_bytes);
        return shared_break(d, d->first + d->rank, &failure, err);
    }
    rc = receive(d, from, memory, (size_t)f.n_bytes, err);
    if (rc) {
        free(memory);
        return rc;
    }
    *bytes = memory;
    *n = (size_t)f.n_bytes;
    return 0;
}

// --- the end

void link_close(struct dist *d)
{
    struct link *l = d->link;
    if (!l) return;
    const struct frame farewell = {.kind = FRAME_FAREWELL};
    if (d->broken)
        link_tell_failure(d);
    else
        tell(d, &farewell, NULL);
    l->wire->ops->close(l->wire);
    free(l);
    d->link = NULL;
}
