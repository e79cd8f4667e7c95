// Model definitions: what is in an archive ends up below one directory, as files and directories,
// or is refused.
#include "support/test.h"

#include "base/mem.h"
#include "master/code.h"
#include "sys/fs.h"
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ARCHIVE = 4 << 20 };

static char root[64], kept[128], work[96];
static det_err err;
static char *archive_bytes;
static size_t archive_n;

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/det-test-code-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(kept, sizeof kept, "%s/kept", root);
    snprintf(work, sizeof work, "%s/work", root);
    assert_int_equal(mkdir(kept, 0700), 0);
    archive_bytes = xmalloc(MAX_ARCHIVE);
    return sodium_init() < 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    free(archive_bytes);
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct entry {
    const char *name;
    mode_t type; // AE_IFREG and so on; 0: a hard link
    mode_t mode;
    const char *content; // or the target of a link
};

static struct archive *begin(void (*filter)(struct archive *a))
{
    struct archive *a = archive_write_new();
    archive_write_set_format_pax_restricted(a);
    if (filter) filter(a);
    archive_write_open_memory(a, archive_bytes, MAX_ARCHIVE, &archive_n);
    return a;
}

static void end(struct archive *a)
{
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
}

static void add(struct archive *a, const struct entry *e)
{
    struct archive_entry *entry = archive_entry_new();
    bool file = e->type == AE_IFREG;
    archive_entry_set_pathname(entry, e->name);
    archive_entry_set_perm(entry, e->mode ? e->mode : 0644);
    archive_entry_set_filetype(entry, e->type ? e->type : AE_IFREG);
    if (!e->type) archive_entry_set_hardlink(entry, e->content);
    if (e->type == AE_IFLNK) archive_entry_set_symlink(entry, e->content);
    archive_entry_set_size(entry, file && e->content ? (la_int64_t)strlen(e->content) : 0);
    archive_write_header(a, entry);
    if (file && e->content) archive_write_data(a, e->content, strlen(e->content));
    archive_entry_free(entry);
}

static struct str pack(const struct entry *entries, size_t n)
{
    struct archive *a = begin(NULL);
    for (size_t i = 0; i < n; i++)
        add(a, &entries[i]);
    end(a);
    return (struct str){archive_bytes, archive_n};
}

#define PACK(...)                             \
    pack((const struct entry[]){__VA_ARGS__}, \
         sizeof((const struct entry[]){__VA_ARGS__}) / sizeof(struct entry))

static int keep(struct str bytes, struct code_info *out)
{
    return code_keep(bytes, kept, out, &err);
}

static void expect_content(const char *name, const char *content)
{
    char path[256];
    struct buf b = BUF_INIT(1 << 16);
    snprintf(path, sizeof path, "%s/%s", work, name);
    assert_int_equal(fs_read(path, &b, &err), 0);
    assert_string_equal(buf_str(&b).ptr, content);
    buf_done(&b);
}

static mode_t mode_of(const char *name)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", work, name);
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static void unpack(const struct code_info *info)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", kept, info->name);
    if (code_unpack(path, work, &err)) fail_msg("%s", err.msg);
}

static void test_code__files_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct code_info info;
    struct str bytes =
        PACK({"./", AE_IFDIR, 0755, NULL}, {"./train.py", AE_IFREG, 0644, "print(1)\n"},
             {"data/", AE_IFDIR, 0755, NULL}, {"a/b/run.sh", AE_IFREG, 04755, "#!/bin/sh\n"},
             {"empty", AE_IFREG, 0600, NULL});
    assert_int_equal(keep(bytes, &info), 0);
    assert_int_equal(info.n_files, 5);
    assert_int_equal(info.n_bytes, 19);
    unpack(&info);
    expect_content("train.py", "print(1)\n");
    expect_content("a/b/run.sh", "#!/bin/sh\n");
    expect_content("empty", "");
    assert_true(S_ISDIR(mode_of("data")));
    assert_int_equal(mode_of("a/b/run.sh") & 07777, 0755); // without the bit of another user
    assert_int_equal(mode_of("train.py") & 07777, 0644);
}

static void gzip(struct archive *a)
{
    archive_write_add_filter_gzip(a);
}

static void zstd(struct archive *a)
{
    archive_write_add_filter_zstd(a);
}

static void test_code__compressed_archives_are_read(void **state)
{
    (void)state;
    static void (*const filters[])(struct archive *) = {gzip, zstd};
    for (int i = 0; i < 2; i++) {
        struct code_info info;
        struct archive *a = begin(filters[i]);
        add(a, &(struct entry){"x", AE_IFREG, 0644, "content"});
        end(a);
        assert_int_equal(keep((struct str){archive_bytes, archive_n}, &info), 0);
        assert_int_equal(info.n_bytes, 7);
    }
}

static void test_code__the_same_content_has_one_name(void **state)
{
    (void)state;
    struct code_info a, b, c;
    assert_int_equal(keep(PACK({"x", AE_IFREG, 0644, "1"}), &a), 0);
    assert_int_equal(keep(PACK({"x", AE_IFREG, 0644, "1"}), &b), 0);
    assert_int_equal(keep(PACK({"x", AE_IFREG, 0644, "2"}), &c), 0);
    assert_string_equal(a.name, b.name);
    assert_string_not_equal(a.name, c.name);
}

