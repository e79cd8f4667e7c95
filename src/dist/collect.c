// Unit collect.c: the operations that all ranks do together.
#include "dist/shared.h"

#include "base/assert.h"
#include "base/mem.h"
#include "dist/across.h"
#include "dist/link.h"
#include <errno.h>

// --- who does what

void stamp_describe(const struct stamp *s, char *out, size_t n)
{
    static const char *const names[] = {[OP_BARRIER] = "barrier",
                                        [OP_SUM] = "all-reduce",
                                        [OP_BROADCAST] = "broadcast",
                                        [OP_GATHER] = "all-gather"};
    const char *name = s->operation < STATIC_LEN(names) ? names[s->operation] : "?";
    snprintf(out, n, "%s of '%.*s', %llu bytes (operation %llu)", name, WHAT_BYTES, s->what,
             (unsigned long long)s->n_bytes, (unsigned long long)s->serial);
}

bool stamp_same(const struct stamp *a, const struct stamp *b)
{
    bool same_length = a->operation == OP_GATHER || a->n_bytes == b->n_bytes;
    return a->serial == b->serial && a->operation == b->operation && a->detail == b->detail &&
           same_length && !memcmp(a->what, b->what, WHAT_BYTES);
}

const struct stamp *stamp_of(const struct dist *d, int rank)
{
    return &d->shared->member[rank].stamp[d->serial & 1];
}

// All compare with rank 0, so all name the same rank.
static int compare(struct dist *d, det_err *err)
{
    const struct stamp *first = stamp_of(d, 0);
    for (int i = 1; i < d->size; i++) {
        const struct stamp *other = stamp_of(d, i);
        if (stamp_same(first, other)) continue;
        det_err failure;
        char a[160], b[160];
        stamp_describe(first, a, sizeof a);
        stamp_describe(other, b, sizeof b);
        det_fail(&failure, DET_ESTATE, "ranks do not do the same: rank %d is in %s, rank %d in %s",
                 d->first, a, d->first + i, b);
        return shared_break(d, d->first + i, &failure, err);
    }
    d->note = first->note;
    return 0;
}

// Says what comes next. It is compared behind the first barrier of the operation.
static int begin(struct dist *d, enum operation operation, const char *what, uint32_t detail,
                 size_t n_bytes, det_err *err)
{
    if (d->broken) return shared_break(d, d->culprit, &d->failure, err);
    struct stamp *mine = &d->shared->member[d->rank].stamp[++d->serial & 1];
    *mine = (struct stamp){.serial = d->serial,
                           .operation = operation,
                           .detail = detail,
                           .n_bytes = n_bytes,
                           .note = d->next_note};
    snprintf(mine->what, sizeof mine->what, "%s", what);
    return 0;
}

static int meet_first(struct dist *d, det_err *err)
{
    int rc = shared_meet(d, err);
    return rc ? rc : compare(d, err);
}

static int meet(struct dist *d, bool is_first, det_err *err)
{
    return is_first ? meet_first(d, err) : shared_meet(d, err);
}

// --- operations

int dist_barrier(struct dist *d, const char *what, det_err *err)
{
    if (!d) return det_ok(err);
    int rc = begin(d, OP_BARRIER, what, 0, 0, err);
    if (!rc) rc = meet_first(d, err);
    return !rc && d->n_nodes > 1 ? across_sum(d, &(struct sum_work){0}, err) : rc;
}

// The elements that a rank sums of a chunk of n.
static size_t share_start(const struct dist *d, size_t n, int rank)
{
    return n * (size_t)rank / (size_t)d->size;
}

// Every rank sums its share of the chunks of all, into its own one.
static void sum_share(const struct dist *d, size_t n, enum dist_type type, enum dist_sum sum)
{
    const char *sources[DIST_MAX_RANKS] = {0};
    size_t width = reduce_type_bytes(type);
    size_t from = share_start(d, n, d->rank), to = share_start(d, n, d->rank + 1);
    for (int i = 0; i < d->size; i++)
        sources[i] = shared_chunk(d, i) + from * width;
    reduce_sum(type, shared_chunk(d, d->rank) + from * width, sources, d->size, to - from,
               sum == DIST_MEAN ? d->size : 1);
}

// The parts of the sum lie in the chunks of those who made them.
static int reduce_chunk(struct dist *d, char *data, size_t n, enum dist_type type,
                        enum dist_sum sum, bool is_first, det_err *err)
{
    size_t width = reduce_type_bytes(type);
    memcpy(shared_chunk(d, d->rank), data, n * width);
    int rc = meet(d, is_first, err);
    if (rc) return rc;
    sum_share(d, n, type, sum);
    rc = shared_meet(d, err);
    for (int i = 0; !rc && i < d->size; i++) {
        size_t from = share_start(d, n, i) * width, to = share_start(d, n, i + 1) * width;
        memcpy(data + from, shared_chunk(d, i) + from, to - from);
    }
    d->parity ^= 1;
    return rc;
}

int dist_all_reduce(struct dist *d, const char *what, void *data, size_t n, enum dist_type type,
                    enum dist_sum sum, det_err *err)
{
    if (!d) return det_ok(err);
    size_t width = reduce_type_bytes(type), step = CHUNK_BYTES / width, at = 0;
    int rc = begin(d, OP_SUM, what, (uint32_t)type << 1 | (uint32_t)sum, n * width, err);
    if (!rc && (!n || d->n_nodes > 1)) rc = meet_first(d, err);
    if (!rc && d->n_nodes > 1) return across_sum(d, &(struct sum_work){data, n, type, sum}, err);
    for (; !rc && at < n; at += step)
        rc = reduce_chunk(d, (char *)data + at * width, MIN(step, n - at), type, sum, at == 0, err);
    return rc;
}

