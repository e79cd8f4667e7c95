// Trees of values, with objects of an engine in them; trees as bytes; the sticky error.
#include "support/test.h"
#include "value/value.h"
#include <stdio.h>
#include <string.h>

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

// --- objects

struct thing {
    int refs;
    char text[16];
};

static void thing_retain(void *object)
{
    ((struct thing *)object)->refs++;
}

static void thing_release(void *object)
{
    ((struct thing *)object)->refs--;
}

static const struct object_type thing_type = {"thing", DET_KIND_OBJECT, thing_retain,
                                              thing_release};
static const struct object_type other_type = {"other", DET_KIND_OBJECT, thing_retain,
                                              thing_release};

static void test_value__holds_an_object_by_reference(void **state)
{
    (void)state;
    struct thing thing = {.refs = 1};
    det_value *v = value_object(&thing_type, &thing);
    assert_int_equal(thing.refs, 2);
    assert_int_equal(det_value_kind(v), DET_KIND_OBJECT);
    assert_ptr_equal(value_as_object(v, &thing_type), &thing);
    assert_null(value_as_object(v, &other_type));
    assert_ptr_equal(value_object_type(v), &thing_type);
    assert_null(value_object(&thing_type, NULL));
    det_value *list = det_value_list();
    det_value_push(list, v);
    det_value *copy = det_value_copy(list);
    assert_int_equal(thing.refs, 3);
    det_value_free(list);
    det_value_free(copy);
    assert_int_equal(thing.refs, 1);
    det_value_free(value_object_take(&thing_type, &thing));
    assert_int_equal(thing.refs, 0);
}

static void test_value__names_an_object_in_messages(void **state)
{
    (void)state;
    struct thing thing = {.refs = 1};
    det_value *v = value_object(&thing_type, &thing);
    det_err err;
    int64_t number;
    assert_int_equal(det_value_as_int(v, &number, &err), DET_EINVAL);
    assert_string_equal(err.msg, "thing where an int was expected");
    det_value_free(v);
}

// --- as bytes

static int thing_pack(const det_value *object, struct buf *out, det_err *err)
{
    const struct thing *t = value_as_object(object, &thing_type);
    if (!t->text[0]) return det_fail(err, DET_EINVAL, "an empty thing");
    buf_addz(out, t->text);
    return 0;
}

static struct thing unpacked;

static det_value *thing_unpack(struct str bytes, det_err *err)
{
    if (bytes.len >= sizeof unpacked.text) {
        det_fail(err, DET_EINVAL, "a long thing");
        return NULL;
    }
    unpacked = (struct thing){.refs = 0};
    memcpy(unpacked.text, bytes.ptr, bytes.len);
    return value_object(&thing_type, &unpacked);
}

static det_value *tree_with(struct thing *thing)
{
    det_value *tree = det_value_dict(), *tuple = det_value_set(tree, "tuple", det_value_tuple());
    det_value_push(tuple, det_value_none());
    det_value_push(tuple, det_value_bool(true));
    det_value_push(tuple, det_value_int(-7));
    det_value_push(tuple, det_value_float(0.1));
    det_value_push(tuple, det_value_str("text"));
    det_value_set_int(tree, 1LL << 40, det_value_list());
    det_value_set(tree, "thing", value_object(&thing_type, thing));
    return tree;
}

static void test_pack__brings_back_the_same_tree(void **state)
{
    (void)state;
    struct thing thing = {.refs = 1, .text = "mine"};
    struct buf bytes = BUF_INIT(1 << 20);
    det_err err;
    det_value *tree = tree_with(&thing);
    assert_int_equal(value_pack(tree, thing_pack, &bytes, &err), 0);
    det_value_free(tree);
    det_value *back = value_unpack(buf_str(&bytes), thing_unpack, &err);
    assert_non_null(back);
    det_value *tuple = det_value_get(back, "tuple");
    const char *text;
    double f;
    assert_int_equal(det_value_kind(tuple), DET_KIND_TUPLE);
    assert_int_equal(det_value_len(tuple), 5);
    assert_int_equal(det_value_as_float(det_value_at(tuple, 3), &f, NULL), 0);
    assert_true(f == 0.1);
    assert_int_equal(det_value_as_str(det_value_at(tuple, 4), &text, NULL), 0);
    assert_string_equal(text, "text");
    assert_int_equal(det_value_kind(det_value_get_int(back, 1LL << 40)), DET_KIND_LIST);
    assert_string_equal(
        ((struct thing *)value_as_object(det_value_get(back, "thing"), &thing_type))->text, "mine");
    det_value_free(back);
    buf_done(&bytes);
}

