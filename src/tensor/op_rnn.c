// Unit op_rnn.c: recurrent layers over a whole sequence: rnn_tanh, rnn_relu, gru, lstm.
#include "tensor/ops.h"
#include "tensor/rnn.h"

static int check_input(const struct node *n, int i, const char *name, const int64_t *shape,
                       int ndim)
{
    const det_tensor *t = node_in(n, i);
    if (!t) return 0;
    if (t->ndim != ndim || memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return node_fail(n, DET_ESHAPE, "%s is %s, wants %s", name, TENSOR_TEXT(t),
                         shape_text(shape, ndim));
    return 0;
}

static int check_types(const struct node *n, bool autocast)
{
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        det_dtype a = (det_dtype)n->in[RNN_IN_X]->dtype, b = (det_dtype)n->in[i]->dtype;
        bool mixed = autocast && a != DET_F64 && b != DET_F64; // f32 and bf16
        if (!dtype_is_float(b) || (a != b && !mixed))
            return node_fail(n, DET_EDTYPE, "x is %s, input %d is %s; wants floats of one type",
                             det_dtype_name(a), i, det_dtype_name(b));
    }
    return 0;
}

static int rnn_infer(struct node *n)
{
    struct rnn_attr *a = NODE_ATTR(n, struct rnn_attr);
    const det_tensor *x = n->in[RNN_IN_X], *w = n->in[RNN_IN_W_HH];
    if (x->ndim != 3 || x->shape[0] < 1)
        return node_fail(n, DET_ESHAPE, "x is %s, wants (T, B, I) with at least one step",
                         TENSOR_TEXT(x));
    int64_t g = rnn_gates[rnn_kind_of(n)], h = w->ndim == 2 ? w->shape[1] : 0, batch = x->shape[1];
    if (h < 1 || w->shape[0] != g * h)
        return node_fail(n, DET_ESHAPE, "w_hh is %s, wants (%lld H, H)", TENSOR_TEXT(w),
                         (long long)g);
    int rc = check_types(n, det_autocast());
    if (!rc) rc = check_input(n, RNN_IN_W_IH, "w_ih", (const int64_t[]){g * h, x->shape[2]}, 2);
    if (!rc) rc = check_input(n, RNN_IN_B_IH, "b_ih", (const int64_t[]){g * h}, 1);
    if (!rc) rc = check_input(n, RNN_IN_B_HH, "b_hh", (const int64_t[]){g * h}, 1);
    if (!rc) rc = check_input(n, RNN_IN_H0, "h0", (const int64_t[]){batch, h}, 2);
    if (!rc) rc = check_input(n, RNN_IN_C0, "c0", (const int64_t[]){batch, h}, 2);
    if (rc) return rc;
    a->bf16 = x->dtype == DET_BF16 || (det_autocast() && x->dtype != DET_F64);
    // As torch: under autocast the gated cells keep their states in x's type, the plain ones do
    // not.
    det_dtype dtype = a->bf16 && g == 1 ? DET_BF16 : (det_dtype)x->dtype;
    rc = node_out(n, dtype, (const int64_t[]){x->shape[0], batch, h}, 3);
    if (!rc) rc = node_out(n, dtype, (const int64_t[]){batch, h}, 2);
    if (!rc && n->op == &op_lstm) rc = node_out(n, dtype, (const int64_t[]){batch, h}, 2);
    return rc;
}

static const struct attr_field rnn_attrs[] = {
    {"reverse", ATTR_BOOL, offsetof(struct rnn_attr, reverse)}, {NULL, 0, 0}};

// Biases are not read again.
#define RNN_SAVES (127 & ~(1 << RNN_IN_B_IH | 1 << RNN_IN_B_HH))
#define RNN_ROW(inputs)                                                                          \
    .min_in = 3, .max_in = inputs, .saves_in = RNN_SAVES, .saves_out = true, .infer = rnn_infer, \
    .forward = rnn_forward, .backward = rnn_backward, .attrs = rnn_attrs

// clang-format off
// torch's function for one layer, with the dim of layers taken away again.
#define TORCH(call, bias)                                                                        \
    "(lambda r: [r[0]] + [s[0] for s in r[1:]])"                                                 \
    "(torch." call ", " bias ", 1, 0.0, False, False, False))"
#define REVERSED(call, bias)                                                                     \
    "(lambda r: [r[0].flip(0)] + [s[0] for s in r[1:]])"                                         \
    "(torch." call ", " bias ", 1, 0.0, False, False, False))"
#define ZEROS "x.new_zeros(1,x.shape[1],u.shape[1])"
#define BIASES(g) " b:f[" g "] d:f[" g "]"

