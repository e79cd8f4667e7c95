// What the log of a task keeps, and how it is read.
#include "support/task.h"

#include "task/log.h"
#include <fcntl.h>
#include <math.h>

static void put_file(struct world *w, const char *name, const char *text)
{
    write_bytes(arena_printf(&w->arena, "%s/%s", w->dir, name), text, strlen(text));
}

static struct task_page read_page(struct world *w, int64_t offset)
{
    det_err err = {0};
    struct task_page page;
    assert_ok(task_log_read(w->dir, offset, &w->arena, &page, &err), &err);
    size_t n = 0; // without what is said about the task now and then
    for (size_t i = 0; i < page.lines.n; i++)
        if (page.lines.items[i].stream != TASK_USAGE) page.lines.items[n++] = page.lines.items[i];
    page.lines.n = n;
    return page;
}

static void test_log__cuts_long_lines(void **state)
{
    struct world *w = *state;
    run(w, "head -c 40000 /dev/zero | tr '\\0' x; echo; echo next");
    struct task_page page = read_page(w, 0);
    assert_int_equal(page.lines.n, 4);
    assert_true(page.lines.items[0].partial && page.lines.items[1].partial);
    assert_false(page.lines.items[2].partial);
    assert_int_equal(page.lines.items[0].text.len + page.lines.items[1].text.len +
                         page.lines.items[2].text.len,
                     40000);
    assert_true(str_eqz(page.lines.items[3].text, "next"));
}

static void test_log__shows_what_a_terminal_would_show(void **state)
{
    struct world *w = *state;
    run(w,
        "printf '10%%\\r50%%\\r100%%\\n'; printf 'windows\\r\\n'; printf '\\n'; printf 'a\\tb\\n'");
    assert_lines(w, TASK_STDOUT, "100%\nwindows\n\na\tb\n");
}

static void test_log__keeps_bytes_that_are_no_text(void **state)
{
    struct world *w = *state;
    run(w, "printf 'a\\000\\377b\\n'");
    struct task_page page = read_page(w, 0);
    assert_int_equal(page.lines.n, 1);
    assert_int_equal(page.lines.items[0].text.len, 4);
    assert_memory_equal(page.lines.items[0].text.ptr, "a\0\377b", 4);
}

// A question without a newline must not wait for an answer that never comes.
static void test_log__shows_unfinished_lines_after_a_while(void **state)
{
    struct world *w = *state;
    start(w, "printf loading; until [ -e go ]; do sleep 0.01; done; echo ' done'");
    wait_until(read_page(w, 0).lines.n == 1);
    assert_true(read_page(w, 0).lines.items[0].partial);
    put_file(w, "task/go", "");
    finish(w);
    assert_lines(w, TASK_STDOUT, "loading done\n");
}

static void test_log__every_line_comes_once_to_who_follows(void **state)
{
    struct world *w = *state;
    int64_t offset = 0, last_us = 0;
    int n = 0;
    start(w, "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i + 1)); done");
    do {
        struct task_page page = read_page(w, offset);
        offset = page.next;
        for (size_t i = 0; i < page.lines.n; i++) {
            char wanted[16];
            snprintf(wanted, sizeof wanted, "%d", n++);
            assert_true(str_eqz(page.lines.items[i].text, wanted));
            assert_true(page.lines.items[i].time_us >= last_us);
            last_us = page.lines.items[i].time_us;
        }
        if (!page.lines.n) poll(&(struct pollfd){.fd = w->shim, .events = POLLIN}, 1, 1);
    } while (n < 3000);
    finish(w);
    assert_int_equal(read_page(w, offset).lines.n, 0);
    assert_int_equal(read_page(w, offset).next, offset);
}

