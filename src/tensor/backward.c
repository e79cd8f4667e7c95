// Unit backward.c: sends gradients down the tape.
//
// The tape is in the order of the calls, so walking it backwards visits every consumer before its
// producer. A gradient lives on the tensor it belongs to: for an intermediate from its first
// arrival until its node has passed it on, for a leaf until det_zero_grad. What a write in place
// does to this is told in history.c.
#include "tensor/node.h"

#include "tensor/elementwise.h"

// Gradients are passed on without copying, so several tensors may hold the same one; it is copied
// when somebody wants to add to it.
static bool is_shared(const det_tensor *t)
{
    return t->refs > 1 || t->storage->refs > 1;
}

det_tensor *out_grad_to_write(const struct node *n, int i, det_tensor *g)
{
    int known = g == out_grad(n, i) ? 2 : 1; // the caller's reference, and the output's
    if (g->refs == known && g->storage->refs == 1) return tensor_ref(g);
    return tensor_new_like(g);
}

static det_tensor *private_copy(det_tensor *g)
{
    det_tensor *c = tensor_new_like(g);
    if (c) ew_copy(c, g);
    tensor_release(g);
    return c;
}

// In the same order: what it came from will want it so again.
static det_tensor *converted(det_tensor *g, det_dtype dtype)
{
    enum tensor_order order = tensor_is_channels_last(g) ? CHANNELS_LAST : ROW_MAJOR;
    det_tensor *c = tensor_new_ordered(dtype, g->shape, g->ndim, order);
    if (c) ew_copy(c, g);
    tensor_release(g);
    return c;
}

// dst += g
static void accumulate(det_tensor *dst, det_tensor *g)
{
    ew_run(ew_axpy((det_dtype)dst->dtype), (det_tensor *const[]){dst, g}, 2, (double[]){1, 0});
}

void receive_grad(det_tensor *t, det_tensor *g)
{
    tensor_finish(g);
    ASSERT(same_shape(t, g));
    if (g->dtype != t->dtype) g = converted(g, (det_dtype)t->dtype);
    if (!g) return;
    bool is_leaf = !t->node;
    if (!t->grad) {
        t->grad = is_leaf && is_shared(g) ? private_copy(g) : g;
    } else {
        if (!t->grad_valid) {
            ew_copy(t->grad, g);
        } else {
            if (is_shared(t->grad) && !is_leaf) t->grad = private_copy(t->grad);
            if (t->grad) accumulate(t->grad, g);
        }
        tensor_release(g);
    }
    t->grad_valid = t->grad != NULL;
}

void give_grad(struct node *n, int i, det_tensor *g)
{
    if (g) receive_grad(n->in[i], g);
}

// Whether g has the strides that a new gradient of t gets: those of t, or row-major.
static bool lies_like(const det_tensor *g, const det_tensor *t)
{
    if (!tensor_is_dense(t)) return tensor_is_row_major(g);
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] > 1 && g->stride[d] != t->stride[d]) return false;
    return true;
}

det_tensor *grad_target(struct node *n, int i, bool *accumulate_out)
{
    det_tensor *t = n->in[i], *old = t->grad;
    bool is_leaf = !t->node, fits = old && lies_like(old, t) && (is_leaf || !is_shared(old));
    *accumulate_out = old && t->grad_valid;
    if (!fits) {
        t->grad = tensor_new_like(t);
        if (t->grad && *accumulate_out) ew_copy(t->grad, old);
        tensor_release(old);
    }
    t->grad_valid = t->grad != NULL;
    return t->grad;
}

// --- the walk

// What backward is going to read: bit i for input i, SAVES_OUT for output 0.
static unsigned reads(const struct node *n)
{
    const struct op *op = n->op;
    unsigned mask = op->saves_in | (op->saves_out ? SAVES_OUT : 0);
    for (int i = 0; i < 2; i++)
        if (wants_grad(n, i)) mask |= op->saves_for[i];
    return mask;
}

