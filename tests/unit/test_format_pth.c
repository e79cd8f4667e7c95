#include "format/format.h"
#include "support/archive.h"
#include "support/files.h"
#include "support/values.h"
#include "sys/fs.h"

static det_value *save_and_load(const det_value *v)
{
    det_err err = {0};
    assert_ok(det_pth_save(temp_path("x.pth"), v, &err), &err);
    det_value *back = det_pth_load(temp_path("x.pth"), &err);
    if (!back) fail_msg("%s", err.msg);
    return back;
}

static void assert_survives(det_value *v)
{
    det_value *back = save_and_load(v);
    assert_true(values_equal(v, back));
    det_value_free(back);
    det_value_free(v);
}

static det_value *nested(int depth)
{
    det_value *v = det_value_list();
    for (int i = 1; i < depth; i++) {
        det_value *outer = det_value_list();
        det_value_push(outer, v);
        v = outer;
    }
    return v;
}

static void test_pth__keeps_plain_values(void **state)
{
    (void)state;
    static const int64_t ints[] = {0,         255,          256,       65535,     65536,
                                   -1,        -32769,       INT32_MAX, INT32_MIN, 1ll << 31,
                                   1ll << 40, -(1ll << 40), INT64_MAX, INT64_MIN};
    static const double floats[] = {
        0.0, -0.0, 0.1, 1e300, 5e-324, __builtin_inf(), __builtin_nan("7")};
    det_value *v = det_value_dict(), *list = det_value_list(), *tuple = det_value_tuple();
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        det_value_push(list, det_value_int(ints[i]));
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        det_value_push(tuple, det_value_float(floats[i]));
    det_value_push(tuple, det_value_str("na\xc3\xafve \xf0\x9f\x94\xa5"));
    det_value_push(tuple, det_value_none());
    det_value_push(tuple, det_value_bool(true));
    det_value_push(tuple, det_value_bool(false));
    det_value_set(v, "ints", list);
    det_value_set_int(v, -7, tuple);
    det_value_set(v, "", det_value_dict());
    det_value_set(v, "empty list", det_value_list());
    det_value_set_int(v, 1ll << 50, det_value_tuple());
    assert_survives(v);
}

static void test_pth__keeps_a_single_value(void **state)
{
    (void)state;
    assert_survives(det_value_none());
    assert_survives(det_value_int(5));
    assert_survives(det_value_tensor(det_arange(DET_F32, 0, 5, 1)));
}

static void test_pth__keeps_tensors_of_every_type_and_shape(void **state)
{
    (void)state;
    det_value *v = det_value_list();
    for (int d = 0; d < DET_N_DTYPES; d++) {
        det_dtype dtype = (det_dtype)d;
        det_value_push(v, det_value_tensor(det_to(det_arange(DET_I64, 0, 2, 1), dtype)));
        det_value_push(v, det_value_tensor(det_full(dtype, DET_SCALAR, 1)));
        det_value_push(v, det_value_tensor(det_zeros(dtype, DET_DIMS(0))));
        det_value_push(v, det_value_tensor(det_zeros(dtype, DET_DIMS(3, 0, 2))));
        det_value_push(v, det_value_tensor(det_ones(dtype, DET_DIMS(1, 2, 1, 2, 1, 2, 1, 2))));
        det_value_push(v, det_value_tensor(det_transpose(det_ones(dtype, DET_DIMS(2, 3)), 0, 1)));
        det_value_push(v,
                       det_value_tensor(det_expand(det_ones(dtype, DET_DIMS(1)), DET_DIMS(2, 3))));
    }
    assert_survives(v);
}

static void test_pth__keeps_shared_memory_shared(void **state)
{
    (void)state;
    det_tensor *x = det_arange(DET_F32, 0, 12, 1);
    det_value *v = det_value_dict();
    det_value_set(v, "part", det_value_tensor(det_slice(x, 0, 4, 8, 1)));
    det_value_set(v, "whole", det_value_tensor(x));
    det_value_set(v, "turned", det_value_tensor(det_transpose(det_view(x, DET_DIMS(3, 4)), 0, 1)));
    det_value_set(v, "other", det_value_tensor(det_clone(x)));
    det_value *back = save_and_load(v);
    det_fill_(det_value_as_tensor(det_value_get(back, "part")), 100);
    const float *whole = det_data_f32(det_value_as_tensor(det_value_get(back, "whole")));
    const float *turned = det_data_f32(det_value_as_tensor(det_value_get(back, "turned")));
    const float *other = det_data_f32(det_value_as_tensor(det_value_get(back, "other")));
    assert_true(whole[3] == 3 && whole[4] == 100 && whole[7] == 100 && whole[8] == 8);
    assert_true(turned[1] == 100 && turned[0] == 0); // element (0, 1) is the 4th of x
    assert_true(other[4] == 4);
    det_value_free(back);
    det_value_free(v);
}

