// data/sampler.h: what a sampler is. Private to the layer.
#pragma once

#include "det/data.h"

struct sampler_ops {
    // Indices first .. first + n - 1 of the epoch. Several threads at once.
    void (*fill)(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n, int64_t *out);
    void (*free)(det_sampler *s);
};

// The first member of every sampler.
struct det_sampler {
    const struct sampler_ops *ops;
    int64_t length;
};

void sampler_fill(const det_sampler *s, uint64_t epoch, int64_t first, int64_t n, int64_t *out);

// False, and the sticky error is set, if a sampler cannot have that length.
bool sampler_check_length(int64_t length, const char *function);
