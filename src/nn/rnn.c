// Unit rnn.c: RNN, LSTM, GRU: layers and directions of the one-layer operations.
#include "nn/module.h"

#include <math.h>

enum { W_IH, W_HH, B_IH, B_HH, WEIGHTS_PER_CELL }; // parameters of one layer in one direction

enum rnn_kind { RNN_TANH, RNN_RELU, RNN_LSTM, RNN_GRU };

struct rnn {
    enum rnn_kind kind;
    int n_layers, n_directions;
    int64_t input_size, hidden_size;
    double dropout;
    bool batch_first;
    det_tensor *last[]; // 2 * layers * directions, for h_n and c_n of the call going on
};

static int n_cells(const struct rnn *r)
{
    return r->n_layers * r->n_directions;
}

// --- forward

struct rnn_state {
    det_tensor *h, *c;
};

// One layer in one direction: x (T, B, I) to (T, B, H).
static det_tensor *run_cell(det_module *m, det_tensor *x, int cell, struct rnn_state start,
                            struct rnn_state *end)
{
    const struct rnn *r = det_module_self(m);
    int first = cell * WEIGHTS_PER_CELL;
    det_rnn_weights w = {param(m, first + W_IH), param(m, first + W_HH), param(m, first + B_IH),
                         param(m, first + B_HH)};
    bool reverse = cell % r->n_directions == 1;
    switch (r->kind) {
    case RNN_TANH:
        return det_rnn_tanh(x, w, start.h, reverse, &end->h);
    case RNN_RELU:
        return det_rnn_relu(x, w, start.h, reverse, &end->h);
    case RNN_GRU:
        return det_gru(x, w, start.h, reverse, &end->h);
    case RNN_LSTM:
        return det_lstm(x, w, start.h, start.c, reverse, &end->h, &end->c);
    }
    return NULL;
}

// All layers and directions; final states go to r->last.
static det_tensor *run_cells(det_module *m, det_tensor *x, det_tensor *h0, det_tensor *c0)
{
    struct rnn *r = det_module_self(m);
    det_tensor **h_n = r->last, **c_n = r->last + n_cells(r);
    for (int layer = 0; layer < r->n_layers; layer++) {
        det_tensor *out[2] = {NULL};
        for (int d = 0; d < r->n_directions; d++) {
            int cell = layer * r->n_directions + d;
            struct rnn_state end = {NULL, NULL};
            struct rnn_state start = {h0 ? det_select(h0, 0, cell) : NULL,
                                      c0 ? det_select(c0, 0, cell) : NULL};
            out[d] = run_cell(m, x, cell, start, &end);
            h_n[cell] = end.h;
            c_n[cell] = end.c;
        }
        x = r->n_directions == 2 ? det_concat(out, 2, -1) : out[0];
        bool drop = r->dropout > 0 && m->training && layer + 1 < r->n_layers;
        if (drop) x = det_dropout(x, r->dropout, true);
    }
    return x;
}

static bool input_ok(const det_module *m, const struct rnn *r, det_tensor *x)
{
    char text[96];
    bool ok = det_ndim(x) == 3 && det_size(x, 2) == r->input_size;
    if (!ok)
        module_fail(m, DET_ESHAPE, "input is %s, wants 3 dims with %lld in the last",
                    det_describe(x, text, sizeof text), (long long)r->input_size);
    return ok;
}

static bool state_ok(const det_module *m, const struct rnn *r, det_tensor *state, int64_t batch)
{
    if (!state) return true;
    char text[96];
    bool ok = det_ndim(state) == 3 && det_size(state, 0) == n_cells(r) &&
              det_size(state, 1) == batch && det_size(state, 2) == r->hidden_size;
    if (!ok)
        module_fail(m, DET_ESHAPE, "initial state is %s, wants (%d, %lld, %lld)",
                    det_describe(state, text, sizeof text), n_cells(r), (long long)batch,
                    (long long)r->hidden_size);
    return ok;
}

// x in the caller's order of dims.
static det_tensor *run_sequence(det_module *m, det_tensor *x, det_tensor *h0, det_tensor *c0)
{
    const struct rnn *r = det_module_self(m);
    if (!input_ok(m, r, x)) return NULL;
    int64_t batch = det_size(x, r->batch_first ? 0 : 1);
    if (!state_ok(m, r, h0, batch) || !state_ok(m, r, c0, batch)) return NULL;
    if (!r->batch_first) return run_cells(m, x, h0, c0);
    return det_transpose(run_cells(m, det_transpose(x, 0, 1), h0, c0), 0, 1);
}

static det_tensor *rnn_forward(det_module *m, det_tensor *x)
{
    return run_sequence(m, x, NULL, NULL);
}

