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
