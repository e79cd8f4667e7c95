// Unit rnn_backward.c: gradients of a recurrent layer. Called by op_rnn.c.
#include "tensor/rnn.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"
#include "tensor/rnn_f64.h"
#include "tensor/share.h"

struct backward_job {
    struct rnn r;
    struct panels w;
    rnn_step_grad_fn step;
    det_tensor *gates, *state, *out, *h0, *c0;
    det_tensor *g_all;     // gradient of the output, NULL: none
    det_tensor *g_h, *g_c; // (B, h): of the states, from step to step; in the end of h0 and c0
    det_tensor *g_gate;    // (T, B, G h): of the sums
    det_tensor *g_hidden;  // of what w_hh h_prev adds to them; differs for a GRU only
    bool to_start;         // the gradient of h0 is wanted
    int64_t piece_rows;
    int rc;
};

static void add_rows(const struct backward_job *j, int64_t t, int64_t row, int64_t rows)
{
    const struct rnn *r = &j->r;
    if (!j->g_all) return;
    int64_t bytes = (int64_t)r->size;
    ew_axpy(r->type)(rows * r->h,
                     (void *[]){rnn_rows(r, j->g_h, 0, row), rnn_rows(r, j->g_all, t, row)},
                     (const int64_t[]){bytes, bytes}, (const double[]){1, 0});
}

// Rows of the hidden state before step i, as numbers of the type computed in.
static const char *state_before(const struct backward_job *j, const struct piece_memory *m,
                                int64_t i, int64_t row, int64_t rows)
{
    const struct rnn *r = &j->r;
    if (!i) return rnn_rows(r, j->h0, 0, row);
    const char *at = rnn_rows(r, j->out, rnn_step_at(r, i - 1), row);
    if (j->out->dtype == r->type || r->kind != RNN_GRU) return at;
    rnn_convert(r->type, m->state[0], (det_dtype)j->out->dtype, at, rows * r->h);
    return m->state[0];
}

static void backward_step(const struct backward_job *j, const struct piece_memory *m, int64_t i,
                          int64_t row, int64_t rows)
{
    const struct rnn *r = &j->r;
    int64_t t = rnn_step_at(r, i);
    add_rows(j, t, row, rows);
    struct rnn_step_grad s = {.rows = rows,
                              .h = r->h,
                              .gate = rnn_rows(r, j->gates, t, row),
                              .state = rnn_rows(r, j->state, t, row),
                              .h_prev = state_before(j, m, i, row, rows),
                              .g_out = rnn_rows(r, j->g_h, 0, row),
                              .g_state = rnn_rows(r, j->g_c, 0, row),
                              .g_gate = rnn_rows(r, j->g_gate, t, row),
                              .g_hidden = rnn_rows(r, j->g_hidden, t, row)};
    s.c_prev = i ? rnn_rows(r, j->state, rnn_step_at(r, i - 1), row) : rnn_rows(r, j->c0, 0, row);
    j->step(&s);
    if (i || j->to_start)
        rnn_multiply(&j->w, rows, s.g_hidden, m->left, s.g_out, r->kind == RNN_GRU);
}

