// kernels/winograd.h: the transforms of Winograd's F(4 x 4, 3 x 3), F(4 x 2, 3 x 3) and F(2 x 2, 3
// x 3): a tile of inputs, two larger each way than that of outputs, and a 3 x 3 kernel become as
// many numbers (points) each; their products become the outputs. 4, 3 or 2.25 times fewer
// multiplications; what these round comes out 4.8, 2.8 or 1.7 times as large (winograd.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Outputs of a tile: 4 x 4, 4 x 2 or 2 x 2.
struct wino_shape {
    int rows, columns;
};

static inline int wino_points(struct wino_shape s)
{
    return (s.rows + 2) * (s.columns + 2);
}

// (H, W, C), f32 or bf16.
struct wino_image {
    void *data;
    bool bf16;
    int64_t h, w, c;
};

// The i-th of several behind one another, of which `first` is the first.
static inline struct wino_image wino_image_at(const struct wino_image *first, int64_t i)
{
    struct wino_image image = *first;
    image.data = (char *)first->data + i * first->h * first->w * first->c * (first->bf16 ? 2 : 4);
    return image;
}

// n tiles side by side, whose transforms are `next` floats apart: point p, channel c of the first
// one at to[p * step + c]. They overlap, and so does the work. Whole vectors of channels are
// written, zeros behind c.
struct wino_inputs {
    struct wino_image image;
    int64_t y, x; // of the first pixel; may lie outside, pixels there are zeros
    struct wino_shape shape;
    bool of_5; // F(2 x 2, 5 x 5): tiles of 6 x 6 that are 2 pixels apart
    int64_t n, next;
    float *to;
    int64_t step;
};

// Outputs, or gradients of them, at (y, x); what lies outside is left out, or zero.
struct wino_tile {
    struct wino_image image;
    int64_t y, x;
    struct wino_shape shape;
};

// Products of a tile of F(2 x 2, 5 x 5) -> one pixel of the pooled result, c channels of it.
struct wino_pool {
    const float *from; // point p at from[p * step ...]
    int64_t step, c;
    const float *bias; // NULL: none
    bool relu;
    float *out;
    uint8_t *winner; // which of the 2 x 2 was the largest
};
