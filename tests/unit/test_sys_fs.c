#include "sys/fs.h"
#include "support/files.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static int n_files(void)
{
    int n = 0;
    DIR *dir = opendir(temp_folder);
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void assert_content(const char *path, const char *text)
{
    det_err err = {0};
    struct buf b = BUF_INIT(1000);
    assert_ok(fs_read(path, &b, &err), &err);
    assert_string_equal(buf_str(&b).ptr, text);
    buf_done(&b);
}

static void test_read__gives_the_whole_file_up_to_the_limit(void **state)
{
    (void)state;
    det_err err = {0};
    enum { N = 100000 };
    char *bytes = malloc(N);
    for (int i = 0; i < N; i++)
        bytes[i] = (char)(i * 7);
    write_bytes(temp_path("large"), bytes, N);
    struct buf exact = BUF_INIT(N), small = BUF_INIT(N - 1);
    assert_ok(fs_read(temp_path("large"), &exact, &err), &err);
    assert_int_equal(exact.len, N);
    assert_memory_equal(exact.ptr, bytes, N);
    assert_int_equal(fs_read(temp_path("large"), &small, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "larger than 99999 bytes");
    assert_non_null(strstr(err.msg, temp_path("large")));
    buf_done(&exact);
    buf_done(&small);
    free(bytes);
}

static void test_read__names_the_missing_file(void **state)
{
    (void)state;
    det_err err = {0};
    struct buf b = BUF_INIT(10);
    assert_int_equal(fs_read(temp_path("missing"), &b, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "missing': No such file or directory");
}

static void test_map__shows_the_bytes(void **state)
{
    (void)state;
    det_err err = {0};
    struct str map;
    write_bytes(temp_path("mapped"), "hello", 5);
    assert_ok(fs_map(temp_path("mapped"), &map, &err), &err);
    assert_true(str_eqz(map, "hello"));
    fs_unmap(map);
    write_bytes(temp_path("empty"), "", 0);
    assert_ok(fs_map(temp_path("empty"), &map, &err), &err);
    assert_int_equal(map.len, 0);
    fs_unmap(map);
}

static void test_map__refuses_folders_and_pipes(void **state)
{
    (void)state;
    det_err err = {0};
    struct str map;
    assert_int_equal(fs_map("/tmp", &map, &err), DET_EIO);
    assert_failed_with(&err, DET_EIO, "'/tmp': it is not a regular file");
    assert_int_equal(mkfifo(temp_path("pipe"), 0600), 0);
    assert_int_equal(fs_map(temp_path("pipe"), &map, &err), DET_EIO);
    assert_failed_with(&err, DET_EIO, "not a regular file");
}

static void test_writer__replaces_a_file_when_it_commits(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    write_bytes(temp_path("file"), "old", 3);
    int before = n_files();
    assert_ok(fs_writer_open(&w, temp_path("file"), &err), &err);
    assert_ok(fs_writer_add(&w, "ne", 2, &err), &err);
    assert_ok(fs_writer_add(&w, "w", 1, &err), &err);
    assert_int_equal(w.n_bytes, 3);
    assert_content(temp_path("file"), "old");
    assert_ok(fs_writer_commit(&w, &err), &err);
    fs_writer_close(&w);
    assert_content(temp_path("file"), "new");
    assert_int_equal(n_files(), before);
}

static void test_writer__leaves_nothing_behind_without_commit(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    write_bytes(temp_path("file"), "old", 3);
    int before = n_files();
    assert_ok(fs_writer_open(&w, temp_path("file"), &err), &err);
    assert_ok(fs_writer_add(&w, "new", 3, &err), &err);
    fs_writer_close(&w);
    assert_content(temp_path("file"), "old");
    assert_int_equal(n_files(), before);
}

static void test_writer__respects_the_umask(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    struct stat st;
    mode_t old = umask(027);
    assert_ok(fs_writer_open(&w, temp_path("mode"), &err), &err);
    assert_ok(fs_writer_commit(&w, &err), &err);
    fs_writer_close(&w);
    umask(old);
    assert_int_equal(stat(temp_path("mode"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void test_writer__works_in_the_current_folder(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    temp_path("");
    int back = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(temp_folder), 0);
    assert_ok(fs_writer_open(&w, "plain-name", &err), &err);
    assert_ok(fs_writer_commit(&w, &err), &err);
    fs_writer_close(&w);
    assert_content("plain-name", "");
    assert_int_equal(fchdir(back), 0);
    close(back);
}

// The device is always full.
static void test_writer__reports_a_full_disk_and_keeps_the_old_file(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    write_bytes(temp_path("file"), "old", 3);
    int before = n_files();
    assert_ok(fs_writer_open(&w, temp_path("file"), &err), &err);
    close(w.fd);
    w.fd = open("/dev/full", O_WRONLY);
    assert_int_equal(fs_writer_add(&w, "new", 3, &err), DET_ENOSPC);
    assert_failed_with(&err, DET_ENOSPC, "/file': No space left on device");
    fs_writer_close(&w);
    assert_content(temp_path("file"), "old");
    assert_int_equal(n_files(), before);
}

static void test_writer__says_why_it_cannot_create(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    assert_int_equal(fs_writer_open(&w, temp_path("no/such/folder"), &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "no/such/folder': No such file or directory");
    assert_int_equal(fs_writer_open(&w, "/proc/file", &err), DET_ENOTFOUND);
    if (geteuid() == 0) return; // root may write anywhere
    assert_int_equal(fs_writer_open(&w, "/file", &err), DET_EIO);
    assert_failed_with(&err, DET_EIO, "'/file': Permission denied");
}

static void test_writer__cannot_replace_a_folder(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer w;
    assert_int_equal(mkdir(temp_path("folder"), 0700), 0);
    int before = n_files();
    assert_ok(fs_writer_open(&w, temp_path("folder"), &err), &err);
    assert_int_equal(fs_writer_commit(&w, &err), DET_EIO);
    assert_failed_with(&err, DET_EIO, "folder': Is a directory");
    fs_writer_close(&w);
    assert_int_equal(n_files(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read__gives_the_whole_file_up_to_the_limit),
        cmocka_unit_test(test_read__names_the_missing_file),
        cmocka_unit_test(test_map__shows_the_bytes),
        cmocka_unit_test(test_map__refuses_folders_and_pipes),
        cmocka_unit_test(test_writer__replaces_a_file_when_it_commits),
        cmocka_unit_test(test_writer__leaves_nothing_behind_without_commit),
        cmocka_unit_test(test_writer__respects_the_umask),
        cmocka_unit_test(test_writer__works_in_the_current_folder),
        cmocka_unit_test(test_writer__reports_a_full_disk_and_keeps_the_old_file),
        cmocka_unit_test(test_writer__says_why_it_cannot_create),
        cmocka_unit_test(test_writer__cannot_replace_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
