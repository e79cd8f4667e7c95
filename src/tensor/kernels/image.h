// kernels/image.h: a window of an image whose channels are fastest in memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct window {
    int64_t n_h, n_w, c;
    int64_t row_stride;                // elements from a row of pixels to the next
    bool bf16;                         // type of x and of the result
    const void *x;                     // the first pixel
    const double *weight_h, *weight_w; // window_sum: of its rows and columns
};
