// Unit across.c: what the ranks of several nodes do together. Called by collect.c.
//
// A sum goes up the line of nodes: each adds its ranks, in their order, to what comes from below, so
// the result is that of all ranks on one node, to the last bit. It comes back down. Pieces follow
// each other, so that all nodes and both directions are busy.
#include "dist/across.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "dist/link.h"
#include <stdlib.h>

static bool is_leader(const struct dist *d)
{
    return d->rank == 0;
}

static bool is_last(const struct dist *d)
{
    return d->node + 1 == d->n_nodes;
}

// The number that the first rank of all sends comes with the first frame from below.
static void set_note(struct dist *d, const struct stamp *stamp)
{
    d->shared->note = stamp->note;
}

static int meet(struct dist *d, det_err *err)
{
    int rc = shared_meet(d, err);
    if (!rc) d->note = d->shared->note;
    return rc;
}

// --- sums

static size_t piece_elements(const struct sum_work *w)
{
    return PIECE_BYTES / reduce_partial_bytes(w->type);
}

static size_t piece_n(const struct sum_work *w, size_t index)
{
    size_t from = index * piece_elements(w);
    return MIN(w->n - from, piece_elements(w));
}

static size_t piece_bytes(const struct sum_work *w, size_t index)
{
    return piece_n(w, index) * reduce_partial_bytes(w->type);
}

// Every rank adds its share of the elements.
static void add_share(struct dist *d, const struct sum_work *w, size_t index)
{
    const char *sources[DIST_MAX_RANKS] = {0};
    size_t n = piece_n(w, index), width = reduce_type_bytes(w->type);
    size_t from = n * (size_t)d->rank / (size_t)d->size;
    size_t to = n * (size_t)(d->rank + 1) / (size_t)d->size;
    char *partial = shared_piece(d, index) + from * reduce_partial_bytes(w->type);
    for (int i = 0; i < d->size; i++)
        sources[i] = shared_chunk(d, i) + from * width;
    reduce_add(w->type, partial, sources, d->size, to - from, d->node == 0);
    if (is_last(d) && w->sum == DIST_MEAN) reduce_divide(w->type, partial, to - from, d->world);
}

static int take_from_below(struct dist *d, const struct sum_work *w, size_t index, det_err *err)
{
    struct stamp stamp = *stamp_of(d, 0);
    int rc = 0;
    if (link_has(d, LINK_BELOW))
        rc =
            link_receive(d, LINK_BELOW, shared_piece(d, index), piece_bytes(w, index), &stamp, err);
    if (!rc) set_note(d, &stamp);
    return rc;
}

// Up with the sum; what comes out at the top goes down.
static int pass_on(struct dist *d, const struct sum_work *w, size_t index, det_err *err)
{
    enum link_side to = is_last(d) ? LINK_BELOW : LINK_ABOVE;
    return link_send(d, to, shared_piece(d, index), piece_bytes(w, index), err);
}

static int add_piece(struct dist *d, const struct sum_work *w, size_t index, det_err *err)
{
    size_t width = reduce_type_bytes(w->type), from = index * piece_elements(w) * width;
    int rc = 0;
    if (w->n) memcpy(shared_chunk(d, d->rank), w->data + from, piece_n(w, index) * width);
    if (is_leader(d)) rc = take_from_below(d, w, index, err);
    if (!rc) rc = meet(d, err);
    if (rc) return rc;
    if (w->n) add_share(d, w, index);
    rc = shared_meet(d, err);
    d->parity ^= 1;
    return !rc && is_leader(d) ? pass_on(d, w, index, err) : rc;
}