static int versions_ok(const struct node *n)
{
    unsigned mask = reads(n);
    for (int i = 0; i < n->n_in && i < 7; i++) {
        if (!(mask >> i & 1) || !n->in[i]) continue;
        if (n->in[i]->storage->version != n->in_version[i])
            return node_fail(n, DET_ESTATE,
                             "input %d %s was changed in place after it was used, so its gradient "
                             "cannot be computed; write into a det_clone of it",
                             i, TENSOR_TEXT(n->in[i]));
    }
    if ((mask & SAVES_OUT) && n->out[0]->storage->version != n->out_version)
        return node_fail(n, DET_ESTATE,
                         "its result %s was changed in place, so the gradient cannot be computed; "
                         "write into a det_clone of it",
                         TENSOR_TEXT(n->out[0]));
    return 0;
}

static bool has_out_grad(const struct node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]->grad) return true;
    return false;
}

static void drop_out_grads(struct node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        tensor_release(n->out[i]->grad);
        n->out[i]->grad = NULL;
        n->out[i]->grad_valid = false;
    }
}

static bool result_is_empty(const struct node *n)
{
    if (n->out[0]->numel) return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]->requires_grad && n->out[i]->numel) return false;
    return true;
}

// Nothing depends on the inputs of an operation with an empty result.
static void give_zeros(struct node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!wants_grad(n, i)) continue;
        det_tensor *zero = tensor_new_like(n->in[i]);
        if (zero) memset(zero->data, 0, zero->storage->n_bytes);
        give_grad(n, i, zero);
    }
}

static void node_backward(struct tape *tape, struct node *n, bool retain)
{
    if (n->state == NODE_CONSUMED) {
        node_fail(n, DET_ESTATE,
                  "backward went through here before; pass .retain_graph = true the first time");
        return;
    }
    if (versions_ok(n)) return;
    const struct scope_mark before = scope_mark(tape);
    if (result_is_empty(n))
        give_zeros(n);
    else
        n->op->backward(n);
    // What the rule made besides gradients goes away at once.
    if (tape->n_tensors != before.n_tensors) scope_pop(tape, &before);
    if (retain) return;
    n->state = NODE_CONSUMED;
    node_release_aux(n);
}

static det_tensor *ones_like(const det_tensor *loss)
{
    det_tensor *one = tensor_new((det_dtype)loss->dtype, loss->shape, loss->ndim);
    if (one) ew_fill(one, 1);
    return one;
}

static det_tensor *first_grad(struct tape *tape, det_tensor *loss, det_tensor *given)
{
    if (given) {
        if (same_shape(loss, given))
            return tensor_converted(given, (det_dtype)loss->dtype, ROW_MAJOR);
        det_raise(DET_ESHAPE, "backward: the gradient is %s, the result %s", TENSOR_TEXT(given),
                  TENSOR_TEXT(loss));
        return NULL;
    }
    if (loss->numel != 1) {
        det_raise(DET_ESHAPE,
                  "backward: the result %s is not a single number; pass its gradient with .grad",
                  TENSOR_TEXT(loss));
        return NULL;
    }
    if (loss->dtype != DET_F32 || loss->ndim) return ones_like(loss);
    if (!tape->one) tape->one = ones_like(loss);
    return tensor_ref(tape->one);
}

// What det_grad_of asked for: gradients of tensors that are not leaves are taken on the way.
struct targets {
    det_tensor *const *in;
    det_tensor **out; // references
    int n;
};

static bool wants_any(const struct node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in_wants[i]) return true;
    return false;
}

static void take_targets(const struct targets *t, const struct node *n)
{
    for (int i = 0; i < t->n; i++)
        if (t->in[i]->node == n && t->in[i]->grad && !t->out[i])
            t->out[i] = tensor_ref(t->in[i]->grad);
}

