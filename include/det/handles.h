// det/handles.h: the objects that training works with, by pointer.
//
// What is behind a pointer is known only to the engine that made it: that of this library
// (det/tensor.h, det/nn.h, det/optim.h, det/data.h), or another one. The training loop and trials
// pass them around; they never look inside.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "det/err.h"

typedef struct det_tensor det_tensor;             // a result that can be differentiated
typedef struct det_module det_module;             // a model: parameters, and how to apply them
typedef struct det_optimizer det_optimizer;       // changes parameters by their gradients
typedef struct det_lr_scheduler det_lr_scheduler; // changes the rates of an optimizer
typedef struct det_scaler det_scaler;             // scales losses in mixed precision
typedef struct det_loader det_loader;             // the batches of a dataset
typedef struct det_iter det_iter;                 // a place among them

typedef struct det_backward_opts {
    bool retain_graph; // backward may be called again on the same graph
    det_tensor *grad;  // gradient of the result, of any type; needed unless it is a single number
} det_backward_opts;

typedef struct det_iter_opts {
    bool repeat;        // epoch after epoch, forever
    int64_t skip;       // batches (of this rank) to start behind, in O(1)
    int replicas, rank; // 0: 1, 0. Each global batch of batch_size * replicas is shared out.
    uint64_t epoch;     // first epoch
    int64_t limit;      // batches (of this rank) of each epoch that are given out, at most; 0: all
} det_iter_opts;

// Who hears of what is allowed and rarely meant (det_set_warning_handler).
typedef struct det_warning_handler {
    void (*fn)(const char *text, void *user); // NULL: stderr
    void *user;
} det_warning_handler;
