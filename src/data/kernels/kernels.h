// data/kernels/kernels.h: the inner loop of byte images, compiled once per instruction set.
#pragma once

#include <stdint.h>

// out[i] = in[i] * scale + shift
typedef void (*bytes_to_f32_fn)(const uint8_t *in, float *out, int64_t n, float scale, float shift);

void bytes_to_f32_plain(const uint8_t *in, float *out, int64_t n, float scale, float shift);
void bytes_to_f32_avx2(const uint8_t *in, float *out, int64_t n, float scale, float shift);
void bytes_to_f32_avx512(const uint8_t *in, float *out, int64_t n, float scale, float shift);
