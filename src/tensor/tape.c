// Unit tape.c: what a thread is doing: its scopes, its switches, its random stream.
#include "tensor/node.h"

#include "base/rng.h"
#include "tensor/gemm_bf16.h"
#include <pthread.h>
#include <stdarg.h>

enum { CHUNK_BYTES = 64 << 10 };

struct chunk {
    struct chunk *below; // towards the bottom of the arena
    size_t used, size;
    _Alignas(64) char bytes[];
};

THREAD_LOCAL struct tape *thread_tape;
static pthread_key_t tape_key;
static pthread_once_t tape_once = PTHREAD_ONCE_INIT;

static void tape_free(void *tape)
{
    struct tape *t = tape;
    scope_pop(t, &(struct scope_mark){0});
    tensor_release(t->one);
    while (t->spare_chunks) {
        struct chunk *c = t->spare_chunks;
        t->spare_chunks = c->below;
        free(c);
    }
    free(t->tensors);
    free(t->nodes);
    free(t->marks);
    for (int i = 0; i < t->n_warned; i++)
        free(t->warned[i]);
    free(t->warned);
    free(t);
    thread_tape = NULL;
    sticky_finish = NULL;
}

static void tape_key_init(void)
{
    pthread_key_create(&tape_key, tape_free);
}

struct tape *tape_new(void)
{
    pthread_once(&tape_once, tape_key_init);
    thread_tape = xcalloc(1, sizeof *thread_tape);
    pthread_setspecific(tape_key, thread_tape);
    sticky_finish = tape_finish_all;
    return thread_tape;
}

static struct chunk *chunk_new(struct tape *t, size_t n_bytes)
{
    struct chunk *c = t->spare_chunks;
    if (c && c->size >= n_bytes) {
        t->spare_chunks = c->below;
    } else {
        size_t size = MAX(n_bytes, (size_t)CHUNK_BYTES);
        c = xmalloc(sizeof *c + size);
        c->size = size;
    }
    c->used = 0;
    return c;
}

void *tape_alloc(struct tape *t, size_t n_bytes)
{
    n_bytes = (n_bytes + 15) / 16 * 16;
    if (!t->chunk || t->chunk->size - t->chunk->used < n_bytes) {
        struct chunk *c = chunk_new(t, n_bytes);
        c->below = t->chunk;
        t->chunk = c;
    }
    void *p = t->chunk->bytes + t->chunk->used;
    t->chunk->used += n_bytes;
    return p;
}

void tape_own(struct tape *t, det_tensor *x)
{
    if (t->n_tensors == t->cap_tensors) {
        t->cap_tensors = t->cap_tensors ? 2 * t->cap_tensors : 256;
        t->tensors = xrealloc(t->tensors, (size_t)t->cap_tensors * sizeof *t->tensors);
    }
    t->tensors[t->n_tensors++] = x;
    x->on_tape = true;
}

// --- scopes

struct scope_mark scope_mark(const struct tape *t)
{
    return (struct scope_mark){.n_tensors = t->n_tensors,
                               .n_nodes = t->n_nodes,
                               .chunk = t->chunk,
                               .chunk_used = t->chunk ? t->chunk->used : 0};
}

void det_scope_begin(void)
{
    struct tape *t = tape_get();
    if (t->n_marks == t->cap_marks) {
        t->cap_marks = t->cap_marks ? 2 * t->cap_marks : 16;
        t->marks = xrealloc(t->marks, (size_t)t->cap_marks * sizeof *t->marks);
    }
    t->marks[t->n_marks++] = scope_mark(t);
}

// A tensor that somebody else holds outlives its history: it becomes a plain leaf.
static void leave_tape(det_tensor *x)
{
    x->on_tape = false;
    if (x->node && x->refs > 1) {
        if (!x->data && node_can_run(x->node)) tensor_finish(x);
        x->requires_grad = false;
    }
    x->node = NULL;
    tensor_release(x);
}