static int take_result(struct dist *d, const struct sum_work *w, size_t index, det_err *err)
{
    char *piece = shared_piece(d, index);
    size_t n = piece_bytes(w, index), from = index * piece_elements(w);
    int rc = 0;
    if (is_leader(d) && !is_last(d)) rc = link_receive(d, LINK_ABOVE, piece, n, NULL, err);
    if (!rc && is_leader(d) && !is_last(d) && link_has(d, LINK_BELOW))
        rc = link_send(d, LINK_BELOW, piece, n, err);
    if (!rc) rc = shared_meet(d, err);
    if (!rc && w->n)
        reduce_take(w->type, w->data + from * reduce_type_bytes(w->type), piece, piece_n(w, index));
    return rc;
}

int across_sum(struct dist *d, const struct sum_work *w, det_err *err)
{
    size_t each = piece_elements(w), n = w->n ? (w->n + each - 1) / each : 1;
    size_t ahead = MIN(n - 1, (size_t)PIECES_AHEAD);
    int rc = 0;
    for (size_t i = 0; !rc && i < n + ahead; i++) {
        if (i < n) rc = add_piece(d, w, i, err);
        if (!rc && i >= ahead) rc = take_result(d, w, i - ahead, err);
    }
    return !rc && is_leader(d) ? link_flush(d, err) : rc;
}

// --- broadcast

// Tells those above what is done, with the note; the first frame of every operation goes this way.
static int open_upwards(struct dist *d, det_err *err)
{
    struct stamp stamp = *stamp_of(d, 0);
    int rc = 0;
    if (link_has(d, LINK_BELOW)) rc = link_receive(d, LINK_BELOW, NULL, 0, &stamp, err);
    if (rc) return rc;
    set_note(d, &stamp);
    return link_has(d, LINK_ABOVE) ? link_send(d, LINK_ABOVE, NULL, 0, err) : 0;
}

// From the side where the root is, to the other one; from the root's node to both.
static int carry(struct dist *d, int at, char *chunk, size_t n, det_err *err)
{
    int rc = 0;
    if (at < 0) rc = link_receive(d, LINK_BELOW, chunk, n, NULL, err);
    if (at > 0) rc = link_receive(d, LINK_ABOVE, chunk, n, NULL, err);
    if (!rc && at <= 0 && link_has(d, LINK_ABOVE)) rc = link_send(d, LINK_ABOVE, chunk, n, err);
    if (!rc && at >= 0 && link_has(d, LINK_BELOW)) rc = link_send(d, LINK_BELOW, chunk, n, err);
    return rc;
}

int across_broadcast(struct dist *d, int root, char *data, size_t n_bytes, det_err *err)
{
    int at = root < d->first ? -1 : root >= d->first + d->size; // where it is: below, here, above
    int source = at ? 0 : root - d->first, rc = 0;              // the rank here that has the bytes
    bool has_it = !at && d->rank == source;
    if (is_leader(d)) rc = open_upwards(d, err);
    for (size_t done = 0; !rc && done < n_bytes; done += CHUNK_BYTES) {
        size_t n = MIN(n_bytes - done, (size_t)CHUNK_BYTES);
        char *chunk = shared_chunk(d, source);
        if (has_it) memcpy(chunk, data + done, n);
        if (!at) rc = shared_meet(d, err);
        if (!rc && is_leader(d)) rc = carry(d, at, chunk, n, err);
        if (!rc) rc = shared_meet(d, err);
        if (!rc && !has_it) memcpy(data + done, chunk, n);
        d->parity ^= 1;
    }
    if (!rc && is_leader(d)) rc = link_flush(d, err);
    return rc ? rc : meet(d, err);
}

// --- gathering

// Parts, each behind its length.
static void add_part(struct buf *out, struct str part)
{
    uint64_t n = part.len;
    buf_add(out, (const char *)&n, sizeof n);
    buf_add(out, part.ptr, part.len);
}

static size_t part_bytes(const struct dist *d, int rank)
{
    return (size_t)stamp_of(d, rank)->n_bytes;
}

// What rank 0 takes of the chunks of all.
static void take_chunks(const struct dist *d, size_t done, char **parts)
{
    for (int i = 0; i < d->size; i++) {
        size_t len = part_bytes(d, i);
        if (done < len)
            memcpy(parts[i] + done, shared_chunk(d, i), MIN(len - done, (size_t)CHUNK_BYTES));
    }
}