int dist_broadcast(struct dist *d, const char *what, int root, void *data, size_t n_bytes,
                   det_err *err)
{
    if (!d) return det_ok(err);
    ASSERT(root >= 0 && root < d->world);
    size_t at = 0;
    int rc = begin(d, OP_BROADCAST, what, (uint32_t)root, n_bytes, err);
    if (!rc && d->n_nodes > 1) {
        rc = meet_first(d, err);
        return rc ? rc : across_broadcast(d, root, data, n_bytes, err);
    }
    do {
        size_t n = MIN(n_bytes - at, (size_t)CHUNK_BYTES);
        if (!rc && n && d->rank == root) memcpy(shared_chunk(d, root), (char *)data + at, n);
        if (!rc) rc = meet(d, at == 0, err);
        if (!rc && n && d->rank != root) memcpy((char *)data + at, shared_chunk(d, root), n);
        at += n;
        d->parity ^= 1;
    } while (!rc && at < n_bytes);
    return rc;
}

// --- gathering

static void copy_alone(struct str mine, struct dist_parts *out)
{
    *out = (struct dist_parts){.n = 1, .part = xcalloc(1, sizeof *out->part)};
    out->memory = xmalloc(mine.len + 1);
    if (mine.len) memcpy(out->memory, mine.ptr, mine.len);
    out->part[0] = (struct str){out->memory, mine.len};
}

// Room for the bytes of everyone, whose lengths are in the stamps.
static int make_room(struct dist *d, struct dist_parts *out, size_t *longest, det_err *err)
{
    size_t total = 0;
    for (int i = 0; i < d->size; i++) {
        uint64_t n = d->shared->member[i].stamp[d->serial & 1].n_bytes;
        if (n > SIZE_MAX / 2 - total) return det_fail(err, DET_ENOMEM, "a part is too large");
        total += n;
        *longest = MAX(*longest, n);
    }
    out->memory = malloc(total + 1);
    if (!out->memory)
        return det_fail(err, DET_ENOMEM, "no memory for %zu bytes of all ranks", total);
    out->part = xcalloc((size_t)d->size, sizeof *out->part);
    out->n = d->size;
    size_t at = 0;
    for (int i = 0; i < d->size; i++) {
        out->part[i].ptr = out->memory + at;
        at += d->shared->member[i].stamp[d->serial & 1].n_bytes;
    }
    return 0;
}

// What has come of rank i is appended to its part.
static void take_chunk(struct dist_parts *out, int i, const char *chunk, size_t n)
{
    struct str *part = &out->part[i];
    memcpy(out->memory + (part->ptr - out->memory) + part->len, chunk, n);
    part->len += n;
}

static int gather_chunk(struct dist *d, struct str mine, size_t at, struct dist_parts *out,
                        size_t *longest, det_err *err)
{
    size_t n = at < mine.len ? MIN(mine.len - at, (size_t)CHUNK_BYTES) : 0;
    if (n) memcpy(shared_chunk(d, d->rank), mine.ptr + at, n);
    int rc = meet(d, at == 0, err);
    if (!rc && at == 0) rc = make_room(d, out, longest, err);
    for (int i = 0; !rc && i < d->size; i++) {
        size_t len = d->shared->member[i].stamp[d->serial & 1].n_bytes;
        if (at < len) take_chunk(out, i, shared_chunk(d, i), MIN(len - at, (size_t)CHUNK_BYTES));
    }
    d->parity ^= 1;
    return rc;
}

// What across_gather() has packed.
static int unpack(const struct dist *d, char *memory, size_t n, struct dist_parts *out,
                  det_err *err)
{
    *out = (struct dist_parts){xcalloc((size_t)d->world, sizeof *out->part), d->world, memory};
    size_t at = 0;
    for (int i = 0; i < d->world; i++) {
        uint64_t len = 0;
        if (n - at >= sizeof len) memcpy(&len, memory + at, sizeof len);
        if (n - at < sizeof len || n - at - sizeof len < len)
            return det_fail(err, DET_EUNREACHABLE, "of what the ranks sent, a part is missing");
        out->part[i] = (struct str){memory + at + sizeof len, (size_t)len};
        at += sizeof len + (size_t)len;
    }
    return 0;
}

static int gather_across(struct dist *d, struct str mine, struct dist_parts *out, det_err *err)
{
    char *memory;
    size_t n = 0;
    int rc = meet_first(d, err);
    if (!rc) rc = across_gather(d, mine, &memory, &n, err);
    return rc ? rc : unpack(d, memory, n, out, err);
}

int dist_all_gather(struct dist *d, const char *what, struct str mine, struct dist_parts *out,
                    det_err *err)
{
    if (!d) {
        copy_alone(mine, out);
        return det_ok(err);
    }
    size_t longest = 0, at = 0;
    *out = (struct dist_parts){0};
    int rc = begin(d, OP_GATHER, what, 0, mine.len, err);
    if (!rc && d->n_nodes > 1) {
        rc = gather_across(d, mine, out, err);
        if (rc) dist_parts_done(out);
        return rc;
    }
    do {
        if (!rc) rc = gather_chunk(d, mine, at, out, &longest, err);
        at += CHUNK_BYTES;
    } while (!rc && at < longest);
    if (rc) dist_parts_done(out);
    return rc;
}

void dist_parts_done(struct dist_parts *parts)
{
    free(parts->part);
    free(parts->memory);
    *parts = (struct dist_parts){0};
}
