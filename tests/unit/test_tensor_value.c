#include "det/value.h"
#include "support/test.h"
#include <stdio.h>

static void test_value__finds_every_key_of_a_large_dict(void **state)
{
    (void)state;
    enum { N = 20000 };
    det_value *d = det_value_dict();
    char key[32];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "layer%d.weight", i);
        det_value_set(d, key, det_value_int(i));
        det_value_set_int(d, i, det_value_int(-i));
    }
    assert_int_equal(det_value_len(d), 2 * N);
    for (int i = 0; i < N; i++) {
        int64_t number;
        snprintf(key, sizeof key, "layer%d.weight", i);
        assert_int_equal(det_value_as_int(det_value_get(d, key), &number, NULL), 0);
        assert_int_equal(number, i);
        assert_int_equal(det_value_as_int(det_value_get_int(d, i), &number, NULL), 0);
        assert_int_equal(number, -i);
    }
    assert_null(det_value_get(d, "layer20000.weight"));
    assert_null(det_value_get_int(d, N));
    det_value_free(d);
}

static void test_value__keeps_the_order_of_insertion(void **state)
{
    (void)state;
    det_value *d = det_value_dict();
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", (i * 37) % 100);
        det_value_set(d, key, det_value_int(i));
    }
    det_value_set(d, "74", det_value_str("replaced"));
    assert_int_equal(det_value_len(d), 100);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", (i * 37) % 100);
        assert_string_equal(det_value_key(d, i, NULL), key);
    }
    assert_int_equal(det_value_kind(det_value_at(d, 2)), DET_V_STR);
    det_value_free(d);
}

RUN_TESTS(cmocka_unit_test(test_value__finds_every_key_of_a_large_dict),
          cmocka_unit_test(test_value__keeps_the_order_of_insertion))
