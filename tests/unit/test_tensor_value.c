// Tensors in trees.
#include "det/tensor.h"
#include "support/test.h"
#include "tensor/tensor.h"

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

// Another object than a tensor is shared, not cloned.
static void test_value__clones_tensors(void **state)
{
    (void)state;
    det_scope_begin();
    det_tensor *t = det_scalar(3);
    det_value *list = det_value_list();
    det_value_push(list, det_value_tensor(t));
    det_value *copy = value_clone(list);
    det_tensor *cloned = det_value_as_tensor(det_value_at(copy, 0));
    assert_ptr_not_equal(cloned, t);
    assert_true(det_item(cloned) == 3);
    det_value_free(list);
    det_value_free(copy);
    det_scope_end();
}

RUN_TESTS(cmocka_unit_test(test_value__is_copied_as_a_tree),
          cmocka_unit_test(test_value__clones_tensors))
