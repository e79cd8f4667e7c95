#include "storage/storage.h"
#include "support/checkpoints.h"

#include "sys/fs.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static int n_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static bool same_id(struct uuid a, struct uuid b)
{
    return !memcmp(&a, &b, sizeof a);
}

static void test_commit__makes_a_whole_checkpoint_visible(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("commit");
    struct arena arena = ARENA_INIT;
    struct ckpt_info saved = save(s, 7, 100), found;
    assert_ok(ckpt_verify(s, saved.id, &found, &err), &err);
    assert_true(same_id(found.id, saved.id));
    assert_int_equal(found.trial_id, 7);
    assert_int_equal(found.steps_completed, 100);
    assert_int_equal(found.saved_us, saved.saved_us);
    assert_int_equal(found.n_bytes, 20000 + 14 + 18);
    struct buf text = BUF_INIT(100);
    assert_ok(fs_read(ckpt_file(s, saved.id, "code/model_def.c", &arena), &text, &err), &err);
    assert_string_equal(text.ptr, "int main(void) {}\n");
    buf_done(&text);
    // Four files, one of them in a directory, and the manifest.
    assert_int_equal(n_entries(ckpt_file(s, saved.id, NULL, &arena)), 5);
    assert_int_equal(n_entries(temp_path("commit")), 1);
    arena_done(&arena);
    store_close(s);
}

static void test_begin__shows_nothing_until_commit(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("begin");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt *c = NULL;
    assert_ok(ckpt_begin(s, &(struct ckpt_info){0}, &c, &err), &err);
    assert_ok(write_files(c, 1, &err), &err);
    assert_ok(ckpt_list(s, 0, &arena, &list, &err), &err);
    assert_int_equal(list.n + list.n_damaged, 0);
    ckpt_abort(c);
    assert_int_equal(n_entries(temp_path("begin")), 0);
    arena_done(&arena);
    store_close(s);
}

