// Archives that are made to do harm. Whatever is in one, nothing appears outside of the directory
// it is unpacked into, nothing but files and directories inside of it, and no more than may be.
#include "support/test.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "master/code.h"
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <ftw.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, MAX_ARCHIVE = 8 << 20 };

// One entry of a tar file, as it stands there: this writes what no program would.
struct entry {
    char type; // '0' a file, '5' a directory, ...; 0: no entry
    const char *name, *content, *link;
    const char *size;         // octal digits; NULL: that of the content
    const char *mode;         // the same; NULL: 644
    size_t n_name, n_content; // 0: up to the NUL
    bool bad_sum;
    bool hole; // a terabyte before the content
};

static void add_entry(struct buf *out, const struct entry *e)
{
    char head[BLOCK] = {0}, zeros[BLOCK] = {0}, digits[16];
    const char *name = e->name ? e->name : "", *content = e->content ? e->content : "";
    size_t n = e->n_content ? e->n_content : strlen(content);
    unsigned sum = 0;
    snprintf(digits, sizeof digits, "%011zo", n);
    memcpy(head, name, MIN(e->n_name ? e->n_name : strlen(name), 100));
    snprintf(head + 100, 8, "%s", e->mode ? e->mode : "0000644");
    snprintf(head + 108, 8, "0000000");
    snprintf(head + 116, 8, "0000000");
    memcpy(head + 124, e->size ? e->size : digits, 12);
    snprintf(head + 136, 12, "00000000000");
    head[156] = e->type;
    if (e->link) memcpy(head + 157, e->link, MIN(strlen(e->link), 100));
    memcpy(head + 257, "ustar\00000", 8);
    if (e->hole) {
        memcpy(head + 257, "ustar  ", 8); // of GNU: offset and length of the content, size of all
        memcpy(head + 386, "\x80\0\0\0\0\0\x01\0\0\0\0\0", 12);
        memcpy(head + 398, digits, 12);
        memcpy(head + 483, "\x80\0\0\0\0\0\x01\0\0\0\0\x01", 12);
    }
    memset(head + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)head[i];
    snprintf(head + 148, 8, "%06o", e->bad_sum ? sum + 1 : sum);
    buf_add(out, head, sizeof head);
    buf_add(out, content, n);
    if (n % BLOCK) buf_add(out, zeros, BLOCK - n % BLOCK);
}

static void add_end(struct buf *out)
{
    char zeros[2 * BLOCK] = {0};
    buf_add(out, zeros, sizeof zeros);
}

// --- where they go

static char root[64], kept[128], work[96];
static det_err err;

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/det-test-archives-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(kept, sizeof kept, "%s/kept", root);
    snprintf(work, sizeof work, "%s/work", root);
    assert_int_equal(mkdir(kept, 0700), 0);
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
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) fail_msg("%s is neither", path);
    if (st->st_mode & (S_ISUID | S_ISGID | S_IWOTH)) fail_msg("%s has mode %o", path, st->st_mode);
    if (S_ISREG(st->st_mode) && st->st_nlink != 1) fail_msg("%s has other names", path);
    return remove(path);
}

