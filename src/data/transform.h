// data/transform.h: what a transform is. Private to the layer.
#pragma once

#include "det/data.h"

// An image on its way through transforms: u8 or f32, (H, W, C), or planar: (C, H, W). pixels is
// NULL after a failure (the sticky error is set) and belongs to the current scope.
struct image {
    det_tensor *pixels;
    bool planar;
};

struct transform_ops {
    struct image (*apply)(const det_transform *t, struct image in, const det_draw *draw);
    void (*free)(det_transform *t);
    bool takes_any; // tensors that are no images too
};

// The first member of every transform.
struct det_transform {
    const struct transform_ops *ops;
};

// An image of (H, W, C) bytes through t. NULL, and the sticky error is set, on failure.
det_tensor *transform_apply(const det_transform *t, det_tensor *image, const det_draw *draw);

void transform_free_memory(det_transform *t); // for transforms that are one block

// --- to_tensor, with normalisations that follow it

struct affine {
    det_transform base;
    int n_channels; // 1: the same for all
    double *scale;  // of a value in 0 .. 1
    double *shift;
};

// t as such a transform; NULL: it is another one.
const struct affine *transform_as_affine(const det_transform *t);

// If next normalises, makes it a part of t and frees it.
bool affine_absorb(struct affine *t, det_transform *next);

// n pixels of one channel of bytes.
void affine_bytes(const struct affine *a, int64_t channel, const uint8_t *in, float *out,
                  int64_t n);

// False, and the sticky error is set, if it was made for another number of channels.
bool affine_fits(const struct affine *a, int64_t n_channels);
