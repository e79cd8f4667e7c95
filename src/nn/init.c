// Unit init.c: initial values, drawn from the thread's random stream.
#include "nn/module.h"

#include <math.h>

enum { DRAW_AT_ONCE = 1 << 20 }; // elements; what is drawn is a tensor of its own for a moment

typedef det_tensor *(*draw_fn)(det_dtype dtype, const int64_t *shape, int ndim);

static void draw_piece(det_tensor *t, draw_fn draw, double scale, double shift)
{
    det_scope_begin();
    det_dtype dtype = det_dtype_of(t) == DET_F64 ? DET_F64 : DET_F32;
    det_tensor *random = draw(dtype, det_shape(t), det_ndim(t));
    det_copy_(t, det_add_scalar(det_mul_scalar(random, scale), shift));
    det_scope_end();
}

// t = draw() * scale + shift
static void draw_into(det_tensor *t, draw_fn draw, double scale, double shift)
{
    if (!t || sticky_failed()) return;
    bool old = det_set_grad_enabled(false);
    det_scope_begin();
    int64_t n = det_numel(t);
    if (n <= DRAW_AT_ONCE || !det_is_contiguous(t)) {
        draw_piece(t, draw, scale, shift);
    } else {
        det_tensor *flat = det_view(t, DET_DIMS(n));
        for (int64_t at = 0; at < n; at += DRAW_AT_ONCE)
            draw_piece(det_slice(flat, 0, at, MIN(at + DRAW_AT_ONCE, n), 1), draw, scale, shift);
    }
    det_scope_end();
    det_set_grad_enabled(old);
}

void det_init_uniform(det_tensor *t, double low, double high)
{
    draw_into(t, det_rand, high - low, low);
}

void det_init_normal(det_tensor *t, double mean, double std)
{
    draw_into(t, det_randn, std, mean);
}

void det_init_constant(det_tensor *t, double value)
{
    bool old = det_set_grad_enabled(false);
    det_fill_(t, value);
    det_set_grad_enabled(old);
}

// Inputs and outputs of one unit: the sizes of dims 1 and 0 times those of all further dims.
struct fan {
    double in, out;
};

static bool fan_of(const det_tensor *t, const char *function, struct fan *fan)
{
    if (!t || sticky_failed()) return false;
    if (det_ndim(t) < 2) {
        char text[96];
        det_raise(DET_ESHAPE, "%s: %s has fewer than 2 dims", function,
                  det_describe(t, text, sizeof text));
        return false;
    }
    double field = 1;
    for (int d = 2; d < det_ndim(t); d++)
        field *= (double)det_size(t, d);
    *fan =
        (struct fan){.in = (double)det_size(t, 1) * field, .out = (double)det_size(t, 0) * field};
    return det_numel(t) > 0;
}

void det_init_xavier_uniform(det_tensor *t, double gain)
{
    struct fan fan;
    if (!fan_of(t, "xavier_uniform", &fan)) return;
    double bound = gain * sqrt(6 / (fan.in + fan.out));
    det_init_uniform(t, -bound, bound);
}

void det_init_xavier_normal(det_tensor *t, double gain)
{
    struct fan fan;
    if (!fan_of(t, "xavier_normal", &fan)) return;
    det_init_normal(t, 0, gain * sqrt(2 / (fan.in + fan.out)));
}

static double kaiming_std(double a, double fan_in)
{
    return sqrt(2 / ((1 + a * a) * fan_in));
}

void det_init_kaiming_uniform(det_tensor *t, double a)
{
    struct fan fan;
    if (!fan_of(t, "kaiming_uniform", &fan)) return;
    double bound = sqrt(3) * kaiming_std(a, fan.in);
    det_init_uniform(t, -bound, bound);
}

void det_init_kaiming_normal(det_tensor *t, double a)
{
    struct fan fan;
    if (!fan_of(t, "kaiming_normal", &fan)) return;
    det_init_normal(t, 0, kaiming_std(a, fan.in));
}

// --- orthogonal

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// Makes n vectors of length len orthonormal, in order (Gram-Schmidt; the second round removes what
// rounding left in the first). That is the Q of a QR decomposition whose R has a positive diagonal.
static void orthonormalize(double *v, int64_t n, int64_t len)
{
    for (int64_t i = 0; i < n; i++) {
        double *own = v + i * len;
        for (int round = 0; round < 2; round++)
            for (int64_t j = 0; j < i; j++) {
                const double *other = v + j * len;
                double along = dot(own, other, len);
                for (int64_t k = 0; k < len; k++)
                    own[k] -= along * other[k];
            }
        double norm = sqrt(dot(own, own, len));
        for (int64_t k = 0; k < len; k++)
            own[k] /= norm;
    }
}

void det_init_orthogonal(det_tensor *t, double gain)
{
    struct fan fan;
    if (!fan_of(t, "orthogonal", &fan)) return;
    int64_t rows = det_size(t, 0), columns = det_numel(t) / rows;
    bool wide = rows <= columns;
    bool old = det_set_grad_enabled(false);
    det_scope_begin();
    det_tensor *q = det_randn(DET_F64, DET_DIMS(MIN(rows, columns), MAX(rows, columns)));
    if (q) orthonormalize(tensor_memory(q), det_size(q, 0), det_size(q, 1));
    det_tensor *scaled = det_mul_scalar(wide ? q : det_transpose(q, 0, 1), gain);
    det_copy_(t, det_reshape(scaled, det_shape(t), det_ndim(t)));
    det_scope_end();
    det_set_grad_enabled(old);
}
