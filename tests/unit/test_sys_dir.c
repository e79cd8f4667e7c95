#include "sys/dir.h"
#include "support/files.h"
#include <errno.h>
#include <sys/stat.h>

static void test_open__makes_missing_directories_if_asked(void **state)
{
    (void)state;
    det_err err = {0};
    int fd = -1;
    assert_int_equal(dir_open(temp_path("a/b"), 0, &fd, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "a/b': No such file or directory");
    assert_ok(dir_open(temp_path("a/b"), DIR_CREATE, &fd, &err), &err);
    close(fd);
    assert_int_equal(access(temp_path("a/b"), F_OK), 0);
    write_bytes(temp_path("a/file"), "x", 1);
    assert_int_equal(dir_open(temp_path("a/file/c"), DIR_CREATE, &fd, &err), DET_ENOTFOUND);
}

static void test_open_below__never_follows_links(void **state)
{
    (void)state;
    det_err err = {0};
    int top = -1, fd = -1;
    assert_ok(dir_open(temp_path("below/in/deep"), DIR_CREATE, &fd, &err), &err);
    close(fd);
    assert_ok(dir_open(temp_path("below"), 0, &top, &err), &err);
    write_bytes(temp_path("below/in/file"), "x", 1);
    assert_int_equal(symlink("in", temp_path("below/link")), 0);
    assert_int_equal(symlink("file", temp_path("below/in/other")), 0);
    assert_ok(dir_open_below(top, "in/deep", 0, &fd, &err), &err);
    close(fd);
    assert_ok(dir_open_file(top, "in/file", &fd, &err), &err);
    close(fd);
    assert_true(dir_open_below(top, "link", 0, &fd, &err) < 0);
    assert_true(dir_open_below(top, "link/deep", 0, &fd, &err) < 0);
    assert_true(dir_open_file(top, "link/file", &fd, &err) < 0);
    assert_int_equal(dir_open_file(top, "in/other", &fd, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "'in/other' is a symbolic link");
    assert_int_equal(dir_open_file(top, "in/deep", &fd, &err), DET_ECORRUPT);
    close(top);
}

static void test_list__is_sorted_and_knows_kinds(void **state)
{
    (void)state;
    det_err err = {0};
    struct arena arena = ARENA_INIT;
    struct dir_entries all;
    int fd = -1;
    assert_ok(dir_open(temp_path("list"), DIR_CREATE, &fd, &err), &err);
    assert_ok(dir_list(fd, "list", &arena, &all, &err), &err);
    assert_int_equal(all.n, 0);
    assert_int_equal(mkdir(temp_path("list/b"), 0777), 0);
    write_bytes(temp_path("list/c"), "", 0);
    assert_int_equal(symlink("c", temp_path("list/a")), 0);
    assert_ok(dir_list(fd, "list", &arena, &all, &err), &err);
    assert_int_equal(all.n, 3);
    static const struct dir_entry wanted[] = {{"a", DIR_OTHER}, {"b", DIR_FOLDER}, {"c", DIR_FILE}};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(all.items[i].name, wanted[i].name);
        assert_int_equal(all.items[i].kind, wanted[i].kind);
    }
    close(fd);
    arena_done(&arena);
}

static void test_remove__takes_all_but_what_links_lead_to(void **state)
{
    (void)state;
    det_err err = {0};
    int top = -1, fd = -1;
    assert_ok(dir_open(temp_path("remove"), DIR_CREATE, &top, &err), &err);
    assert_ok(dir_open(temp_path("remove/tree/x/y"), DIR_CREATE, &fd, &err), &err);
    close(fd);
    write_bytes(temp_path("remove/kept"), "x", 1);
    write_bytes(temp_path("remove/tree/x/file"), "x", 1);
    assert_int_equal(symlink("../..", temp_path("remove/tree/x/up")), 0);
    assert_ok(dir_remove(top, "tree", &err), &err);
    assert_int_equal(access(temp_path("remove/tree"), F_OK), -1);
    assert_int_equal(access(temp_path("remove/kept"), F_OK), 0);
    assert_ok(dir_remove(top, "kept", &err), &err);
    assert_int_equal(access(temp_path("remove/kept"), F_OK), -1);
    assert_ok(dir_remove(top, "never-was", &err), &err);
    close(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open__makes_missing_directories_if_asked),
        cmocka_unit_test(test_open_below__never_follows_links),
        cmocka_unit_test(test_list__is_sorted_and_knows_kinds),
        cmocka_unit_test(test_remove__takes_all_but_what_links_lead_to),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
