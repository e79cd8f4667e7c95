// kernels/winograd.h: the transforms of Winograd's F(4 x 4, 3 x 3): a tile of 6 x 6 inputs and a 3
// x 3 kernel become 36 numbers each; their products become 4 x 4 outputs. 4 times fewer
// multiplications.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WINO_OUT = 4, WINO_IN = 6, WINO_POINTS = 36 };

// A tile of an image (H, W, C) and where its transform goes: point p, channel c at to[p * step +
// c].
struct wino_tile {
    const float *image;
    int64_t h, w, c;
    int64_t y, x; // of the first pixel; may lie outside, pixels there are zeros
    float *to;
    int64_t step;
};

// n such tiles side by side, `advance` pixels apart (2 or 4), whose transforms are `next` floats
// apart. They overlap, and so does the work. Whole vectors of channels are written, zeros behind c.
struct wino_tiles {
    struct wino_tile first;
    int64_t n, advance, next;
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
