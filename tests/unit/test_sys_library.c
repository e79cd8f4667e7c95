// Libraries that are loaded when they are needed, or are not there.
#include "support/files.h"

#include "base/assert.h"
#include "sys/library.h"
#include <math.h>

static struct {
    double (*cos)(double);
    double (*sin)(double);
} libm;

static const char *const names[] = {"cos", "sin"};

static struct library library_of(const char *first, const char *second)
{
    return (struct library){.files = {first, second},
                            .package = "libc6",
                            .names = names,
                            .n = STATIC_LEN(names),
                            .functions = &libm};
}

static void test_library__is_loaded_by_the_name_that_is_there(void **state)
{
    (void)state;
    det_err err;
    struct library library = library_of("libnowhere.so.9", "libm.so.6");
    assert_ok(library_load(&library, &err), &err);
    assert_ok(library_load(&library, &err), &err); // as often as one likes
    assert_true(libm.cos(0) == 1 && libm.sin(0) == 0);
}

static void test_library__that_is_missing_is_named(void **state)
{
    (void)state;
    det_err err;
    struct library library = library_of("libnowhere.so.9", NULL);
    assert_int_equal(library_load(&library, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "libnowhere.so.9");
    assert_failed_with(&err, DET_ENOTFOUND, "install the package libc6");
}

static void test_library__that_is_too_old_is_refused(void **state)
{
    (void)state;
    static const char *const newer[] = {"cos", "a_function_of_tomorrow"};
    det_err err;
    struct library library = library_of("libm.so.6", NULL);
    library.names = newer;
    assert_int_equal(library_load(&library, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "has no a_function_of_tomorrow");
    assert_false(library.is_loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library__is_loaded_by_the_name_that_is_there),
        cmocka_unit_test(test_library__that_is_missing_is_named),
        cmocka_unit_test(test_library__that_is_too_old_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
