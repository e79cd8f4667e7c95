// Unit function.c: operations of the user's own, with a gradient of their own (det_apply).
//
// A call is a node like that of any operation. Its forward runs while it is recorded, with gradients
// off, because only the result tells its shape; the node's output looks at the memory of that.
#include "tensor/node.h"

#include "tensor/elementwise.h"

enum { MAX_SAVED = 4, AUX_RESULT = MAX_SAVED };

struct function_attr {
    const det_function *function;
    void *user;
    uint32_t saved_version[MAX_SAVED];
    bool is_recorded;
};

static struct node *node_of(const det_call *c)
{
    return (struct node *)(uintptr_t)c;
}

static det_call *call_of(struct node *n)
{
    return (det_call *)(void *)n;
}

static int function_infer(struct node *n)
{
    const struct function_attr *a = NODE_ATTR(n, struct function_attr);
    bool old = det_set_grad_enabled(false);
    det_tensor *y = a->function->forward(call_of(n));
    det_set_grad_enabled(old);
    if (!y && !sticky_failed()) return node_fail(n, DET_EINVAL, "its forward gave NULL");
    if (y) tensor_finish(y);
    if (sticky_failed()) return DET_ESTATE;
    int rc = node_out_strided(n, (det_dtype)y->dtype, y->shape, y->stride, y->ndim);
    if (rc) return rc;
    n->aux[AUX_RESULT] = tensor_ref(y);
    n->out[0]->storage = y->storage;
    n->out[0]->data = y->data;
    y->storage->refs++;
    return 0;
}

static int function_forward(struct node *n)
{
    NODE_ATTR(n, struct function_attr)->is_recorded = true;
    return 0;
}

static int function_backward(struct node *n)
{
    const det_function *f = NODE_ATTR(n, struct function_attr)->function;
    det_tensor **grad = tape_alloc(tape_get(), (size_t)n->n_in * sizeof *grad);
    memset(grad, 0, (size_t)n->n_in * sizeof *grad);
    f->backward(call_of(n), out_grad(n, 0), grad);
    for (int i = 0; i < n->n_in && !sticky_failed(); i++) {
        if (!wants_grad(n, i) || !grad[i]) continue;
        if (!same_shape(grad[i], n->in[i]))
            return node_fail(n, DET_ESHAPE, "its backward gave the gradient %s for input %d %s",
                             TENSOR_TEXT(grad[i]), i, TENSOR_TEXT(n->in[i]));
        give_grad(n, i, tensor_ref(grad[i]));
    }
    return sticky_failed() ? DET_ESTATE : 0;
}

det_tensor *det_apply(const det_function *f, det_tensor *const *in, int n_in, void *user)
{
    if (sticky_failed()) return NULL;
    if (!f || !f->forward || !in || n_in < 1 || n_in > UINT8_MAX) {
        det_raise(DET_EINVAL, "det_apply: %s with %d inputs; wants a forward, and 1 to %d of them",
                  f && f->name ? f->name : "a function", n_in, UINT8_MAX);
        return NULL;
    }
    struct op *op = tape_alloc(tape_get(), sizeof *op); // for the name in messages
    *op = (struct op){.name = f->name ? f->name : "function",
                      .min_in = 1,
                      .max_in = UINT8_MAX,
                      .flags = 0,
                      .infer = function_infer,
                      .forward = function_forward,
                      .backward = f->backward ? function_backward : NULL};
    struct function_attr a = {.function = f, .user = user};
    return op_apply(op, in, n_in, &a, sizeof a);
}

// --- for forward and backward

// Whether memory that backward reads is what forward saw.
static det_tensor *unchanged(const struct node *n, det_tensor *t, uint32_t version,
                             const char *what, int i)
{
    if (!t || t->storage->version == version) return t;
    node_fail(n, DET_ESTATE, "%s %d %s was changed in place after it was used", what, i,
              TENSOR_TEXT(t));
    return NULL;
}

int det_call_n_inputs(const det_call *c)
{
    return node_of(c)->n_in;
}

det_tensor *det_call_input(const det_call *c, int i)
{
    const struct node *n = node_of(c);
    if (i < 0 || i >= n->n_in) return NULL;
    if (!NODE_ATTR(n, const struct function_attr)->is_recorded) return n->in[i];
    return unchanged(n, n->in[i], n->in_version[i], "input", i);
}

det_tensor *det_call_output(const det_call *c)
{
    const struct node *n = node_of(c);
    return n->n_out ? unchanged(n, n->aux[AUX_RESULT], n->out_version, "output", 0) : NULL;
}

void det_call_save(det_call *c, int i, det_tensor *t)
{
    struct node *n = node_of(c);
    if (!t || sticky_failed()) return;
    if (i < 0 || i >= MAX_SAVED) {
        node_fail(n, DET_EINVAL, "it saves tensor %d; there is room for %d", i, MAX_SAVED);
        return;
    }
    tensor_finish(t);
    if (sticky_failed()) return;
    tensor_release(n->aux[i]);
    n->aux[i] = tensor_ref(t);
    NODE_ATTR(n, struct function_attr)->saved_version[i] = t->storage->version;
}

det_tensor *det_call_saved(const det_call *c, int i)
{
    const struct node *n = node_of(c);
    if (i < 0 || i >= MAX_SAVED) return NULL;
    uint32_t version = NODE_ATTR(n, const struct function_attr)->saved_version[i];
    return unchanged(n, n->aux[i], version, "saved tensor", i);
}

void *det_call_user(const det_call *c)
{
    return NODE_ATTR(node_of(c), struct function_attr)->user;
}

bool det_call_wants_grad(const det_call *c, int i)
{
    return i >= 0 && wants_grad(node_of(c), i);
}
