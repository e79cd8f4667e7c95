// Programs that answer lines with lines.
#include "support/test.h"

#include "base/assert.h"
#include "sys/coprocess.h"
#include <signal.h>

enum { PATIENCE_US = 20000000 };

static void start(struct coprocess *p, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    det_err err;
    *p = COPROCESS_INIT;
    if (coprocess_open(p, argv, &err)) fail_msg("%s", err.msg);
}

static int ask(struct coprocess *p, const char *line, struct buf *answer, det_err *err)
{
    return coprocess_ask(p, str_from(line), PATIENCE_US, answer, err);
}

static void test_coprocess__answers_lines(void **state)
{
    (void)state;
    struct coprocess p;
    struct buf answer = BUF_INIT(100);
    start(&p, "while read x; do echo \"<$x>\"; done");
    assert_int_equal(ask(&p, "one\n", &answer, NULL), 0);
    assert_string_equal(answer.ptr, "<one>");
    assert_int_equal(ask(&p, "two words\n", &answer, NULL), 0);
    assert_string_equal(answer.ptr, "<two words>");
    coprocess_close(&p);
    buf_done(&answer);
}

static void test_coprocess__lines_may_come_together(void **state)
{
    (void)state;
    struct coprocess p;
    struct buf answer = BUF_INIT(100);
    start(&p, "echo a; echo b; cat >/dev/null");
    assert_int_equal(ask(&p, "x\n", &answer, NULL), 0);
    assert_string_equal(answer.ptr, "a");
    assert_int_equal(ask(&p, "x\n", &answer, NULL), 0);
    assert_string_equal(answer.ptr, "b");
    coprocess_close(&p);
    buf_done(&answer);
}

static void test_coprocess__failures_have_names(void **state)
{
    (void)state;
    static const char *const missing[] = {"/nonexistent/program", NULL};
    struct coprocess p = COPROCESS_INIT;
    struct buf answer = BUF_INIT(100);
    det_err err;
    assert_int_equal(coprocess_open(&p, missing, &err), DET_ENOTFOUND);
    assert_string_equal(err.msg, "cannot start '/nonexistent/program': No such file or directory");
    start(&p, "exit 3");
    assert_int_equal(ask(&p, "x\n", &answer, &err), DET_EIO);
    assert_string_equal(err.msg, "the program ended without an answer");
    coprocess_close(&p);
    start(&p, "head -c 1000 /dev/zero");
    assert_int_equal(ask(&p, "x\n", &answer, &err), DET_ELIMIT);
    coprocess_close(&p);
    start(&p, "while read x; do :; done"); // listens, and keeps its output open
    assert_int_equal(coprocess_ask(&p, STR("x\n"), 1000, &answer, &err), DET_EIO);
    assert_string_equal(err.msg, "the program does not answer");
    coprocess_close(&p);
    buf_done(&answer);
}

static void test_coprocess__does_not_outlive_us(void **state)
{
    (void)state;
    struct coprocess p;
    struct buf answer = BUF_INIT(100);
    start(&p, "echo $$; exec sleep 1000");
    assert_int_equal(ask(&p, "x\n", &answer, NULL), 0);
    pid_t pid = p.pid;
    coprocess_close(&p);
    assert_int_equal(kill(pid, 0), -1);
    coprocess_close(&p); // once more does no harm
    buf_done(&answer);
}

RUN_TESTS(cmocka_unit_test(test_coprocess__answers_lines),
          cmocka_unit_test(test_coprocess__lines_may_come_together),
          cmocka_unit_test(test_coprocess__failures_have_names),
          cmocka_unit_test(test_coprocess__does_not_outlive_us))
