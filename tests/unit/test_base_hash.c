#include "base/hash.h"
#include "support/test.h"
#include <string.h>

// CPython 3.11 hashes bytes with the same function; with PYTHONHASHSEED=0 its key is 0.
static void test_hash__is_siphash_1_3(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {{"a", 0x407448d2b89b1813},
                {"abc", 0xc03bc3a0042630f2},
                {"12345678", 0x3489982430560a87},
                {"the quick brown fox jumps", 0x00c98b97e4f70042}};
    const struct hash_key zero = {{0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(hash_bytes(&zero, rows[i].text, strlen(rows[i].text)), rows[i].hash);
}

static void test_hash__depends_on_the_key(void **state)
{
    (void)state;
    const struct hash_key a = {{1, 2}}, b = {{1, 3}};
    assert_true(hash_bytes(&a, "abc", 3) != hash_bytes(&b, "abc", 3));
}

RUN_TESTS(cmocka_unit_test(test_hash__is_siphash_1_3),
          cmocka_unit_test(test_hash__depends_on_the_key))
