// Tests of the master by stories of requests (support/requests.h), each of which once went wrong.
// What the sanitizers say at the end is part of the test.
#include "support/test.h"

#include "base/buf.h"
#include "support/requests.h"
#include <signal.h>
#include <sodium.h>
#include <sys/wait.h>
#include <unistd.h>

#define END "\x1e"
#define JOURNAL "11111111-2222-4333-8444-555555555555:"
#define REPORT(step, name) \
    "{\"group\":\"g\",\"stepsCompleted\":" step ",\"metrics\":{\"" name "\":1}}"
#define REPORTS(key, list) \
    "POST /api/v1/trials/{trial}/metrics\nt#" key "\n{\"trialRunId\":1,\"reports\":[" list "]}"
#define ONE REPORT("1", "a")
#define TWO ONE "," REPORT("2", "a")
#define THREE TWO "," REPORT("3", "a")

// clang-format off
static const struct {
    const char *name, *story;
    int status; // of the last answer
} stories[] = {
    {"a task waits when the master ends",
     "GET /api/v1/allocations/{alloc}/signals/preemption\nt?timeout_seconds=60\n", 0},
    {"a task ends when the master ends", "POST /api/v1/trials/{trial}/kill\nu\n", 200},
    {"a batch", REPORTS(JOURNAL "1-3", THREE), 200},
    {"a batch again", REPORTS(JOURNAL "1-3", THREE) END REPORTS(JOURNAL "1-3", THREE), 200},
    {"a batch that has grown", REPORTS(JOURNAL "1-2", TWO) END REPORTS(JOURNAL "1-3", THREE), 200},
    {"one, then all", REPORTS(JOURNAL "1", ONE) END REPORTS(JOURNAL "1-3", THREE), 200},
    {"a batch, then one of it", REPORTS(JOURNAL "1-3", THREE) END REPORTS(JOURNAL "1", ONE), 200},
    {"without a key, twice", REPORTS("x", TWO) END REPORTS("y", THREE), 409},
    {"a batch that is not of the key", REPORTS(JOURNAL "1-2", THREE), 400},
    {"a key that counts beyond all", REPORTS(JOURNAL "1-9223372036854775807", THREE), 400},
    {"a metric twice in a batch", REPORTS("x", THREE "," REPORT("2", "a")), 409},
    {"metrics of one step in two", REPORTS("x", THREE "," REPORT("2", "b")), 200},
};
// clang-format on

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

// Each group is looked for among all of them.
static void test_master__refuses_groups_without_number(void **state)
{
    (void)state;
    struct buf story = BUF_INIT(1 << 20);
    buf_addz(&story, "POST /api/v1/trials/{trial}/metrics\nt\n{\"trialRunId\":1,\"reports\":[");
    for (int i = 0; i <= 1000; i++)
        buf_printf(&story, "%s{\"group\":\"g%d\",\"stepsCompleted\":1,\"metrics\":{}}",
                   i ? "," : "", i);
    buf_addz(&story, "]}");
    requests_open();
    assert_int_equal(requests_tell(buf_str(&story)), 413);
    requests_close();
    buf_done(&story);
}

#define VALID(run, group, step, loss)                                 \
    "POST /api/v1/trials/{trial}/metrics\nt\n{\"trialRunId\":" run    \
    ",\"reports\":[{\"group\":\"" group "\",\"stepsCompleted\":" step \
    ",\"metrics\":{\"loss\":" loss "}}]}"

// Of the tasks of both trials; then the next run of the first one is the oldest.
#define TWO_EXITS "exit 3" END "exit 3"

// What a run that failed had reported beyond the point where the next one goes on is gone; what the
// present run has reported stays, also when it begins to report something else.
static void test_runs__go_on_where_they_go_on(void **state)
{
    (void)state;
    requests_open();
    assert_int_equal(requests_tell(STR(VALID("1", "validation", "10", "0.3")
                                           END VALID("1", "validation", "20", "0.1")
                                               END TWO_EXITS END VALID("2", "training", "10", "1")
                                                   END VALID("2", "validation", "20", "0.5"))),
                     200);
    assert_int_equal(requests_tell(STR(VALID("2", "custom", "5", "1"))), 200);
    assert_int_equal(requests_tell(STR("GET /api/v1/trials/{trial}\na\n")), 200);
    const char *best = strstr(requests_body(), "\"bestValidation\":{\"totalBatches\":20");
    const char *latest = strstr(requests_body(), "\"latestValidation\":{\"totalBatches\":20");
    if (!best || !latest) fail_msg("%s", requests_body());
    requests_close();
}

// A master whose loop reads is not one that answers everybody at any time: it ends at once, so that
// no such route gets past its tests.
static void test_loop__that_reads_is_the_end_of_the_program(void **state)
{
    (void)state;
    int status = 0;
    requests_open();
    pid_t child = fork();
    if (!child) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        requests_read_on_the_loop();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    requests_close();
}

static void test_loop__reads_for_no_route(void **state)
{
    (void)state;
    requests_open();
    requests_tell_all();
    requests_close();
}

#define LOGIN(name, password) \
    "POST /api/v1/auth/login\nn\n{\"username\":\"" name "\",\"password\":\"" password "\"}"
#define NEW_USER(name, more) "POST /api/v1/users\na\n{\"username\":\"" name "\"" more "}" END

// Whoever listens for how long an answer takes must not learn which names there are: each login
// that fails computes one hash, and all of them cost the same.
static void test_login__is_the_same_work_for_every_name(void **state)
{
    (void)state;
    static const char *const logins[] = {
        LOGIN("known", "a wrong one"),  LOGIN("closed", "a good one"),
        LOGIN("nobody", "a wrong one"), LOGIN("without", "a wrong one"),
        LOGIN("", "a wrong one"),
    };
    requests_open();
    assert_int_equal(
        requests_tell(STR(NEW_USER("without", "") NEW_USER("known", ",\"password\":\"a good one\"")
                              NEW_USER("closed", ",\"password\":\"a good one\",\"active\":false")
                                  LOGIN("known", "a good one"))),
        200);
    const struct requests_hashing *h = requests_hashing();
    unsigned long long ops = h->ops;
    size_t memory = h->memory;
    for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
        size_t before = h->n_verified;
        int status = requests_tell(str_from(logins[i]));
        bool real = !strncmp(h->last_verified, "plain:", 6); // of a user, made as above
        if (status != 401 || h->n_verified != before + 1)
            fail_msg("%s: answered %d after %zu hashes", logins[i], status, h->n_verified - before);
        if (!real && crypto_pwhash_str_needs_rehash(h->last_verified, ops, memory))
            fail_msg("%s: compared with '%s'", logins[i], h->last_verified);
    }
    requests_close();
}

RUN_TESTS(cmocka_unit_test(test_login__is_the_same_work_for_every_name),
          cmocka_unit_test(test_master__refuses_groups_without_number),
          cmocka_unit_test(test_loop__that_reads_is_the_end_of_the_program),
          cmocka_unit_test(test_loop__reads_for_no_route),
          cmocka_unit_test(test_runs__go_on_where_they_go_on),
          cmocka_unit_test(test_master__takes_any_story))
