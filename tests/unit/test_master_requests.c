// Tests of the master by stories of requests (support/requests.h), each of which once went wrong.
// What the sanitizers say at the end is part of the test.
#include "support/test.h"

#include "support/requests.h"

#define END "\x1e"

static const struct {
    const char *name, *story;
    int status; // of the last answer
} stories[] = {
    {"a task waits when the master ends",
     "GET /api/v1/allocations/{alloc}/signals/preemption\nt?timeout_seconds=60\n", 0},
    {"a task ends when the master ends", "POST /api/v1/trials/{trial}/kill\nu\n", 200},
};

static void test_master__takes_any_story(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        requests_open();
        int status = requests_tell(str_from(stories[i].story));
        if (status != stories[i].status) fail_msg("%s: answered %d", stories[i].name, status);
        requests_close();
    }
}

RUN_TESTS(cmocka_unit_test(test_master__takes_any_story))
