// tensor/node.h: the inside of tensors, tapes and operations. Private to the layer.
//
// A tensor is a header (shape, strides) over a storage (memory with a version number). A node is
// one recorded call of an operation. The tape of a thread is three stacks (tensors, nodes, a bump
// arena for the nodes); a scope is a mark on each of them. A tensor's history is the node that made
// it; a write in place gives it another one (history.c).
#pragma once

#include "base/assert.h"
#include "base/mem.h"
#include "tensor/tensor.h"
#include <stdatomic.h>

struct storage {
    int refs;
    uint32_t version;  // counts writes in place
    uint32_t history;  // counts those that gave a tensor another history, and the ends of those
    uint16_t class_id; // of the allocator
    bool borrowed;     // memory of the user; no slack behind it
    size_t n_bytes;
    void *data;
};

struct det_tensor {
    int refs;
    uint8_t dtype, ndim;
    bool requires_grad; // a gradient is wanted for it or through it
    bool grad_valid;    // leaf: grad holds a gradient
    bool on_tape;       // a scope owns one reference
    bool leads;         // while det_grad_of looks for it: to something that was asked for
    int64_t numel;
    void *data;              // first element; NULL until the node has run
    struct storage *storage; // NULL until then
    struct node *node;       // what made it; NULL for a leaf
    det_tensor *grad;
    struct hook *hooks; // what looks at its gradient, in the order of calls
    int64_t shape[DET_MAX_DIMS], stride[DET_MAX_DIMS]; // ndim of each; strides in elements
};

struct dims {
    int n;
    int64_t v[DET_MAX_DIMS];
};

enum { NODE_MAX_OUT = 3, NODE_MAX_AUX = 5, NODE_ATTR_BYTES = 160 };

enum node_state {
    NODE_PENDING,  // recorded, not run
    NODE_DONE,     // outputs hold values
    NODE_ABSORBED, // merged into its consumer; runs on its own only if somebody else asks
    NODE_CONSUMED, // backward went through and released what it needed
};

struct node {
    const struct op *op;
    const struct origin *origin;
    uint8_t n_in, n_out, state;
    bool tracked;         // takes part in backward
    bool no_grad;         // gradients were off when it was called
    bool renews;          // out[0] existed before: see history.c
    int index;            // on the tape
    det_tensor **in;      // n_in, each may be NULL if the operation allows it; references held
    uint32_t *in_version; // of the storages when the node ran
    bool *in_wants;       // whether the input required a gradient when the node was recorded
    uint32_t out_version; // of out[0]
    uint32_t out_history;
    struct node *before; // of a node that renews: what had made out[0] until then
    det_tensor
        *out[NODE_MAX_OUT]; // not references: outputs outlive their node or die with the scope
    det_tensor *aux[NODE_MAX_AUX]; // kept for backward (masks, statistics); references held
    _Alignas(16) char attr[NODE_ATTR_BYTES];
};

#define NODE_ATTR(n, type) ((type *)(void *)(n)->attr)

