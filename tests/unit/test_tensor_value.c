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
    assert_int_equal(det_value_kind(det_value_at(d, 2)), DET_KIND_STR);
    det_value_free(d);
}

// Containers are new, tensors the same.
static void test_value__is_copied_as_a_tree(void **state)
{
    (void)state;
    det_scope_begin();
    det_tensor *t = det_scalar(3);
    det_value *d = det_value_dict(), *list = det_value_set(d, "list", det_value_list());
    det_value_push(list, det_value_str("text"));
    det_value_push(list, det_value_tensor(t));
    det_value_push(list, det_value_none());
    det_value_set_int(d, 7, det_value_float(0.5));
    det_value *copy = det_value_copy(d);
    det_value_free(d);
    const char *text;
    double number;
    list = det_value_get(copy, "list");
    assert_int_equal(det_value_len(list), 3);
    assert_int_equal(det_value_as_str(det_value_at(list, 0), &text, NULL), 0);
    assert_string_equal(text, "text");
    assert_ptr_equal(det_value_as_tensor(det_value_at(list, 1)), t);
    assert_int_equal(det_value_kind(det_value_at(list, 2)), DET_KIND_NONE);
    assert_int_equal(det_value_as_float(det_value_get_int(copy, 7), &number, NULL), 0);
    assert_true(number == 0.5);
    det_value_free(copy);
    assert_null(det_value_copy(NULL));
    det_scope_end();
}

RUN_TESTS(cmocka_unit_test(test_value__finds_every_key_of_a_large_dict),
          cmocka_unit_test(test_value__keeps_the_order_of_insertion),
          cmocka_unit_test(test_value__is_copied_as_a_tree))
