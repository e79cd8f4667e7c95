// tensor/rnn_f64.h: cells of recurrent layers in f64. Private to the layer.
#pragma once

#include "tensor/kernels/rnn.h"

rnn_step_fn rnn_step_f64(enum rnn_kind kind);
rnn_step_grad_fn rnn_step_grad_f64(enum rnn_kind kind);
