#include "sys/dir.h"
#include "support/files.h"
#include "support/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
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

// As a task may leave it: deeper than anybody has descriptors for, and closed against its owner.
static void test_remove__takes_what_is_deep_and_closed(void **state)
{
    (void)state;
    enum { DEPTH = 3000 };
    det_err err = {0};
    struct rlimit limit, small = {100, 100};
    int top = -1, here = open(".", O_RDONLY | O_DIRECTORY);
    assert_ok(dir_open(temp_path("deep"), DIR_CREATE, &top, &err), &err);
    assert_int_equal(mkdirat(top, "tree", 0700), 0);
    assert_int_equal(fchdir(top) || chdir("tree") || mkdir(".det-removed-0", 0700), 0);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(mkdir("d", 0700) || chdir("d"), 0);
    assert_int_equal(chmod(".", 0) || fchdir(here), 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    small.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &small);
    assert_ok(dir_remove(top, "tree", &err), &err);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(faccessat(top, "tree", F_OK, 0), -1);
    close(top);
    close(here);
}

static void test_remove__leaves_what_is_mounted_inside(void **state)
{
    (void)state;
    det_err err = {0};
    int top = -1, fd = -1;
    if (!make_own_mounts()) skip(); // needs root
    assert_ok(dir_open(temp_path("mounted/tree/point"), DIR_CREATE, &fd, &err), &err);
    close(fd);
    assert_ok(dir_open(temp_path("mounted"), 0, &top, &err), &err);
    assert_ok(dir_open(temp_path("elsewhere"), DIR_CREATE, &fd, &err), &err);
    close(fd);
    write_bytes(temp_path("elsewhere/kept"), "x", 1);
    assert_int_equal(
        mount(temp_path("elsewhere"), temp_path("mounted/tree/point"), NULL, MS_BIND, NULL), 0);
    assert_int_equal(dir_remove(top, "tree", &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "cannot remove 'point': something is mounted there");
    assert_int_equal(access(temp_path("elsewhere/kept"), F_OK), 0);
    assert_int_equal(umount(temp_path("mounted/tree/point")), 0);
    assert_ok(dir_remove(top, "tree", &err), &err);
    close(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open__makes_missing_directories_if_asked),
        cmocka_unit_test(test_open_below__never_follows_links),
        cmocka_unit_test(test_list__is_sorted_and_knows_kinds),
        cmocka_unit_test(test_remove__takes_all_but_what_links_lead_to),
        cmocka_unit_test(test_remove__takes_what_is_deep_and_closed),
        cmocka_unit_test(test_remove__leaves_what_is_mounted_inside),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