static void walk(struct tape *tape, int from, bool retain, const struct targets *targets)
{
    for (int i = from; i >= 0 && !sticky_failed(); i--) {
        struct node *n = tape->nodes[i];
        if (!n->tracked || !has_out_grad(n)) continue;
        if (tape->has_hooks) run_output_hooks(tape, n);
        if (targets) take_targets(targets, n);
        if (wants_any(n)) node_backward(tape, n, retain);
        bool is_write = n->in[0] == n->out[0]; // it has taken its gradient and given another
        if (!is_write) drop_out_grads(n);
    }
    for (int i = from; i >= 0 && sticky_failed(); i--) // the next backward starts clean
        if (tape->nodes[i]->tracked) drop_out_grads(tape->nodes[i]);
}

static bool depends(const char *function, const det_tensor *result)
{
    if (!result || sticky_failed()) return false;
    if (det_has_requires_grad(result)) return true;
    det_raise(DET_ESTATE,
              "%s: the result %s does not depend on anything that requires a "
              "gradient",
              function, TENSOR_TEXT(result));
    return false;
}

// From the gradient g of result, whose reference it takes, to the beginning of the tape.
static void walk_from(struct tape *tape, det_tensor *result, det_tensor *g, bool retain,
                      const struct targets *targets)
{
    if (!result->node) { // a leaf is its own gradient's destination
        receive_grad(result, g);
        return;
    }
    tensor_release(result->grad);
    result->grad = g;
    bool old = det_set_grad_enabled(false), cast = det_set_autocast(false);
    walk(tape, result->node->index, retain, targets);
    det_set_grad_enabled(old);
    det_set_autocast(cast);
}

void det_backward_with(det_tensor *loss, det_backward_opts opts)
{
    struct tape *tape = tape_get();
    if (!depends("backward", loss)) return;
    tensor_finish(loss);
    if (sticky_failed()) return;
    det_tensor *g = first_grad(tape, loss, opts.grad);
    if (!g) return;
    struct kept_grads kept = {0};
    if (tape->has_hooks) keep_hooked(&kept, tape, loss->node ? loss->node->index : -1);
    if (tape->has_hooks && !loss->node) keep_grad(&kept, loss);
    walk_from(tape, loss, g, opts.retain_graph, NULL);
    if (kept.n) restore_grads(&kept, sticky_failed());
}

// --- gradients by some tensors only

static bool is_target(const struct targets *t, const det_tensor *x)
{
    for (int i = 0; i < t->n; i++)
        if (t->in[i] == x) return true;
    return false;
}

// Inputs that lead to no target want nothing while this lasts. Returns what all inputs of the nodes
// wanted before, in order.
static bool *narrow(const struct tape *tape, const struct targets *t, int last)
{
    size_t count = 0;
    for (int i = 0; i <= last; i++)
        count += tape->nodes[i]->n_in;
    bool *wanted = xcalloc(count + 1, sizeof *wanted), *at = wanted;
    for (int i = 0; i < t->n; i++)
        t->in[i]->leads = true;
    for (int i = 0; i <= last; i++) {
        struct node *n = tape->nodes[i];
        bool leads = false;
        for (int k = 0; k < n->n_in; k++, at++) {
            *at = n->in_wants[k];
            n->in_wants[k] = *at && n->in[k] && n->in[k]->leads;
            leads |= n->in_wants[k];
        }
        for (int k = 0; k < n->n_out; k++)
            n->out[k]->leads = leads || is_target(t, n->out[k]);
    }
    return wanted;
}

static void widen(const struct tape *tape, const struct targets *t, int last, bool *wanted)
{
    const bool *at = wanted;
    for (int i = 0; i <= last; i++) {
        struct node *n = tape->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            n->in_wants[k] = *at++;
        for (int k = 0; k < n->n_out; k++)
            n->out[k]->leads = false;
    }
    for (int i = 0; i < t->n; i++)
        t->in[i]->leads = false;
    free(wanted);
}

static void take_leaves(const struct targets *t)
{
    for (int i = 0; i < t->n && !sticky_failed(); i++)
        if (!t->in[i]->node && t->in[i]->grad_valid) t->out[i] = tensor_ref(t->in[i]->grad);
}

