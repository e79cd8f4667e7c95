// Unit alloc.c: memory of tensors. Blocks are cut into size classes and cached per thread when
// freed: a training step repeats the same sizes, so from the second step on nothing is asked of the
// system.
//
// A block is a struct storage in its first 64 bytes and the data behind it. Blocks up to SMALL_MAX
// are carved out of chunks; larger ones are mappings of their own, which det_memory_trim can
// return.
#include "tensor/node.h"

#include "sys/vmem.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 64,
    SLACK_BYTES = 64, // behind the data: kernels may read (not use) a vector past the end
    SMALL_MAX = 256 << 10,
    CHUNK_BYTES = 1 << 20,
    LINEAR_CLASSES = 16,    // of 64 bytes each: up to 1 KiB
    STEPS_PER_DOUBLING = 8, // beyond: at most 12.5 % of a block is unused
    N_CLASSES = LINEAR_CLASSES + STEPS_PER_DOUBLING * 34,
};

struct free_block {
    struct free_block *next;
};

// The address sanitizer knows malloc; these tell it which parts of our blocks are in use.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define MARK_USED(p, n) __asan_unpoison_memory_region(p, n)
#define MARK_UNUSED(p, n) __asan_poison_memory_region(p, n)
#else
#define MARK_USED(p, n) ((void)(p), (void)(n))
#define MARK_UNUSED(p, n) ((void)(p), (void)(n))
#endif

struct cache {
    struct free_block *blocks[N_CLASSES];
    struct free_block *headers;
    char *chunk, *chunk_end;
    void *scratch[N_SCRATCH];
    size_t scratch_bytes[N_SCRATCH];
};

static THREAD_LOCAL struct cache *thread_cache; // NULL before the first use
static pthread_key_t cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t orphans_lock = PTHREAD_MUTEX_INITIALIZER;
static struct free_block *orphans[N_CLASSES]; // blocks of threads that have ended
static _Atomic size_t mapped_bytes, peak_bytes;

static int class_of(size_t n_bytes)
{
    if (n_bytes <= LINEAR_CLASSES * 64) return (int)((n_bytes + 63) / 64) - 1;
    int e = 63 - __builtin_clzll(n_bytes - 1); // 2^e < n_bytes <= 2^(e+1), e >= 10
    size_t step = (size_t)1 << (e - 3);
    int i = (int)((n_bytes - 1 - ((size_t)1 << e)) / step);
    return LINEAR_CLASSES + (e - 10) * STEPS_PER_DOUBLING + i;
}

static size_t class_bytes(int class_id)
{
    if (class_id < LINEAR_CLASSES) return (size_t)(class_id + 1) * 64;
    int e = 10 + (class_id - LINEAR_CLASSES) / STEPS_PER_DOUBLING;
    int i = (class_id - LINEAR_CLASSES) % STEPS_PER_DOUBLING;
    return ((size_t)1 << e) + (size_t)(i + 1) * ((size_t)1 << (e - 3));
}

// Linux would promise more than there is and kill us on the first touch, so we refuse ourselves.
static void *map_counted(size_t n_bytes, size_t n_used)
{
    static size_t physical_bytes;
    if (!physical_bytes)
        physical_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (atomic_load(&mapped_bytes) + n_bytes > physical_bytes) return NULL;
    void *p = vmem_map(n_bytes, n_used);
    if (!p) return NULL;
    size_t now = atomic_fetch_add(&mapped_bytes, n_bytes) + n_bytes,
           peak = atomic_load(&peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now)) {
    }
    return p;
}

static void unmap_counted(void *p, size_t n_bytes)
{
    MARK_USED(p, n_bytes);
    vmem_unmap(p, n_bytes);
    atomic_fetch_sub(&mapped_bytes, n_bytes);
}

// A thread ends: its blocks go to whoever needs them next.
static void cache_orphan(void *ending)
{
    struct cache *cache = ending;
    pthread_mutex_lock(&orphans_lock);
    for (int c = 0; c < N_CLASSES; c++) {
        struct free_block *b = cache->blocks[c];
        while (b) {
            struct free_block *next = b->next;
            b->next = orphans[c];
            orphans[c] = b;
            b = next;
        }
    }
    pthread_mutex_unlock(&orphans_lock);
    while (cache->headers) {
        struct free_block *b = cache->headers;
        cache->headers = b->next;
        free(b);
    }
    for (int i = 0; i < N_SCRATCH; i++)
        if (cache->scratch[i]) unmap_counted(cache->scratch[i], cache->scratch_bytes[i]);
    free(cache);
    thread_cache = NULL;
}

static void cache_key_init(void)
{
    pthread_key_create(&cache_key, cache_orphan);
}

static __attribute__((noinline)) struct cache *cache_new(void)
{
    pthread_once(&cache_once, cache_key_init);
    thread_cache = xcalloc(1, sizeof *thread_cache);
    pthread_setspecific(cache_key, thread_cache);
    return thread_cache;
}