static size_t count_files(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

// The code of looking through it, or else of unpacking it.
static int try(struct str archive)
{
    struct code_info info;
    int rc = code_keep(archive, kept, &info, &err);
    if (!rc) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", kept, info.name);
        rc = code_unpack(path, work, &err);
        nftw(work, check_one, 16, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(count_files(kept), 0); // what is refused is not kept
    assert_int_equal(count_files(root), 1); // and nothing is beside them
    return rc;
}

// --- names and kinds

// clang-format off
#define FILE_(n, ...)   {.type = '0', .name = n, .content = "x", __VA_ARGS__}
#define FOLDER(n, ...)  {.type = '5', .name = n, __VA_ARGS__}
#define LINK(n, to)     {.type = '2', .name = n, .link = to}
#define HARD(n, to)     {.type = '1', .name = n, .link = to}
#define KIND(letter, n) {.type = letter, .name = n}
#define PAX(text)       {.type = 'x', .name = "p", .content = text}
#define LONG(text)      {.type = 'L', .name = "././@LongLink", .content = text}
// clang-format on
#define TEN "aaaaaaaaaa"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

enum { ANY = -1 };

static const struct {
    const char *about;
    int code; // ANY: not 0
    struct entry entries[3];
} rows[] = {
    {"a file", 0, {FILE_("a")}},
    {"a file of old", 0, {KIND('7', "a")}},
    {"a file in a directory that comes later", 0, {FILE_("a/b"), FOLDER("a/")}},
    {"the directory itself", 0, {FOLDER("./"), FILE_("./a")}},
    {"the directory itself as a file", DET_EINVAL, {FILE_("./")}},
    {"nothing", 0, {{.type = 0}}},
    {"above", DET_EINVAL, {FILE_("..")}},
    {"above, a file", DET_EINVAL, {FILE_("../x")}},
    {"above, behind a point", DET_EINVAL, {FILE_("./../x")}},
    {"above, from inside", DET_EINVAL, {FILE_("a/../../x")}},
    {"above, at the end", DET_EINVAL, {FOLDER("a/..")}},
    {"inside after all", DET_EINVAL, {FILE_("a/../x")}},
    {"above, a directory", DET_EINVAL, {FOLDER("../work2/")}},
    {"absolute", DET_EINVAL, {FILE_("/tmp/det-test-escaped")}},
    {"absolute, twice", DET_EINVAL, {FILE_("//tmp/det-test-escaped")}},
    {"absolute behind a point", DET_EINVAL, {FILE_(".//tmp/det-test-escaped")}},
    {"points inside", DET_EINVAL, {FILE_("a/./b")}},
    {"slashes inside", DET_EINVAL, {FILE_("a//b")}},
    {"three points are a name", 0, {FILE_(".../x")}},
    {"a backslash is a letter", 0, {FILE_("..\\x")}},
    {"a drive is a name", 0, {FILE_("C:\\x")}},
    {"an option is a name", 0, {FILE_("--checkpoint-action=exec")}},
    {"a symbolic link", DET_EINVAL, {LINK("l", "a"), FILE_("a")}},
    {"a symbolic link to outside", DET_EINVAL, {LINK("l", "/etc/passwd")}},
    {"through a symbolic link", DET_EINVAL, {LINK("l", "/tmp"), FILE_("l/det-test-escaped")}},
    {"over a symbolic link", DET_EINVAL, {LINK("l", "/tmp/det-test-escaped"), FILE_("l")}},
    {"a directory that is a link", DET_EINVAL, {LINK("l/", ".."), FILE_("l/x")}},
    {"a hard link", DET_EINVAL, {FILE_("a"), HARD("h", "a")}},
    {"a hard link to outside", DET_EINVAL, {HARD("h", "/etc/passwd")}},
    {"a hard link with content",
     DET_EINVAL,
     {FILE_("a"), {.type = '1', .name = "h", .content = "y", .link = "../a"}}},
    {"a device of letters", DET_EINVAL, {KIND('3', "null")}},
    {"a device of blocks", DET_EINVAL, {KIND('4', "disk")}},
    {"a queue", DET_EINVAL, {KIND('6', "fifo")}},
    {"two files of one name", DET_EINVAL, {FILE_("a"), FILE_("a")}},
    {"two ways to write one name", DET_EINVAL, {FILE_("a"), FILE_("././a")}},
    {"a directory twice", 0, {FOLDER("a/"), FOLDER("a")}},
    {"a file that is a directory", ANY, {FILE_("a"), FOLDER("a/")}},
    {"a directory that is a file", ANY, {FOLDER("a/"), FILE_("a")}},
    {"a file below a file", ANY, {FILE_("a"), FILE_("a/b")}},
    {"a file above a file", ANY, {FILE_("a/b"), FILE_("a")}},
    {"set user", 0, {FILE_("a", .mode = "0004755")}},
    {"set group, sticky", 0, {FILE_("a", .mode = "0003777")}},
    {"a directory that nobody may enter", 0, {FOLDER("a", .mode = "0000000"), FILE_("a/b")}},
    {"a NUL in the name ends it", 0, {FILE_("a\0/../../x", .n_name = 11)}},
    {"a name that is a NUL", DET_EINVAL, {FILE_("\0a", .n_name = 2)}},
    {"a NUL in a long name ends it",
     0,
     {{.type = 'x', .name = "p", .content = "19 path=a\0/../../x\n", .n_content = 19}, FILE_("b")}},
    {"a slash written too long", DET_EINVAL, {FILE_("..\xC0\xAFx")}},
    {"a point written too long", DET_EINVAL, {FILE_("\xC0\xAE\xC0\xAE/x")}},
    {"half of a pair", DET_EINVAL, {FILE_("\xED\xA0\x80")}},
    {"beyond the last character", DET_EINVAL, {FILE_("\xF4\x90\x80\x80")}},
    {"one letter in two ways", 0, {FILE_("\xC3\xA9"), FILE_("e\xCC\x81")}},
    {"text that runs backwards", 0, {FILE_("a\xE2\x80\xAEyp.b")}},
    {"a slash of another script", 0, {FILE_("..\xE2\x88\x95x")}},
    {"a long name that goes above", DET_EINVAL, {PAX("15 path=../../x\n"), FILE_("a")}},
    {"a long name that is absolute", DET_EINVAL, {PAX("18 path=/etc/cron\n"), FILE_("a")}},
    {"a link in an extension", DET_EINVAL, {PAX("19 linkpath=/etc/x\n"), LINK("l", "a")}},
    {"a long name of GNU", DET_EINVAL, {LONG("../../x"), FILE_("a")}},
    {"an extension that lies about its length", DET_EINVAL, {PAX("99 path=a\n"), FILE_("a")}},
    {"a size that lies", DET_EINVAL, {FILE_("a", .size = "00000777777")}},
    {"a negative size",
     DET_EINVAL,
     {FILE_("a", .size = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}},
    {"a size beyond all",
     DET_EINVAL,
     {FILE_("a", .size = "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff")}},
    {"a size that is no number", DET_EINVAL, {FILE_("a", .size = "zzzzzzzzzzz")}},
    {"a sum that is wrong", DET_EINVAL, {FILE_("a"), FILE_("b", .bad_sum = true)}},
    {"a name too long for a file", DET_EINVAL, {LONG(HUNDRED HUNDRED HUNDRED), FILE_("a")}},
};

static void test_archives__of_any_kind_stay_inside(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf tar = BUF_INIT(MAX_ARCHIVE);
        for (int k = 0; k < 3 && rows[i].entries[k].type; k++)
            add_entry(&tar, &rows[i].entries[k]);
        add_end(&tar);
        int code = try(buf_str(&tar));
        if (rows[i].code == ANY ? !code : code != rows[i].code)
            fail_msg("%s: %s, expected %s: %s", rows[i].about, det_err_name(code),
                     det_err_name(rows[i].code), code ? err.msg : "");
        buf_done(&tar);
    }
    assert_int_equal(access("/tmp/det-test-escaped", F_OK), -1);
}

// --- sizes

// One frame; frames one after another are the same as their contents.
static size_t compress(struct str bytes, char *out, size_t max)
{
    size_t n = 0;
    struct archive *a = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    archive_write_set_format_raw(a);
    archive_write_add_filter_zstd(a);
    archive_write_set_bytes_in_last_block(a, 1);
    assert_int_equal(archive_write_open_memory(a, out, max, &n), ARCHIVE_OK);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(a, bytes.ptr, bytes.len), bytes.len);
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    archive_entry_free(entry);
    return n;
}

static int try_frames(struct str head, struct str piece, int n_pieces)
{
    char *packed = xmalloc(MAX_ARCHIVE);
    size_t n_packed = head.len ? compress(head, packed, MAX_ARCHIVE) : 0;
    size_t n_piece = compress(piece, packed + n_packed, MAX_ARCHIVE - n_packed);
    size_t n = n_packed + n_piece;
    for (int i = 1; i < n_pieces; i++, n += n_piece) {
        assert_true(n + n_piece <= MAX_ARCHIVE);
        memcpy(packed + n, packed + n_packed, n_piece);
    }
    int rc = try((struct str){packed, n});
    free(packed);
    return rc;
}

static void test_archives__of_ten_gigabytes_of_zeros_are_refused(void **state)
{
    (void)state;
    enum { PIECE = 64 << 20, N_PIECES = 160 };
    struct buf head = BUF_INIT(BLOCK);
    char *zeros = xcalloc(1, PIECE);
    add_entry(&head, &(struct entry){
                         .type = '0', .name = "zeros", .size = "\x80\0\0\0\0\0\0\x02\x80\0\0\0"});
    assert_int_equal(try_frames(buf_str(&head), (struct str){zeros, PIECE}, N_PIECES), DET_ELIMIT);
    free(zeros);
    buf_done(&head);
}

static void test_archives__of_a_million_entries_are_refused(void **state)
{
    (void)state;
    struct buf folders = BUF_INIT(16 << 20), files = BUF_INIT(64 << 20);
    for (int i = 0; i < 10000; i++)
        add_entry(&folders, &(const struct entry)FOLDER("a"));
    assert_int_equal(try_frames(STR(""), buf_str(&folders), 100), DET_ELIMIT);
    assert_non_null(strstr(err.msg, "more than 100000 files"));
    for (int i = 0; i <= 100000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        add_entry(&files, &(struct entry){.type = '0', .name = name});
    }
    assert_int_equal(try_frames(STR(""), buf_str(&files), 1), DET_ELIMIT);
    assert_non_null(strstr(err.msg, "more than 100000 files"));
    buf_done(&folders);
    buf_done(&files);
}

// A file of which the archive has nothing but that it is large.
static void test_archives__of_holes_are_refused(void **state)
{
    (void)state;
    static const char sparse[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
                                 "22 GNU.sparse.name=a\n\n40 GNU.sparse.realsize=1099511627776\n";
    struct buf tar = BUF_INIT(MAX_ARCHIVE);
    add_entry(&tar, &(struct entry)PAX(sparse));
    add_entry(&tar, &(struct entry){.type = '0', .name = "a", .content = "1\n1099511627775\n1\n"});
    add_end(&tar);
    assert_int_not_equal(try(buf_str(&tar)), 0);
    buf_clear(&tar);
    add_entry(&tar, &(struct entry){.type = 'S', .name = "a", .content = "x", .hole = true});
    add_end(&tar);
    assert_int_not_equal(try(buf_str(&tar)), 0);
    buf_done(&tar);
}

// Each directory of such a name could be made, but nothing could be done with the last one.
static void test_archives__of_endless_names_are_refused(void **state)
{
    (void)state;
    static const size_t lengths[] = {5000, 100000, 900000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct buf name = BUF_INIT(1 << 20), tar = BUF_INIT(MAX_ARCHIVE);
        while (name.len < lengths[i])
            buf_addz(&name, "a/");
        buf_addc(&name, 'b');
        add_entry(&tar, &(struct entry)LONG(buf_str(&name).ptr));
        add_entry(&tar, &(struct entry)FILE_("a"));
        add_end(&tar);
        assert_int_equal(try(buf_str(&tar)), DET_EINVAL);
        buf_done(&name);
        buf_done(&tar);
    }
}

#define ARCHIVE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

RUN_TESTS(ARCHIVE_TEST(test_archives__of_any_kind_stay_inside),
          ARCHIVE_TEST(test_archives__of_ten_gigabytes_of_zeros_are_refused),
          ARCHIVE_TEST(test_archives__of_a_million_entries_are_refused),
          ARCHIVE_TEST(test_archives__of_holes_are_refused),
          ARCHIVE_TEST(test_archives__of_endless_names_are_refused))