// The parts of this node's ranks, on its rank 0, which has them appended to `out`.
static int gather_here(struct dist *d, struct str mine, struct buf *out, det_err *err)
{
    size_t longest = 0;
    char **parts = xcalloc((size_t)d->size, sizeof *parts);
    int rc = 0;
    for (int i = 0; i < d->size; i++) {
        longest = MAX(longest, part_bytes(d, i));
        if (is_leader(d)) parts[i] = xmalloc(part_bytes(d, i) + 1);
    }
    for (size_t done = 0; !rc && done < longest; done += CHUNK_BYTES) {
        size_t n = done < mine.len ? MIN(mine.len - done, (size_t)CHUNK_BYTES) : 0;
        if (n) memcpy(shared_chunk(d, d->rank), mine.ptr + done, n);
        rc = shared_meet(d, err);
        if (!rc && is_leader(d)) take_chunks(d, done, parts);
        d->parity ^= 1;
    }
    for (int i = 0; is_leader(d) && i < d->size; i++) {
        add_part(out, (struct str){parts[i], part_bytes(d, i)});
        free(parts[i]);
    }
    free(parts);
    return rc;
}

// What the nodes below have comes up, with that of this one; what all have comes down.
static int exchange(struct dist *d, struct buf *here, char **all, size_t *n, det_err *err)
{
    struct buf whole = BUF_INIT(SIZE_MAX / 4);
    char *below = NULL;
    size_t n_below = 0;
    int rc = link_has(d, LINK_BELOW) ? link_receive_any(d, LINK_BELOW, &below, &n_below, err) : 0;
    buf_add(&whole, below ? below : "", n_below);
    buf_add(&whole, buf_str(here).ptr, here->len);
    free(below);
    if (!rc && !is_last(d)) {
        rc = link_send(d, LINK_ABOVE, whole.ptr, whole.len, err);
        if (!rc) rc = link_receive_any(d, LINK_ABOVE, all, n, err);
    } else if (!rc) {
        *all = xmalloc(whole.len + 1);
        memcpy(*all, whole.ptr, whole.len);
        *n = whole.len;
    }
    if (!rc && link_has(d, LINK_BELOW)) rc = link_send(d, LINK_BELOW, *all, *n, err);
    buf_done(&whole);
    return rc ? rc : link_flush(d, err);
}

// Rank 0 has it; the others get it.
static int share(struct dist *d, char **all, size_t *n, det_err *err)
{
    if (is_leader(d)) d->shared->n_gathered = *n;
    int rc = meet(d, err);
    if (rc) return rc;
    *n = (size_t)d->shared->n_gathered;
    if (!is_leader(d)) *all = malloc(*n + 1);
    if (!*all) return det_fail(err, DET_ENOMEM, "no memory for %zu bytes of all ranks", *n);
    for (size_t done = 0; !rc && done < *n; done += CHUNK_BYTES) {
        size_t len = MIN(*n - done, (size_t)CHUNK_BYTES);
        if (is_leader(d)) memcpy(shared_chunk(d, 0), *all + done, len);
        rc = shared_meet(d, err);
        if (!rc && !is_leader(d)) memcpy(*all + done, shared_chunk(d, 0), len);
        d->parity ^= 1;
    }
    return rc;
}

int across_gather(struct dist *d, struct str mine, char **memory, size_t *n, det_err *err)
{
    struct buf here = BUF_INIT(SIZE_MAX / 4);
    *memory = NULL;
    int rc = 0;
    if (is_leader(d)) rc = open_upwards(d, err);
    if (!rc) rc = gather_here(d, mine, &here, err);
    if (!rc && is_leader(d)) rc = exchange(d, &here, memory, n, err);
    if (!rc) rc = share(d, memory, n, err);
    buf_done(&here);
    if (!rc) return 0;
    free(*memory);
    *memory = NULL;
    return rc;
}
