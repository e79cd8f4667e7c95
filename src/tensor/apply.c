// Unit apply.c: records calls of operations and runs them.
//
// An operation runs when it is called, except those marked OP_DEFER: they wait for their consumer.
// When it comes, either the fusion table merges the two (the producer is then ABSORBED and its own
// output is never computed, unless somebody asks for it later) or the producer runs first.
//
//                    consumer absorbs it
//     PENDING ---------------------------> ABSORBED
//        |  anybody else reads it             |  somebody reads it after all
//        v                                    v
//       DONE <--------------------------------+
//        |  backward (graph not retained)
//        v
//     CONSUMED
#include "tensor/fuse.h"

#include "tensor/elementwise.h"

// --- types of inputs

// torch's order: floats beat integers, larger beats smaller. Of two that have the same size, neither
// holds the other: both become the next larger type.
static int wider_type(int a, int b)
{
    static const uint8_t rank[DET_N_DTYPES] = {
        [DET_BOOL] = 0, [DET_U8] = 1,  [DET_I8] = 2,   [DET_I16] = 3, [DET_I32] = 4,
        [DET_I64] = 5,  [DET_F16] = 6, [DET_BF16] = 7, [DET_F32] = 8, [DET_F64] = 9};
    if (a < 0 || b < 0 || a == b) return MAX(a, b);
    int low = rank[a] < rank[b] ? a : b, high = low == a ? b : a;
    if (low == DET_U8 && high == DET_I8) return DET_I16;
    if (low == DET_F16 && high == DET_BF16) return DET_F32;
    return high;
}

// Single numbers (0 dims) do not widen a tensor of their own category.
det_dtype common_type(det_tensor *const *in, int n_in)
{
    int best = -1, best_single = -1;
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) continue;
        int *slot = in[i]->ndim ? &best : &best_single;
        *slot = wider_type(*slot, in[i]->dtype);
    }
    if (best < 0) return (det_dtype)best_single;
    if (best_single < 0) return (det_dtype)best;
    bool single_is_higher =
        dtype_is_float((det_dtype)best_single) > dtype_is_float((det_dtype)best) ||
        (best == DET_BOOL && best_single != DET_BOOL);
    return (det_dtype)(single_is_higher ? best_single : best);
}

static bool all_f32(det_tensor *const *in, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->dtype != DET_F32) return false;
    return true;
}

static void convert_inputs(const struct op *op, const struct tape *tape, det_tensor **in, int n_in)
{
    if (all_f32(in, n_in)) return;
    det_dtype common = op->flags & OP_PROMOTE ? common_type(in, n_in) : DET_F32;
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) continue;
        det_dtype to = op->flags & OP_PROMOTE ? common : (det_dtype)in[i]->dtype;
        if ((op->flags & OP_FLOAT) && !dtype_is_float(to)) to = DET_F32;
        if ((op->flags & OP_F32) && tape->autocast && to == DET_BF16) to = DET_F32;
        if (in[i]->dtype != to) in[i] = det_to(in[i], to);
    }
}

static int refuse_bool(const struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->dtype == DET_BOOL)
            return node_fail(n, DET_EDTYPE, "not for bool");
    return 0;
}

static int refuse_stored(const struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && dtype_is_stored((det_dtype)n->in[i]->dtype))
            return node_fail(n, DET_EDTYPE,
                             "input %d is %s, a type for storage; convert it (det_to)", i,
                             det_dtype_name((det_dtype)n->in[i]->dtype));
    return 0;
}

static bool has_stored(const struct node *n)
{
    unsigned types = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]) types |= dtype_is_stored((det_dtype)n->in[i]->dtype);
    return types;
}

static int node_run(struct node *n); // runs a pending node

// --- recording

enum { IN_BYTES = sizeof(det_tensor *) + sizeof(uint32_t) + sizeof(bool) }; // of each input

