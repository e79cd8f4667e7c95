// tensor/op_loss.h: what all losses do with the numbers of the elements. Private to the layer.
#pragma once

#include "tensor/ops.h"

// The mean or the sum of the elements' losses, or they themselves.
det_tensor *loss_reduced(det_tensor *each, det_reduction reduction);
det_tensor *at_least_zero(det_tensor *x);
// Losses compute in f32 under autocast, as rows with OP_F32 do.
det_tensor *as_loss_input(det_tensor *x);
