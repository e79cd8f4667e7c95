// Unit pool.c: worker threads that spin briefly, then sleep on a futex.
//
// Each thread has a share of a run's pieces, always the same part of them, so that what it works on
// is likely to be in its own cache from the run before; a thread that is done with its share helps
// with the others'. A share is a 64-bit ticket (epoch, next piece). A piece is claimed by advancing
// the ticket while its epoch is still ours. The tickets of a run that is over are withdrawn before
// anything of the next run is written, so a late worker, whatever it has read, claims nothing.
#include "sys/pool.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/cpu.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS_BEFORE_SLEEP = 4000, // ~50 us: longer than the gap between two kernels of one step
    SPINS_BEFORE_YIELD = 2000,
};

enum { CACHE_LINE = 64 };

struct share {
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket; // epoch << 32 | next piece
    _Atomic int end;
};

struct pool {
    _Alignas(CACHE_LINE) _Atomic uint32_t epoch; // futex word
    _Atomic int n_sleeping;
    _Atomic bool stopping;
    _Alignas(CACHE_LINE) _Atomic int n_done;
    _Alignas(CACHE_LINE) _Atomic pool_fn fn; // the run itself
    void *_Atomic ctx;
    _Atomic int n_threads;
    struct share share[POOL_MAX_THREADS];
    pthread_t thread[POOL_MAX_THREADS];
};

static struct pool pool;
static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER; // who publishes runs
static THREAD_LOCAL bool inside_piece;

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Runs what is left of one share. Returns how many pieces that were.
static int work_on(struct share *s, uint32_t epoch)
{
    for (int n_done = 0;;) {
        uint64_t t = atomic_load(&s->ticket);
        if ((uint32_t)(t >> 32) != epoch) return n_done;
        int piece = (int)(uint32_t)t;
        if (piece >= s->end) return n_done;
        pool_fn fn = pool.fn;
        void *ctx = pool.ctx;
        if (!atomic_compare_exchange_weak(&s->ticket, &t, t + 1)) continue;
        fn(ctx, piece);
        n_done++;
    }
}

static void work(int thread, uint32_t epoch)
{
    const int n_threads = pool.n_threads;
    inside_piece = true;
    for (int i = 0; i < n_threads; i++) {
        int n_done = work_on(&pool.share[(thread + i) % n_threads], epoch);
        if (n_done) atomic_fetch_add(&pool.n_done, n_done);
    }
    inside_piece = false;
}

static void wait_for_epoch_after(uint32_t epoch)
{
    for (int spins = 0; atomic_load(&pool.epoch) == epoch; spins++) {
        if (spins < SPINS_BEFORE_SLEEP) {
            cpu_relax();
            continue;
        }
        atomic_fetch_add(&pool.n_sleeping, 1);
        syscall(SYS_futex, &pool.epoch, FUTEX_WAIT_PRIVATE, epoch, NULL, NULL, 0);
        atomic_fetch_sub(&pool.n_sleeping, 1);
        spins = 0;
    }
}

static void *worker_main(void *thread)
{
    while (!atomic_load(&pool.stopping)) {
        uint32_t epoch = atomic_load(&pool.epoch);
        work((int)(intptr_t)thread, epoch);
        if (atomic_load(&pool.stopping)) break;
        wait_for_epoch_after(epoch);
    }
    return NULL;
}

static void wake_all(void)
{
    if (atomic_load(&pool.n_sleeping))
        syscall(SYS_futex, &pool.epoch, FUTEX_WAKE_PRIVATE, POOL_MAX_THREADS, NULL, NULL, 0);
}

static void stop_workers(void)
{
    atomic_store(&pool.stopping, true);
    atomic_fetch_add(&pool.epoch, 1);
    wake_all();
    for (int i = 1; i < pool.n_threads; i++)
        pthread_join(pool.thread[i], NULL);
    atomic_store(&pool.stopping, false);
    pool.n_threads = 1;
}

static void start_workers(int n_threads)
{
    int n = 1;
    atomic_fetch_add(&pool.epoch, 1); // no ticket is of this one
    while (n < n_threads &&
           pthread_create(&pool.thread[n], NULL, worker_main, (void *)(intptr_t)n) == 0)
        n++;
    pool.n_threads = n;
}

// A child of fork has the memory but not the threads: it starts again with itself alone.
static void after_fork_in_child(void)
{
    pthread_mutex_init(&owner, NULL);
    pool.n_threads = 0;
    atomic_store(&pool.n_sleeping, 0);
}

static void ensure_started(void)
{
    if (pool.n_threads) return;
    static bool registered;
    if (!registered) pthread_atfork(NULL, NULL, after_fork_in_child);
    registered = true;
    start_workers(MIN(cpu_count(), POOL_MAX_THREADS));
}

int pool_threads(void)
{
    pthread_mutex_lock(&owner);
    ensure_started();
    int n = pool.n_threads;
    pthread_mutex_unlock(&owner);
    return n;
}

void pool_set_threads(int n_threads)
{
    n_threads = MAX(1, MIN(n_threads, POOL_MAX_THREADS));
    pthread_mutex_lock(&owner);
    if (n_threads != pool.n_threads) {
        ensure_started();
        stop_workers();
        start_workers(n_threads);
    }
    pthread_mutex_unlock(&owner);
}

static void run_here(int n_pieces, pool_fn fn, void *ctx)
{
    for (int i = 0; i < n_pieces; i++)
        fn(ctx, i);
}

static void run_shared(int n_pieces, pool_fn fn, void *ctx)
{
    uint32_t epoch = atomic_load(&pool.epoch) + 1;
    const int n_threads = pool.n_threads;
    for (int64_t i = 0; i < n_threads; i++) // nobody works for this epoch yet
        atomic_store(&pool.share[i].ticket,
                     (uint64_t)epoch << 32 | (uint32_t)(n_pieces * i / n_threads));
    for (int64_t i = 0; i < n_threads; i++)
        pool.share[i].end = (int)(n_pieces * (i + 1) / n_threads);
    pool.fn = fn;
    pool.ctx = ctx;
    atomic_store(&pool.n_done, 0);
    atomic_store(&pool.epoch, epoch);
    wake_all();
    work(0, epoch);
    for (int spins = 0; atomic_load(&pool.n_done) < n_pieces; spins++) {
        cpu_relax();
        if (spins % SPINS_BEFORE_YIELD == SPINS_BEFORE_YIELD - 1) sched_yield();
    }
}

void pool_run(int n_pieces, pool_fn fn, void *ctx)
{
    if (n_pieces <= 1 || inside_piece || pthread_mutex_trylock(&owner) != 0) {
        run_here(n_pieces, fn, ctx);
        return;
    }
    ensure_started();
    if (pool.n_threads == 1)
        run_here(n_pieces, fn, ctx);
    else
        run_shared(n_pieces, fn, ctx);
    pthread_mutex_unlock(&owner);
}
