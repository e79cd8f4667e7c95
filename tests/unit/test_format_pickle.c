// Pickles written by hand, opcode by opcode, as the data.pkl of an archive.
#include "format/format.h"
#include "support/archive.h"
#include "support/files.h"
#include "support/values.h"

// An archive with this pickle, a storage 0 of 16 bytes and an empty storage 1.
static det_value *load(struct str pickle, det_err *err)
{
    static const char zeros[16];
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "a/data.pkl", pickle);
    archive_add(&a, "a/data/0", (struct str){zeros, sizeof zeros});
    archive_add(&a, "a/data/1", STR(""));
    det_value *v = pth_parse(archive_end(&a), err);
    archive_done(&a);
    return v;
}

#define PROTO "\x80\x02"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define HOOKS "ccollections\nOrderedDict\n)R"
// ('storage', torch.<type>, key, 'cpu', numel) as a persistent id
#define STORAGE(type, key, numel) \
    "(X\x07\0\0\0storage"         \
    "ctorch\n" type "\n"          \
    "X\1\0\0\0" key "X\3\0\0\0cpu" numel "tQ"

struct refusal {
    struct str pickle;
    int code;
    const char *text;
};

static void assert_refused(const struct refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        det_err err = {0};
        det_value *v = load(rows[i].pickle, &err);
        if (v) fail_msg("case %zu (%s) was accepted", i, rows[i].text);
        assert_failed_with(&err, rows[i].code, rows[i].text);
    }
}

#define ASSERT_REFUSED(rows) assert_refused(rows, sizeof(rows) / sizeof *(rows))

static void test_pickle__reads_every_form_of_a_number(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = load(STR(PROTO "]("
                                  "K\xff"
                                  "M\xff\xff"
                                  "J\xff\xff\xff\xff"
                                  "\x8a\x00"
                                  "\x8a\x01\x80"
                                  "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
                                  "\x8b\x02\0\0\0\x00\x80"
                                  "e."),
                        &err);
    static const int64_t wanted[] = {255, 65535, -1, 0, -128, INT64_MAX, -32768};
    assert_non_null(v);
    for (int i = 0; i < 7; i++) {
        int64_t number;
        assert_int_equal(det_value_as_int(det_value_at(v, i), &number, NULL), 0);
        assert_int_equal(number, wanted[i]);
    }
    det_value_free(v);
}

static void test_pickle__repeats_what_the_memo_shares(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = load(STR(PROTO "](](K\1eq\0h\0r\1\1\0\0h\0e."), &err);
    assert_null(v); // a memo number beyond the size of the pickle
    assert_failed_with(&err, DET_ELIMIT, "memo number 257");
    v = load(STR(PROTO "](](K\1eq\0h\0h\0e."), &err);
    assert_int_equal(det_value_len(v), 3);
    assert_true(values_equal(det_value_at(v, 0), det_value_at(v, 2)));
    det_value_free(v);
}

static void test_pickle__keeps_the_last_value_of_a_key(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = load(STR(PROTO "}(K\1NK\2K\7K\1K\5u."), &err);
    int64_t number;
    assert_int_equal(det_value_len(v), 2);
    assert_int_equal(det_value_as_int(det_value_at(v, 0), &number, NULL), 0);
    assert_int_equal(number, 5);
    det_value_free(v);
}