static void test_pack__refuses_damaged_bytes(void **state)
{
    (void)state;
    struct thing thing = {.refs = 1, .text = "mine"};
    struct buf bytes = BUF_INIT(1 << 20);
    det_err err;
    det_value *tree = tree_with(&thing);
    assert_int_equal(value_pack(tree, thing_pack, &bytes, &err), 0);
    det_value_free(tree);
    for (size_t n = 0; n < bytes.len; n++) { // cut anywhere
        assert_null(value_unpack((struct str){bytes.ptr, n}, thing_unpack, &err));
        assert_int_equal(err.code, DET_ECORRUPT);
    }
    for (size_t i = 0; i < bytes.len; i++) { // changed anywhere: another tree, or none
        char kept = bytes.ptr[i];
        bytes.ptr[i] = (char)~kept;
        det_value_free(value_unpack(buf_str(&bytes), thing_unpack, &err));
        bytes.ptr[i] = kept;
    }
    buf_done(&bytes);
}

static void test_pack__passes_on_what_the_engine_says(void **state)
{
    (void)state;
    struct thing empty = {.refs = 1};
    struct buf bytes = BUF_INIT(1 << 20), small = BUF_INIT(20);
    det_err err;
    det_value *tree = tree_with(&empty);
    assert_int_equal(value_pack(tree, thing_pack, &bytes, &err), DET_EINVAL);
    assert_string_equal(err.msg, "an empty thing");
    snprintf(empty.text, sizeof empty.text, "full");
    assert_int_equal(value_pack(tree, thing_pack, &small, &err), DET_ELIMIT);
    det_value_free(tree);
    buf_done(&bytes);
    buf_done(&small);
}

// --- the sticky error

static void test_sticky__keeps_the_first_failure(void **state)
{
    (void)state;
    det_err err;
    det_raise(DET_ESHAPE, "the %s", "first");
    det_raise(DET_EIO, "the second");
    assert_true(sticky_failed());
    assert_int_equal(det_check(&err), DET_ESHAPE);
    assert_string_equal(err.msg, "the first");
    assert_false(sticky_failed());
    assert_int_equal(det_check(&err), 0);
    assert_int_equal(err.code, 0);
}

static int n_put_off;

static void finish_one(void)
{
    if (n_put_off && !sticky_failed()) det_raise(DET_EIO, "work %d failed", n_put_off--);
}

// All that was put off is done when the question is answered; the first failure is the answer.
static void test_sticky__finishes_what_was_put_off(void **state)
{
    (void)state;
    det_err err;
    n_put_off = 3;
    sticky_finish = finish_one;
    assert_int_equal(det_check(&err), DET_EIO);
    assert_string_equal(err.msg, "work 3 failed");
    assert_int_equal(n_put_off, 0);
    assert_int_equal(det_check(&err), 0);
    sticky_finish = NULL;
}

RUN_TESTS(cmocka_unit_test(test_value__finds_every_key_of_a_large_dict),
          cmocka_unit_test(test_value__keeps_the_order_of_insertion),
          cmocka_unit_test(test_value__holds_an_object_by_reference),
          cmocka_unit_test(test_value__names_an_object_in_messages),
          cmocka_unit_test(test_pack__brings_back_the_same_tree),
          cmocka_unit_test(test_pack__refuses_damaged_bytes),
          cmocka_unit_test(test_pack__passes_on_what_the_engine_says),
          cmocka_unit_test(test_sticky__keeps_the_first_failure),
          cmocka_unit_test(test_sticky__finishes_what_was_put_off))
