// Unit history.c: gives tensors that exist another history: those written in place, and views of
// them. Called by run.c (uses) and tape.c (ends of scopes).
//
// The tape is in the order of the calls, so one tensor may be the output of several nodes. Between
// two of them it stands for the value that it had at that time: a node reads the value that the
// nodes before it have made. Backward walks the tape from its end, so it meets a tensor's values
// from the newest to the oldest, and the gradient on a tensor is always that of the value at the
// present place of the tape. A write therefore is a node whose output is its input 0: it takes the
// gradient of the value after it and gives that of the value before it.
//
// A write into a view is a write into its base. All other views of that base have a new value then;
// each is recorded again, behind the write, when it is next used. So a view must know its base
// (that is what its node tells) and whether it is up to date (storage.history).
#include "tensor/node.h"

det_tensor *tensor_base(det_tensor *t)
{
    while (is_differentiable_view(t->node))
        t = t->node->in[0];
    return t;
}

void view_renew(det_tensor *t)
{
    struct node *n = t->node;
    if (!is_differentiable_view(n) || n->out_history == t->storage->history) return;
    view_renew(n->in[0]);
    if (sticky_failed()) return;
    if (!n->in[0]->requires_grad) {
        n->out_history = t->storage->history;
        t->requires_grad = false;
    } else if (n->no_grad) {
        det_raise(DET_ESTATE,
                  "the tensor %s is a view made while gradients were off, and since then something "
                  "with a gradient was written into the tensor that it looks at; make the view "
                  "again with gradients on, or read it with gradients off",
                  TENSOR_TEXT(t));
    } else {
        struct node *again =
            tensor_renew(t, n->op, (det_tensor *const[]){n->in[0], t}, 2, n->attr, sizeof n->attr);
        again->in_wants[1] = false; // t is there to stay alive as long as the node
    }
}

void forget_renewals(struct tape *tape, int first)
{
    for (int i = tape->n_nodes; i-- > first;) {
        const struct node *n = tape->nodes[i];
        if (!n->renews) continue;
        det_tensor *t = n->out[0];
        t->storage->history++; // its views must notice
        if (t->node != n) continue;
        t->node = n->before;
        t->requires_grad = false;
    }
}
