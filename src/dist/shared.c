// Unit shared.c: the shared memory of ranks, the barrier in it, and how they notice that one is
// missing. Called by rendezvous.c and collect.c.
#include "dist/link.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    VERSION = 2,
    PAGE_BYTES = 4096,
    SPINS = 200, // a few microseconds: ranks with equal work arrive almost together
    LOOK_AFTER_US = 50000,
    CULPRIT_END_US = 10000000, // a bound only: sanitizers alone take a second at the end
    CULPRIT_LOOK_MS = 1,
};

static size_t members_bytes(int size)
{
    size_t n = sizeof(struct shared) + (size_t)size * sizeof(struct member);
    return (n + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t chunks_bytes(const struct dist *d)
{
    return members_bytes(d->size) + (size_t)d->size * 2 * CHUNK_BYTES;
}

size_t shared_bytes(const struct dist *d)
{
    return chunks_bytes(d) + (d->n_nodes > 1 ? (size_t)N_PIECES * PIECE_BYTES : 0);
}

char *shared_piece(const struct dist *d, size_t index)
{
    return (char *)d->shared + chunks_bytes(d) + index % N_PIECES * PIECE_BYTES;
}

char *shared_chunk(const struct dist *d, int rank)
{
    size_t index = 2 * (size_t)rank + d->parity;
    return (char *)d->shared + members_bytes(d->size) + index * CHUNK_BYTES;
}

// --- sleeping and waking

static void sleep_on(_Atomic uint32_t *word, uint32_t value, int64_t timeout_us)
{
    const struct timespec t = {.tv_nsec = timeout_us * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, DIST_MAX_RANKS, NULL, NULL, 0);
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// --- the others

int shared_break(struct dist *d, int culprit, const det_err *failure, det_err *err)
{
    struct member *me = &d->shared->member[d->rank];
    if (!d->broken) {
        d->broken = true;
        d->culprit = culprit;
        d->failure = *failure;
        me->culprit = culprit;
        me->failure = *failure;
        atomic_store(&me->state, MEMBER_FAILED);
        wake_all(&d->shared->n_met);
        link_tell_failure(d);
    }
    if (err) *err = d->failure;
    return d->failure.code;
}

// --- who is missing

static bool has_ended(struct dist *d, int rank)
{
    if (d->pidfd[rank] < 0 &&
        proc_open(&d->shared->member[rank].process, &d->pidfd[rank], NULL) == DET_ENOTFOUND)
        return true;
    struct pollfd p = {.fd = d->pidfd[rank], .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static int fail_missing(const struct dist *d, int rank, const char *how, det_err *failure)
{
    det_fail(failure, DET_EUNREACHABLE, "rank %d (process %lld) %s", d->first + rank,
             (long long)d->shared->member[rank].process.pid, how);
    return d->first + rank;
}

// Fills failure if a rank cannot come any more, and returns whose fault that is; else -1.
static int find_missing(struct dist *d, int rank, det_err *failure)
{
    const struct member *m = &d->shared->member[rank];
    enum member_state state = atomic_load(&m->state);
    // Who has ended may have said why just before.
    if (state == MEMBER_HERE && has_ended(d, rank)) {
        state = atomic_load(&m->state);
        if (state == MEMBER_HERE) return fail_missing(d, rank, "has died", failure);
    }
    if (state == MEMBER_LEFT)
        return fail_missing(d, rank, "has left before the others were done", failure);
    if (state == MEMBER_FAILED) {
        *failure = m->failure;
        return m->culprit;
    }
    return -1;
}

// Who has said why comes before those who are merely gone, perhaps because of that.
static int find_culprit(struct dist *d, det_err *failure)
{
    int culprit = -1;
    for (int i = 0; culprit < 0 && i < d->size; i++)
        if (i != d->rank && atomic_load(&d->shared->member[i].state) == MEMBER_FAILED)
            culprit = find_missing(d, i, failure);
    for (int i = 0; culprit < 0 && i < d->size; i++)
        if (i != d->rank) culprit = find_missing(d, i, failure);
    return culprit;
}

int shared_check(struct dist *d, det_err *err)
{
    det_err failure;
    int culprit = find_culprit(d, &failure);
    return culprit < 0 ? 0 : shared_break(d, culprit, &failure, err);
}

static bool somebody_is_gone(const struct dist *d)
{
    for (int i = 0; i < d->size; i++)
        if (atomic_load(&d->shared->member[i].state) > MEMBER_HERE) return true;
    return false;
}

// --- the barrier

int shared_meet(struct dist *d, det_err *err)
{
    struct shared *s = d->shared;
    uint32_t met = d->n_met++;
    if (atomic_fetch_add(&s->n_arrived, 1) + 1 == (uint32_t)d->size) {
        atomic_store(&s->n_arrived, 0);
        atomic_store(&s->n_met, met + 1);
        wake_all(&s->n_met);
        return 0;
    }
    for (int i = 0; i < SPINS && atomic_load(&s->n_met) == met; i++)
        cpu_relax();
    while (atomic_load(&s->n_met) == met) {
        if (!somebody_is_gone(d)) sleep_on(&s->n_met, met, LOOK_AFTER_US);
        if (atomic_load(&s->n_met) != met) break;
        det_err failure;
        int culprit = find_culprit(d, &failure);
        // The last to come may have opened the barrier and gone while we looked.
        if (culprit >= 0 && atomic_load(&s->n_met) == met)
            return shared_break(d, culprit, &failure, err);
    }
    return 0;
}

// --- coming and going

int shared_attach(struct dist *d, int fd, det_err *err)
{
    d->n_bytes = shared_bytes(d);
    void *memory = mmap(NULL, d->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return fs_fail(err, "map", "the memory that ranks share");
    d->shared = memory;
    if (d->rank == 0) {
        d->shared->version = VERSION;
        d->shared->size = d->size;
    }
    if (d->shared->version != VERSION || d->shared->size != d->size)
        return det_fail(err, DET_EINVAL, "the ranks are of different versions of det");
    return 0;
}

int shared_seat(struct dist *d, int rank, pid_t pid, det_err *err)
{
    struct member *m = &d->shared->member[rank];
    int rc = proc_id_of(pid, &m->process, err);
    if (!rc) atomic_store(&m->state, MEMBER_HERE);
    return rc;
}

// Whoever starts the ranks looks for the first that ends: that shall be the one whose fault it was.
// Of those that end before it looks it cannot tell the first, so it has to have seen the end of
// that one (then there is nothing left to signal).
static void let_culprit_go_first(struct dist *d)
{
    int culprit = d->culprit - d->first;
    if (culprit == d->rank || culprit < 0 || culprit >= d->size) return; // not, or of another node
    int *pidfd = &d->pidfd[culprit];
    if (has_ended(d, culprit) && *pidfd < 0) return;
    int64_t end_us = clock_mono_us() + CULPRIT_END_US;
    struct pollfd p = {.fd = *pidfd, .events = POLLIN};
    poll(&p, 1, CULPRIT_END_US / 1000);
    while (proc_signal(*pidfd, 0) && clock_mono_us() < end_us)
        poll(NULL, 0, CULPRIT_LOOK_MS);
}

void shared_detach(struct dist *d)
{
    if (d->shared) {
        struct member *me = &d->shared->member[d->rank];
        uint32_t here = MEMBER_HERE;
        atomic_compare_exchange_strong(&me->state, &here, MEMBER_LEFT);
        wake_all(&d->shared->n_met);
        if (d->broken) let_culprit_go_first(d);
        munmap(d->shared, d->n_bytes);
    }
    for (int i = 0; i < d->size; i++)
        if (d->pidfd[i] >= 0) close(d->pidfd[i]);
}