det_tensor *det_rnn_forward(det_module *rnn, det_tensor *x, det_tensor *h0, det_tensor *c0,
                            det_tensor **h_n, det_tensor **c_n)
{
    if (h_n) *h_n = NULL;
    if (c_n) *c_n = NULL;
    if (sticky_failed()) return NULL;
    if (!rnn || rnn->forward != rnn_forward) {
        det_raise(DET_EINVAL, "det_rnn_forward: %s is not an RNN, LSTM or GRU",
                  rnn ? rnn->type : "NULL");
        return NULL;
    }
    struct rnn *r = det_module_self(rnn);
    struct module_call call = module_enter(rnn);
    det_tensor *y = run_sequence(rnn, x, h0, c0);
    int n = n_cells(r);
    if (y && h_n) *h_n = det_stack(r->last, n, 0);
    if (y && c_n && r->kind == RNN_LSTM) *c_n = det_stack(r->last + n, n, 0);
    module_leave(&call);
    if (h_n) *h_n = module_result(&call, *h_n);
    if (c_n) *c_n = module_result(&call, *c_n);
    return module_result(&call, y);
}

// --- making

static void rnn_reset(det_module *m)
{
    const struct rnn *r = det_module_self(m);
    double bound = 1 / sqrt((double)r->hidden_size);
    for (int i = 0; i < m->params.n; i++)
        det_init_uniform(param(m, i), -bound, bound);
}

static void add_cell(det_module *m, int cell, int64_t n_gates, bool no_bias)
{
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    const struct rnn *r = det_module_self(m);
    int layer = cell / r->n_directions;
    int64_t below = layer ? r->hidden_size * r->n_directions : r->input_size;
    int64_t rows = n_gates * r->hidden_size;
    for (int i = 0; i < WEIGHTS_PER_CELL; i++) {
        char name[48];
        snprintf(name, sizeof name, "%s_l%d%s", names[i], layer,
                 cell % r->n_directions ? "_reverse" : "");
        if (i < B_IH)
            module_add_f32(m, name, DET_DIMS(rows, i == W_IH ? below : r->hidden_size));
        else if (no_bias)
            module_add_none(m, name);
        else
            module_add_f32(m, name, DET_DIMS(rows));
    }
}

struct rnn_type {
    const char *name;
    enum rnn_kind kind;
    int64_t n_gates;
};

static det_module *rnn_new(struct rnn_type type, int64_t in, int64_t hidden,
                           const det_rnn_opts *opts)
{
    enum { MAX_LAYERS = 1 << 10 };
    int64_t layers = opts->num_layers ? opts->num_layers : 1;
    if (!arg_at_least(type.name, "input_size", in, 1)) return NULL;
    if (!arg_at_least(type.name, "hidden_size", hidden, 1)) return NULL;
    if (!arg_at_least(type.name, "num_layers", layers, 1)) return NULL;
    if (!arg_is_probability(type.name, "dropout", opts->dropout)) return NULL;
    if (layers > MAX_LAYERS) {
        det_raise(DET_ELIMIT, "%s: num_layers is %lld, more than %d", type.name, (long long)layers,
                  MAX_LAYERS);
        return NULL;
    }
    int directions = opts->bidirectional ? 2 : 1;
    size_t last_bytes = 2 * (size_t)layers * (size_t)directions * sizeof(det_tensor *);
    det_module *m = det_module_new(type.name, sizeof(struct rnn) + last_bytes, rnn_forward);
    struct rnn *r = det_module_self(m);
    *r = (struct rnn){.kind = type.kind,
                      .n_layers = (int)layers,
                      .n_directions = directions,
                      .input_size = in,
                      .hidden_size = hidden,
                      .dropout = opts->dropout,
                      .batch_first = opts->batch_first};
    for (int cell = 0; cell < n_cells(r); cell++)
        add_cell(m, cell, type.n_gates, opts->no_bias);
    return module_ready(m, rnn_reset);
}

det_module *det_nn_rnn_with(int64_t in, int64_t hidden, det_rnn_opts opts)
{
    struct rnn_type type = {"RNN", opts.relu ? RNN_RELU : RNN_TANH, 1};
    return rnn_new(type, in, hidden, &opts);
}

det_module *det_nn_lstm_with(int64_t in, int64_t hidden, det_rnn_opts opts)
{
    return rnn_new((struct rnn_type){"LSTM", RNN_LSTM, 4}, in, hidden, &opts);
}

det_module *det_nn_gru_with(int64_t in, int64_t hidden, det_rnn_opts opts)
{
    return rnn_new((struct rnn_type){"GRU", RNN_GRU, 3}, in, hidden, &opts);
}
