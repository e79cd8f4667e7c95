// Unit hooks.c: functions that look at the gradient of a tensor, and may replace it, before it is
// passed on. Called by backward.c.
//
// Gradients of a leaf arrive from every node that reads it, straight into its memory. So that its
// hooks see their sum, and only that of one backward, what the leaf had before is put aside.
#include "tensor/node.h"

struct hook {
    struct hook *next;
    const struct node *node; // whose output the tensor was when it got the hook; NULL: a leaf
    det_hook_fn fn;
    void *user;
    int id;
};

int det_add_hook(det_tensor *t, det_hook_fn fn, void *user)
{
    if (!t || sticky_failed()) return DET_ESTATE;
    if (!fn || !det_has_requires_grad(t)) {
        det_raise(DET_ESTATE, "det_add_hook: %s",
                  fn ? "the tensor does not require a gradient" : "the function is NULL");
        return DET_ESTATE;
    }
    struct hook *h = xcalloc(1, sizeof *h), **end = &t->hooks;
    for (h->id = 1; *end; end = &(*end)->next)
        h->id = (*end)->id + 1;
    h->node = t->node;
    h->fn = fn;
    h->user = user;
    *end = h;
    tape_get()->has_hooks = true;
    return h->id;
}

void det_remove_hook(det_tensor *t, int id)
{
    for (struct hook **at = t ? &t->hooks : NULL; at && *at; at = &(*at)->next) {
        if ((*at)->id != id) continue;
        struct hook *gone = *at;
        *at = gone->next;
        free(gone);
        return;
    }
}

void hooks_free(det_tensor *t)
{
    while (t->hooks)
        det_remove_hook(t, t->hooks->id);
}

// The gradient of t after its hooks; takes and gives references.
static det_tensor *hooked(struct tape *tape, det_tensor *t, det_tensor *g, const struct node *node)
{
    for (struct hook *h = t->hooks, *next; h && !sticky_failed(); h = next) {
        next = h->next; // it may remove itself
        if (h->node != node) continue;
        const struct scope_mark before = scope_mark(tape);
        det_tensor *other = h->fn(g, h->user);
        if (other && !same_shape(other, t))
            det_raise(DET_ESHAPE, "a hook gave the gradient %s to a tensor %s", TENSOR_TEXT(other),
                      TENSOR_TEXT(t));
        if (other && other != g && !sticky_failed()) {
            tensor_release(g);
            g = tensor_converted(other, (det_dtype)t->dtype, ROW_MAJOR);
        }
        if (tape->n_tensors != before.n_tensors) scope_pop(tape, &before);
        if (!g) return NULL;
    }
    return g;
}

void run_output_hooks(struct tape *tape, const struct node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        det_tensor *t = n->out[i];
        if (t->hooks && t->grad) t->grad = hooked(tape, t, t->grad, n);
    }
}

// --- leaves

void keep_grad(struct kept_grads *kept, det_tensor *leaf)
{
    for (int i = 0; i < kept->n; i++)
        if (kept->v[i].t == leaf) return;
    kept->v = xrealloc(kept->v, (size_t)(kept->n + 1) * sizeof *kept->v);
    kept->v[kept->n++] = (struct kept_grad){tensor_ref(leaf), leaf->grad, leaf->grad_valid};
    leaf->grad = NULL;
    leaf->grad_valid = false;
}

void keep_hooked(struct kept_grads *kept, const struct tape *tape, int last)
{
    for (int i = 0; i <= last; i++) {
        const struct node *n = tape->nodes[i];
        for (int k = 0; n->tracked && k < n->n_in; k++)
            if (n->in_wants[k] && !n->in[k]->node && n->in[k]->hooks) keep_grad(kept, n->in[k]);
    }
}

void run_leaf_hooks(const struct kept_grads *kept)
{
    bool old = det_set_grad_enabled(false);
    for (int i = 0; i < kept->n && !sticky_failed(); i++) {
        det_tensor *t = kept->v[i].t;
        if (t->grad_valid && t->hooks) t->grad = hooked(tape_get(), t, t->grad, NULL);
    }
    det_set_grad_enabled(old);
}

void restore_grads(struct kept_grads *kept, bool discard)
{
    if (!discard) run_leaf_hooks(kept);
    for (int i = 0; i < kept->n; i++) {
        struct kept_grad *k = &kept->v[i];
        det_tensor *gathered = k->t->grad;
        bool valid = k->t->grad_valid && gathered;
        k->t->grad = k->grad;
        k->t->grad_valid = k->valid;
        if (valid && !discard)
            receive_grad(k->t, gathered);
        else
            tensor_release(gathered);
        tensor_release(k->t);
    }
    free(kept->v);
    *kept = (struct kept_grads){0};
}