// Input i; NULL if it was left out.
static inline det_tensor *node_in(const struct node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

// --- operations: one row each

enum attr_type { ATTR_INT, ATTR_REAL, ATTR_BOOL, ATTR_DIMS, ATTR_PAIR }; // pair: int64_t[2]

struct attr_field {
    const char *name; // NULL ends the list
    enum attr_type type;
    size_t offset;
};

enum op_flags {
    OP_VIEW = 1,     // output shares the memory of input 0; forward only sets pointers
    OP_DEFER = 2,    // waits for its consumer, which may absorb it
    OP_PROMOTE = 4,  // inputs are converted to their common type first
    OP_FLOAT = 8,    // float inputs only: integers, all of them, are converted to f32
    OP_F32 = 16,     // under autocast: bf16 inputs are converted to f32
    OP_RANDOM = 32,  // takes a number of the random stream
    OP_NUMBERS = 64, // not for bool, converted or not
    OP_STORED = 128, // for the types of dtype_is_stored() as well
};

enum { SAVES_OUT = 1 << 7 }; // in saves_for: output 0

struct op {
    const char *name;
    uint8_t min_in, max_in; // inputs from min_in on may be NULL
    uint8_t flags;
    uint8_t saves_in;                // bit i: backward reads input i
    uint8_t saves_for[2];            // what else it reads for the gradient of input 0, of input 1
    bool saves_out;                  // backward reads output 0
    int (*infer)(struct node *n);    // checks inputs, describes outputs: node_out()
    int (*prepare)(struct node *n);  // OP_DEFER: what must not wait, such as writes; NULL: nothing
    int (*forward)(struct node *n);  // outputs are allocated; 0 or a code set by node_fail()
    int (*backward)(struct node *n); // NULL: not differentiable, outputs do not require gradients
    const struct attr_field *attrs;
    const char *const *cases; // test inputs: see tests/support/op_cases.h; NULL ends the list
};

// Every operation, in the order of ops.c; n_ops of them.
extern const struct op *const op_table[];
extern const int n_ops;
const struct op *op_find(const char *name);

// Records and runs (or puts off) one call. attr is copied. Returns output 0 or NULL.
det_tensor *op_apply(const struct op *op, det_tensor *const *in, int n_in, const void *attr,
                     size_t attr_bytes);
// As above, returning the node: for operations with several outputs.
struct node *op_record(const struct op *op, det_tensor *const *in, int n_in, const void *attr,
                       size_t attr_bytes);

#define OP_APPLY(op, attr, ...)                                                          \
    op_apply(op, (det_tensor *const[]){__VA_ARGS__},                                     \
             sizeof((det_tensor *const[]){__VA_ARGS__}) / sizeof(det_tensor *), &(attr), \
             sizeof(attr))
#define OP_APPLY0(op, ...)                           \
    op_apply(op, (det_tensor *const[]){__VA_ARGS__}, \
             sizeof((det_tensor *const[]){__VA_ARGS__}) / sizeof(det_tensor *), NULL, 0)

// The type that operands of different types are converted to; NULLs do not count.
det_dtype common_type(det_tensor *const *in, int n_in);

// --- for infer

// Fills the sticky error: "<op> '<module>': <message>". Returns code.
int node_fail(const struct node *n, int code, const char *fmt, ...) DET_PRINTF(3, 4);

// The type that tensors of several types have in common, as torch promotes them; NULL is skipped.
det_dtype common_type(det_tensor *const *in, int n_in);

// Describes the next output: row-major, or with the given strides. Returns 0 or a code.
int node_out(struct node *n, det_dtype dtype, const int64_t *shape, int ndim);
int node_out_strided(struct node *n, det_dtype dtype, const int64_t *shape, const int64_t *stride,
                     int ndim);
// Same shape as t, and same order of strides if t is dense.
int node_out_like(struct node *n, det_dtype dtype, const det_tensor *t);

int node_out_channels_last(struct node *n, det_dtype dtype, const int64_t *shape); // (N, C, H, W)

// Turns a negative dim into 0 .. ndim-1; fails naming the range.
int node_dim(const struct node *n, int64_t dim, int ndim, int *out);

// Whether a number can become an element: not if an integer type cannot hold it.
bool dtype_holds(det_dtype dtype, double value);

// "(64, 10)" in one of a few rotating buffers, for messages.
const char *shape_text(const int64_t *shape, int ndim);
#define TENSOR_TEXT(t) shape_text((t)->shape, (t)->ndim)

// --- for forward and backward

// A new dense tensor with memory, owned by the caller (tensor_release). NULL after DET_ENOMEM.
det_tensor *tensor_new(det_dtype dtype, const int64_t *shape, int ndim);
det_tensor *tensor_new_like(const det_tensor *t); // dtype, shape and order of strides of t

// det_ref and det_unref, inside the layer. An analyzer that saw them test for NULL would take it
// for a doubt of every caller.
void tensor_free(det_tensor *t);
#if defined(__clang_analyzer__)
det_tensor *tensor_ref(det_tensor *t);
void tensor_release(det_tensor *t);
#else
static inline det_tensor *tensor_ref(det_tensor *t)
{
    if (t) t->refs++;
    return t;
}
static inline void tensor_release(det_tensor *t)
{
    if (t && !--t->refs) tensor_free(t);
}
#endif

static inline void node_release_aux(struct node *n)
{
    for (int i = 0; i < NODE_MAX_AUX; i++) {
        tensor_release(n->aux[i]);
        n->aux[i] = NULL;
    }
}

// How the elements of a tensor lie in memory. Channels last: (N, C, H, W) stored as (N, H, W, C),
// the order that image kernels like.
enum tensor_order { ROW_MAJOR, CHANNELS_LAST };
det_tensor *tensor_new_ordered(det_dtype dtype, const int64_t *shape, int ndim,
                               enum tensor_order order);
// t in that type and order: t itself with another reference, or a copy. Release it.
det_tensor *tensor_converted(det_tensor *t, det_dtype dtype, enum tensor_order order);
bool tensor_is_dense_in_some_order(const det_tensor *t);
bool tensor_is_channels_last(const det_tensor *t);

static inline bool tensor_is_row_major(const det_tensor *t)
{
    int64_t expected = 1;
    for (int d = t->ndim; d-- > 0; expected *= t->shape[d])
        if (t->shape[d] != 1 && t->stride[d] != expected) return false;
    return true;
}

// As tensor_converted, in its own type.
static inline det_tensor *tensor_row_major(det_tensor *t)
{
    if (t->data && tensor_is_row_major(t)) return tensor_ref(t);
    return tensor_converted(t, (det_dtype)t->dtype, ROW_MAJOR);
}

// No gaps, no overlaps.
static inline bool tensor_is_dense(const det_tensor *t)
{
    return tensor_is_row_major(t) || tensor_is_dense_in_some_order(t);
}

static inline bool wants_grad(const struct node *n, int i)
{
    return i < n->n_in && n->in_wants[i];
}

// Gradient that arrived for output i; NULL if nobody sent one.
static inline det_tensor *out_grad(const struct node *n, int i)
{
    return n->out[i]->grad;
}

// For a rule that changes the gradient of output i on its way: `g` itself, which is that gradient
// in some form, if nobody else holds it, else a new tensor like it. Release it. NULL after an
// error.
det_tensor *out_grad_to_write(const struct node *n, int i, det_tensor *g);
// Hands over the gradient of input i; takes the reference to g. NULL g: an error is already set.
void give_grad(struct node *n, int i, det_tensor *g);
// Where the gradient of input i may be written directly (row-major or like the input); *accumulate
// says whether to add to what is there. NULL after an error.
det_tensor *grad_target(struct node *n, int i, bool *accumulate);
// g summed over the dims that were broadcast from shape; takes and gives references.
det_tensor *sum_to_shape(det_tensor *g, const det_tensor *like);

// --- tape

// Where a scope began.
struct scope_mark {
    int n_tensors, n_nodes;
    struct chunk *chunk;
    size_t chunk_used;
};

struct tape {
    det_tensor **tensors;
    int n_tensors, cap_tensors;
    struct node **nodes;
    int n_nodes, cap_nodes;
    struct scope_mark *marks;
    int n_marks, cap_marks;
    struct chunk *chunk;        // bump arena, newest chunk first
    struct chunk *spare_chunks; // emptied by a scope's end, used by the next one
    int n_pending;
    bool no_grad, autocast;
    bool has_merged;  // some node may be NODE_ABSORBED
    bool has_renewed; // some tensor got another history since the thread began
    bool has_hooks;   // some tensor got a hook since then
    const struct origin *origin;
    det_rng_state rng;
    det_tensor *one; // the gradient that most backward passes start with; NULL until then
    det_warning_handler warning;
    char **warned; // n_warned places, each a text of its own
    int n_warned;
};

extern THREAD_LOCAL struct tape *thread_tape; // NULL before the first use
struct tape *tape_new(void);
static inline struct tape *tape_get(void)
{
    return thread_tape ? thread_tape : tape_new();
}
void *tape_alloc(struct tape *tape, size_t n_bytes);
void tape_own(struct tape *tape, det_tensor *t); // the current scope takes the caller's reference
struct scope_mark scope_mark(const struct tape *tape);
void scope_pop(struct tape *tape, const struct scope_mark *to); // ends all that began later
int node_allocate(struct node *n);                              // memory for its outputs
void tape_finish(struct tape *tape);                            // runs all pending nodes
bool node_can_run(const struct node *n); // it has not yet, and its inputs are as they were
// Computes the results that were merged into others and read s, while they still can be.
void finish_merged(struct tape *tape, const struct storage *s);
// Runs what was put off before n and reads the memory of its input i, which n is going to change.
void finish_readers(const struct node *n, int i);

// --- history: see history.c

static inline bool is_differentiable_view(const struct node *n)
{
    return n && (n->op->flags & OP_VIEW) && n->op->backward;
}

// What t looks at: t itself if it is no view, or only one without history (det_detach).
det_tensor *tensor_base(det_tensor *t);
// From now on t, which exists, is what op made of in, which has t in it. attr is copied.
struct node *tensor_renew(det_tensor *t, const struct op *op, det_tensor *const *in, int n_in,
                          const void *attr, size_t attr_bytes);
// Brings the history of a view up to date with that of its base. An error if it cannot be.
void view_renew(det_tensor *t);
// Nodes from index `first` on are about to go: the tensors that they renewed lose their history.
void forget_renewals(struct tape *tape, int first);

// --- hooks: see hooks.c

// A leaf whose gradient is put aside, so that a walk gathers another one.
struct kept_grad {
    det_tensor *t, *grad; // references
    bool valid;
};
struct kept_grads {
    struct kept_grad *v;
    int n;
};
void keep_grad(struct kept_grads *kept, det_tensor *leaf); // once for each
// Puts the leaves with hooks aside that nodes up to this one read.
void keep_hooked(struct kept_grads *kept, const struct tape *tape, int last);
// Runs the hooks on what the leaves have got, and adds it to what was put aside; or, discarding it,
// only brings that back.
void restore_grads(struct kept_grads *kept, bool discard);
void run_leaf_hooks(const struct kept_grads *kept);
// Runs the hooks of outputs of n on their gradients.
void run_output_hooks(struct tape *tape, const struct node *n);
void hooks_free(det_tensor *t);
// Adds g to the gradient of t; takes the reference to g.
void receive_grad(det_tensor *t, det_tensor *g);

// --- allocator

extern atomic_bool has_borrowed; // somebody has called storage_borrow
struct storage *storage_borrow(void *data, size_t n_bytes);
det_tensor *header_new(void); // refs = 1, all else zero but shape and strides
void header_free(det_tensor *t);

// Memory of the calling thread, at least n_bytes, 64-byte aligned, content undefined, valid until
// the same slot is asked for again. NULL (and no error set) when there is no memory.
enum scratch_slot { SCRATCH_A, SCRATCH_B, SCRATCH_C, SCRATCH_D, N_SCRATCH };
void *scratch(enum scratch_slot slot, size_t n_bytes);
