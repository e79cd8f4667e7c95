// Unit rnn.c: what the two directions of a recurrent layer share. Called by rnn_forward.c and
// rnn_backward.c.
#include "tensor/rnn.h"

#include "sys/pool.h"
#include "tensor/elementwise.h"
#include "tensor/ops.h"

enum { MAX_PIECE_ROWS = 32, WORTH_THREADS = 256 << 10 }; // multiply-adds

enum rnn_kind rnn_kind_of(const struct node *n)
{
    return n->op == &op_lstm       ? RNN_LSTM
           : n->op == &op_gru      ? RNN_GRU
           : n->op == &op_rnn_relu ? RNN_RELU
                                   : RNN_TANH;
}

const int rnn_gates[RNN_N_KINDS] = {[RNN_TANH] = 1, [RNN_RELU] = 1, [RNN_GRU] = 3, [RNN_LSTM] = 4};

struct rnn rnn_of(const struct node *n)
{
    const det_tensor *x = n->in[RNN_IN_X];
    const struct rnn_attr *a = NODE_ATTR(n, struct rnn_attr);
    struct rnn r = {.kind = rnn_kind_of(n),
                    .steps = x->shape[0],
                    .batch = x->shape[1],
                    .in = x->shape[2],
                    .h = n->in[RNN_IN_W_HH]->shape[1],
                    .gates = n->in[RNN_IN_W_HH]->shape[0],
                    .type = x->dtype == DET_F64 ? DET_F64 : DET_F32,
                    .reverse = a->reverse,
                    .bf16 = a->bf16};
    r.size = dtype_size(r.type);
    return r;
}

int64_t rnn_step_at(const struct rnn *r, int64_t i)
{
    return r->reverse ? r->steps - 1 - i : i;
}

char *rnn_rows(const struct rnn *r, const det_tensor *t, int64_t step, int64_t row)
{
    if (!t) return NULL;
    int64_t width = t->shape[t->ndim - 1];
    return (char *)t->data +
           (step * r->batch + row) * width * (int64_t)dtype_size((det_dtype)t->dtype);
}

det_tensor *rnn_state_input(const struct node *n, const struct rnn *r, int i)
{
    if (node_in(n, i)) return tensor_converted(n->in[i], r->type, ROW_MAJOR);
    det_tensor *zeros = tensor_new(r->type, (const int64_t[]){r->batch, r->h}, 2);
    if (zeros) memset(zeros->data, 0, zeros->storage->n_bytes);
    return zeros;
}

struct matrix rnn_matrix(const det_tensor *t, int64_t rs, int64_t cs)
{
    return (struct matrix){t->data, (det_dtype)t->dtype, rs, cs};
}

det_tensor *rnn_pack(const struct node *n, const struct rnn *r, bool transposed, struct panels *p)
{
    const det_tensor *w = n->in[RNN_IN_W_HH];
    *p = (struct panels){.k = transposed ? r->h : r->gates,
                         .n = transposed ? r->gates : r->h,
                         .dtype = r->type,
                         .bf16 = r->bf16};
    det_tensor *memory = tensor_new(DET_U8, (const int64_t[]){(int64_t)panels_bytes(p)}, 1);
    if (!memory) return NULL;
    p->data = memory->data;
    struct matrix b = transposed ? rnn_matrix(w, w->stride[1], w->stride[0])
                                 : rnn_matrix(w, w->stride[0], w->stride[1]);
    panels_pack_shared(p, &b);
    return memory;
}

det_tensor *rnn_input(struct node *n)
{
    if (!n->aux[RNN_AUX_X]) n->aux[RNN_AUX_X] = tensor_row_major(n->in[RNN_IN_X]);
    return n->aux[RNN_AUX_X];
}

// Rows per piece: a share for each thread, in whole tiles, but not so many that a thread that
// starts late delays the others. Every row is computed on its own, so the result does not depend on
// this.
int64_t rnn_piece_rows(const struct rnn *r)
{
    if (r->steps * r->batch * r->gates * r->h < WORTH_THREADS) return MAX(r->batch, (int64_t)1);
    int64_t tile = r->bf16 ? 16 : 8, share = (r->batch + pool_threads() - 1) / pool_threads();
    return MIN((share + tile - 1) / tile * tile, (int64_t)MAX_PIECE_ROWS);
}

void rnn_multiply(const struct panels *p, int64_t m, const void *a, void *memory, void *c,
                  bool accumulate)
{
    struct panels_product x = {.m = m,
                               .k = p->k,
                               .n = p->n,
                               .a = a,
                               .a_stride = p->k,
                               .c = c,
                               .ldc = p->n,
                               .accumulate = accumulate};
    if (p->bf16) {
        panels_rows(p, a, p->k, m, memory);
        x.a = memory;
        x.a_stride = panels_row_stride(p);
    }
    panels_multiply(p, &x);
}

bool rnn_piece_memory(const struct rnn *r, const struct panels *p, int64_t rows,
                      struct piece_memory *m)
{
    size_t state = (size_t)((rows * r->h * (int64_t)r->size + 63) / 64 * 64);
    size_t hidden = r->kind == RNN_GRU ? 3 * state : 0;
    char *base = scratch(SCRATCH_C, hidden + 2 * state + panels_rows_bytes(p, rows) + 64);
    if (!base) return false;
    m->hidden = base;
    m->state[0] = base + hidden;
    m->state[1] = m->state[0] + state;
    m->left = m->state[1] + state;
    return true;
}

void rnn_convert(det_dtype to_type, void *to, det_dtype from_type, const void *from, int64_t n)
{
    int64_t stride[] = {(int64_t)dtype_size(to_type), (int64_t)dtype_size(from_type)};
    ew_cast(to_type, from_type)(n, (void *[]){to, (void *)(uintptr_t)from}, stride, NULL);
}

int rnn_gemm(const struct node *n, const struct gemm *g)
{
    int rc = gemm(g);
    return rc ? node_fail(n, rc, "no memory to multiply (%lld x %lld) by (%lld x %lld)",
                          (long long)g->m, (long long)g->k, (long long)g->k, (long long)g->n)
              : 0;
}
