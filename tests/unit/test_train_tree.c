// Trees as bytes, as ranks exchange them: they come back as they were, and damaged ones are errors.
#include "support/files.h"
#include "support/tensors.h"

#include "train/engine.h"

static det_value *make_tree(void)
{
    det_value *tree = det_value_dict();
    det_value_set(tree, "none", det_value_none());
    det_value_set(tree, "yes", det_value_bool(true));
    det_value_set(tree, "int", det_value_int(INT64_MIN));
    det_value_set(tree, "float", det_value_float(-0.1));
    det_value_set(tree, "text",
                  det_value_str("gr\xc3\xb6\xc3\x9f"
                                "er"));
    det_value *list = det_value_set(tree, "list", det_value_list());
    det_value_push(list, det_value_tuple());
    det_value_set_int(det_value_push(list, det_value_dict()), -7, det_value_int(1));
    const int64_t numbers[] = {1, 2, 3, 4, 5, 6};
    det_tensor *matrix = det_from(DET_I64, DET_DIMS(2, 3), numbers);
    det_value_push(list, det_value_tensor(det_transpose(matrix, 0, 1)));
    det_value_push(list, det_value_tensor(det_zeros(DET_BF16, DET_DIMS(0, 4))));
    det_value_push(list, det_value_tensor(det_scalar(2.5)));
    return tree;
}

static struct buf pack(void)
{
    det_err err;
    struct buf bytes = BUF_INIT(1 << 20);
    det_value *tree = make_tree();
    assert_ok(engine_det.pack(tree, &bytes, &err), &err);
    det_value_free(tree);
    return bytes;
}

static void test_tree__comes_back_as_it_was(void **state)
{
    (void)state;
    det_err err;
    struct buf bytes = pack();
    det_value *tree = engine_det.unpack(buf_str(&bytes), &err);
    if (!tree) fail_msg("%s", err.msg);
    int64_t number = 0;
    double real = 0;
    bool yes = false;
    const char *text = "";
    assert_int_equal(det_value_kind(det_value_get(tree, "none")), DET_V_NONE);
    assert_ok(det_value_as_bool(det_value_get(tree, "yes"), &yes, &err), &err);
    assert_ok(det_value_as_int(det_value_get(tree, "int"), &number, &err), &err);
    assert_ok(det_value_as_float(det_value_get(tree, "float"), &real, &err), &err);
    assert_ok(det_value_as_str(det_value_get(tree, "text"), &text, &err), &err);
    assert_true(yes && number == INT64_MIN && real == -0.1);
    assert_string_equal(text, "gr\xc3\xb6\xc3\x9f"
                              "er");
    const det_value *list = det_value_get(tree, "list");
    assert_int_equal(det_value_kind(det_value_at(list, 0)), DET_V_TUPLE);
    assert_ok(det_value_as_int(det_value_get_int(det_value_at(list, 1), -7), &number, &err), &err);
    assert_int_equal(number, 1);
    det_tensor *matrix = det_value_as_tensor(det_value_at(list, 2));
    assert_int_equal(det_size(matrix, 0), 3);
    assert_int_equal(det_data_i64(matrix)[1], 4);
    assert_int_equal(det_numel(det_value_as_tensor(det_value_at(list, 3))), 0);
    assert_near(det_item(det_value_as_tensor(det_value_at(list, 4))), 2.5, 0);
    det_value_free(tree);
    buf_done(&bytes);
}

static void test_tree__that_is_cut_off_is_an_error(void **state)
{
    (void)state;
    det_err err;
    struct buf bytes = pack();
    for (size_t n = 0; n < bytes.len; n++) {
        assert_null(engine_det.unpack((struct str){bytes.ptr, n}, &err));
        assert_failed_with(&err, DET_ECORRUPT, "damaged");
    }
    buf_done(&bytes);
}

// Whatever comes of it, it is a tree or an error.
static void test_tree__that_is_damaged_does_no_harm(void **state)
{
    (void)state;
    det_err err;
    struct buf bytes = pack();
    for (size_t i = 0; i < bytes.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes.ptr[i] ^= (char)(1 << bit);
            det_value_free(engine_det.unpack(buf_str(&bytes), &err));
            bytes.ptr[i] ^= (char)(1 << bit);
        }
    buf_done(&bytes);
}

RUN_TESTS(TEST(test_tree__comes_back_as_it_was), TEST(test_tree__that_is_cut_off_is_an_error),
          TEST(test_tree__that_is_damaged_does_no_harm))