static void test_log__the_oldest_goes_when_there_is_too_much(void **state)
{
    struct world *w = *state;
    struct buf lines = BUF_INIT(1 << 20);
    w->spec.log_max_bytes = 64 << 10;
    run(w, "i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i + 1)); done");
    struct task_page page = read_page(w, 0);
    assert_true(page.n_lost_bytes > 100000);
    read_lines(w->dir, TASK_STDOUT, &lines);
    assert_true(str_ends(buf_str(&lines), STR("\n9998\n")));
    assert_true(lines.len > 10000); // much of the limit is used
    assert_true(page.next - page.n_lost_bytes < (64 << 10) * 9 / 8);
    assert_int_equal(read_page(w, page.n_lost_bytes).n_lost_bytes,
                     0); // from there on, all is there
    buf_done(&lines);
}

// --- a reader that is behind, and one that is away

enum { SPOOL_BYTES = 64 << 10, SECOND_US = 1000000 };

struct filled {
    struct spool spool;
    int dir;
    int64_t n_lines;
};

static void spool_start(struct world *w, struct filled *f)
{
    det_err err = {0};
    f->dir = open(w->dir, O_RDONLY | O_DIRECTORY);
    f->n_lines = 0;
    assert_ok(spool_open(&f->spool, f->dir, SPOOL_BYTES, &err), &err);
}

static void add_numbered(struct filled *f)
{
    char text[32];
    int n = snprintf(text, sizeof text, "line %lld", (long long)f->n_lines++);
    const struct task_line line = {.time_us = 1, .text = {text, (size_t)n}};
    spool_add(&f->spool, &line);
}

static void test_spool__waits_for_its_reader_and_loses_nothing(void **state)
{
    struct world *w = *state;
    struct filled f;
    int64_t offset = 0, n_read = 0;
    spool_start(w, &f);
    while (f.n_lines < 30000) {
        while (!spool_is_full(&f.spool, SECOND_US) && f.n_lines < 30000)
            add_numbered(&f);
        struct task_page page = read_page(w, offset); // some of it, not all
        assert_int_equal(page.n_lost_bytes, 0);
        n_read += (int64_t)page.lines.n;
        offset = page.next;
        task_log_trim(w->dir, offset);
    }
    for (struct task_page page; (page = read_page(w, offset)).lines.n; offset = page.next) {
        assert_int_equal(page.n_lost_bytes, 0);
        n_read += (int64_t)page.lines.n;
    }
    assert_int_equal(n_read, f.n_lines);
    spool_close(&f.spool);
    close(f.dir);
}

static void fill_up(struct filled *f)
{
    while (!spool_is_full(&f->spool, SECOND_US))
        add_numbered(f);
}

static void test_spool__waits_for_nobody_who_is_away(void **state)
{
    struct world *w = *state;
    struct filled f;
    spool_start(w, &f);
    fill_up(&f);
    assert_true(spool_is_full(&f.spool, 9 * SECOND_US));
    assert_false(spool_is_full(&f.spool, 12 * SECOND_US));
    for (int i = 0; i < 10000; i++) { // and not again for each of the next
        assert_false(spool_is_full(&f.spool, 12 * SECOND_US));
        add_numbered(&f);
    }
    struct task_page page = read_page(w, 0);
    assert_true(page.n_lost_bytes > 0);
    task_log_trim(w->dir, page.next); // he is back
    fill_up(&f);
    spool_close(&f.spool);
    close(f.dir);
}

static void test_trim__leaves_the_piece_that_is_written(void **state)
{
    struct world *w = *state;
    struct filled f;
    spool_start(w, &f);
    add_numbered(&f);
    task_log_trim(w->dir, INT64_MAX);
    assert_int_equal(read_page(w, 0).lines.n, 1);
    spool_close(&f.spool);
    close(f.dir);
}

static void test_read__waits_for_the_end_of_a_line(void **state)
{
    struct world *w = *state;
    put_file(w, "log.000000000000000", "5 0 o whole\n6 1 e ha");
    struct task_page page = read_page(w, 0);
    assert_int_equal(page.lines.n, 1);
    assert_int_equal(page.lines.items[0].time_us, 5);
    assert_int_equal(page.next, 12);
    put_file(w, "log.000000000000000", "5 0 o whole\n6 1 e half\n");
    page = read_page(w, 12);
    assert_int_equal(page.lines.n, 1);
    assert_int_equal(page.lines.items[0].rank, 1);
    assert_int_equal(page.lines.items[0].stream, TASK_STDERR);
    assert_true(str_eqz(page.lines.items[0].text, "half"));
}