static void set_in_arrays(struct node *n, void *memory, int n_in)
{
    n->in = memory;
    n->in_version = (uint32_t *)(n->in + n_in);
    n->in_wants = (bool *)(n->in_version + n_in);
}

// Recording is half of what a call of a small operation costs.
#define INLINE static inline __attribute__((always_inline))

// Optional inputs that the call leaves out at the end read as NULL.
INLINE struct node *node_new(struct tape *tape, const struct op *op, det_tensor *const *in,
                             int n_in)
{
    enum { MAX_OPTIONAL = 16 };
    int n_slots = MAX(n_in, MIN((int)op->max_in, MAX_OPTIONAL));
    struct node *n = tape_alloc(tape, sizeof *n + (size_t)n_slots * IN_BYTES);
    memset(n, 0, offsetof(struct node, attr));
    n->op = op;
    n->origin = tape->origin;
    n->no_grad = tape->no_grad;
    set_in_arrays(n, n + 1, n_slots);
    n->n_in = (uint8_t)n_in;
    for (int i = 0; i < n_in; i++)
        n->in[i] = in[i];
    for (int i = n_in; i < n_slots; i++)
        n->in[i] = NULL;
    return n;
}

static bool inputs_present(const struct op *op, det_tensor *const *in, int n_in)
{
    if (n_in >= op->min_in && n_in <= op->max_in) {
        for (int i = 0; i < op->min_in; i++)
            if (!in[i]) {
                det_raise(DET_EINVAL, "%s: input %d is NULL", op->name, i);
                return false;
            }
        return true;
    }
    det_raise(DET_EINVAL, "%s: %d inputs, wants %d to %d", op->name, n_in, op->min_in, op->max_in);
    return false;
}

INLINE void node_push(struct tape *tape, struct node *n)
{
    if (tape->n_nodes == tape->cap_nodes) {
        tape->cap_nodes = tape->cap_nodes ? 2 * tape->cap_nodes : 256;
        tape->nodes = xrealloc(tape->nodes, (size_t)tape->cap_nodes * sizeof *tape->nodes);
    }
    n->index = tape->n_nodes;
    tape->nodes[tape->n_nodes++] = n;
}

// The node and its outputs become part of the tape.
static void node_commit(struct tape *tape, struct node *n)
{
    bool any_requires_grad = false;
    for (int i = 0; i < n->n_in; i++) {
        det_tensor *t = n->in[i];
        n->in_wants[i] = t && t->requires_grad;
        if (!t) continue;
        t->refs++;
        any_requires_grad |= t->requires_grad;
    }
    n->tracked = any_requires_grad && !tape->no_grad && n->op->backward;
    for (int i = 0; i < n->n_out; i++) {
        det_tensor *t = n->out[i];
        t->node = n;
        t->requires_grad = n->tracked && dtype_is_float((det_dtype)t->dtype);
        tape_own(tape, t);
    }
    node_push(tape, n);
    tape->n_pending++;
}

static uint32_t version_of(const det_tensor *t)
{
    return t && t->storage ? t->storage->version : 0;
}

static void note_versions(struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        n->in_version[i] = version_of(n->in[i]);
}

static void try_to_absorb(struct node *n)
{
    struct node *producer = n->in[0] ? n->in[0]->node : NULL;
    if (!producer || producer->state != NODE_PENDING) return;
    for (const struct fusion *f = fusion_table; f->producer; f++) {
        if (f->consumer != n->op || f->producer != producer->op) continue;
        if (!f->absorb(n, producer)) continue;
        producer->state = NODE_ABSORBED;
        note_versions(producer);
        tape_get()->n_pending--;
        tape_get()->has_merged = true;
        return;
    }
}

static int node_prepare(struct node *n)
{
    int rc = n->op->prepare ? n->op->prepare(n) : 0;
    if (rc && !sticky_failed()) node_fail(n, rc, "failed");
    return rc;
}

