// Records as JSON, times as text.
#include "support/docs.h"

#include "entity/entity.h"
#include <math.h>

static void test_time__text_and_back(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {951782400000001, "2000-02-29T00:00:00.000001Z"},
        {4102444799999999, "2099-12-31T23:59:59.999999Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TIME_TEXT_BYTES];
        int64_t us = 7;
        time_format(cases[i].us, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(time_parse(text, &us, NULL), 0);
        assert_int_equal(us, cases[i].us);
    }
}

static void test_time__reads_zones_and_fractions(void **state)
{
    (void)state;
    int64_t us;
    assert_int_equal(time_parse("2026-01-31T10:20:30Z", &us, NULL), 0);
    int64_t utc = us;
    assert_int_equal(time_parse("2026-01-31T11:50:30.5+01:30", &us, NULL), 0);
    assert_int_equal(us, utc + 500000);
    assert_int_equal(time_parse("2026-01-31T10:20:30.1234567Z", &us, NULL), 0);
    assert_int_equal(us, utc + 123456);
}

static void test_time__refuses_other_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "now",
                                      "2026-01-31",
                                      "2026-01-31T10:20:30",
                                      "2026-13-31T10:20:30Z",
                                      "2026-01-31T24:20:30Z",
                                      "2026-01-31T10:20:30.Z",
                                      "2026-01-31T10:20:30Zz",
                                      "2026-01-31T10:20:30+1:30",
                                      "20-6-01-31T10:20:30Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(time_parse(bad[i], &(int64_t){0}, NULL), DET_EINVAL);
}

static void test_record__becomes_json(void **state)
{
    (void)state;
    struct checkpoint c = {.uuid = "u",
                           .trial_id = 7,
                           .state = CHECKPOINT_COMPLETED,
                           .time_us = 1000000,
                           .resources = doc_of("{a.pth: 12}"),
                           .searcher_metric = NAN};
    const struct doc *d = field_write(&arena, &checkpoint_table, &c, false);
    assert_string_equal(
        as_json(d),
        "{\"uuid\":\"u\",\"taskId\":null,\"allocationId\":null,\"experimentId\":0,\"trialId\":7,"
        "\"state\":\"STATE_COMPLETED\",\"reportTime\":\"1970-01-01T00:00:01.000000Z\","
        "\"stepsCompleted\":0,\"size\":0,\"resources\":{\"a.pth\":12},\"metadata\":null,"
        "\"searcherMetric\":null}");
}

RUN_TESTS(DOC_TEST(test_time__text_and_back), DOC_TEST(test_time__reads_zones_and_fractions),
          DOC_TEST(test_time__refuses_other_text), DOC_TEST(test_record__becomes_json))
