// tests/support/values.h: compares trees of values, bit for bit; and tests that make tensors.
#pragma once

#include "support/test.h"

#include "det/tensor.h"
#include <string.h>

static inline bool tensors_equal(det_tensor *a, det_tensor *b)
{
    if (det_dtype_of(a) != det_dtype_of(b) || det_ndim(a) != det_ndim(b)) return false;
    if (memcmp(det_shape(a), det_shape(b), (size_t)det_ndim(a) * sizeof(int64_t))) return false;
    size_t n = (size_t)det_numel(a) * det_dtype_size(det_dtype_of(a));
    return !n || !memcmp(det_data(a), det_data(b), n);
}

static inline bool scalars_equal(const det_value *a, const det_value *b)
{
    bool p, q;
    int64_t i, j;
    double f, g;
    const char *s, *t;
    switch (det_value_kind(a)) {
    case DET_KIND_BOOL:
        return !det_value_as_bool(a, &p, NULL) && !det_value_as_bool(b, &q, NULL) && p == q;
    case DET_KIND_INT:
        return !det_value_as_int(a, &i, NULL) && !det_value_as_int(b, &j, NULL) && i == j;
    case DET_KIND_FLOAT:
        return !det_value_as_float(a, &f, NULL) && !det_value_as_float(b, &g, NULL) &&
               !memcmp(&f, &g, sizeof f);
    case DET_KIND_STR:
        return !det_value_as_str(a, &s, NULL) && !det_value_as_str(b, &t, NULL) && !strcmp(s, t);
    case DET_KIND_TENSOR:
        return tensors_equal(det_value_as_tensor(a), det_value_as_tensor(b));
    default:
        return true;
    }
}

static inline bool values_equal(const det_value *a, const det_value *b)
{
    if (det_value_kind(a) != det_value_kind(b) || det_value_len(a) != det_value_len(b))
        return false;
    if (!scalars_equal(a, b)) return false;
    for (int i = 0; i < det_value_len(a); i++) {
        int64_t m, n;
        const char *key = det_value_key(a, i, &m), *other = det_value_key(b, i, &n);
        if (!key != !other || m != n || (key && strcmp(key, other))) return false;
        if (!values_equal(det_value_at(a, i), det_value_at(b, i))) return false;
    }
    return true;
}

static inline int scope_setup(void **state)
{
    (void)state;
    det_scope_begin();
    return 0;
}

static inline int scope_teardown(void **state)
{
    (void)state;
    det_scope_end();
    return det_check(NULL);
}

// A test inside of a scope that leaves no error behind.
#define SCOPED(test) cmocka_unit_test_setup_teardown(test, scope_setup, scope_teardown)