static void test_pickle__refuses_names_that_are_not_data(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {STR(PROTO "cos\nsystem\nX\2\0\0\0ls\x85R."), DET_EUNSUPPORTED,
         "a/data.pkl: byte 2 (GLOBAL): os.system is not plain data"},
        {STR("\x80\x04\x8c\x02os\x8c\x06system\x93."), DET_EUNSUPPORTED, "byte 14 (STACK_GLOBAL)"},
        {STR(PROTO "ctorch\nComplexFloatStorage\n."), DET_EUNSUPPORTED,
         "type torch.ComplexFloatStorage"},
        {STR(PROTO "ctorch\nFloatStorage\n."), DET_EUNSUPPORTED, "a global as a value"},
        {STR(PROTO STORAGE("FloatStorage", "0", "K\4") "."), DET_EUNSUPPORTED,
         "a storage as a value"},
        {STR(PROTO "ctorch\nFloatStorage\n)R."), DET_EUNSUPPORTED, "calls torch.FloatStorage"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_opcodes_that_data_does_not_need(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {STR(PROTO "C\1x."), DET_EUNSUPPORTED, "byte 2 (SHORT_BINBYTES)"},
        {STR(PROTO "N0N."), DET_EUNSUPPORTED, "byte 3 (POP)"},
        {STR(PROTO ")\x81."), DET_EUNSUPPORTED, "NEWOBJ"},
        {STR(PROTO "\xff."), DET_ECORRUPT, "byte 2 (?): no opcode has the number 0xff"},
        {STR("\x80\x06N."), DET_EUNSUPPORTED, "protocol 6"},
        {STR("N."), DET_ECORRUPT, "not a pickle of protocol 2"},
        {STR(""), DET_ECORRUPT, "not a pickle of protocol 2"},
        {STR(PROTO PROTO "N."), DET_ECORRUPT, "in the middle"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_a_machine_out_of_order(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {STR(PROTO "."), DET_ECORRUPT, "byte 2 (STOP): 0 objects and 0 marks"},
        {STR(PROTO "NN."), DET_ECORRUPT, "2 objects"},
        {STR(PROTO "(N."), DET_ECORRUPT, "1 marks"},
        {STR(PROTO "N.N"), DET_ECORRUPT, "1 bytes to come"},
        {STR(PROTO "N"), DET_ECORRUPT, "ends at byte 3 without STOP"},
        {STR(PROTO "t."), DET_ECORRUPT, "needs a mark"},
        {STR(PROTO "N\x86."), DET_ECORRUPT, "needs 2 objects on the stack, there are 1"},
        {STR(PROTO "N(\x85."), DET_ECORRUPT, "there are 0"}, // what is below a mark is out of reach
        {STR(PROTO "NNa."), DET_ECORRUPT, "needs a list, there is a None"},
        {STR(PROTO "](Nu."), DET_ECORRUPT, "needs a dict, there is a list"},
        {STR(PROTO "}(Nu."), DET_ECORRUPT, "a key without a value"},
        {STR(PROTO "}NNs."), DET_EUNSUPPORTED, "a key of type None"},
        {STR(PROTO "}\x88Ns."), DET_EUNSUPPORTED, "a key of type bool"},
        {STR(PROTO "h\0."), DET_ECORRUPT, "memo number 0 was never set"},
        {STR(PROTO "q\0."), DET_ECORRUPT, "needs 1 objects"},
        {STR(PROTO "Nr\xff\xff\xff\xff."), DET_ELIMIT, "memo number 4294967295"},
        {STR(PROTO "}}b."), DET_ECORRUPT, "attributes for a plain dict"},
        {STR(PROTO "NNR."), DET_ECORRUPT, "needs a tuple, there is a None"},
        {STR(PROTO "N)R."), DET_ECORRUPT, "needs a global, there is a None"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_what_is_cut_off_or_too_large(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {STR(PROTO "J\0\0"), DET_ECORRUPT, "4 bytes long, the pickle ends after 2"},
        {STR(PROTO "X\xff\xff\xff\xffx."), DET_ECORRUPT, "4294967295 bytes long"},
        {STR("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), DET_ECORRUPT, "(BINUNICODE8)"},
        {STR("\x80\x04\x95\xff\0\0\0\0\0\0\0N."), DET_ECORRUPT, "a frame of 255 bytes"},
        {STR(PROTO "ctorch\nSize"), DET_ECORRUPT, "two lines do not end"},
        {STR(PROTO "\x8a\x09\0\0\0\0\0\0\0\0\1."), DET_EUNSUPPORTED, "an integer of 9 bytes"},
        {STR(PROTO "\x8b\xff\xff\xff\xff."), DET_EUNSUPPORTED, "an integer of 4294967295 bytes"},
        {STR(PROTO "X\1\0\0\0\xff."), DET_EUNSUPPORTED, "not UTF-8"},
        {STR(PROTO "X\1\0\0\0\0."), DET_EUNSUPPORTED, "NUL"},
    };
    ASSERT_REFUSED(rows);
}

// _rebuild_tensor_v2(storage 0 of 4 floats, offset, size, stride, False, OrderedDict())
#define TENSOR(offset, size, stride)                                                               \
    STR(PROTO REBUILD "(" STORAGE("FloatStorage", "0", "K\4") offset size stride "\x89" HOOKS "tR" \
                                                                                 ".")

static void test_pickle__reads_views(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = load(TENSOR("K\1", "K\3\x85", "K\1\x85"), &err);
    assert_non_null(v);
    assert_int_equal(det_numel(det_value_as_tensor(v)), 3);
    det_value_free(v);
    v = load(TENSOR("K\3", "K\2K\2\x86", "K\0K\0\x86"), &err); // expanded
    assert_non_null(v);
    assert_int_equal(det_numel(det_value_as_tensor(v)), 4);
    det_value_free(v);
    v = load(TENSOR("K\x09", "K\0K\5\x86", "K\7K\1\x86"),
             &err); // empty: where it lies does not matter
    assert_non_null(v);
    assert_int_equal(det_numel(det_value_as_tensor(v)), 0);
    det_value_free(v);
}

static void test_pickle__refuses_views_outside_of_their_storage(void **state)
{
    (void)state;
#define HUGE_INT "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
    static const struct refusal rows[] = {
        {TENSOR("K\2", "K\3\x85", "K\1\x85"), DET_ECORRUPT,
         "torch._utils._rebuild_tensor_v2: a view over 3 elements from element 2 of a storage that "
         "has 4"},
        {TENSOR("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85"), DET_ECORRUPT, "from element -1"},
        {TENSOR("K\0", "K\2\x85", "K\4\x85"), DET_ECORRUPT, "a view over 5 elements"},
        {TENSOR("K\0", "K\2\x85", HUGE_INT "\x85"), DET_ECORRUPT, "too large"},
        {TENSOR("K\0", HUGE_INT "K\2\x86", "K\0K\0\x86"), DET_ECORRUPT, "too large"},
        {TENSOR(HUGE_INT, "K\1\x85", "K\1\x85"), DET_ECORRUPT, "of a storage that has 4"},
        {TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85"), DET_ECORRUPT, "negative"},
        {TENSOR("K\0", "K\2\x85", "J\xff\xff\xff\xff\x85"), DET_ECORRUPT, "negative"},
        {TENSOR("K\0", "K\2\x85", "K\1K\1\x86"), DET_ECORRUPT, "1 sizes but 2 strides"},
        {TENSOR("K\0", "N\x85", "K\1\x85"), DET_ECORRUPT, "item 0 is a None, not a int"},
        {TENSOR("N", "K\2\x85", "K\1\x85"), DET_ECORRUPT, "item 1 is a None, not a int"},
        {TENSOR("K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", ")"), DET_EUNSUPPORTED, "9 dims"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_calls_with_other_arguments(void **state)
{
    (void)state;
#define FIRST_SIX STORAGE("FloatStorage", "0", "K\4") "K\0))\x89" HOOKS
    static const struct refusal rows[] = {
        {STR(PROTO REBUILD ")R."), DET_ECORRUPT, "0 items, item 0 should be a storage"},
        {STR(PROTO REBUILD "(" FIRST_SIX "}tR."), DET_EUNSUPPORTED, "7 arguments"},
        {STR(PROTO "ctorch._utils\n_rebuild_parameter\nN\x85R."), DET_ECORRUPT, "not a tensor"},
        {STR(PROTO "ccollections\nOrderedDict\n]\x85R."), DET_EUNSUPPORTED, "1 arguments"},
        {STR(PROTO "ctorch\nSize\nK\1\x85R."), DET_ECORRUPT, "not a tuple"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_storages_that_are_not_there(void **state)
{
    (void)state;
#define WHOLE(storage) STR(PROTO REBUILD "(" storage "K\0))\x89" HOOKS "tR.")
    static const struct refusal rows[] = {
        {WHOLE(STORAGE("FloatStorage", "7", "K\4")), DET_ECORRUPT, "no entry 'a/data/7'"},
        {WHOLE(STORAGE("FloatStorage", "0", "K\5")), DET_ECORRUPT,
         "entry 'a/data/0' has 16 bytes, its tensors want 20"},
        {WHOLE(STORAGE("FloatStorage", "1", "K\0")), DET_ECORRUPT, "of a storage that has 0"},
        {WHOLE(STORAGE("FloatStorage", "0", "J\xff\xff\xff\xff")), DET_ECORRUPT, "of -1 elements"},
        {WHOLE(STORAGE("FloatStorage", "0", HUGE_INT)), DET_ECORRUPT, "elements"},
        {WHOLE("(X\7\0\0\0storageN)NK\4tQ"), DET_ECORRUPT, "item 1 is a None, not a global"},
        {WHOLE("(X\5\0\0\0stuffctorch\nFloatStorage\nX\1\0\0\0000NK\4tQ"), DET_ECORRUPT, "'stuff'"},
        {WHOLE("K\1"), DET_ECORRUPT, "item 0 is a int, not a storage"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_one_storage_of_two_types(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {STR(PROTO "](" REBUILD "(" STORAGE(
             "FloatStorage", "0", "K\4") "K\0))\x89" HOOKS "tR" REBUILD
                                         "(" STORAGE("IntStorage", "0", "K\4") "K\0))\x89" HOOKS
                                                                               "tRe."),
         DET_EUNSUPPORTED, "entry 'a/data/0' holds both f32 and i32"},
    };
    ASSERT_REFUSED(rows);
}

static void test_pickle__refuses_endless_trees(void **state)
{
    (void)state;
    det_err err = {0};
    assert_null(load(STR(PROTO "]q\0h\0a."), &err)); // a list in itself
    assert_failed_with(&err, DET_ELIMIT, "nested deeper");

    struct buf laughs = BUF_INIT(1000); // each list holds the one before it twice
    buf_add(&laughs, PROTO "](]q\0", 7);
    for (int i = 0; i < 40; i++)
        buf_add(&laughs, "](h\0h\0eq\0", 9);
    buf_addz(&laughs, "e.");
    assert_null(load(buf_str(&laughs), &err));
    assert_failed_with(&err, DET_ELIMIT, "more values than");
    buf_done(&laughs);
}

static void add_times(struct buf *b, const char *bytes, size_t len, int n)
{
    for (int i = 0; i < n; i++)
        buf_add(b, bytes, len);
}

static void test_pickle__refuses_too_much_of_anything(void **state)
{
    (void)state;
    det_err err = {0};
    struct buf b = BUF_INIT(32 << 20);
    buf_addz(&b, PROTO "](");
    add_times(&b, "N", 1, 9 << 20);
    buf_addz(&b, "e.");
    assert_null(load(buf_str(&b), &err));
    assert_failed_with(&err, DET_ELIMIT, "more than 8388608 objects");

    buf_clear(&b); // a string of 1 MB, 300 times
    buf_add(&b, PROTO "](X\0\0\x10\0", 9);
    add_times(&b, "x", 1, 1 << 20);
    buf_add(&b, "q\0", 2);
    add_times(&b, "h\0", 2, 300);
    buf_addz(&b, "e.");
    assert_null(load(buf_str(&b), &err));
    assert_failed_with(&err, DET_ELIMIT, "bytes of strings");
    buf_done(&b);
}

RUN_TESTS(cmocka_unit_test(test_pickle__reads_every_form_of_a_number),
          cmocka_unit_test(test_pickle__repeats_what_the_memo_shares),
          cmocka_unit_test(test_pickle__keeps_the_last_value_of_a_key),
          cmocka_unit_test(test_pickle__refuses_names_that_are_not_data),
          cmocka_unit_test(test_pickle__refuses_opcodes_that_data_does_not_need),
          cmocka_unit_test(test_pickle__refuses_a_machine_out_of_order),
          cmocka_unit_test(test_pickle__refuses_what_is_cut_off_or_too_large),
          cmocka_unit_test(test_pickle__reads_views),
          cmocka_unit_test(test_pickle__refuses_views_outside_of_their_storage),
          cmocka_unit_test(test_pickle__refuses_calls_with_other_arguments),
          cmocka_unit_test(test_pickle__refuses_storages_that_are_not_there),
          cmocka_unit_test(test_pickle__refuses_one_storage_of_two_types),
          cmocka_unit_test(test_pickle__refuses_endless_trees),
          cmocka_unit_test(test_pickle__refuses_too_much_of_anything))
