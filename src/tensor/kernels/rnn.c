// Unit rnn.c: cells of recurrent layers in f32.
#include "tensor/kernels/kernels.h"

#include "tensor/kernels/vmath.h"

#define T float
#define SIGMOID vm_sigmoid
#define TANH vm_tanh
#include "tensor/kernels/rnn_cells.h"

rnn_step_fn KERNEL(rnn_step)(enum rnn_kind kind)
{
    return rnn_steps[kind];
}

rnn_step_grad_fn KERNEL(rnn_step_grad)(enum rnn_kind kind)
{
    return rnn_step_grads[kind];
}
