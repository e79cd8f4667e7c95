#include "format/format.h"
#include "support/files.h"
#include "support/values.h"
#include "sys/fs.h"

static det_value *load(const char *path, det_value **metadata)
{
    det_err err = {0};
    det_value *v = det_safetensors_load(path, metadata, &err);
    if (!v) fail_msg("%s", err.msg);
    return v;
}

static void test_safetensors__keeps_tensors_and_metadata(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = det_value_dict(), *metadata = det_value_dict(), *metadata_back = NULL;
    for (int d = 0; d < DET_N_DTYPES; d++) {
        char name[32];
        snprintf(name, sizeof name, "\xc3\xa9 \"%d\" \\", d);
        det_tensor *t = det_transpose(det_ones((det_dtype)d, DET_DIMS(3, 1 + d)), 0, 1);
        det_value_set(v, name, det_value_tensor(t));
    }
    det_value_set(v, "scalar", det_value_tensor(det_scalar(3)));
    det_value_set(v, "empty", det_value_tensor(det_zeros(DET_I64, DET_DIMS(2, 0))));
    det_value_set(metadata, "format", det_value_str("pt"));
    assert_ok(det_safetensors_save(temp_path("x"), v, metadata, &err), &err);
    det_value *back = load(temp_path("x"), &metadata_back);
    assert_true(values_equal(v, back));
    assert_true(values_equal(metadata, metadata_back));
    det_value_free(back);
    det_value_free(v);
    det_value_free(metadata);
    det_value_free(metadata_back);
}

static void test_safetensors__writes_aligned_data_in_a_fixed_order(void **state)
{
    (void)state;
    det_err err = {0};
    struct str map;
    det_value *v = det_value_dict();
    det_value_set(v, "bytes", det_value_tensor(det_ones(DET_U8, DET_DIMS(3))));
    det_value_set(v, "wide", det_value_tensor(det_full(DET_F64, DET_DIMS(1), 2)));
    assert_ok(det_safetensors_save(temp_path("x"), v, NULL, &err), &err);
    det_value_free(v);
    static const char header[] =
        "{\"bytes\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
        "\"wide\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
    char wanted[139] = {128 - 8}; // the length of the padded header
    memset(wanted + 8, ' ', 128 - 8);
    memcpy(wanted + 8, header, sizeof header - 1);
    memcpy(wanted + 128, (const double[]){2}, 8);
    memset(wanted + 136, 1, 3);
    assert_ok(fs_map(temp_path("x"), &map, &err), &err);
    assert_true(str_eq(map, (struct str){wanted, sizeof wanted}));
    fs_unmap(map);
}

static void test_safetensors__gives_an_empty_dict_when_there_is_no_metadata(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = det_value_dict(), *metadata = NULL;
    assert_ok(det_safetensors_save(temp_path("x"), v, NULL, &err), &err);
    det_value *back = load(temp_path("x"), &metadata);
    assert_int_equal(det_value_kind(metadata), DET_KIND_DICT);
    assert_int_equal(det_value_len(metadata), 0);
    assert_true(values_equal(v, back));
    det_value_free(metadata);
    det_value_free(back);
    det_value_free(load(temp_path("x"), NULL));
    det_value_free(v);
}

static void assert_not_saved(det_value *v, det_value *metadata, const char *text)
{
    det_err err = {0};
    assert_int_equal(det_safetensors_save(temp_path("bad"), v, metadata, &err), DET_EINVAL);
    assert_failed_with(&err, DET_EINVAL, text);
    assert_int_equal(access(temp_path("bad"), F_OK), -1);
    det_value_free(v);
    det_value_free(metadata);
}

static void test_safetensors__saves_only_named_tensors(void **state)
{
    (void)state;
    det_tensor *t = det_ones(DET_F32, DET_DIMS(2));
    assert_not_saved(det_value_list(), NULL, "a list, not a dict of tensors");
    det_value *v = det_value_dict();
    det_value_set(v, "n", det_value_int(1));
    assert_not_saved(v, NULL, "item 'n' is a int, not a tensor");
    v = det_value_dict();
    det_value_set_int(v, 1, det_value_tensor(t));
    assert_not_saved(v, NULL, "must be a string, not an integer");
    v = det_value_dict();
    det_value_set(v, "__metadata__", det_value_tensor(t));
    assert_not_saved(v, NULL, "not __metadata__");
    v = det_value_dict();
    det_value_set(v, "\xff", det_value_tensor(t));
    assert_not_saved(v, NULL, "not UTF-8");
    v = det_value_dict();
    det_value_set(v, "n", det_value_int(1));
    assert_not_saved(det_value_dict(), v, "metadata item 0");
    assert_not_saved(det_value_dict(), det_value_list(), "metadata is a list");
}

// A file with this header and so many bytes of data.
static det_value *parse(const char *header, size_t n_data, det_err *err)
{
    struct buf b = BUF_INIT(10000);
    uint64_t len = strlen(header);
    buf_add(&b, &len, sizeof len);
    buf_addz(&b, header);
    for (size_t i = 0; i < n_data; i++)
        buf_addc(&b, (char)i);
    det_value *v = safetensors_parse(buf_str(&b), NULL, err);
    buf_done(&b);
    return v;
}