// By words: the compiler makes an instruction of memcpy that takes longer to start than this takes.
static void copy_attr(struct node *n, const char *attr, size_t n_bytes)
{
    size_t at = 0;
    ASSERT(n_bytes <= NODE_ATTR_BYTES);
    for (; at + sizeof(uint64_t) <= n_bytes; at += sizeof(uint64_t))
        memcpy(n->attr + at, attr + at, sizeof(uint64_t));
    for (; at < n_bytes; at++)
        n->attr[at] = attr[at];
}

static void renew_inputs(det_tensor *const *in, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i]) view_renew(in[i]);
}

// Memory that the user may change at any time, without a word.
static bool reads_borrowed(const struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->storage && n->in[i]->storage->borrowed) return true;
    return false;
}

struct node *op_record(const struct op *op, det_tensor *const *in, int n_in, const void *attr,
                       size_t attr_bytes)
{
    struct tape *tape = tape_get();
    if (sticky_failed() || !inputs_present(op, in, n_in)) return NULL;
    if (tape->has_renewed && !tape->no_grad && op->backward) renew_inputs(in, n_in);
    struct node *n = node_new(tape, op, in, n_in);
    if (!(op->flags & OP_STORED) && has_stored(n) && refuse_stored(n)) return NULL;
    if ((op->flags & OP_NUMBERS) && refuse_bool(n)) return NULL;
    if (op->flags & (OP_PROMOTE | OP_FLOAT | OP_F32)) convert_inputs(op, tape, n->in, n_in);
    if (sticky_failed()) return NULL;
    copy_attr(n, attr, attr_bytes);
    if (op->infer(n)) {
        for (int i = 0; i < n->n_out; i++)
            header_free(n->out[i]);
        return NULL;
    }
    node_commit(tape, n);
    if (node_prepare(n)) return NULL;
    try_to_absorb(n);
    bool waits = (n->op->flags & OP_DEFER) && !(has_borrowed && reads_borrowed(n));
    if (!waits && node_run(n)) return NULL;
    return n;
}

det_tensor *op_apply(const struct op *op, det_tensor *const *in, int n_in, const void *attr,
                     size_t attr_bytes)
{
    struct node *n = op_record(op, in, n_in, attr, attr_bytes);
    return n ? n->out[0] : NULL;
}

// Not through op_record: t has its value, and keeps its place on the tape of tensors.
struct node *tensor_renew(det_tensor *t, const struct op *op, det_tensor *const *in, int n_in,
                          const void *attr, size_t attr_bytes)
{
    struct tape *tape = tape_get();
    struct node *n = node_new(tape, op, in, n_in);
    for (int i = 0; i < n_in; i++) {
        n->in_wants[i] = in[i]->requires_grad;
        tensor_ref(in[i]);
    }
    memcpy(n->attr, attr, attr_bytes);
    n->state = NODE_DONE;
    n->tracked = n->renews = true;
    n->out[n->n_out++] = t;
    n->out_version = t->storage->version;
    n->out_history = t->storage->history;
    n->before = t->node;
    node_push(tape, n);
    tensor_release(t->grad); // left from when it was a leaf
    t->grad = NULL;
    t->grad_valid = false;
    t->node = n;
    t->requires_grad = true;
    tape->has_renewed = true;
    return n;
}

void node_rewrite(struct node *n, const struct op *op, det_tensor *const *in, int n_in,
                  const void *attr, size_t attr_bytes)
{
    struct tape *tape = tape_get();
    det_tensor **old = n->in;
    int n_old = n->n_in;
    n->op = op;
    set_in_arrays(n, tape_alloc(tape, (size_t)n_in * IN_BYTES), n_in);
    n->n_in = (uint8_t)n_in;
    for (int i = 0; i < n_in; i++) {
        n->in[i] = tensor_ref(in[i]);
        n->in_wants[i] = in[i] && in[i]->requires_grad;
    }
    for (int i = 0; i < n_old; i++)
        tensor_release(old[i]);
    memcpy(n->attr, attr, attr_bytes);
}

// --- running

