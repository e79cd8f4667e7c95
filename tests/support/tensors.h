// tests/support/tensors.h: cmocka, and what tests of tensor programs need beside it.
#pragma once

#include "support/errors.h"

#include "det/tensor.h"

// All elements of an f32 tensor.
#define assert_values(t, ...)                         \
    assert_values_of(t, (const float[]){__VA_ARGS__}, \
                     sizeof((const float[]){__VA_ARGS__}) / sizeof(float), __FILE__, __LINE__)

static inline void assert_values_of(det_tensor *t, const float *expected, size_t n,
                                    const char *file, int line)
{
    const float *v = det_data_f32(t);
    if (!v || (size_t)det_numel(t) != n) {
        print_error("%s:%d: %lld elements, expected %zu\n", file, line, (long long)det_numel(t), n);
        fail();
    }
    for (size_t i = 0; v && i < n; i++)
        if (!(fabsf(v[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i])))) {
            print_error("%s:%d: element %zu is %.9g, expected %.9g\n", file, line, i, (double)v[i],
                        (double)expected[i]);
            fail();
        }
}

// Each test has a scope of its own, the same random numbers and no error waiting.
static inline int scope_setup(void **state)
{
    (void)state;
    det_manual_seed(1);
    det_scope_begin();
    return 0;
}

static inline int scope_teardown(void **state)
{
    (void)state;
    det_scope_end();
    return det_check(NULL); // an error nobody asked about
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, scope_setup, scope_teardown)
