// What base/ promises: errors, buffers, strings, randomness.
#include "support/test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "det/err.h"
#include <math.h>
#include <stdlib.h>

static void test_err__wrap_puts_context_in_front(void **state)
{
    (void)state;
    det_err err;
    assert_int_equal(det_fail(&err, DET_EIO, "write '%s': disk full", "m.json"), DET_EIO);
    assert_int_equal(det_wrap(&err, "checkpoint %d", 7), DET_EIO);
    assert_string_equal(err.msg, "checkpoint 7: write 'm.json': disk full");
    assert_int_equal(det_ok(&err), 0);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.msg, "");
}

static void test_err__a_message_too_long_is_cut_not_overrun(void **state)
{
    (void)state;
    det_err err;
    char longer[2 * DET_ERR_MSG_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    det_fail(&err, DET_EINVAL, "%s", longer);
    assert_int_equal(strlen(err.msg), DET_ERR_MSG_MAX - 1);
    det_wrap(&err, "%s", longer);
    assert_int_equal(strlen(err.msg), DET_ERR_MSG_MAX - 1);
}

static void test_err__null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(det_fail(NULL, DET_ESHAPE, "nobody listens"), DET_ESHAPE);
    assert_int_equal(det_wrap(NULL, "still nobody"), DET_EINVAL);
    assert_int_equal(det_ok(NULL), 0);
}

static void test_err__every_code_has_a_name_a_text_and_a_status(void **state)
{
    (void)state;
    assert_string_equal(det_err_name(DET_ESHAPE), "DET_ESHAPE");
    assert_string_equal(det_err_text(DET_ENOMEM), "out of memory");
    assert_int_equal(det_err_http(DET_ENOTFOUND), 404);
    assert_int_equal(det_err_http(0), 200);
    assert_string_equal(det_err_name(-999), "DET_EUNKNOWN");
    assert_int_equal(det_err_http(-999), 500);
}

static void test_buf__grows_up_to_its_maximum_and_then_says_so(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(100);
    for (int i = 0; i < 10; i++)
        buf_printf(&b, "%09d\n", i);
    assert_true(buf_ok(&b));
    assert_int_equal(b.len, 100);
    buf_addc(&b, '!');
    assert_false(buf_ok(&b));
    assert_int_equal(b.len, 100);
    assert_int_equal(strlen(b.ptr), 100);
    buf_clear(&b);
    assert_true(buf_ok(&b));
    buf_addz(&b, "again");
    char *z = buf_take(&b);
    assert_string_equal(z, "again");
    assert_int_equal(b.len, 0);
    free(z);
    buf_done(&b);
}

static void test_buf__take_of_nothing_is_an_empty_string(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(10);
    char *z = buf_take(&b);
    assert_string_equal(z, "");
    free(z);
}

static void test_str__cut_walks_through_the_pieces(void **state)
{
    (void)state;
    struct str rest = STR("a,bc,,d");
    assert_true(str_eqz(str_cut(&rest, ','), "a"));
    assert_true(str_eqz(str_cut(&rest, ','), "bc"));
    assert_true(str_eqz(str_cut(&rest, ','), ""));
    assert_non_null(rest.ptr);
    assert_true(str_eqz(str_cut(&rest, ','), "d"));
    assert_null(rest.ptr);
    assert_true(str_starts(STR("prefix"), STR("pre")));
    assert_false(str_starts(STR("pr"), STR("pre")));
    assert_true(str_ends(STR("model_def.c"), STR(".c")));
}

// The known answers of the Random123 distribution for philox4x32-10.
static void test_rng__philox_gives_the_published_numbers(void **state)
{
    (void)state;
    struct rng_block zero = rng_philox(0, 0, 0);
    assert_int_equal(zero.word[0], 0x6627e8d5);
    assert_int_equal(zero.word[1], 0xe169c58d);
    assert_int_equal(zero.word[2], 0xbc57ac4c);
    assert_int_equal(zero.word[3], 0x9b00dbd8);
    struct rng_block ones = rng_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_int_equal(ones.word[0], 0x408f276d);
    assert_int_equal(ones.word[3], 0x6d5451fd);
}

static void test_rng__uniform_and_normal_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum = 0, sum_n = 0, sum_n2 = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_unit(1, 2, (uint64_t)i), g = rng_normal(1, 3, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        sum_n += g;
        sum_n2 += g * g;
        assert_true(rng_below(1, 4, (uint64_t)i, 10) < 10);
    }
    assert_true(fabs(sum / N - 0.5) < 0.005);
    assert_true(fabs(sum_n / N) < 0.02);
    assert_true(fabs(sum_n2 / N - 1) < 0.02);
}

RUN_TESTS(cmocka_unit_test(test_err__wrap_puts_context_in_front),
          cmocka_unit_test(test_err__a_message_too_long_is_cut_not_overrun),
          cmocka_unit_test(test_err__null_is_allowed),
          cmocka_unit_test(test_err__every_code_has_a_name_a_text_and_a_status),
          cmocka_unit_test(test_buf__grows_up_to_its_maximum_and_then_says_so),
          cmocka_unit_test(test_buf__take_of_nothing_is_an_empty_string),
          cmocka_unit_test(test_str__cut_walks_through_the_pieces),
          cmocka_unit_test(test_rng__philox_gives_the_published_numbers),
          cmocka_unit_test(test_rng__uniform_and_normal_have_their_moments))
