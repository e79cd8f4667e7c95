// tensor/conv.h: convolutions on memory. Images are f32 (N, H, W, C), weights (OC, C / groups, KH, KW) as
// torch has them. Private to the layer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct conv {
    int64_t n, c, h, w;    // input
    int64_t oc, oh, ow;    // output
    int64_t kh, kw;        // kernel
    int64_t sh, sw;        // stride
    int64_t ph, pw;        // padding
    int64_t dh, dw;        // dilation
    int64_t groups;
};

// Each picks the fastest way for the shape: a plain matrix product for 1 x 1, Winograd for 3 x 3 with
// enough channels, else directly. All return 0 or DET_ENOMEM.
int conv_forward(const struct conv *s, const float *x, const float *w, const float *bias, float *y);
int conv_backward_data(const struct conv *s, const float *g, const float *w, float *dx);
int conv_backward_weights(const struct conv *s, const float *x, const float *g, float *dw,
                          bool accumulate);

// conv_winograd.c: 3 x 3, stride 1. The forward form serves backward_data too, with the roles of the
// channels exchanged and the kernel turned around.
bool winograd_fits(const struct conv *s);
int winograd_forward(const struct conv *s, const float *x, const float *w, const float *bias, float *y,
                     bool transposed);
int winograd_weights(const struct conv *s, const float *x, const float *g, float *dw,
                     bool accumulate);

// conv_direct.c: any shape.
int direct_forward(const struct conv *s, const float *x, const float *w, const float *bias, float *y);
int direct_data(const struct conv *s, const float *g, const float *w, float *dx);
int direct_weights(const struct conv *s, const float *x, const float *g, float *dw, bool accumulate);

// One image's rows [first, first + n_rows) of the padded image, padding as zeros: n_rows x
// (w + 2 pw) x c floats.
void conv_pad_rows(const struct conv *s, const float *image, int64_t first, int64_t n_rows,
                   float *out);

// conv_plain.c: f64, written for exactness and not for speed. x and y are (N, H, W, C) as above.
void plain_forward(const struct conv *s, const double *x, const double *w, const double *bias,
                   double *y);
void plain_data(const struct conv *s, const double *g, const double *w, double *dx);
void plain_weights(const struct conv *s, const double *x, const double *g, double *dw);
