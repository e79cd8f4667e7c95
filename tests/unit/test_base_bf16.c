#include "support/test.h"

#include "base/bf16.h"
#include <math.h>

static void test_bf16__every_number_comes_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        float f = bf16_to_f32((uint16_t)half);
        if (isnan(f))
            assert_int_equal(f32_to_bf16(f), 0x7fc0);
        else
            assert_int_equal(f32_to_bf16(f), half);
    }
}

// Half of the distance between neighbours is 0x8000 in the bits of a float.
static void test_bf16__rounds_to_nearest_and_ties_to_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t wanted;
    } rows[] = {
        {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
        {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80}, {0x00008001, 0x0001}, {0x80008000, 0x8000},
        {0x7f800001, 0x7fc0}, {0xffffffff, 0x7fc0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float f;
        memcpy(&f, &rows[i].bits, sizeof f);
        assert_int_equal(f32_to_bf16(f), rows[i].wanted);
    }
}

RUN_TESTS(cmocka_unit_test(test_bf16__every_number_comes_back),
          cmocka_unit_test(test_bf16__rounds_to_nearest_and_ties_to_even))
