// What a journal promises.
#include "support/files.h"

#include "client/journal.h"
#include "sys/fs.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static det_err err;

static struct journal *create(const char *name)
{
    struct journal *j = NULL;
    unlink(temp_path(name));
    assert_ok(journal_create(temp_path(name), &j, &err), &err);
    return j;
}

static struct journal *reopen(const char *name)
{
    struct journal *j = NULL;
    assert_ok(journal_open(temp_path(name), &j, &err), &err);
    return j;
}

static void add(struct journal *j, int number)
{
    char body[64];
    snprintf(body, sizeof body, "{\"n\":%d}", number);
    assert_ok(journal_add(j, "/x", str_from(body), &err), &err);
}

// The next entry is number; it is taken.
static void take(struct journal *j, int number)
{
    struct journal_entry e;
    char body[64];
    assert_int_equal(journal_next(j, &e, &err), 1);
    snprintf(body, sizeof body, "{\"n\":%d}", number);
    assert_string_equal(e.path, "/x");
    assert_int_equal(e.body.len, strlen(body));
    assert_memory_equal(e.body.ptr, body, strlen(body));
    journal_taken(j, e.number);
}

static void assert_empty(struct journal *j)
{
    struct journal_entry e;
    assert_int_equal(journal_next(j, &e, &err), 0);
}

static void test_journal__gives_entries_in_order_with_stable_keys(void **state)
{
    (void)state;
    struct journal_entry first, again, second;
    struct journal *j = create("a");
    assert_empty(j);
    add(j, 1);
    add(j, 2);
    assert_int_equal(journal_n_waiting(j), 2);
    assert_int_equal(journal_next(j, &first, &err), 1);
    assert_int_equal(journal_next(j, &again, &err), 1);
    assert_string_equal(first.key, again.key);
    take(j, 1);
    assert_int_equal(journal_next(j, &second, &err), 1);
    assert_string_not_equal(first.key, second.key);
    take(j, 2);
    assert_empty(j);
    add(j, 3);
    take(j, 3);
    assert_int_equal(journal_n_waiting(j), 0);
    journal_close(j);
}

static void test_journal__remembers_what_was_taken(void **state)
{
    (void)state;
    struct journal_entry before, after;
    struct journal *j = create("b");
    for (int i = 1; i <= 5; i++)
        add(j, i);
    take(j, 1);
    take(j, 2);
    assert_ok(journal_note_taken(j, &err), &err);
    take(j, 3); // not noted: it is given again, with the same key
    assert_int_equal(journal_next(j, &before, &err), 1);
    journal_close(j);
    j = reopen("b");
    assert_int_equal(journal_n_waiting(j), 3);
    take(j, 3);
    assert_int_equal(journal_next(j, &after, &err), 1);
    assert_string_equal(before.key, after.key);
    take(j, 4);
    take(j, 5);
    assert_empty(j);
    journal_close(j);
}

// Cut off after any number of bytes, it gives the entries that are whole, and goes on from there.
static void test_journal__survives_a_torn_end(void **state)
{
    (void)state;
    struct stat st;
    struct journal *j = create("c");
    int64_t ends[4] = {0};
    for (int i = 1; i <= 3; i++) {
        stat(temp_path("c"), &st);
        ends[i - 1] = st.st_size;
        add(j, i);
    }
    stat(temp_path("c"), &st);
    ends[3] = st.st_size;
    journal_close(j);
    char *bytes = malloc((size_t)ends[3]);
    FILE *f = fopen(temp_path("c"), "rb");
    assert_int_equal(fread(bytes, 1, (size_t)ends[3], f), ends[3]);
    fclose(f);
    for (int64_t n = ends[0]; n <= ends[3]; n++) {
        write_bytes(temp_path("c"), bytes, (size_t)n);
        int n_whole = n >= ends[3] ? 3 : n >= ends[2] ? 2 : n >= ends[1] ? 1 : 0;
        j = reopen("c");
        assert_int_equal(journal_n_waiting(j), n_whole);
        for (int i = 1; i <= n_whole; i++)
            take(j, i);
        assert_empty(j);
        assert_ok(journal_note_taken(j, &err), &err);
        journal_close(j);
        j = reopen("c");
        assert_int_equal(journal_n_waiting(j), 0);
        journal_close(j);
    }
    write_bytes(temp_path("c"), bytes, (size_t)ends[0] - 1);
    assert_int_equal(journal_open(temp_path("c"), &j, &err), DET_ECORRUPT);
    free(bytes);
}

