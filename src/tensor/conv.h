// tensor/conv.h: convolutions on memory. Images are (N, H, W, C), f32 unless said otherwise,
// weights f32 (OC, C / groups, KH, KW) as torch has them. Private to the layer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct conv {
    int64_t n, c, h, w; // input
    int64_t oc, oh, ow; // output
    int64_t kh, kw;     // kernel
    int64_t sh, sw;     // stride
    int64_t ph, pw;     // padding
    int64_t dh, dw;     // dilation
    int64_t groups;
    bool bf16; // images and their gradients are bf16; see conv_takes_bf16
};

// Each picks the fastest way for the shape: a plain matrix product for 1 x 1, Winograd for 3 x 3
// with enough channels, else directly. All return 0 or DET_ENOMEM.
int conv_forward(const struct conv *s, const void *x, const float *w, const float *bias, void *y);
int conv_backward_data(const struct conv *s, const void *g, const float *w, void *dx);
int conv_backward_weights(const struct conv *s, const void *x, const void *g, float *dw,
                          bool accumulate);
// Whether all three do, for images of bf16. Weights must be such that bf16 can hold them.
bool conv_takes_bf16(const struct conv *s);

// conv_winograd.c: 3 x 3, stride 1. The forward form serves backward_data too, with the roles of
// the channels exchanged and the kernel turned around.
bool winograd_fits(const struct conv *s);
bool winograd_weights_fit(const struct conv *s); // the same for the gradient of the weights
// Floats from one point of n transformed tiles to the next: a line of the cache more, because the
// same tile of all points would want the same few places there.
static inline int64_t winograd_point_floats(int64_t n_tiles, int64_t channels)
{
    return n_tiles * channels + 16;
}
int winograd_forward(const struct conv *s, const void *x, const float *w, const float *bias,
                     void *y, bool transposed);
int winograd_weights(const struct conv *s, const void *x, const void *g, float *dw,
                     bool accumulate);

// conv_patches.c: bf16 only, stride 1, by instructions that multiply pairs of bf16 where these are
// the fastest way.
bool patches_fit(const struct conv *s);
int patches_forward(const struct conv *s, const uint16_t *x, const float *w, const float *bias,
                    uint16_t *y);
int patches_data(const struct conv *s, const uint16_t *g, const float *w, uint16_t *dx);
int patches_weights(const struct conv *s, const uint16_t *x, const uint16_t *g, float *dw,
                    bool accumulate);

// conv_direct.c: any shape.
int direct_forward(const struct conv *s, const float *x, const float *w, const float *bias,
                   float *y);
int direct_data(const struct conv *s, const float *g, const float *w, float *dx);
int direct_weights(const struct conv *s, const float *x, const float *g, float *dw,
                   bool accumulate);
// sums: [group][kernel row][(kernel column, channel)][output channel of the group]
void direct_store_weights(const struct conv *s, const float *sums, float *dw, bool accumulate);

// Columns of a product, in panels as wide as the kernels like.
int64_t panel_count(int64_t columns);
int panel_columns(int64_t columns, int64_t panel);

// The first of n_parts arrays of n floats, step apart, += the others, in order: sums that were made
// in parts are the same for any number of threads.
void add_parts(float *parts, int64_t step, int64_t n_parts, int64_t n);

// Its parts, for what merges something into a convolution: weights packed (into SCRATCH_A) and rows
// of outputs computed from rows of the padded input, without bias.
enum { DIRECT_MAX_SEGMENTS = 1024 };
struct direct_plan {
    const struct conv *s;
    const float *w;
    float *packed;
    int64_t k_total;  // kh * kw * c / groups
    int64_t group_oc; // output channels of a group
    int n_seg;
    int64_t seg[DIRECT_MAX_SEGMENTS];
    int64_t k; // of a segment
};
int direct_plan(struct direct_plan *d, const struct conv *s, const float *w);
void direct_rows(const struct direct_plan *d, const float *rows, float *y, int64_t n_rows);
// The input rows that output rows [oy, oy + n_rows) need; padded ones are made in SCRATCH_B. NULL:
// no memory.
const float *direct_input_rows(const struct conv *s, const float *image, int64_t oy,
                               int64_t n_rows);

// conv_pooled.c: convolution, max pooling without overlap and relu as one. Only the winner of each
// window has a gradient, and only where relu let it pass: backward works on those alone.
struct pooled {
    struct conv conv;
    int64_t kh, kw; // window, also the stride
    int64_t h, w;   // result
    bool relu;
};
bool pooled_fits(const struct pooled *p);
// winner (N, H, W, C): index of the largest pixel in its window.
int pooled_forward(const struct pooled *p, const float *x, const float *w, const float *bias,
                   float *y, uint8_t *winner);
struct pooled_grads {
    const float *x, *w, *y, *g;
    const uint8_t *winner;
    float *dx;         // NULL: not wanted
    float *dw;         // NULL: not wanted
    float *db;         // NULL: not wanted; overwritten
    bool accumulate_w; // add to dw
};
int pooled_backward(const struct pooled *p, const struct pooled_grads *grads);

// conv_pooled_winograd.c: forward with 5 x 5 kernels and 2 x 2 windows.
bool pooled_winograd_fits(const struct pooled *p);
int pooled_winograd_forward(const struct pooled *p, const float *x, const float *w,
                            const float *bias, float *y, uint8_t *winner);

// conv_pooled_picked.c: dw and db where lists of gradients cost more than they save: kernels with
// few elements.
bool pooled_picked_is_faster(const struct pooled *p);
int pooled_picked_weights(const struct pooled *p, const struct pooled_grads *grads);

// conv_plain.c: f64, written for exactness and not for speed. x and y are (N, H, W, C) as above.
void plain_forward(const struct conv *s, const double *x, const double *w, const double *bias,
                   double *y);
void plain_forward_i64(const struct conv *s, const int64_t *x, const int64_t *w,
                       const int64_t *bias, int64_t *y); // wraps around
void plain_data(const struct conv *s, const double *g, const double *w, double *dx);
void plain_weights(const struct conv *s, const double *x, const double *g, double *dw);