static void test_code__nothing_but_files_and_directories_below(void **state)
{
    (void)state;
    static const struct entry bad[] = {
        {"../x", AE_IFREG, 0644, "x"},
        {"a/../../x", AE_IFREG, 0644, "x"},
        {"/tmp/det-test-escaped", AE_IFREG, 0644, "x"},
        {"a//b", AE_IFREG, 0644, "x"},
        {"a/./b", AE_IFREG, 0644, "x"},
        {"..", AE_IFDIR, 0755, NULL},
        {"link", AE_IFLNK, 0777, "/etc/passwd"},
        {"link", AE_IFLNK, 0777, "inside"},
        {"hard", 0, 0644, "x"},
        {"fifo", AE_IFIFO, 0644, NULL},
        {"char", AE_IFCHR, 0644, NULL},
        {"block", AE_IFBLK, 0644, NULL},
        {"bad\xff", AE_IFREG, 0644, "x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct code_info info;
        assert_int_equal(keep(pack(&bad[i], 1), &info), DET_EINVAL);
    }
    assert_int_equal(access("/tmp/det-test-escaped", F_OK), -1);
}

static void test_code__a_name_that_comes_twice_is_refused(void **state)
{
    (void)state;
    struct code_info info;
    struct str bytes =
        PACK({"x", AE_IFREG, 0644, "1"}, {"y", AE_IFREG, 0644, "1"}, {"./x", AE_IFREG, 0644, "2"});
    assert_int_equal(keep(bytes, &info), DET_EINVAL);
    assert_string_equal(err.msg, "the archive has two files 'x'");
}

static void expect_conflict(struct str bytes, const char *message)
{
    struct code_info info;
    assert_int_equal(keep(bytes, &info), DET_EINVAL);
    assert_string_equal(err.msg, message);
}

static void test_code__a_file_that_is_also_a_directory_is_refused(void **state)
{
    (void)state;
    const char *message = "the archive has 'a' as a file and as a directory";
    const struct entry file = {"a", AE_IFREG, 0644, "1"}, below = {"a/b", AE_IFREG, 0644, "2"};
    const struct entry far = {"./a/b/c/d", AE_IFREG, 0644, "2"},
                       folder = {"a/", AE_IFDIR, 0755, NULL};
    expect_conflict(PACK(file, below), message);
    expect_conflict(PACK(below, file), message);
    expect_conflict(PACK(file, far), message);
    expect_conflict(PACK(far, file), message);
    expect_conflict(PACK(file, folder), message);
    expect_conflict(PACK(folder, file), message);
    expect_conflict(PACK({"x/a/b", AE_IFREG, 0644, "1"}, {"x/a/b/c", AE_IFDIR, 0755, NULL}),
                    "the archive has 'x/a/b' as a file and as a directory");
    struct code_info info;
    assert_int_equal(keep(PACK(folder, below, folder, {"ab", AE_IFREG, 0644, "3"}), &info), 0);
}

static void test_code__many_names_are_told_apart(void **state)
{
    (void)state;
    enum { N = 2000 };
    static char text[N][24];
    static struct entry entries[N + 1];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "f%d/g%d/%d", i % 7, i % 31, i);
        entries[i] = (struct entry){text[i], AE_IFREG, 0644, "x"};
    }
    struct code_info info;
    assert_int_equal(keep(pack(entries, N), &info), 0);
    assert_int_equal(info.n_files, N);
    entries[N] = entries[1234];
    expect_conflict(pack(entries, N + 1), "the archive has two files 'f2/g25/1234'");
}

static void test_code__what_is_no_archive_is_refused(void **state)
{
    (void)state;
    struct code_info info;
    assert_int_equal(keep(STR("this is not an archive, but some text of some length"), &info),
                     DET_EINVAL);
    struct str bytes = PACK({"x", AE_IFREG, 0644, "some content that is cut in the middle"});
    bytes.len = 520; // the header and a few bytes
    assert_int_equal(keep(bytes, &info), DET_EINVAL);
}

static void test_code__bombs_are_refused_before_they_are_written(void **state)
{
    (void)state;
    struct code_info info;
    enum { SIZE = 600 << 20 };
    static const char zeros[1 << 20];
    struct archive *a = begin(zstd);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, "zeros");
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_size(entry, SIZE);
    archive_write_header(a, entry);
    for (int i = 0; i < SIZE >> 20; i++)
        archive_write_data(a, zeros, sizeof zeros);
    archive_entry_free(entry);
    end(a);
    assert_int_equal(keep((struct str){archive_bytes, archive_n}, &info), DET_ELIMIT);
}

#define CONTEXT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

RUN_TESTS(CONTEXT_TEST(test_code__files_come_out_as_they_went_in),
          CONTEXT_TEST(test_code__compressed_archives_are_read),
          CONTEXT_TEST(test_code__the_same_content_has_one_name),
          CONTEXT_TEST(test_code__nothing_but_files_and_directories_below),
          CONTEXT_TEST(test_code__a_name_that_comes_twice_is_refused),
          CONTEXT_TEST(test_code__a_file_that_is_also_a_directory_is_refused),
          CONTEXT_TEST(test_code__many_names_are_told_apart),
          CONTEXT_TEST(test_code__what_is_no_archive_is_refused),
          CONTEXT_TEST(test_code__bombs_are_refused_before_they_are_written))