static void test_journal__stops_at_damage(void **state)
{
    (void)state;
    struct stat st;
    struct journal *j = create("d");
    add(j, 1);
    stat(temp_path("d"), &st);
    add(j, 2);
    add(j, 3);
    journal_close(j);
    int fd = open(temp_path("d"), O_WRONLY);
    assert_int_equal(pwrite(fd, "X", 1, st.st_size + 14), 1);
    close(fd);
    j = reopen("d");
    assert_int_equal(journal_n_waiting(j), 1);
    take(j, 1);
    assert_empty(j);
    journal_close(j);
}

static void test_journal__is_not_taken_from_a_living_writer(void **state)
{
    (void)state;
    struct journal *j = create("e"), *other = NULL;
    assert_int_equal(journal_open(temp_path("e"), &other, &err), DET_ESTATE);
    assert_int_equal(journal_create(temp_path("e"), &other, &err), DET_EIO);
    assert_ok(journal_remove(j, &err), &err);
    assert_int_equal(journal_open(temp_path("e"), &other, &err), DET_ENOTFOUND);
}

static void test_journal__goes_on_after_a_full_disk(void **state)
{
    (void)state;
    struct stat st;
    struct rlimit limit, old;
    struct journal *j = create("f");
    add(j, 1);
    stat(temp_path("f"), &st);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){(rlim_t)st.st_size + 10, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit); // room for half a line
    assert_int_equal(journal_add(j, "/x", STR("{\"n\":2}"), &err), DET_EIO);
    setrlimit(RLIMIT_FSIZE, &old);
    add(j, 2);
    add(j, 3);
    take(j, 1);
    take(j, 2);
    take(j, 3);
    journal_close(j);
    j = reopen("f");
    assert_int_equal(journal_n_waiting(j), 3);
    journal_close(j);
}

static void test_journal__refuses_reports_beyond_all_bounds(void **state)
{
    (void)state;
    struct journal *j = create("g");
    char *large = malloc(JOURNAL_MAX_LINE + 1);
    memset(large, 'x', JOURNAL_MAX_LINE + 1);
    assert_int_equal(journal_add(j, "/x", (struct str){large, JOURNAL_MAX_LINE + 1}, &err),
                     DET_ELIMIT);
    assert_ok(journal_add(j, "/x", (struct str){large, 1 << 20}, &err), &err);
    struct journal_entry e;
    assert_int_equal(journal_next(j, &e, &err), 1);
    assert_int_equal(e.body.len, 1 << 20);
    free(large);
    journal_close(j);
}

// A journal that a program of an earlier version wrote; entries were not taken.
static void test_journal__reads_those_of_earlier_versions(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    struct journal_entry e;
    int64_t n = 0;
    unlink(temp_path("old"));
    assert_ok(fs_read("tests/golden/v2/metrics.journal", &text, &err), &err);
    assert_ok(fs_create(temp_path("old"), buf_str(&text), &err), &err);
    buf_done(&text);
    struct journal *j = reopen("old");
    while (journal_next(j, &e, &err) == 1) {
        assert_int_equal(e.number, ++n);
        assert_non_null(strstr(e.path, "/api/v1/"));
        assert_true(e.body.len > 2 && e.body.ptr[0] == '{');
        journal_taken(j, e.number);
    }
    assert_int_equal(n, 13);
    add(j, 14); // and it can be gone on with
    take(j, 14);
    journal_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal__gives_entries_in_order_with_stable_keys),
        cmocka_unit_test(test_journal__remembers_what_was_taken),
        cmocka_unit_test(test_journal__survives_a_torn_end),
        cmocka_unit_test(test_journal__stops_at_damage),
        cmocka_unit_test(test_journal__is_not_taken_from_a_living_writer),
        cmocka_unit_test(test_journal__goes_on_after_a_full_disk),
        cmocka_unit_test(test_journal__refuses_reports_beyond_all_bounds),
        cmocka_unit_test(test_journal__reads_those_of_earlier_versions),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