#define INFO(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_safetensors__accepts_any_order_of_the_data(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = parse(
        "{\"b\":" INFO("U8", "[2]", "[3,5]") ",\"a\":" INFO("U8", "[3]", "[0,3]") "}  ", 5, &err);
    assert_non_null(v);
    assert_string_equal(det_value_key(v, 0, NULL), "b");
    assert_int_equal(((const uint8_t *)det_data(det_value_as_tensor(det_value_at(v, 0))))[0], 3);
    det_value_free(v);
}

static void test_safetensors__makes_bools_0_or_1(void **state)
{
    (void)state;
    det_err err = {0};
    det_value *v = parse("{\"b\":" INFO("BOOL", "[4]", "[0,4]") "}", 4, &err);
    assert_memory_equal(det_data(det_value_as_tensor(det_value_at(v, 0))), "\0\1\1\1", 4);
    det_value_free(v);
}

static void test_safetensors__refuses_headers_that_break_the_rules(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        int code;
        const char *text;
    } rows[] = {
        {"[]", 0, DET_ECORRUPT, "not a safetensors file"},
        {" {}", 0, DET_ECORRUPT, "not a safetensors file"},
        {"{\"a\":}", 0, DET_ECORRUPT, "header, byte 1"},
        {"{}", 1, DET_ECORRUPT, "the tensors have 0 bytes, the file 1"},
        {"{\"a\":1}", 0, DET_ECORRUPT, "tensor 'a': it is not {dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, DET_ECORRUPT, "it is not {dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, DET_ECORRUPT,
         "data_offsets is not a list"},
        {"{\"a\":" INFO("F8_E4M3", "[1]", "[0,1]") "}", 1, DET_EUNSUPPORTED, "dtype 'F8_E4M3'"},
        {"{\"a\":" INFO("F32", "[1.0]", "[0,4]") "}", 4, DET_ECORRUPT, "item 0 of shape"},
        {"{\"a\":" INFO("F32", "[-1]", "[0,4]") "}", 4, DET_ECORRUPT, "item 0 of shape"},
        {"{\"a\":" INFO("F32", "[2]", "[0,4]") "}", 4, DET_ECORRUPT,
         "[0, 4] for a shape of 8 bytes"},
        {"{\"a\":" INFO("F32", "[1]", "[4,0]") "}", 4, DET_ECORRUPT, "[4, 0]"},
        {"{\"a\":" INFO("F32", "[1]", "[0]") "}", 4, DET_ECORRUPT, "[begin, end]"},
        {"{\"a\":" INFO("F32", "[1]", "[4,8]") "}", 8, DET_ECORRUPT,
         "begins at byte 4 of the data, not 0"},
        {"{\"a\":" INFO("F32", "[1]", "[0,4]") "}", 3, DET_ECORRUPT, "have 4 bytes, the file 3"},
        {"{\"a\":" INFO("F32", "[1]", "[0,4]") ",\"b\":" INFO("F32", "[1]", "[2,6]") "}", 6,
         DET_ECORRUPT, "tensor 'b' begins at byte 2 of the data, not 4"},
        {"{\"a\":" INFO("F32", "[1]", "[0,4]") ",\"a\":" INFO("F32", "[1]", "[0,4]") "}", 4,
         DET_ECORRUPT, "duplicate"},
        {"{\"a\":" INFO("F32", "[4294967296,4294967296]", "[0,4]") "}", 4, DET_ECORRUPT,
         "too large"},
        {"{\"a\":" INFO("F32", "[99999999999999999999]", "[0,4]") "}", 4, DET_ECORRUPT,
         "header, byte"},
        {"{\"a\":" INFO("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, DET_EUNSUPPORTED, "9 items"},
        {"{\"__metadata__\":1}", 0, DET_ECORRUPT, "__metadata__ is not a map"},
        {"{\"__metadata__\":{\"a\":1}}", 0, DET_ECORRUPT, "__metadata__ is not a map"},
        {"{\"a\\u0000b\":1}", 0, DET_ECORRUPT, "header, byte"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        det_err err = {0};
        det_value *v = parse(rows[i].header, rows[i].n_data, &err);
        if (v) fail_msg("case %zu (%s) was accepted", i, rows[i].header);
        assert_failed_with(&err, rows[i].code, rows[i].text);
    }
}

static void test_safetensors__refuses_a_header_longer_than_the_file(void **state)
{
    (void)state;
    static const struct str files[] = {STR(""), STR("\2\0\0\0\0\0\0"), STR("\0\0\0\0\0\0\0\0"),
                                       STR("\3\0\0\0\0\0\0\0{}"),
                                       STR("\xff\xff\xff\xff\xff\xff\xff\xff{}")};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        det_err err = {0};
        char *exact =
            malloc(files[i].len); // so that reading beyond the end is noticed by a sanitizer
        memcpy(exact, files[i].ptr, files[i].len);
        assert_null(safetensors_parse((struct str){exact, files[i].len}, NULL, &err));
        assert_failed_with(&err, DET_ECORRUPT, "not a safetensors file");
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(test_safetensors__keeps_tensors_and_metadata),
        SCOPED(test_safetensors__writes_aligned_data_in_a_fixed_order),
        SCOPED(test_safetensors__gives_an_empty_dict_when_there_is_no_metadata),
        SCOPED(test_safetensors__saves_only_named_tensors),
        SCOPED(test_safetensors__accepts_any_order_of_the_data),
        SCOPED(test_safetensors__makes_bools_0_or_1),
        SCOPED(test_safetensors__refuses_headers_that_break_the_rules),
        SCOPED(test_safetensors__refuses_a_header_longer_than_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
