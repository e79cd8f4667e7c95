// tests/support/errors.h: checks of errors, the sticky one included, and of numbers.
#pragma once

#include "support/test.h"

#include "det/sticky.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof *(array))

// No sticky error is set.
#define assert_fine()                                                  \
    do {                                                               \
        det_err fine_err;                                              \
        if (det_check(&fine_err)) fail_msg("error: %s", fine_err.msg); \
    } while (0)

// The error e is of that code, and its message holds that text.
#define assert_err(e, wanted, text)                                                          \
    do {                                                                                     \
        if ((e).code != (wanted) || !strstr((e).msg, text))                                  \
            fail_msg("got %s '%s', expected %s '...%s...'", det_err_name((e).code), (e).msg, \
                     det_err_name(wanted), text);                                            \
    } while (0)

// The sticky error is that one; it is cleared.
#define assert_raised(wanted, text)           \
    do {                                      \
        det_err raised_err;                   \
        det_check(&raised_err);               \
        assert_err(raised_err, wanted, text); \
    } while (0)

#define assert_near(a, b, tolerance)                                   \
    do {                                                               \
        double near_a = (a), near_b = (b);                             \
        if (!(fabs(near_a - near_b) <= (tolerance)))                   \
            fail_msg("%s is %.9g, expected %.9g", #a, near_a, near_b); \
    } while (0)
