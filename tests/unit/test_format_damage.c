// Files that were cut off or changed: an error or a whole tree comes back, never a crash or half of
// one.
#include "base/rng.h"
#include "format/format.h"
#include "support/files.h"
#include "support/values.h"
#include "sys/fs.h"

enum { N_FLIPS = 10000 };

static det_value *parse_npy(struct str bytes, det_err *err)
{
    det_tensor *t = npy_parse(bytes, err);
    det_value *v = det_value_tensor(t);
    det_unref(t);
    return v;
}

static det_value *parse_safetensors(struct str bytes, det_err *err)
{
    return safetensors_parse(bytes, NULL, err);
}

typedef det_value *(*parse_fn)(struct str bytes, det_err *err);

static det_value *some_state(void)
{
    det_value *v = det_value_dict();
    det_value_set(v, "fc.weight", det_value_tensor(det_randn(DET_F32, DET_DIMS(3, 4))));
    det_value_set(v, "fc.bias", det_value_tensor(det_randn(DET_F64, DET_DIMS(3))));
    det_value_set(v, "steps", det_value_tensor(det_randint(0, 100, DET_DIMS(2))));
    return v;
}

// Reads a file into memory of exactly its size, so that a sanitizer notices a read beyond it.
static struct str read_exactly(const char *path)
{
    det_err err = {0};
    struct str map;
    assert_ok(fs_map(path, &map, &err), &err);
    char *copy = malloc(map.len);
    memcpy(copy, map.ptr, map.len);
    fs_unmap(map);
    return (struct str){copy, map.len};
}

// Every tensor can be looked at as a whole.
static void walk(const det_value *v)
{
    for (int i = 0; i < det_value_len(v); i++)
        walk(det_value_at(v, i));
    det_tensor *t = det_value_as_tensor(v);
    if (!t || !det_numel(t) || det_numel(t) > 1000000) return;
    const unsigned char *p = det_data(t);
    unsigned sum = 0;
    for (size_t i = 0; i < (size_t)det_numel(t) * det_dtype_size(det_dtype_of(t)); i++)
        sum += p[i];
    assert_true(sum <= 255u * 8 * 1000000);
}

static void assert_refused(struct str bytes, parse_fn parse, size_t at)
{
    det_err err = {0};
    char *exact = malloc(bytes.len);
    memcpy(exact, bytes.ptr, bytes.len);
    if (parse((struct str){exact, bytes.len}, &err)) fail_msg("%zu bytes were accepted", at);
    assert_true(err.code < 0 && err.msg[0]);
    free(exact);
}

static void truncate_everywhere(const char *path, parse_fn parse)
{
    struct str bytes = read_exactly(path);
    for (size_t n = 0; n < bytes.len; n++)
        assert_refused((struct str){bytes.ptr, n}, parse, n);
    free((char *)(uintptr_t)bytes.ptr);
}

// Changes 1 to 3 bytes at a time. Returns how many changes went unnoticed; all of them must have
// left the original value, if one is given.
static int flip(const char *path, parse_fn parse, const det_value *original)
{
    struct str bytes = read_exactly(path);
    char *changed = malloc(bytes.len);
    int n_accepted = 0;
    for (uint64_t i = 0; i < N_FLIPS; i++) {
        det_err err = {0};
        memcpy(changed, bytes.ptr, bytes.len);
        for (uint64_t k = 0; k <= i % 3; k++)
            changed[rng_below(1, k, 2 * i, bytes.len)] ^=
                (char)(1 + rng_below(1, k, 2 * i + 1, 255));
        det_scope_begin();
        det_value *v = parse((struct str){changed, bytes.len}, &err);
        if (!v && (err.code >= 0 || !err.msg[0]))
            fail_msg("flip %d: no error and no value", (int)i);
        walk(v);
        if (v && original && !values_equal(v, original))
            fail_msg("flip %d changed a value", (int)i);
        n_accepted += v != NULL;
        det_value_free(v);
        det_scope_end();
    }
    free(changed);
    free((char *)(uintptr_t)bytes.ptr);
    return n_accepted;
}

static void test_damage__of_a_pth_is_noticed(void **state)
{
    (void)state;
    det_err err = {0};
    det_scope_begin();
    det_value *v = some_state();
    assert_ok(det_pth_save(temp_path("x.pth"), v, &err), &err);
    truncate_everywhere(temp_path("x.pth"), pth_parse);
    // Only padding, dates and the like have no checksum: a good part of so small a file.
    assert_in_range(flip(temp_path("x.pth"), pth_parse, v), 1, N_FLIPS / 2);
    det_value_free(v);
    det_scope_end();
    assert_int_equal(det_check(&err), 0);
}

static void test_damage__of_a_safetensors_file_does_no_harm(void **state)
{
    (void)state;
    det_err err = {0};
    det_scope_begin();
    det_value *v = some_state();
    assert_ok(det_safetensors_save(temp_path("x.safetensors"), v, NULL, &err), &err);
    det_value_free(v);
    det_scope_end();
    truncate_everywhere(temp_path("x.safetensors"), parse_safetensors);
    assert_in_range(flip(temp_path("x.safetensors"), parse_safetensors, NULL), 1, N_FLIPS - 1);
    assert_int_equal(det_check(&err), 0);
}

static void test_damage__of_a_npy_does_no_harm(void **state)
{
    (void)state;
    det_err err = {0};
    det_scope_begin();
    assert_ok(det_npy_save(temp_path("x.npy"), det_randn(DET_F32, DET_DIMS(5, 6)), &err), &err);
    det_scope_end();
    truncate_everywhere(temp_path("x.npy"), parse_npy);
    assert_in_range(flip(temp_path("x.npy"), parse_npy, NULL), 1, N_FLIPS - 1);
    assert_int_equal(det_check(&err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage__of_a_pth_is_noticed),
        cmocka_unit_test(test_damage__of_a_safetensors_file_does_no_harm),
        cmocka_unit_test(test_damage__of_a_npy_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
