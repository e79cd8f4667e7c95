// Unit rnn_forward.c: a recurrent layer, forward. Called by op_rnn.c.
#include "tensor/rnn.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"
#include "tensor/rnn_f64.h"

struct forward_job {
    struct rnn r;
    struct panels w;
    rnn_step_fn step;
    det_tensor *gates, *state, *out, *h0, *c0;
    det_tensor *hidden_bias; // GRU
    bool starts_at_zero;     // no h0: the first product is not needed
    int64_t piece_rows;
    int rc;
};

// Where the hidden state of a step is computed: in the output, if the type fits.
static char *hidden_state(const struct forward_job *j, const struct piece_memory *m, int64_t i,
                          int64_t row)
{
    if (i < 0) return rnn_rows(&j->r, j->h0, 0, row);
    if (j->out->dtype == j->r.type) return rnn_rows(&j->r, j->out, rnn_step_at(&j->r, i), row);
    return m->state[i % 2];
}

static void forward_step(const struct forward_job *j, const struct piece_memory *m, int64_t i,
                         int64_t row, int64_t rows)
{
    const struct rnn *r = &j->r;
    int64_t t = rnn_step_at(r, i);
    struct rnn_step s = {.rows = rows,
                         .h = r->h,
                         .gate = rnn_rows(r, j->gates, t, row),
                         .hidden = m->hidden,
                         .hidden_bias = j->hidden_bias ? j->hidden_bias->data : NULL,
                         .h_prev = hidden_state(j, m, i - 1, row),
                         .state = rnn_rows(r, j->state, t, row),
                         .out = hidden_state(j, m, i, row)};
    s.c_prev = i ? rnn_rows(r, j->state, rnn_step_at(r, i - 1), row) : rnn_rows(r, j->c0, 0, row);
    bool separate = r->kind == RNN_GRU;
    void *sums = separate ? m->hidden : s.gate;
    if (i || !j->starts_at_zero)
        rnn_multiply(&j->w, rows, s.h_prev, m->left, sums, !separate);
    else if (separate)
        memset(sums, 0, (size_t)(rows * r->gates) * r->size);
    j->step(&s);
    if (j->out->dtype != r->type)
        rnn_convert((det_dtype)j->out->dtype, rnn_rows(r, j->out, t, row), r->type, s.out,
                    rows * r->h);
}