static void node_release(struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        tensor_release(n->in[i]);
    if (n->state != NODE_CONSUMED) node_release_aux(n);
    n->n_in = 0;
}

void scope_pop(struct tape *t, const struct scope_mark *m)
{
    if (t->has_renewed) forget_renewals(t, m->n_nodes);
    for (int i = t->n_tensors; i-- > m->n_tensors;)
        leave_tape(t->tensors[i]);
    t->n_tensors = m->n_tensors;
    for (int i = t->n_nodes; i-- > m->n_nodes;) {
        if (t->nodes[i]->state == NODE_PENDING) t->n_pending--;
        node_release(t->nodes[i]);
    }
    t->n_nodes = m->n_nodes;
    while (t->chunk != m->chunk) {
        struct chunk *c = t->chunk;
        t->chunk = c->below;
        c->below = t->spare_chunks;
        t->spare_chunks = c;
    }
    if (t->chunk) t->chunk->used = m->chunk_used;
}

void det_scope_end(void)
{
    struct tape *t = tape_get();
    if (!t->n_marks) {
        det_raise(DET_ESTATE, "det_scope_end without det_scope_begin");
        return;
    }
    t->n_marks--;
    scope_pop(t, &t->marks[t->n_marks]);
}

det_tensor *det_ref(det_tensor *t)
{
    return tensor_ref(t);
}

void det_unref(det_tensor *t)
{
    tensor_release(t);
}

void tensor_free(det_tensor *t)
{
    tensor_release(t->grad);
    storage_unref(t->storage);
    if (t->hooks) hooks_free(t);
    header_free(t);
}

// --- errors

// "encoder.0.fc1", outermost first. Returns the number of characters written.
static int origin_path(const struct origin *o, char *buf, int size)
{
    if (!o || !o->name) return 0;
    int n = origin_path(o->parent, buf, size);
    int wrote = snprintf(buf + n, (size_t)(size - n), "%s%s", n ? "." : "", o->name);
    return MIN(n + wrote, size - 1);
}

int node_fail(const struct node *n, int code, const char *fmt, ...)
{
    char path[160] = "", prefix[256];
    origin_path(n->origin, path, sizeof path);
    if (path[0])
        snprintf(prefix, sizeof prefix, "%s '%s': ", n->op->name, path);
    else
        snprintf(prefix, sizeof prefix, "%s: ", n->op->name);
    va_list args;
    va_start(args, fmt);
    sticky_raise(code, prefix, fmt, args);
    va_end(args);
    return code;
}

// --- switches and randomness

const struct origin *tape_set_origin(const struct origin *origin)
{
    struct tape *t = tape_get();
    const struct origin *old = t->origin;
    t->origin = origin;
    return old;
}

bool det_grad_enabled(void)
{
    return !tape_get()->no_grad;
}

bool det_set_grad_enabled(bool on)
{
    struct tape *t = tape_get();
    bool old = !t->no_grad;
    t->no_grad = !on;
    return old;
}

bool det_autocast(void)
{
    return tape_get()->autocast;
}

// Said once by a process: who asks for mixed precision expects speed.
static void say_if_not_faster(void)
{
    static int said;
    if (bf16_unit() || __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
    fprintf(stderr,
            "warning: mixed precision (bf16) will save memory but be no faster than f32: "
            "this processor (%s) has no instructions for bf16\n",
            det_isa());
}

bool det_set_autocast(bool on)
{
    struct tape *t = tape_get();
    if (on) say_if_not_faster();
    bool old = t->autocast;
    t->autocast = on;
    return old;
}

void det_manual_seed(uint64_t seed)
{
    tape_get()->rng = (det_rng_state){.seed = seed};
}

det_rng_state det_get_rng_state(void)
{
    return tape_get()->rng;
}

void det_set_rng_state(det_rng_state state)
{
    tape_get()->rng = state;
}

void det_rng_set_step(uint64_t step)
{
    det_rng_state *rng = &tape_get()->rng;
    rng->step = step;
    rng->op = 0;
}