static int finish_inputs(struct node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        det_tensor *t = n->in[i];
        if (t && !t->data) tensor_finish(t);
        n->in_version[i] = version_of(t);
    }
    return sticky_failed() ? DET_ESTATE : 0;
}

// The input of a merged node that is not what it was when the node was called and did not read it;
// -1: none.
static int changed_input(const struct node *n)
{
    for (int i = 0; i < n->n_in && n->state == NODE_ABSORBED; i++)
        if (version_of(n->in[i]) != n->in_version[i]) return i;
    return -1;
}

bool node_can_run(const struct node *n)
{
    return n->state == NODE_PENDING || (n->state == NODE_ABSORBED && changed_input(n) < 0);
}

static int node_run(struct node *n)
{
    int changed = changed_input(n);
    if (changed >= 0)
        return node_fail(n, DET_ESTATE,
                         "its value was merged into the next operation and never computed; now "
                         "input %d %s was changed in place; read it earlier",
                         changed, TENSOR_TEXT(n->in[changed]));
    if (n->state == NODE_PENDING) tape_get()->n_pending--;
    n->state = NODE_DONE;
    int rc = finish_inputs(n);
    if (!rc && !(n->op->flags & OP_VIEW)) rc = node_allocate(n);
    if (!rc) rc = n->op->forward(n);
    if (rc && !sticky_failed()) node_fail(n, rc, "failed");
    if (!rc && n->out[0]->storage) {
        n->out_version = n->out[0]->storage->version;
        n->out_history = n->out[0]->storage->history;
    }
    return rc;
}

void tensor_finish(det_tensor *t)
{
    struct node *n = t->node;
    if (t->data || sticky_failed()) return;
    if (n && (n->state == NODE_PENDING || n->state == NODE_ABSORBED)) node_run(n);
    if (!t->data && t->numel && !sticky_failed())
        det_raise(DET_ESTATE,
                  "the tensor %s was put off and can no longer be computed: there was an error, or "
                  "its scope ended after its inputs were changed in place",
                  TENSOR_TEXT(t));
}

void tape_finish(struct tape *tape)
{
    for (int i = tape->n_nodes; tape->n_pending > 0 && i-- > 0 && !sticky_failed();)
        if (tape->nodes[i]->state == NODE_PENDING) node_run(tape->nodes[i]);
}

static bool reads_storage(const struct node *n, const struct storage *s)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->storage == s) return true;
    return false;
}

void finish_readers(const struct node *n, int i)
{
    const struct tape *tape = tape_get();
    int left = tape->n_pending - (n->state == NODE_PENDING);
    for (int k = n->index; left > 0 && k-- > 0;) {
        struct node *reader = tape->nodes[k];
        if (reader->state != NODE_PENDING) continue;
        left--;
        if (reads_storage(reader, n->in[i]->storage)) node_run(reader);
    }
}

void finish_merged(struct tape *tape, const struct storage *s)
{
    if (!tape->has_merged) return;
    tape->has_merged = false;
    for (int i = 0; i < tape->n_nodes; i++) {
        struct node *n = tape->nodes[i];
        if (n->state != NODE_ABSORBED) continue;
        if (reads_storage(n, s) && node_can_run(n))
            node_run(n);
        else
            tape->has_merged = true;
    }
}

void tape_finish_all(void)
{
    tape_finish(tape_get());
}

// --- for infer

int node_dim(const struct node *n, int64_t dim, int ndim, int *out)
{
    int64_t limit = MAX(ndim, 1), d = dim < 0 ? dim + limit : dim;
    if (d < 0 || d >= limit)
        return node_fail(n, DET_ESHAPE, "dim %lld is not in %lld .. %lld", (long long)dim,
                         (long long)-limit, (long long)limit - 1);
    *out = (int)d;
    return 0;
}

const struct op *op_find(const char *name)
{
    for (int i = 0; i < n_ops; i++)
        if (!strcmp(op_table[i]->name, name)) return op_table[i];
    return NULL;
}