static void test_begin__takes_an_id_that_is_given_but_not_twice(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("twice");
    struct ckpt_info info = {.steps_completed = 1};
    struct ckpt *a = NULL, *b = NULL;
    assert_int_equal(uuid_parse("11111111-2222-4333-8444-555555555555", &info.id, &err), 0);
    assert_ok(ckpt_begin(s, &info, &a, &err), &err);
    assert_int_equal(ckpt_begin(s, &info, &b, &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "another process is writing it");
    assert_ok(ckpt_put(a, "x", STR("first"), &err), &err);
    assert_ok(ckpt_commit(a, NULL, &err), &err);
    assert_ok(ckpt_begin(s, &info, &b, &err), &err);
    assert_ok(ckpt_put(b, "x", STR("second"), &err), &err);
    assert_int_equal(ckpt_commit(b, NULL, &err), DET_ESTATE);
    assert_failed_with(&err, DET_ESTATE, "11111111-2222-4333-8444-555555555555: it exists already");
    assert_ok(ckpt_verify(s, info.id, NULL, &err), &err);
    assert_int_equal(n_entries(temp_path("twice")), 1);
    store_close(s);
}

static void test_path__stays_inside(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("inside");
    struct ckpt *c = NULL;
    static const char *const bad[] = {"",     "/etc/passwd", "../x", "a/../../x",
                                      "a//b", "./a",         "a/",   ".."};
    assert_ok(ckpt_begin(s, &(struct ckpt_info){0}, &c, &err), &err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(ckpt_path(c, bad[i], &err));
        assert_failed_with(&err, DET_EINVAL, "leads elsewhere");
        assert_int_equal(ckpt_put(c, bad[i], STR("x"), &err), DET_EINVAL);
    }
    // A directory that turned into a link is not entered.
    assert_non_null(ckpt_path(c, "folder/file", &err));
    char folder[200];
    snprintf(folder, sizeof folder, "%s", ckpt_path(c, "folder", &err));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_null(ckpt_path(c, "folder/file", &err));
    ckpt_abort(c);
    store_close(s);
}

static void test_commit__refuses_what_is_no_file(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("nofile");
    for (int i = 0; i < 3; i++) {
        struct ckpt *c = NULL;
        assert_ok(ckpt_begin(s, &(struct ckpt_info){0}, &c, &err), &err);
        if (i == 0) assert_int_equal(symlink("/etc/passwd", ckpt_path(c, "x", &err)), 0);
        if (i == 1) assert_int_equal(mkfifo(ckpt_path(c, "x", &err), 0600), 0);
        if (i == 2) write_bytes(ckpt_path(c, "x\xff", &err), "x", 1);
        assert_int_equal(ckpt_commit(c, NULL, &err), DET_EINVAL);
        assert_failed_with(&err, DET_EINVAL,
                           i == 2 ? "is not UTF-8" : "'x' is neither a file nor a directory");
        assert_int_equal(n_entries(temp_path("nofile")), 0);
    }
    store_close(s);
}

static void test_list__is_of_one_trial_newest_first(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("list");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt_info first = save(s, 1, 10), second = save(s, 1, 20);
    save(s, 2, 30);
    struct ckpt_info third = save(s, 1, 15); // after going back
    assert_ok(ckpt_list(s, 1, &arena, &list, &err), &err);
    assert_int_equal(list.n, 3);
    assert_true(same_id(list.items[0].id, third.id));
    assert_true(same_id(list.items[1].id, second.id));
    assert_true(same_id(list.items[2].id, first.id));
    arena_done(&arena);
    store_close(s);
}

static void test_delete__removes_one_and_only_one(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = new_store("delete");
    struct ckpt_info a = save(s, 1, 10), b = save(s, 1, 20);
    assert_ok(ckpt_delete(s, a.id, &err), &err);
    assert_int_equal(ckpt_verify(s, a.id, NULL, &err), DET_ENOTFOUND);
    assert_ok(ckpt_verify(s, b.id, NULL, &err), &err);
    assert_int_equal(ckpt_delete(s, a.id, &err), DET_ENOTFOUND);
    assert_int_equal(n_entries(temp_path("delete")), 1);
    store_close(s);
}

static void test_clean__removes_what_the_dead_left_only(void **state)
{
    (void)state;
    det_err err = {0};
    int n_removed;
    struct store *s = new_store("clean");
    struct ckpt *c = NULL;
    struct ckpt_info saved = save(s, 1, 10);
    assert_ok(ckpt_begin(s, &(struct ckpt_info){.trial_id = 1}, &c, &err), &err);
    assert_ok(write_files(c, 20, &err), &err);
    assert_int_equal(mkdir(temp_path("clean/.tmp-dead"), 0777), 0);
    assert_int_equal(mkdir(temp_path("clean/.tmp-dead/code"), 0777), 0);
    write_bytes(temp_path("clean/.tmp-dead/code/file"), "x", 1);
    assert_int_equal(mkdir(temp_path("clean/.del-dead"), 0777), 0);
    write_bytes(temp_path("clean/.del-dead/file"), "x", 1);
    assert_int_equal(mkdir(temp_path("clean/of-the-user"), 0777), 0);
    assert_ok(store_clean(s, &n_removed, &err), &err);
    assert_int_equal(n_removed, 2);
    assert_int_equal(n_entries(temp_path("clean")), 3);
    assert_ok(ckpt_commit(c, NULL, &err), &err);
    assert_ok(ckpt_verify(s, saved.id, NULL, &err), &err);
    store_close(s);
}

static void test_store__opens_only_what_is_below_host_path(void **state)
{
    (void)state;
    det_err err = {0};
    struct store *s = NULL;
    const char *host = temp_path("host");
    static const struct {
        const char *storage_path;
        int code;
        const char *text;
    } rows[] = {{NULL, 0, ""},
                {"a/b", 0, ""},
                {"a/../b/./c", 0, ""},
                {"../host/x", 0, ""},
                {"..", DET_EINVAL, "'..' is not inside host_path"},
                {"a/../../x", DET_EINVAL, "is not inside host_path"},
                {"/etc", DET_EINVAL, "'/etc' is not inside host_path"},
                {"link/x", DET_ENOTFOUND, "cannot open the directory 'link/x'"}};
    assert_int_equal(store_open_below(host, NULL, &s, &err), DET_ENOTFOUND);
    assert_int_equal(mkdir(host, 0777), 0);
    assert_int_equal(symlink("/tmp", temp_path("host/link")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s = NULL;
        assert_int_equal(store_open_below(host, rows[i].storage_path, &s, &err), rows[i].code);
        if (rows[i].code) assert_failed_with(&err, rows[i].code, rows[i].text);
        assert_int_equal(s == NULL, rows[i].code != 0);
        store_close(s);
    }
    char absolute[200];
    snprintf(absolute, sizeof absolute, "%s/in", host);
    assert_ok(store_open_below(host, absolute, &s, &err), &err);
    struct ckpt_info saved = save(s, 0, 1);
    assert_ok(ckpt_verify(s, saved.id, NULL, &err), &err);
    assert_int_equal(n_entries(absolute), 1);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit__makes_a_whole_checkpoint_visible),
        cmocka_unit_test(test_begin__shows_nothing_until_commit),
        cmocka_unit_test(test_begin__takes_an_id_that_is_given_but_not_twice),
        cmocka_unit_test(test_path__stays_inside),
        cmocka_unit_test(test_commit__refuses_what_is_no_file),
        cmocka_unit_test(test_list__is_of_one_trial_newest_first),
        cmocka_unit_test(test_delete__removes_one_and_only_one),
        cmocka_unit_test(test_clean__removes_what_the_dead_left_only),
        cmocka_unit_test(test_store__opens_only_what_is_below_host_path),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