// Hands the gradients over to the scope. All must be there unless told otherwise.
static int give_targets(struct tape *tape, const struct targets *t, bool allow_unused)
{
    for (int i = 0; i < t->n; i++) {
        if (t->out[i])
            tape_own(tape, t->out[i]);
        else if (!allow_unused && !sticky_failed())
            det_raise(
                DET_ESTATE,
                "det_grad_of: the result does not depend on input %d %s; pass .allow_unused = "
                "true to get NULL for it",
                i, TENSOR_TEXT(t->in[i]));
    }
    for (int i = 0; i < t->n && sticky_failed(); i++)
        t->out[i] = NULL;
    return sticky_failed() ? DET_ESTATE : 0;
}

static bool are_targets(const struct targets *t)
{
    for (int i = 0; i < t->n && !sticky_failed(); i++) {
        if (!t->in || !t->in[i])
            det_raise(DET_EINVAL, "det_grad_of: input %d is NULL", i);
        else if (!det_has_requires_grad(t->in[i]))
            det_raise(DET_ESTATE, "det_grad_of: input %d %s does not require a gradient", i,
                      TENSOR_TEXT(t->in[i]));
    }
    return !sticky_failed();
}

int det_grad_of_with(det_tensor *result, det_tensor *const *inputs, int n, det_tensor **out,
                     det_grad_opts opts)
{
    struct tape *tape = tape_get();
    struct targets t = {inputs, out, out ? n : 0};
    for (int i = 0; i < t.n; i++)
        out[i] = NULL;
    if (!depends("det_grad_of", result) || !are_targets(&t)) return DET_ESTATE;
    tensor_finish(result);
    det_tensor *g = sticky_failed() ? NULL : first_grad(tape, result, opts.grad);
    if (!g) return DET_ESTATE;
    int last = result->node ? result->node->index : -1;
    struct kept_grads kept = {0};
    for (int i = 0; i < t.n; i++)
        if (!inputs[i]->node) keep_grad(&kept, inputs[i]);
    if (!result->node) keep_grad(&kept, result);
    bool *wanted = narrow(tape, &t, last);
    walk_from(tape, result, g, opts.retain_graph, &t);
    widen(tape, &t, last, wanted);
    if (tape->has_hooks) run_leaf_hooks(&kept);
    take_leaves(&t);
    restore_grads(&kept, true);
    return give_targets(tape, &t, opts.allow_unused);
}

// --- leaves

// Nodes that were recorded while t required a gradient do not owe it one any more.
static void forget_leaf(const struct tape *tape, const det_tensor *t)
{
    for (int i = 0; i < tape->n_nodes; i++)
        for (int k = 0; k < tape->nodes[i]->n_in; k++)
            if (tape->nodes[i]->in[k] == t) tape->nodes[i]->in_wants[k] = false;
}

det_tensor *det_requires_grad(det_tensor *t, bool on)
{
    if (!t || sticky_failed() || (!on && !det_has_requires_grad(t))) return t;
    if (t->node && !t->node->tracked) {
        tensor_finish(t); // a computed constant becomes a leaf
        t->node = NULL;
    }
    if (t->node)
        det_raise(DET_ESTATE, "det_requires_grad: %s is not a leaf", TENSOR_TEXT(t));
    else if (on && (!dtype_is_float((det_dtype)t->dtype) || dtype_is_stored((det_dtype)t->dtype)))
        det_raise(DET_EDTYPE, "det_requires_grad: %s tensors have no gradient",
                  det_dtype_name((det_dtype)t->dtype));
    else
        t->requires_grad = on;
    if (!on && !sticky_failed()) forget_leaf(tape_get(), t);
    return t;
}

bool det_has_requires_grad(const det_tensor *t)
{
    if (!t) return false;
    if (tape_get()->has_renewed && !sticky_failed()) view_renew((det_tensor *)(uintptr_t)t);
    return t->requires_grad;
}

det_tensor *det_grad(det_tensor *t)
{
    return t && t->grad_valid ? t->grad : NULL;
}

void det_zero_grad(det_tensor *t)
{
    if (t) t->grad_valid = false; // the memory stays for the next backward
}

void tensor_set_grad_valid(det_tensor *t, bool valid)
{
    t->grad_valid = valid;
}
