// kernels/rnn.h: one time step of a recurrent layer, for some rows of the batch.
#pragma once

#include <stdint.h>

enum rnn_kind { RNN_TANH, RNN_RELU, RNN_GRU, RNN_LSTM, RNN_N_KINDS };

// Elements are f32 (or f64, see rnn_cells.h). Rows of h elements, unless said otherwise; G is the
// number of gates: 1, 1, 3 (reset, update, new), 4 (input, forget, cell, output).
struct rnn_step {
    int64_t rows, h;
    void *gate;              // (rows, G h): sums before, activations after
    const void *hidden;      // GRU: w_hh h_prev (rows, 3 h); the other kinds have it in gate
    const void *hidden_bias; // GRU: b_hh of the third gate (h)
    const void *h_prev, *c_prev;
    void *state; // LSTM: the new cell state; GRU: third part of hidden, with its bias
    void *out;   // the new hidden state
};

struct rnn_step_grad {
    int64_t rows, h;
    const void *gate, *state, *h_prev, *c_prev; // as the step left them
    void *g_out;    // gradient of out; GRU: becomes what reaches h_prev directly
    void *g_state;  // LSTM: gradient of the cell state; becomes that of c_prev
    void *g_gate;   // (rows, G h): of the sums
    void *g_hidden; // GRU: of hidden (rows, 3 h)
};

typedef void (*rnn_step_fn)(const struct rnn_step *s);
typedef void (*rnn_step_grad_fn)(const struct rnn_step_grad *s);