static size_t file_size(const char *path)
{
    det_err err = {0};
    struct str map;
    assert_ok(fs_map(path, &map, &err), &err);
    fs_unmap(map);
    return map.len;
}

// Neighbours in memory, as an optimizer keeps parameters, are separate in the file.
static void test_pth__writes_only_the_memory_that_tensors_touch(void **state)
{
    (void)state;
    det_tensor *x = det_arange(DET_F32, 0, 1000000, 1);
    det_value *v = det_value_list();
    det_value_push(v, det_value_tensor(det_slice(x, 0, 999000, 999010, 1)));
    det_value_push(v, det_value_tensor(det_slice(x, 0, 10, 20, 1)));
    det_value_push(v, det_value_tensor(det_slice(x, 0, 20, 30, 1)));
    det_value *back = save_and_load(v);
    assert_true(values_equal(v, back));
    assert_true(file_size(temp_path("x.pth")) < 2000);
    det_value_free(back);
    det_value_free(v);
}

static void test_pth__writes_the_same_bytes_for_the_same_tree(void **state)
{
    (void)state;
    det_err err = {0};
    struct str first, second;
    for (int i = 0; i < 2; i++) {
        det_tensor *b =
            i ? det_ones(DET_F32, DET_DIMS(5)) : NULL; // other addresses, in another order
        det_tensor *a = det_ones(DET_I64, DET_DIMS(5));
        if (!b) b = det_ones(DET_F32, DET_DIMS(5));
        det_value *v = det_value_dict();
        det_value_set(v, "a", det_value_tensor(a));
        det_value_set(v, "b", det_value_tensor(b));
        assert_ok(det_pth_save(temp_path(i ? "2.pth" : "1.pth"), v, &err), &err);
        det_value_free(v);
    }
    assert_ok(fs_map(temp_path("1.pth"), &first, &err), &err);
    assert_ok(fs_map(temp_path("2.pth"), &second, &err), &err);
    assert_true(str_eq(first, second));
    fs_unmap(first);
    fs_unmap(second);
}

