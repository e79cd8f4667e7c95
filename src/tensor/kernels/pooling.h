// kernels/pooling.h: max pooling of (H, W, C) images, a vector of channels at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// One row of results. Windows start at y0 (and, for the i-th, at x0 + i * stride), may reach out of
// the image, and hold kh x kw pixels.
struct pool_row {
    const float *image;
    int64_t h, w, c;
    int64_t y0, x0, stride;
    int64_t kh, kw;
    int64_t n;            // results
    const float *bias;    // added to the winner; NULL: none
    bool relu;            // applied last
    float *out;           // (n, c)
    uint8_t *winner;      // (n, c), if the window has at most 256 pixels
    int32_t *wide_winner; // otherwise
};

// One row of results straight from the input of the convolution before, windows of 2 x 2 side by
// side; one panel of output channels. Segments and b are those of struct gemm_panel.
struct conv_pool_row {
    const float *image; // where the convolution of the first window's first pixel starts
    int64_t line, c;    // floats from a line to the next, from a pixel to the next
    int n_seg;
    const int64_t *seg;
    int64_t k;
    const float *b;
    int64_t b_stride;
    int width;
    int64_t n; // results
    const float *bias;
    bool relu;
    float *out;
    uint8_t *winner;
    int64_t ld; // from a result to the next
};

// Where the windows' gradients go: the winners of (n, c) results.
struct pool_row_grad {
    const float *g;
    const uint8_t *winner;
    const int32_t *wide_winner;
    int64_t h, w, c;
    int64_t y0, x0, stride;
    int64_t kh, kw;
    int64_t n;
    float *image; // gradients are added
};

// A gradient that is not zero, and where its factors start.
struct sparse_grad {
    float value;
    int32_t offset;
};

// The gradients of one image behind a pooled convolution: its results are (pixels, c).
struct pooled_image {
    const float *g, *y; // y: the result, if relu was applied; NULL otherwise
    const uint8_t *winner;
    int64_t pixels, c;
    const int32_t *origin;    // of each pixel's window in the input
    const int32_t *in_window; // of each winner, relative to that
};

enum { PICK_WINDOW = 4 }; // pixels of a window, at most

// What windows see at n places side by side: to[place][pixel of the window], pixels that are
// `offset` from a place, places `step` floats apart.
struct window_row {
    const float *from;
    int64_t n, step;
    int64_t offset[PICK_WINDOW];
    float *to;
};

// The results of one image and what their windows saw under every tap of the kernel; lanes pick
// from it by their winner.
struct pooled_pick {
    const float *g, *y;    // y: NULL without relu
    const uint8_t *winner; // with a vector's slack behind it
    int64_t pixels, c;
    const float *windows;  // PICK_WINDOW floats from each place on
    const int32_t *origin; // of each pixel
    const int32_t *tap;    // of each tap, relative to that
    int n_taps;
    float *sums;  // [tap][c], added to
    float *total; // c sums of the gradients, added to
};

// One channel's lists in several images, steps apart, and what their entries are multiplied with: a
// vector for each tap of the kernel, rows of taps from each offset on.
struct sparse_lists {
    const struct sparse_grad *list;
    const int32_t *count;
    const float *x;
    int64_t n_images, list_step, count_step, x_step;
    int64_t rows, row_step, taps; // taps of a row, side by side
};

// Entries that a list of sparse_scatter has room for beyond its own: several are written at a time.
enum { LIST_SLACK = 8 };

struct sparse_weights {
    const float *w;           // [kernel row][c][step], whole vectors
    int64_t kernel_rows, len; // len: kernel columns * input channels
    int64_t step;
    int64_t stride; // of the input's rows
    int n_window;   // pixels of a window
};
