// Unit conv.c: chooses how to convolve.
#include "tensor/conv.h"

#include "tensor/gemm.h"
#include "tensor/node.h"

// A 1 x 1 kernel multiplies every pixel by the same matrix.
static bool is_pointwise(const struct conv *s)
{
    return s->kh == 1 && s->kw == 1 && s->sh == 1 && s->sw == 1 && !s->ph && !s->pw &&
           s->groups == 1;
}

static det_dtype image_type(const struct conv *s)
{
    return s->bf16 ? DET_BF16 : DET_F32;
}

static struct matrix image_rows(const struct conv *s, const void *data, int64_t rs, int64_t cs)
{
    return (struct matrix){data, image_type(s), rs, cs};
}

static struct matrix weight_rows(const float *data, int64_t rs, int64_t cs)
{
    return (struct matrix){data, DET_F32, rs, cs};
}

static bool winograd_goes_back(const struct conv *s) // the gradient of the input
{
    return winograd_fits(s) && s->ph <= 2 && s->pw <= 2;
}

bool conv_takes_bf16(const struct conv *s)
{
    return is_pointwise(s) || patches_fit(s) || (winograd_goes_back(s) && winograd_weights_fit(s));
}

int conv_forward(const struct conv *s, const void *x, const float *w, const float *bias, void *y)
{
    if (is_pointwise(s))
        return gemm(&(struct gemm){.m = s->n * s->h * s->w,
                                   .n = s->oc,
                                   .k = s->c,
                                   .a = image_rows(s, x, s->c, 1),
                                   .b = weight_rows(w, 1, s->c),
                                   .c = y,
                                   .ldc = s->oc,
                                   .c_dtype = image_type(s),
                                   .bias = bias});
    if (s->bf16 && patches_fit(s)) return patches_forward(s, x, w, bias, y);
    if (winograd_fits(s)) return winograd_forward(s, x, w, bias, y, false);
    return direct_forward(s, x, w, bias, y);
}

int conv_backward_data(const struct conv *s, const void *g, const float *w, void *dx)
{
    if (is_pointwise(s))
        return gemm(&(struct gemm){.m = s->n * s->h * s->w,
                                   .n = s->c,
                                   .k = s->oc,
                                   .a = image_rows(s, g, s->oc, 1),
                                   .b = weight_rows(w, s->c, 1),
                                   .c = dx,
                                   .ldc = s->c,
                                   .c_dtype = image_type(s)});
    if (s->bf16 && patches_fit(s)) return patches_data(s, g, w, dx);
    if (winograd_goes_back(s)) {
        struct conv t = *s; // the gradient is convolved back onto the input
        t.c = s->oc, t.h = s->oh, t.w = s->ow;
        t.oc = s->c, t.oh = s->h, t.ow = s->w;
        t.ph = 2 - s->ph, t.pw = 2 - s->pw;
        return winograd_forward(&t, g, w, NULL, dx, true);
    }
    return direct_data(s, g, w, dx);
}

int conv_backward_weights(const struct conv *s, const void *x, const void *g, float *dw,
                          bool accumulate)
{
    if (is_pointwise(s))
        return gemm(&(struct gemm){.m = s->oc,
                                   .n = s->c,
                                   .k = s->n * s->h * s->w,
                                   .a = image_rows(s, g, 1, s->oc),
                                   .b = image_rows(s, x, s->c, 1),
                                   .c = dw,
                                   .ldc = s->c,
                                   .c_dtype = DET_F32,
                                   .accumulate = accumulate});
    if (!s->n) { // the others start from the first image
        if (!accumulate)
            memset(dw, 0, (size_t)(s->oc * s->c / s->groups * s->kh * s->kw) * sizeof *dw);
        return 0;
    }
    if (s->bf16 && patches_fit(s)) return patches_weights(s, x, g, dw, accumulate);
    if (winograd_weights_fit(s)) return winograd_weights(s, x, g, dw, accumulate);
    return direct_weights(s, x, g, dw, accumulate);
}