#define PLAIN_CASES(fn, k)                                                                       \
    {"x:f[a,b,c] w:u[e,c] u:u[e,e]" BIASES("e") " s:f[b,e]; ; "                                  \
     TORCH(fn "(x, s[None], [w,u,b,d]", "True"),                                                 \
     "x:f[a,b,c] w:u[e,c] u:u[e,e] - - -; reverse=1; "                                           \
     REVERSED(fn "(x.flip(0), " ZEROS ", [w,u]", "False"),                                       \
     "x:f[1,B,c] w:u[E,c] u:u[E,E]" BIASES("E") " -; ; "                                         \
     TORCH(fn "(x, " ZEROS ", [w,u,b,d]", "True"),                                               \
     "x:" k "[4,37,33] w:" k "[50,33] u:" k "[50,50] b:" k "[50] d:" k "[50] s:" k "[37,50]; ; " \
     TORCH(fn "(x, s[None], [w,u,b,d]", "True"), NULL}

static const char *const rnn_tanh_cases[] = PLAIN_CASES("rnn_tanh", "u");
// The large case is positive throughout: among so many sums some would be rounded across the kink.
static const char *const rnn_relu_cases[] = PLAIN_CASES("rnn_relu", "c");

static const char *const gru_cases[] = {
    "x:f[a,b,c] w:u[3*e,c] u:u[3*e,e]" BIASES("3*e") " s:f[b,e]; ; "
    TORCH("gru(x, s[None], [w,u,b,d]", "True"),
    "x:f[a,b,c] w:u[3*e,c] u:u[3*e,e] - - s:f[b,e]; reverse=1; "
    REVERSED("gru(x.flip(0), s[None], [w,u]", "False"),
    "x:f[1,B,c] w:u[3*E,c] u:u[3*E,E]" BIASES("3*E") " -; ; "
    TORCH("gru(x, " ZEROS ", [w,u,b,d]", "True"),
    "x:f[4,37,33] w:u[150,33] u:u[150,50]" BIASES("150") " s:f[37,50]; ; "
    TORCH("gru(x, s[None], [w,u,b,d]", "True"), NULL};

static const char *const lstm_cases[] = {
    "x:f[a,b,c] w:u[4*e,c] u:u[4*e,e]" BIASES("4*e") " s:f[b,e] c:f[b,e]; ; "
    TORCH("lstm(x, (s[None],c[None]), [w,u,b,d]", "True"),
    "x:f[a,b,c] w:u[4*e,c] u:u[4*e,e] - - - -; reverse=1; "
    REVERSED("lstm(x.flip(0), (" ZEROS "," ZEROS "), [w,u]", "False"),
    "x:f[1,B,c] w:u[4*E,c] u:u[4*E,E]" BIASES("4*E") " - c:f[B,E]; ; "
    TORCH("lstm(x, (" ZEROS ",c[None]), [w,u,b,d]", "True"),
    "x:f[4,37,33] w:u[200,33] u:u[200,50]" BIASES("200") " s:f[37,50] c:f[37,50]; reverse=1; "
    REVERSED("lstm(x.flip(0), (s[None],c[None]), [w,u,b,d]", "True"),
    "x:f[6,1,20] w:u[128,20] u:u[128,32]" BIASES("128") " - -; ; "
    TORCH("lstm(x, (" ZEROS "," ZEROS "), [w,u,b,d]", "True"), NULL};
// clang-format on

const struct op op_rnn_tanh = {.name = "rnn_tanh", RNN_ROW(6), .cases = rnn_tanh_cases};
const struct op op_rnn_relu = {.name = "rnn_relu", RNN_ROW(6), .cases = rnn_relu_cases};
const struct op op_gru = {.name = "gru", RNN_ROW(6), .cases = gru_cases};
const struct op op_lstm = {.name = "lstm", RNN_ROW(7), .cases = lstm_cases};

static det_tensor *rnn_call(const struct op *op, det_tensor *const *in, bool reverse,
                            det_tensor **h_n, det_tensor **c_n)
{
    struct rnn_attr a = {.reverse = reverse};
    struct node *n = op_record(op, in, op->max_in, &a, sizeof a);
    if (h_n) *h_n = n ? n->out[RNN_OUT_H] : NULL;
    if (c_n) *c_n = n ? n->out[RNN_OUT_C] : NULL;
    return n ? n->out[RNN_OUT_ALL] : NULL;
}

#define RNN_INPUTS(...) ((det_tensor *const[]){x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, __VA_ARGS__})

det_tensor *det_rnn_tanh(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                         det_tensor **h_n)
{
    return rnn_call(&op_rnn_tanh, RNN_INPUTS(h0), reverse, h_n, NULL);
}

det_tensor *det_rnn_relu(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                         det_tensor **h_n)
{
    return rnn_call(&op_rnn_relu, RNN_INPUTS(h0), reverse, h_n, NULL);
}

det_tensor *det_gru(det_tensor *x, det_rnn_weights w, det_tensor *h0, bool reverse,
                    det_tensor **h_n)
{
    return rnn_call(&op_gru, RNN_INPUTS(h0), reverse, h_n, NULL);
}

det_tensor *det_lstm(det_tensor *x, det_rnn_weights w, det_tensor *h0, det_tensor *c0, bool reverse,
                     det_tensor **h_n, det_tensor **c_n)
{
    return rnn_call(&op_lstm, RNN_INPUTS(h0, c0), reverse, h_n, c_n);
}
