// tensor/fuse.h: which operations can be merged. Private to the layer.
#pragma once

#include "tensor/node.h"

// consumer reads the output of producer (which has not run) as its input 0. absorb() may rewrite
// consumer into a merged operation over the producer's inputs and returns whether it did.
struct fusion {
    const struct op *producer, *consumer;
    bool (*absorb)(struct node *consumer, const struct node *producer);
};

// Ends with a NULL producer.
extern const struct fusion fusion_table[];

// For absorb(): makes consumer an op over in[0 .. n_in), keeping its output.
void node_rewrite(struct node *n, const struct op *op, det_tensor *const *in, int n_in,
                  const void *attr, size_t attr_bytes);