static void forward_piece(void *ctx, int piece)
{
    struct forward_job *j = ctx;
    int64_t row = piece * j->piece_rows, rows = MIN(j->piece_rows, j->r.batch - row);
    struct piece_memory m;
    if (!rnn_piece_memory(&j->r, &j->w, rows, &m)) {
        __atomic_store_n(&j->rc, DET_ENOMEM, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = 0; i < j->r.steps; i++)
        forward_step(j, &m, i, row, rows);
}

// Added to all x w_ih^T: both biases, but for the third gate of a GRU only b_ih. Release it.
static det_tensor *input_bias(const struct node *n, const struct rnn *r)
{
    det_tensor *sum = tensor_new(r->type, &r->gates, 1);
    if (!sum) return NULL;
    memset(sum->data, 0, sum->storage->n_bytes);
    for (int i = RNN_IN_B_IH; i <= RNN_IN_B_HH; i++) {
        if (!node_in(n, i)) continue;
        det_tensor *b = tensor_converted(n->in[i], r->type, ROW_MAJOR);
        det_tensor part = *sum;
        if (i == RNN_IN_B_HH && r->kind == RNN_GRU) part.shape[0] = part.numel = 2 * r->h;
        if (b) {
            det_tensor same = *b;
            same.shape[0] = same.numel = part.numel;
            ew_run(ew_axpy(r->type), (det_tensor *const[]){&part, &same}, 2, (double[]){1, 0});
        }
        tensor_release(b);
    }
    return sum;
}

// b_hh of the third gate of a GRU. Release it.
static det_tensor *hidden_bias(const struct node *n, const struct rnn *r)
{
    det_tensor *bias = tensor_new(r->type, &r->h, 1);
    if (!bias) return NULL;
    memset(bias->data, 0, bias->storage->n_bytes);
    if (!node_in(n, RNN_IN_B_HH)) return bias;
    det_tensor third = *n->in[RNN_IN_B_HH];
    third.data = (char *)third.data +
                 2 * r->h * third.stride[0] * (int64_t)dtype_size((det_dtype)third.dtype);
    third.shape[0] = third.numel = r->h;
    ew_copy(bias, &third);
    return bias;
}

// gates = x w_ih^T + bias, all steps at once.
static int input_product(struct node *n, const struct rnn *r, det_tensor *gates)
{
    const det_tensor *x = rnn_input(n), *w = n->in[RNN_IN_W_IH];
    det_tensor *bias = input_bias(n, r);
    if (!x || !bias) return DET_ENOMEM;
    struct gemm g = {.m = r->steps * r->batch,
                     .n = r->gates,
                     .k = r->in,
                     .a = rnn_matrix(x, r->in, 1),
                     .b = rnn_matrix(w, w->stride[1], w->stride[0]),
                     .c = gates->data,
                     .ldc = r->gates,
                     .c_dtype = r->type,
                     .bf16 = r->bf16};
    if (r->type == DET_F64) {
        ew_copy(gates, bias);
        g.accumulate = true;
    } else {
        g.bias = bias->data;
    }
    int rc = rnn_gemm(n, &g);
    tensor_release(bias);
    return rc;
}

// The last states are outputs of their own.
static void copy_last(struct node *n, const struct rnn *r)
{
    int64_t t = rnn_step_at(r, r->steps - 1);
    det_tensor last = *n->out[RNN_OUT_H];
    last.data = rnn_rows(r, n->out[RNN_OUT_ALL], t, 0);
    ew_copy(n->out[RNN_OUT_H], &last);
    if (r->kind != RNN_LSTM) return;
    last.dtype = r->type;
    last.data = rnn_rows(r, n->aux[RNN_AUX_STATE], t, 0);
    ew_copy(n->out[RNN_OUT_C], &last);
}

static int run_forward(struct node *n, struct forward_job *j)
{
    struct rnn *r = &j->r;
    int rc = input_product(n, r, j->gates);
    if (rc) return rc;
    det_tensor *packed = rnn_pack(n, r, true, &j->w);
    if (!packed) return DET_ENOMEM;
    j->step = r->type == DET_F64 ? rnn_step_f64(r->kind) : kernels->rnn_step(r->kind);
    j->piece_rows = rnn_piece_rows(r);
    pool_run((int)divide_up(r->batch, j->piece_rows), forward_piece, j);
    tensor_release(packed);
    if (!j->rc) copy_last(n, r);
    return j->rc;
}

int rnn_forward(struct node *n)
{
    struct forward_job j = {.r = rnn_of(n), .out = n->out[RNN_OUT_ALL]};
    struct rnn *r = &j.r;
    bool has_state = r->kind == RNN_LSTM || r->kind == RNN_GRU;
    j.gates = n->aux[RNN_AUX_GATES] =
        tensor_new(r->type, (const int64_t[]){r->steps, r->batch, r->gates}, 3);
    if (has_state)
        j.state = n->aux[RNN_AUX_STATE] =
            tensor_new(r->type, (const int64_t[]){r->steps, r->batch, r->h}, 3);
    j.h0 = rnn_state_input(n, r, RNN_IN_H0);
    if (r->kind == RNN_LSTM) j.c0 = rnn_state_input(n, r, RNN_IN_C0);
    if (r->kind == RNN_GRU) j.hidden_bias = hidden_bias(n, r);
    j.starts_at_zero = !node_in(n, RNN_IN_H0);
    int rc = sticky_failed() ? DET_ENOMEM : r->batch ? run_forward(n, &j) : 0;
    tensor_release(j.h0);
    tensor_release(j.c0);
    tensor_release(j.hidden_bias);
    for (int i = 0; i < NODE_MAX_AUX && !n->tracked; i++) { // nobody will ask for them
        tensor_release(n->aux[i]);
        n->aux[i] = NULL;
    }
    return rc;
}
