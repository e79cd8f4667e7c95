// format/blocks.h: which tensors share memory. Files of torch keep memory and views of it apart;
// tensors that overlap become views of one block, so that they still overlap after loading.
#pragma once

#include "tensor/tensor.h"

struct block {
    const char *start;
    size_t n_bytes;
    det_dtype dtype;
};

struct block_view {
    uint32_t block;
    int64_t offset; // of the first element, in elements
};

struct block_plan {
    struct block *blocks;     // in the order in which the tensors first need them
    struct block_view *views; // one per tensor
    uint32_t n_blocks;
};

// Tensors of different types never share a block, and memory between tensors is not part of any:
// parameters that an optimizer keeps side by side get a block each.
int blocks_plan(struct block_plan *plan, det_tensor *const *tensors, uint32_t n, det_err *err);
void blocks_done(struct block_plan *plan);
