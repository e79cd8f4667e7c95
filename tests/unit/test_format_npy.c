#include "format/format.h"
#include "support/files.h"
#include "support/values.h"
#include "sys/fs.h"

static void assert_survives(det_tensor *t)
{
    det_err err = {0};
    assert_ok(det_npy_save(temp_path("x.npy"), t, &err), &err);
    det_tensor *back = det_npy_load(temp_path("x.npy"), &err);
    if (!back) fail_msg("%s", err.msg);
    assert_true(tensors_equal(t, back));
    det_unref(back);
}

static void test_npy__keeps_arrays(void **state)
{
    (void)state;
    for (int d = 0; d < DET_N_DTYPES; d++) {
        if (d == DET_BF16) continue;
        assert_survives(det_ones((det_dtype)d, DET_SCALAR));
        assert_survives(det_to(det_arange(DET_I64, 0, 2, 1), (det_dtype)d));
        assert_survives(det_zeros((det_dtype)d, DET_DIMS(2, 0, 3)));
        assert_survives(
            det_transpose(det_view(det_arange(DET_F64, 0, 6, 1), DET_DIMS(2, 3)), 0, 1));
    }
}

static void test_npy__writes_the_header_of_numpy(void **state)
{
    (void)state;
    det_err err = {0};
    struct str map;
    assert_ok(det_npy_save(temp_path("x.npy"), det_zeros(DET_F32, DET_DIMS(5)), &err), &err);
    assert_ok(fs_map(temp_path("x.npy"), &map, &err), &err);
    assert_int_equal(map.len, 128 + 20);
    static const char start[] =
        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }   ";
    assert_true(str_starts(map, STR(start)));
    assert_int_equal(map.ptr[127], '\n');
    fs_unmap(map);
}

static void test_npy__refuses_to_write_bf16(void **state)
{
    (void)state;
    det_err err = {0};
    assert_int_equal(det_npy_save(temp_path("b.npy"), det_zeros(DET_BF16, DET_DIMS(5)), &err),
                     DET_EDTYPE);
    assert_failed_with(&err, DET_EDTYPE, "b.npy': NumPy has no bf16; convert it to f32");
    assert_int_equal(det_npy_save(temp_path("b.npy"), NULL, &err), DET_EINVAL);
    assert_int_equal(access(temp_path("b.npy"), F_OK), -1);
}

static void test_npy__does_not_write_a_tensor_that_was_never_computed(void **state)
{
    (void)state;
    det_err err = {0};
    det_tensor *x = det_ones(DET_F32, DET_DIMS(2, 2)), *lazy = det_linear(x, x, NULL);
    det_raise(DET_ESHAPE, "a mistake of the user");
    assert_int_equal(det_npy_save(temp_path("lazy.npy"), lazy, &err), DET_ESHAPE);
    assert_failed_with(&err, DET_ESHAPE, "lazy.npy': a mistake of the user");
    assert_int_equal(access(temp_path("lazy.npy"), F_OK), -1);
}

// A file of version 1.0 with this header and so many bytes of data: 0, 1, 2 ...
static det_tensor *parse(const char *header, size_t n_data, det_err *err)
{
    struct buf b = BUF_INIT(10000);
    uint16_t len = (uint16_t)strlen(header);
    buf_add(&b, "\x93NUMPY\1\0", 8);
    buf_add(&b, &len, sizeof len);
    buf_addz(&b, header);
    for (size_t i = 0; i < n_data; i++)
        buf_addc(&b, (char)i);
    det_tensor *t = npy_parse(buf_str(&b), err);
    buf_done(&b);
    return t;
}

static void test_npy__reads_column_major_arrays(void **state)
{
    (void)state;
    det_err err = {0};
    det_tensor *t = parse("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", 6, &err);
    assert_non_null(t);
    assert_memory_equal(det_data(t), "\0\2\4\1\3\5", 6);
    det_unref(t);
}

static void test_npy__reads_keys_in_any_order_and_spacing(void **state)
{
    (void)state;
    det_err err = {0};
    det_tensor *t =
        parse("  {\"shape\":(3,),'fortran_order' : False ,\"descr\":\"|b1\"}  \n", 3, &err);
    assert_non_null(t);
    assert_int_equal(det_dtype_of(t), DET_BOOL);
    assert_memory_equal(det_data(t), "\0\1\1", 3);
    det_unref(t);
}

