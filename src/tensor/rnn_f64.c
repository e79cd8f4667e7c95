// Unit rnn_f64.c: cells of recurrent layers in f64. Called by op_rnn.c; not meant to be fast.
#include "tensor/rnn_f64.h"

#include <math.h>

#define DET_ISA plain
#include "tensor/kernels/simd.h"

#define T double
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define TANH tanh
#include "tensor/kernels/rnn_cells.h"

rnn_step_fn rnn_step_f64(enum rnn_kind kind)
{
    return rnn_steps[kind];
}

rnn_step_grad_fn rnn_step_grad_f64(enum rnn_kind kind)
{
    return rnn_step_grads[kind];
}