static inline struct cache *cache_get(void)
{
    return thread_cache ? thread_cache : cache_new();
}

static void *carve(struct cache *cache, size_t n_bytes)
{
    if ((size_t)(cache->chunk_end - cache->chunk) < n_bytes) {
        cache->chunk = map_counted(CHUNK_BYTES, CHUNK_BYTES);
        if (!cache->chunk) {
            cache->chunk_end = NULL;
            return NULL;
        }
        cache->chunk_end = cache->chunk + CHUNK_BYTES;
    }
    void *p = cache->chunk;
    cache->chunk += n_bytes;
    return p;
}

static void *orphan_block(int class_id)
{
    pthread_mutex_lock(&orphans_lock);
    struct free_block *b = orphans[class_id];
    if (b) orphans[class_id] = b->next;
    pthread_mutex_unlock(&orphans_lock);
    return b;
}

static __attribute__((noinline)) void *block_from_system(struct cache *cache, int class_id)
{
    void *p = orphan_block(class_id);
    if (p) return p;
    size_t n = class_bytes(class_id);
    if (n <= SMALL_MAX) return carve(cache, n);
    size_t n_used = class_bytes(class_id - 1); // by the smallest tensor of the class
    p = map_counted(n, n_used);
    if (p) return p;
    det_memory_trim(); // what is cached may be just what is missing
    return map_counted(n, n_used);
}

struct storage *storage_new(size_t n_bytes)
{
    if (n_bytes > class_bytes(N_CLASSES - 1) / 2) return NULL;
    int class_id = class_of(n_bytes + HEADER_BYTES + SLACK_BYTES);
    struct cache *cache = cache_get();
    struct free_block *b = cache->blocks[class_id];
    if (b)
        cache->blocks[class_id] = b->next;
    else if (!(b = block_from_system(cache, class_id)))
        return NULL;
    struct storage *s = (struct storage *)(void *)b;
    MARK_UNUSED(s, class_bytes(class_id));
    MARK_USED(s, n_bytes + HEADER_BYTES + SLACK_BYTES);
    *s = (struct storage){.refs = 1, .class_id = (uint16_t)class_id, .n_bytes = n_bytes};
    s->data = (char *)s + HEADER_BYTES;
    return s;
}

atomic_bool has_borrowed;

struct storage *storage_borrow(void *data, size_t n_bytes)
{
    struct storage *s = storage_new(0);
    if (!s) return NULL;
    s->data = data;
    s->n_bytes = n_bytes;
    s->borrowed = true;
    atomic_store(&has_borrowed, true);
    return s;
}

void storage_unref(struct storage *s)
{
    if (!s || --s->refs) return;
    struct free_block *b = (struct free_block *)(void *)s;
    struct cache *cache = cache_get();
    int class_id = s->class_id;
    MARK_UNUSED(b + 1, class_bytes(class_id) - sizeof *b);
    b->next = cache->blocks[class_id];
    cache->blocks[class_id] = b;
}

det_tensor *header_new(void)
{
    struct cache *cache = cache_get();
    det_tensor *t = (det_tensor *)(void *)cache->headers;
    if (t)
        cache->headers = cache->headers->next;
    else
        t = xmalloc(sizeof *t);
    memset(t, 0, offsetof(det_tensor, shape));
    t->refs = 1;
    return t;
}

void header_free(det_tensor *t)
{
    struct cache *cache = cache_get();
    struct free_block *b = (struct free_block *)(void *)t;
    b->next = cache->headers;
    cache->headers = b;
}

void *scratch(enum scratch_slot slot, size_t n_bytes)
{
    struct cache *cache = cache_get();
    n_bytes = MAX(n_bytes, (size_t)1); // NULL means that there is no memory, also if none is needed
    if (n_bytes <= cache->scratch_bytes[slot]) return cache->scratch[slot];
    if (cache->scratch[slot]) unmap_counted(cache->scratch[slot], cache->scratch_bytes[slot]);
    size_t want = class_bytes(class_of(MAX(n_bytes, (size_t)SMALL_MAX)));
    cache->scratch[slot] = map_counted(want, n_bytes);
    cache->scratch_bytes[slot] = cache->scratch[slot] ? want : 0;
    return cache->scratch[slot];
}

det_memory det_memory_stats(void)
{
    return (det_memory){.mapped_bytes = atomic_load(&mapped_bytes),
                        .peak_bytes = atomic_load(&peak_bytes)};
}

void det_memory_trim(void)
{
    struct cache *cache = cache_get();
    for (int c = 0; c < N_CLASSES; c++) {
        if (class_bytes(c) <= SMALL_MAX) continue;
        while (cache->blocks[c]) {
            struct free_block *b = cache->blocks[c];
            cache->blocks[c] = b->next;
            unmap_counted(b, class_bytes(c));
        }
    }
}
