// Unit tape.c: what a thread is doing: its scopes, its sticky error, its switches, its random
// stream.
#include "tensor/node.h"

#include "base/rng.h"
#include <pthread.h>
#include <stdarg.h>

enum { CHUNK_BYTES = 64 << 10 };

struct chunk {
    struct chunk *below; // towards the bottom of the arena
    size_t used, size;
    _Alignas(64) char bytes[];
};

struct scope_mark {
    int n_tensors, n_nodes;
    struct chunk *chunk;
    size_t chunk_used;
};

static _Thread_local struct tape tape;
static _Thread_local struct chunk *spare_chunks; // emptied by a scope's end, used by the next one
static _Thread_local bool tape_registered;
static pthread_key_t tape_key;
static pthread_once_t tape_once = PTHREAD_ONCE_INIT;

static void scope_pop(const struct scope_mark *m);

static void tape_free(void *unused)
{
    (void)unused;
    scope_pop(&(struct scope_mark){0});
    while (spare_chunks) {
        struct chunk *c = spare_chunks;
        spare_chunks = c->below;
        free(c);
    }
    free(tape.tensors);
    free(tape.nodes);
    free(tape.marks);
    tape = (struct tape){0};
    tape_registered = false;
}

static void tape_key_init(void)
{
    pthread_key_create(&tape_key, tape_free);
}

struct tape *tape_get(void)
{
    if (!tape_registered) {
        pthread_once(&tape_once, tape_key_init);
        pthread_setspecific(tape_key, &tape);
        tape_registered = true;
    }
    return &tape;
}

static struct chunk *chunk_new(size_t n_bytes)
{
    struct chunk *c = spare_chunks;
    if (c && c->size >= n_bytes) {
        spare_chunks = c->below;
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
        struct chunk *c = chunk_new(n_bytes);
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

void det_scope_begin(void)
{
    struct tape *t = tape_get();
    if (t->n_marks == t->cap_marks) {
        t->cap_marks = t->cap_marks ? 2 * t->cap_marks : 16;
        t->marks = xrealloc(t->marks, (size_t)t->cap_marks * sizeof *t->marks);
    }
    t->marks[t->n_marks++] = (struct scope_mark){.n_tensors = t->n_tensors,
                                                 .n_nodes = t->n_nodes,
                                                 .chunk = t->chunk,
                                                 .chunk_used = t->chunk ? t->chunk->used : 0};
}

// A tensor that somebody else holds outlives its history: it becomes a plain leaf.
static void leave_tape(det_tensor *x)
{
    x->on_tape = false;
    if (x->node && x->refs > 1) {
        if (x->node->state == NODE_PENDING || x->node->state == NODE_ABSORBED) tensor_finish(x);
        x->requires_grad = false;
    }
    x->node = NULL;
    tensor_release(x);
}

static void node_release(struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        tensor_release(n->in[i]);
    for (int i = 0; i < NODE_MAX_AUX; i++) {
        tensor_release(n->aux[i]);
        n->aux[i] = NULL;
    }
    n->n_in = 0;
}

static void scope_pop(const struct scope_mark *m)
{
    for (int i = tape.n_tensors; i-- > m->n_tensors;)
        leave_tape(tape.tensors[i]);
    tape.n_tensors = m->n_tensors;
    for (int i = tape.n_nodes; i-- > m->n_nodes;) {
        if (tape.nodes[i]->state == NODE_PENDING) tape.n_pending--;
        node_release(tape.nodes[i]);
    }
    tape.n_nodes = m->n_nodes;
    while (tape.chunk != m->chunk) {
        struct chunk *c = tape.chunk;
        tape.chunk = c->below;
        c->below = spare_chunks;
        spare_chunks = c;
    }
    if (tape.chunk) tape.chunk->used = m->chunk_used;
}

void det_scope_end(void)
{
    struct tape *t = tape_get();
    if (!t->n_marks) {
        det_raise(DET_ESTATE, "det_scope_end without det_scope_begin");
        return;
    }
    t->n_marks--;
    scope_pop(&t->marks[t->n_marks]);
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
    header_free(t);
}

// --- errors

bool tape_failed(void)
{
    return tape.err.code != 0;
}

static void raise_v(int code, const char *prefix, const char *fmt, va_list args)
{
    if (tape.err.code) return; // the first one is the cause
    struct tape *t = tape_get();
    int n = snprintf(t->err.msg, sizeof t->err.msg, "%s", prefix);
    vsnprintf(t->err.msg + n, sizeof t->err.msg - (size_t)n, fmt, args);
    t->err.code = code ? code : DET_EINVAL;
}

void det_raise(int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    raise_v(code, "", fmt, args);
    va_end(args);
}

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
    raise_v(code, prefix, fmt, args);
    va_end(args);
    return code;
}

int det_check(det_err *err)
{
    struct tape *t = tape_get();
    tape_finish(t);
    int code = t->err.code;
    if (!code) return det_ok(err);
    if (err) *err = t->err;
    det_ok(&t->err);
    return code;
}

// --- switches and randomness

const struct origin *tape_set_origin(const struct origin *origin)
{
    const struct origin *old = tape.origin;
    tape.origin = origin;
    return old;
}

bool det_grad_enabled(void)
{
    return !tape.no_grad;
}

bool det_set_grad_enabled(bool on)
{
    bool old = !tape.no_grad;
    tape.no_grad = !on;
    return old;
}

bool det_autocast(void)
{
    return tape.autocast;
}

bool det_set_autocast(bool on)
{
    bool old = tape.autocast;
    tape.autocast = on;
    return old;
}

void det_manual_seed(uint64_t seed)
{
    tape.rng = (det_rng_state){.seed = seed};
}

det_rng_state det_get_rng_state(void)
{
    return tape.rng;
}

void det_set_rng_state(det_rng_state state)
{
    tape.rng = state;
}

void det_rng_set_step(uint64_t step)
{
    tape.rng.step = step;
    tape.rng.op = 0;
}