#define HEADER(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static void test_npy__refuses_other_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        int code;
        const char *text;
    } rows[] = {
        {"", 2, DET_ECORRUPT, "header, byte 10: expected \"{\""},
        {"{}", 0, DET_ECORRUPT, "is missing"},
        {"{'descr': '<f4', 'shape': ()}", 4, DET_ECORRUPT, "is missing"},
        {HEADER("'<f4'", "False", "(1,)") "x", 4, DET_ECORRUPT, "something follows"},
        {HEADER("'<f16'", "False", "(1,)"), 2, DET_EUNSUPPORTED, "'<f16'"},
        {HEADER("'>f4'", "False", "(1,)"), 4, DET_EUNSUPPORTED, "'>f4'"},
        {HEADER("[('a', '<f4')]", "False", "(1,)"), 4, DET_EUNSUPPORTED, "structures"},
        {HEADER("'<f4", "False", "(1,)"), 4, DET_EUNSUPPORTED, "elements of type '<f4, "},
        {HEADER("<f4", "False", "(1,)"), 4, DET_ECORRUPT, "expected a string"},
        {HEADER("'<f4'", "0", "(1,)"), 4, DET_ECORRUPT, "expected \"False\""},
        {HEADER("'<f4'", "False", "(1)"), 4, DET_ECORRUPT, "not a tuple"},
        {HEADER("'<f4'", "False", "1"), 4, DET_ECORRUPT, "expected \"(\""},
        {HEADER("'<f4'", "False", "(,)"), 4, DET_ECORRUPT, "expected a size"},
        {HEADER("'<f4'", "False", "(-1,)"), 4, DET_ECORRUPT, "expected a size"},
        {HEADER("'<f4'", "False", "(1 1)"), 4, DET_ECORRUPT, "expected a comma"},
        {HEADER("'<f4'", "False", "(99999999999999999999,)"), 4, DET_ECORRUPT, "beyond 64 bits"},
        {HEADER("'<f4'", "False", "(4294967296, 4294967296)"), 4, DET_ECORRUPT,
         "4 follow the header"},
        {HEADER("'<f4'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, DET_EUNSUPPORTED,
         "dimensions"},
        {HEADER("'<f4'", "False", "(2,)"), 7, DET_ECORRUPT, "stands for 8 bytes, 7 follow"},
        {HEADER("'<f4'", "False", "(2,)"), 9, DET_ECORRUPT, "stands for 8 bytes, 9 follow"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': ()}", 4, DET_ECORRUPT, "second time"},
        {"{'other': 1}", 4, DET_ECORRUPT, "a key that is none"},
        {"{'descr': '<f4' 'shape': ()}", 4, DET_ECORRUPT, "expected a comma"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        det_err err = {0};
        if (parse(rows[i].header, rows[i].n_data, &err)) fail_msg("case %zu was accepted", i);
        assert_failed_with(&err, rows[i].code, rows[i].text);
    }
}

static void test_npy__refuses_other_files(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        int code;
        const char *text;
    } rows[] = {
        {STR(""), DET_ECORRUPT, "not a .npy file"},
        {STR("\x93NUMPY\1\0"), DET_ECORRUPT, "not a .npy file"},
        {STR("PK\3\4 an .npz archive"), DET_ECORRUPT, "not a .npy file"},
        {STR("\x93NUMPY\4\0\0\0\0\0"), DET_EUNSUPPORTED, "version 4.0"},
        {STR("\x93NUMPY\1\1\0\0\0\0"), DET_EUNSUPPORTED, "version 1.1"},
        {STR("\x93NUMPY\1\0\3\0{}"), DET_ECORRUPT, "a header of 3 bytes in a file of 12"},
        {STR("\x93NUMPY\2\0\xff\xff\xff\xff"), DET_ECORRUPT, "a header of 4294967295 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        det_err err = {0};
        assert_null(npy_parse(rows[i].bytes, &err));
        assert_failed_with(&err, rows[i].code, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(test_npy__keeps_arrays),
        SCOPED(test_npy__writes_the_header_of_numpy),
        SCOPED(test_npy__refuses_to_write_bf16),
        SCOPED(test_npy__does_not_write_a_tensor_that_was_never_computed),
        SCOPED(test_npy__reads_column_major_arrays),
        SCOPED(test_npy__reads_keys_in_any_order_and_spacing),
        SCOPED(test_npy__refuses_other_headers),
        SCOPED(test_npy__refuses_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