static void test_pth__is_the_same_in_memory_and_in_a_file(void **state)
{
    (void)state;
    det_err err = {0};
    det_tensor *matrix = det_ones(DET_F32, DET_DIMS(20, 30));
    det_value *v = det_value_list();
    det_value_push(v, det_value_tensor(matrix));
    det_value_push(v, det_value_tensor(det_transpose(matrix, 0, 1)));
    det_value_push(v, det_value_str("text"));
    assert_ok(det_pth_save(temp_path("x.pth"), v, &err), &err);
    struct str file;
    assert_ok(fs_map(temp_path("x.pth"), &file, &err), &err);
    struct buf memory = BUF_INIT(file.len);
    assert_ok(pth_write(v, &memory, &err), &err);
    assert_true(str_eq(buf_str(&memory), file));

    struct buf small = BUF_INIT(file.len - 1);
    assert_int_equal(pth_write(v, &small, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "more than");
    fs_unmap(file);
    buf_done(&memory);
    buf_done(&small);
    det_value_free(v);
}

static void test_pth__limits_depth_alike_when_saving_and_loading(void **state)
{
    (void)state;
    det_err err = {0};
    assert_survives(nested(256));
    det_value *v = nested(257);
    assert_int_equal(det_pth_save(temp_path("deep.pth"), v, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "deep.pth': nested deeper than 256");
    det_value_free(v);
}

static void test_pth__saves_no_more_values_than_it_loads(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = det_value_list();
    for (int i = 1; i < 4 << 20; i++)
        det_value_push(v, det_value_none());
    assert_survives(v);
    v = det_value_list();
    for (int i = 0; i < 4 << 20; i++)
        det_value_push(v, det_value_none());
    assert_int_equal(det_pth_save(temp_path("many.pth"), v, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "more than 4194304 values");
    det_value_free(v);
}

static void test_pth__keeps_a_dict_of_many_keys(void **state)
{
    (void)state;
    det_value *v = det_value_dict();
    char key[32];
    for (int i = 0; i < 100000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        det_value_set(v, key, det_value_int(i));
    }
    assert_survives(v);
}

static void test_pth__says_where_a_value_cannot_be_saved(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = det_value_dict(), *list = det_value_list();
    det_value_push(list, det_value_int(1));
    det_value_push(list, det_value_str("\xff"));
    det_value_set(v, "name", list);
    assert_int_equal(det_pth_save(temp_path("bad.pth"), v, &err), DET_EINVAL);
    assert_failed_with(&err, DET_EINVAL,
                       "bad.pth': item 'name': item 1: a string that is not UTF-8");
    assert_int_equal(access(temp_path("bad.pth"), F_OK), -1);
    assert_int_equal(det_pth_save(temp_path("bad.pth"), NULL, &err), DET_EINVAL);
    assert_int_equal(det_pth_save("/no/such/folder/x.pth", v, &err), DET_EINVAL);
    det_value_free(v);
}

static void test_pth__does_not_save_a_tensor_that_was_never_computed(void **state)
{
    (void)state;
    det_err err = {0};
    det_tensor *x = det_ones(DET_F32, DET_DIMS(2, 2));
    det_value *v = det_value_tensor(det_linear(x, x, NULL)); // put off until somebody looks
    det_raise(DET_ESHAPE, "a mistake of the user");
    assert_int_equal(det_pth_save(temp_path("lazy.pth"), v, &err), DET_ESHAPE);
    assert_failed_with(&err, DET_ESHAPE, "lazy.pth': a mistake of the user");
    assert_int_equal(access(temp_path("lazy.pth"), F_OK), -1);
    // The mistake was told; what was put off before it is computed now.
    assert_int_equal(det_pth_save(temp_path("lazy.pth"), v, &err), 0);
    det_value_free(v);
}

static void test_pth__loads_although_an_earlier_operation_failed(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = det_value_tensor(det_ones(DET_F32, DET_DIMS(3)));
    assert_ok(det_pth_save(temp_path("x.pth"), v, &err), &err);
    det_raise(DET_ESHAPE, "a mistake of the user");
    det_value *back = det_pth_load(temp_path("x.pth"), &err);
    assert_non_null(back);
    assert_int_equal(det_check(&err), DET_ESHAPE); // still there
    assert_true(values_equal(v, back));
    det_value_free(back);
    det_value_free(v);
}

static void assert_bytes_refused(struct str bytes, int code, const char *text)
{
    det_err err = {0};
    write_bytes(temp_path("bad.pth"), bytes.ptr, bytes.len);
    assert_null(det_pth_load(temp_path("bad.pth"), &err));
    assert_failed_with(&err, code, text);
    assert_non_null(strstr(err.msg, "bad.pth'"));
}

static void test_pth__names_other_formats(void **state)
{
    (void)state;
    static char tar[512];
    memcpy(tar + 257, "ustar", 5);
    assert_bytes_refused(STR(""), DET_ECORRUPT, "empty");
    assert_bytes_refused(STR("PK\3\4 cut off"), DET_ECORRUPT, "no end record");
    assert_bytes_refused(STR("hello"), DET_ECORRUPT, "not the zip archive");
    assert_bytes_refused((struct str){tar, sizeof tar}, DET_EUNSUPPORTED, "tar archive");
    assert_bytes_refused(STR("\x80\x02N."), DET_EUNSUPPORTED, "bare Python pickle");
    assert_bytes_refused(STR("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
                         DET_EUNSUPPORTED, "before version 1.6");
}

static void assert_entry_refused(const char *name, struct str content, int code, const char *text)
{
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "a/data.pkl", STR("\x80\x02N."));
    archive_add(&a, name, content);
    assert_bytes_refused(archive_end(&a), code, text);
    archive_done(&a);
}

static void test_pth__names_other_kinds_of_archives(void **state)
{
    (void)state;
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "a/other", STR("x"));
    assert_bytes_refused(archive_end(&a), DET_EUNSUPPORTED, "without data.pkl");
    archive_done(&a);
    assert_entry_refused("a/constants.pkl", STR("x"), DET_EUNSUPPORTED, "TorchScript");
    assert_entry_refused("a/byteorder", STR("big"), DET_EUNSUPPORTED, "big-endian");
    assert_entry_refused("a/byteorder", STR("something else"), DET_ECORRUPT, "too long");
}

static void test_pth__reports_a_missing_file(void **state)
{
    (void)state;
    det_err err = {0};
    assert_null(det_pth_load(temp_path("missing.pth"), &err));
    assert_failed_with(&err, DET_ENOTFOUND, "missing.pth': No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(test_pth__keeps_plain_values),
        SCOPED(test_pth__keeps_a_single_value),
        SCOPED(test_pth__keeps_tensors_of_every_type_and_shape),
        SCOPED(test_pth__keeps_shared_memory_shared),
        SCOPED(test_pth__writes_only_the_memory_that_tensors_touch),
        SCOPED(test_pth__writes_the_same_bytes_for_the_same_tree),
        SCOPED(test_pth__is_the_same_in_memory_and_in_a_file),
        SCOPED(test_pth__limits_depth_alike_when_saving_and_loading),
        SCOPED(test_pth__saves_no_more_values_than_it_loads),
        SCOPED(test_pth__keeps_a_dict_of_many_keys),
        SCOPED(test_pth__says_where_a_value_cannot_be_saved),
        SCOPED(test_pth__does_not_save_a_tensor_that_was_never_computed),
        SCOPED(test_pth__loads_although_an_earlier_operation_failed),
        SCOPED(test_pth__names_other_formats),
        SCOPED(test_pth__names_other_kinds_of_archives),
        SCOPED(test_pth__reports_a_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
