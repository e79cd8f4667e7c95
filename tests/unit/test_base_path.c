#include "base/path.h"
#include "base/crc32c.h"
#include "support/test.h"

static void test_path_normal__resolves_every_step(void **state)
{
    (void)state;
    static const struct {
        const char *path, *normal;
    } rows[] = {
        {"/a/b", "/a/b"},  {"/a//b/./c/", "/a/b/c"}, {"/a/../b", "/b"}, {"/../..", ""},
        {"/", ""},         {"a/b", "/a/b"},          {"/a/b/..", "/a"}, {"/..a/b..", "/..a/b.."},
        {"/a/b/../..", ""}};
    struct arena arena = ARENA_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(path_normal(&arena, rows[i].path), rows[i].normal);
    arena_done(&arena);
}

static void test_path_is_inside__compares_whole_steps(void **state)
{
    (void)state;
    assert_true(path_is_inside("/a/b", "/a"));
    assert_true(path_is_inside("/a", "/a"));
    assert_true(path_is_inside("/a", ""));
    assert_false(path_is_inside("/ab", "/a"));
    assert_false(path_is_inside("/", "/a"));
}

static void test_path_is_plain__refuses_what_leads_elsewhere(void **state)
{
    (void)state;
    static const char *const bad[] = {"",  "/",     "/a", "a/",   "a//b",
                                      ".", "a/./b", "..", "a/..", "../a"};
    static const char *const good[] = {"a", "a/b", "...", ".a", "a../b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(path_is_plain(str_from(bad[i])));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(path_is_plain(str_from(good[i])));
    assert_false(path_is_plain((struct str){"a\0b", 3}));
}

// RFC 3720, B.4.
static void test_crc32c__gives_the_published_values(void **state)
{
    (void)state;
    unsigned char bytes[32] = {0};
    assert_int_equal(crc32c_add(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(crc32c_add(0, bytes, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c_add(0, bytes, 32), 0x46DD794E);
    assert_int_equal(crc32c_add(0, "123456789", 9), 0xE3069283);
}

static void test_crc32c__is_the_same_in_pieces(void **state)
{
    (void)state;
    char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * i);
    uint32_t whole = crc32c_add(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++)
        assert_int_equal(crc32c_add(crc32c_add(0, bytes, cut), bytes + cut, sizeof bytes - cut),
                         whole);
}

RUN_TESTS(cmocka_unit_test(test_path_normal__resolves_every_step),
          cmocka_unit_test(test_path_is_inside__compares_whole_steps),
          cmocka_unit_test(test_path_is_plain__refuses_what_leads_elsewhere),
          cmocka_unit_test(test_crc32c__gives_the_published_values),
          cmocka_unit_test(test_crc32c__is_the_same_in_pieces))