static void test_read__goes_on_behind_a_torn_file(void **state)
{
    struct world *w = *state;
    put_file(w, "log.000000000000000", "1 0 o first\n2 0 o to");
    put_file(w, "log.000000000000020", "3 0 o third\n");
    struct task_page page = read_page(w, 0);
    assert_int_equal(page.lines.n, 1);
    page = read_page(w, page.next);
    assert_int_equal(page.lines.n, 1);
    assert_true(str_eqz(page.lines.items[0].text, "third"));
    assert_int_equal(read_page(w, page.next).lines.n, 0);
}

static void test_read__shows_foreign_lines_as_they_are(void **state)
{
    struct world *w = *state;
    static const char *const foreign[] = {"",
                                          "x",
                                          "1 2",
                                          "1 2 q text",
                                          "1 2 oo text",
                                          "9e9 1 o x",
                                          "99999999999999999999 0 o x",
                                          " 1 0 o x",
                                          "1 0 o"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        put_file(w, "log.000000000000000", arena_printf(&w->arena, "%s\n", foreign[i]));
        struct task_page page = read_page(w, 0);
        assert_int_equal(page.lines.n, 1);
        assert_int_equal(page.lines.items[0].stream, TASK_SHIM);
        assert_true(str_eqz(page.lines.items[0].text, foreign[i]));
    }
}

static void test_read__is_not_stopped_by_an_endless_line(void **state)
{
    struct world *w = *state;
    char *zeros = arena_alloc(&w->arena, 3 << 20);
    int64_t offset = 0;
    write_bytes(arena_printf(&w->arena, "%s/log.000000000000000", w->dir), zeros, 3 << 20);
    for (int i = 0; i < 3; i++)
        offset = read_page(w, offset).next;
    assert_int_equal(offset, 3 << 20);
}

static void test_read__ignores_other_files(void **state)
{
    struct world *w = *state;
    det_err err = {0};
    put_file(w, "log.1", "1 0 o no\n");
    put_file(w, "log.-00000000000001", "1 0 o no\n");
    put_file(w, "logs000000000000000", "1 0 o no\n");
    assert_int_equal(read_page(w, 0).lines.n, 0);
    struct task_page page;
    assert_int_equal(task_log_read("/no/such/folder", 0, &w->arena, &page, &err), DET_ENOTFOUND);
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

static void test_usage__is_read_or_refused(void **state)
{
    struct task_usage u;
    (void)state;
    assert_true(task_usage_parse(STR("1500000 4096 250000 99"), &u));
    assert_true(u.cpu == 1.5 && u.memory_bytes == 4096 && u.gpu == 0.25);
    assert_int_equal(u.gpu_memory_bytes, 99);
    assert_true(task_usage_parse(STR("0 0 -1 -1"), &u));
    assert_true(isnan(u.gpu));
    static const char *const bad[] = {"", "1 2 3", "1 2 3 4 5", "1 2 x 4", "1  2 3 4", "hello"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(task_usage_parse(str_from(bad[i]), &u));
}

int main(int argc, char **argv)
{
    become_shim_if_asked(argc, argv);
    const struct CMUnitTest tests[] = {
        T(log__cuts_long_lines),
        T(log__shows_what_a_terminal_would_show),
        T(log__keeps_bytes_that_are_no_text),
        T(log__shows_unfinished_lines_after_a_while),
        T(log__every_line_comes_once_to_who_follows),
        T(log__the_oldest_goes_when_there_is_too_much),
        T(spool__waits_for_its_reader_and_loses_nothing),
        T(spool__waits_for_nobody_who_is_away),
        T(trim__leaves_the_piece_that_is_written),
        T(read__waits_for_the_end_of_a_line),
        T(read__goes_on_behind_a_torn_file),
        T(read__shows_foreign_lines_as_they_are),
        T(read__is_not_stopped_by_an_endless_line),
        T(read__ignores_other_files),
        cmocka_unit_test(test_usage__is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