static void backward_piece(void *ctx, int piece)
{
    struct backward_job *j = ctx;
    int64_t row = piece * j->piece_rows, rows = MIN(j->piece_rows, j->r.batch - row);
    struct piece_memory m;
    if (!rnn_piece_memory(&j->r, &j->w, rows, &m)) {
        __atomic_store_n(&j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = j->r.steps - 1; i >= 0; i--)
        backward_step(j, &m, i, row, rows);
}

// Gradient of output i in the type computed in; zeros if none arrived. Release it.
static det_tensor *state_grad(const struct node *n, const struct rnn *r, int i)
{
    det_tensor *g = tensor_new(r->type, (const int64_t[]){r->batch, r->h}, 2);
    if (!g) return NULL;
    if (out_grad(n, i))
        ew_copy(g, out_grad(n, i));
    else
        memset(g->data, 0, g->storage->n_bytes);
    return g;
}

// --- gradients of the weights

// One product into the gradient of input i; `accumulate` says whether to add, and is true
// afterwards.
static int add_product(struct node *n, const struct rnn *r, det_tensor *to, struct gemm g,
                       bool *accumulate)
{
    if (!g.k) return 0;
    g.c = to->data;
    g.c_dtype = r->type;
    g.ldc = g.n;
    g.bf16 = r->bf16;
    g.accumulate = *accumulate;
    *accumulate = true;
    return rnn_gemm(n, &g);
}

// Gradient of a weight as a sum of up to two products.
static int weight_grad(struct node *n, const struct rnn *r, int i, const struct gemm *terms)
{
    if (!wants_grad(n, i)) return 0;
    const det_tensor *w = n->in[i];
    bool place_fits = w->dtype == r->type && tensor_is_row_major(w), accumulate = false;
    det_tensor *to = place_fits ? grad_target(n, i, &accumulate) : tensor_new(r->type, w->shape, 2);
    if (!to) return DET_ENOMEM;
    if (!accumulate && !terms[0].k && !terms[1].k) memset(to->data, 0, (size_t)to->numel * r->size);
    int rc = add_product(n, r, to, terms[0], &accumulate);
    if (!rc) rc = add_product(n, r, to, terms[1], &accumulate);
    if (!place_fits) give_grad(n, i, to);
    return rc;
}

static int weight_grads(struct node *n, const struct backward_job *j)
{
    const struct rnn *r = &j->r;
    int64_t all = r->steps * r->batch, later = all - r->batch, g = r->gates;
    const det_tensor *x = rnn_input(n);
    struct gemm ih[2] = {{.m = g,
                          .n = r->in,
                          .k = all,
                          .a = rnn_matrix(j->g_gate, 1, g),
                          .b = rnn_matrix(x, r->in, 1)},
                         {0}};
    // Step t saw the state of the step before it: the outputs, moved by one step, and h0.
    struct gemm hh[2] = {{.m = g,
                          .n = r->h,
                          .k = later,
                          .a = rnn_matrix(j->g_hidden, 1, g),
                          .b = rnn_matrix(j->out, r->h, 1)},
                         {.m = g,
                          .n = r->h,
                          .k = r->batch,
                          .a = rnn_matrix(j->g_hidden, 1, g),
                          .b = rnn_matrix(j->h0, r->h, 1)}};
    hh[0].a.data = rnn_rows(r, j->g_hidden, r->reverse ? 0 : 1, 0);
    hh[0].b.data = rnn_rows(r, j->out, r->reverse ? 1 : 0, 0);
    hh[1].a.data = rnn_rows(r, j->g_hidden, rnn_step_at(r, 0), 0);
    if (!node_in(n, RNN_IN_H0)) hh[1].k = 0;
    int rc = weight_grad(n, r, RNN_IN_W_IH, ih);
    return rc ? rc : weight_grad(n, r, RNN_IN_W_HH, hh);
}

// Sum over all steps and rows, (G h). Release it.
static det_tensor *bias_sum(det_tensor *g)
{
    return tensor_ref(det_sum_over(g, DET_DIMS(0, 1), false));
}

static int bias_grads(struct node *n, const struct backward_job *j)
{
    if (!wants_grad(n, RNN_IN_B_IH) && !wants_grad(n, RNN_IN_B_HH)) return 0;
    det_tensor *ih = bias_sum(j->g_gate);
    det_tensor *hh = j->g_hidden == j->g_gate ? tensor_ref(ih) : bias_sum(j->g_hidden);
    bool ok = ih && hh;
    if (ok && wants_grad(n, RNN_IN_B_IH)) give_grad(n, RNN_IN_B_IH, tensor_ref(ih));
    if (ok && wants_grad(n, RNN_IN_B_HH)) give_grad(n, RNN_IN_B_HH, tensor_ref(hh));
    tensor_release(ih);
    tensor_release(hh);
    return ok ? 0 : DET_ENOMEM;
}

static int input_grad(struct node *n, const struct backward_job *j)
{
    if (!wants_grad(n, RNN_IN_X)) return 0;
    const struct rnn *r = &j->r;
    const det_tensor *x = n->in[RNN_IN_X], *w = n->in[RNN_IN_W_IH];
    det_tensor *gx = tensor_new((det_dtype)x->dtype, x->shape, 3);
    if (!gx) return DET_ENOMEM;
    int rc = rnn_gemm(n, &(struct gemm){.m = r->steps * r->batch,
                                        .n = r->in,
                                        .k = r->gates,
                                        .a = rnn_matrix(j->g_gate, r->gates, 1),
                                        .b = rnn_matrix(w, w->stride[0], w->stride[1]),
                                        .c = gx->data,
                                        .ldc = r->in,
                                        .c_dtype = (det_dtype)gx->dtype,
                                        .bf16 = r->bf16});
    give_grad(n, RNN_IN_X, gx);
    return rc;
}

static int run_backward(struct node *n, struct backward_job *j)
{
    struct rnn *r = &j->r;
    det_tensor *packed = rnn_pack(n, r, false, &j->w);
    if (!packed) return DET_ENOMEM;
    j->step = r->type == DET_F64 ? rnn_step_grad_f64(r->kind) : kernels->rnn_step_grad(r->kind);
    j->piece_rows = rnn_piece_rows(r);
    pool_run((int)divide_up(r->batch, j->piece_rows), backward_piece, j);
    tensor_release(packed);
    int rc = j->rc;
    if (!rc) rc = weight_grads(n, j);
    if (!rc) rc = bias_grads(n, j);
    if (!rc) rc = input_grad(n, j);
    if (!rc && wants_grad(n, RNN_IN_H0)) give_grad(n, RNN_IN_H0, tensor_ref(j->g_h));
    if (!rc && wants_grad(n, RNN_IN_C0)) give_grad(n, RNN_IN_C0, tensor_ref(j->g_c));
    return rc;
}

int rnn_backward(struct node *n)
{
    struct backward_job j = {.r = rnn_of(n),
                             .gates = n->aux[RNN_AUX_GATES],
                             .state = n->aux[RNN_AUX_STATE],
                             .out = n->out[RNN_OUT_ALL],
                             .to_start = wants_grad(n, RNN_IN_H0)};
    struct rnn *r = &j.r;
    const int64_t shape[] = {r->steps, r->batch, r->gates};
    if (out_grad(n, RNN_OUT_ALL))
        j.g_all = tensor_converted(out_grad(n, RNN_OUT_ALL), r->type, ROW_MAJOR);
    j.h0 = rnn_state_input(n, r, RNN_IN_H0);
    if (r->kind == RNN_LSTM) j.c0 = rnn_state_input(n, r, RNN_IN_C0);
    j.g_h = state_grad(n, r, RNN_OUT_H);
    if (r->kind == RNN_LSTM) j.g_c = state_grad(n, r, RNN_OUT_C);
    j.g_gate = tensor_new(r->type, shape, 3);
    j.g_hidden = r->kind == RNN_GRU ? tensor_new(r->type, shape, 3) : tensor_ref(j.g_gate);
    int rc = sticky_failed() ? DET_ENOMEM : r->batch ? run_backward(n, &j) : 0;
    tensor_release(j.g_all);
    tensor_release(j.h0);
    tensor_release(j.c0);
    tensor_release(j.g_h);
    tensor_release(j.g_c);
    tensor_release(j.g_gate);
    tensor_release(j.g_hidden);
    return rc;
}
