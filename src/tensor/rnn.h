// tensor/rnn.h: a recurrent layer over a whole sequence. Private to the layer.
//
// All inputs are multiplied by w_ih at once. The recurrence itself needs no exchange between rows
// of the batch, so each piece of work takes some rows through all time steps, with w_hh packed once
// for all. Backward walks the steps the other way and then makes one product per weight over all
// steps.
#pragma once

#include "tensor/node.h"
#include "tensor/panels.h"

enum { RNN_IN_X, RNN_IN_W_IH, RNN_IN_W_HH, RNN_IN_B_IH, RNN_IN_B_HH, RNN_IN_H0, RNN_IN_C0 };
enum { RNN_OUT_ALL, RNN_OUT_H, RNN_OUT_C };
enum {
    RNN_AUX_GATES,
    RNN_AUX_STATE,
    RNN_AUX_X
}; // as struct rnn_step leaves them, (T, B, ...); x, row-major

struct rnn_attr {
    bool reverse;
    bool bf16; // products are made in bf16
};

// The sizes of a call.
struct rnn {
    enum rnn_kind kind;
    int64_t steps, batch, in, h, gates; // gates: G * h
    det_dtype type;                     // of gates and states: f32, or f64
    size_t size;                        // of an element of that
    bool reverse, bf16;
};

struct rnn rnn_of(const struct node *n);
enum rnn_kind rnn_kind_of(const struct node *n);
extern const int rnn_gates[RNN_N_KINDS];

int rnn_forward(struct node *n);
int rnn_backward(struct node *n);

// --- what forward and backward share (rnn.c)

int64_t rnn_step_at(const struct rnn *r, int64_t i); // time step at position i of the walk

// A row of one step of (T, B, width), or of (B, width) with step 0. NULL t gives NULL.
char *rnn_rows(const struct rnn *r, const det_tensor *t, int64_t step, int64_t row);

// x, row-major; kept for backward. NULL after an error.
det_tensor *rnn_input(struct node *n);
// An initial state in the type computed in; zeros if it is left out. Release it.
det_tensor *rnn_state_input(const struct node *n, const struct rnn *r, int i);
// w_hh packed as B, or as its transpose, in memory of its own. Release that.
det_tensor *rnn_pack(const struct node *n, const struct rnn *r, bool transposed, struct panels *p);

int64_t rnn_piece_rows(const struct rnn *r); // rows of the batch that one piece takes
// Memory of a piece, in one block of scratch.
struct piece_memory {
    char *hidden;   // GRU: w_hh h, (rows, 3 h)
    char *state[2]; // hidden states of this step and the last, where the output's type is another
    char *left;     // A for bf16 panels
};

bool rnn_piece_memory(const struct rnn *r, const struct panels *p, int64_t rows,
                      struct piece_memory *m);

// C (+)= rows of A times the panels; `memory` is for the form that bf16 panels want A in.
void rnn_multiply(const struct panels *p, int64_t m, const void *a, void *memory, void *c,
                  bool accumulate);
void rnn_convert(det_dtype to_type, void *to, det_dtype from_type, const void *from, int64_t n);

struct matrix rnn_matrix(const det_tensor *t, int64_t rs, int64_t cs);
int rnn_gemm(const struct node *n, const struct gemm *g);
