// det/sticky.h: the sticky error: one question for many calls.
//
// The first failure of a thread is kept, and what comes after it does nothing (NULL is accepted as
// an argument everywhere), until somebody asks:
//
//     det_tensor *loss = det_mse_loss(det_forward(model, x), y);
//     det_backward(loss);
//     if (det_check(&err)) return 1;
#pragma once

#include "det/err.h"

// Finishes pending work and returns 0, or the code of the first failure since the last det_check,
// filling err and clearing the state so that the next step starts clean.
DET_API int det_check(det_err *err);

// Puts a failure of the user's own into the sticky state (kept only if it is the first).
DET_API void det_raise(int code, const char *fmt, ...) DET_PRINTF(2, 3);
