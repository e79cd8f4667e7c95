#include "format/zip.h"
#include "support/archive.h"
#include "support/files.h"
#include <fcntl.h>

static void test_zip__gives_back_what_was_added(void **state)
{
    (void)state;
    det_err err = {0};
    struct fs_writer file;
    struct zip_writer w;
    assert_ok(fs_writer_open(&file, temp_path("a.zip"), &err), &err);
    zip_writer_init(&w, &file, NULL);
    assert_ok(zip_add(&w, "b/second", "content", 7, &err), &err);
    assert_ok(zip_add(&w, "a/first", NULL, 0, &err), &err);
    assert_ok(zip_finish(&w, &err), &err);
    assert_ok(fs_writer_commit(&file, &err), &err);
    zip_writer_done(&w);
    fs_writer_close(&file);

    struct str map;
    struct zip z;
    assert_ok(fs_map(temp_path("a.zip"), &map, &err), &err);
    assert_ok(zip_open(&z, map, &err), &err);
    assert_int_equal(z.n_entries, 2);
    char out[7];
    const struct zip_entry *e = zip_find(&z, STR("b/second"));
    assert_non_null(e);
    assert_int_equal(e->data_at % 64, 0);
    assert_ok(zip_extract(&z, e, out, &err), &err);
    assert_memory_equal(out, "content", 7);
    assert_int_equal(zip_find(&z, STR("a/first"))->size, 0);
    assert_null(zip_find(&z, STR("a/firs")));
    assert_null(zip_find(&z, STR("a/first2")));
    zip_close(&z);
    fs_unmap(map);
}

// A file with a hole: its first entry is larger than 32 bits can say, so the second lies beyond as
// well.
static void test_zip__reads_and_writes_64_bit_fields(void **state)
{
    (void)state;
    det_err err = {0};
    const uint64_t big = 5ull << 30;
    struct buf records = BUF_INIT(10000), central = BUF_INIT(10000);
    struct zip_entry first = {.name = STR("first"), .packed = big, .size = big};
    struct zip_entry second = {.name = STR("second"), .packed = 3, .size = 3};
    second.crc = (uint32_t)crc32_z(0, (const Bytef *)"abc", 3);

    int fd = open(temp_path("big.zip"), O_RDWR | O_CREAT, 0600);
    zip_put_local(&records, &first);
    assert_int_equal(pwrite(fd, records.ptr, records.len, 0), records.len);
    assert_int_equal(first.data_at, records.len);
    second.header_at = first.data_at + big;
    buf_clear(&records);
    zip_put_local(&records, &second);
    buf_add(&records, "abc", 3);
    zip_put_central(&central, &first);
    zip_put_central(&central, &second);
    zip_put_end(&central, 2, second.header_at + records.len, central.len);
    buf_add(&records, central.ptr, central.len);
    assert_int_equal(pwrite(fd, records.ptr, records.len, (off_t)second.header_at), records.len);
    close(fd);

    struct str map;
    struct zip z;
    char out[3];
    assert_ok(fs_map(temp_path("big.zip"), &map, &err), &err);
    assert_ok(zip_open(&z, map, &err), &err);
    assert_int_equal(zip_find(&z, STR("first"))->size, big);
    assert_int_equal(zip_find(&z, STR("second"))->header_at, second.header_at);
    assert_ok(zip_extract(&z, zip_find(&z, STR("second")), out, &err), &err);
    assert_memory_equal(out, "abc", 3);
    zip_close(&z);
    fs_unmap(map);
    buf_done(&records);
    buf_done(&central);
}

static void test_zip__holds_more_than_65535_entries(void **state)
{
    (void)state;
    enum { N = 70000 };
    det_err err = {0};
    struct archive a = ARCHIVE_INIT;
    struct zip z;
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%d", i);
        archive_add(&a, name, STR(""));
    }
    assert_ok(zip_open(&z, archive_end(&a), &err), &err);
    assert_int_equal(z.n_entries, N);
    assert_non_null(zip_find(&z, STR("69999")));
    zip_close(&z);
    a.bytes.ptr[a.bytes.len - 22 - 20 + 8] ^= 1; // says where the 64-bit end record is
    assert_int_equal(zip_open(&z, buf_str(&a.bytes), &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "no 64-bit end record");
    archive_done(&a);
}

static size_t deflate_raw(struct str in, char *out, size_t room)
{
    z_stream s = {0};
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    s.next_in = (Bytef *)(uintptr_t)in.ptr;
    s.avail_in = (uInt)in.len;
    s.next_out = (Bytef *)out;
    s.avail_out = (uInt)room;
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    deflateEnd(&s);
    return room - s.avail_out;
}

// Opens an archive with one entry of this record and content; returns the code of open or extract.
static int extract_one(struct zip_entry e, struct str packed, char *out, det_err *err)
{
    struct archive a = ARCHIVE_INIT;
    struct zip z = {0};
    e.name = STR("x");
    archive_add_entry(&a, e, packed);
    int rc = zip_open(&z, archive_end(&a), err);
    if (!rc) rc = zip_extract(&z, zip_find(&z, STR("x")), out, err);
    zip_close(&z);
    archive_done(&a);
    return rc;
}

static void test_zip__inflates(void **state)
{
    (void)state;
    enum { N = 1000000 }; // several pieces
    det_err err = {0};
    char *plain = malloc(N), *packed = malloc(N), *out = malloc(N);
    for (int i = 0; i < N; i++)
        plain[i] = (char)(i % 251 * (i >> 10));
    size_t n = deflate_raw((struct str){plain, N}, packed, N);
    struct zip_entry e = {.method = ZIP_DEFLATED, .size = N};
    e.crc = (uint32_t)crc32_z(0, (const Bytef *)plain, N);
    assert_ok(extract_one(e, (struct str){packed, n}, out, &err), &err);
    assert_memory_equal(out, plain, N);
    e.crc ^= 1;
    assert_int_equal(extract_one(e, (struct str){packed, n}, out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "entry 'x' at byte 0: its checksum is wrong");
    e.size = N - 1;
    assert_int_equal(extract_one(e, (struct str){packed, n}, out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "compressed content is damaged");
    e.size = N;
    assert_int_equal(extract_one(e, (struct str){packed, n - 1}, out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "compressed content is damaged");
    free(plain);
    free(packed);
    free(out);
}

static void test_zip__refuses_to_expand_without_bounds(void **state)
{
    (void)state;
    det_err err = {0};
    struct zip_entry e = {.method = ZIP_DEFLATED, .size = 1ull << 40, .crc = 1};
    assert_int_equal(extract_one(e, STR("\x03\x00"), NULL, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "expand");
}

static void test_zip__refuses_entries_it_cannot_read(void **state)
{
    (void)state;
    det_err err = {0};
    char out[8];
    struct zip_entry method = {.method = 12}, size = {.size = 5}, crc = {.crc = 7};
    assert_int_equal(extract_one(method, STR("abc"), out, &err), DET_EUNSUPPORTED);
    assert_failed_with(&err, DET_EUNSUPPORTED, "method");
    assert_int_equal(extract_one(size, STR("abc"), out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "two different sizes");
    assert_int_equal(extract_one(crc, STR("abc"), out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "checksum");
}

static void assert_refused(struct archive *a, int code, const char *text)
{
    det_err err = {0};
    struct zip z;
    assert_int_equal(zip_open(&z, archive_end(a), &err), code);
    assert_failed_with(&err, code, text);
    archive_done(a);
}

static void test_zip__refuses_entries_that_contradict_each_other(void **state)
{
    (void)state;
    struct archive twice = ARCHIVE_INIT;
    archive_add(&twice, "x", STR("abc"));
    archive_add(&twice, "x", STR("abc"));
    assert_refused(&twice, DET_ECORRUPT, "two of this name");

    struct archive outside = ARCHIVE_INIT;
    archive_add_entry(&outside, (struct zip_entry){.name = STR("x"), .packed = 999, .size = 999},
                      STR("abc"));
    assert_refused(&outside, DET_ECORRUPT, "does not fit into the archive");

    struct archive overlap = ARCHIVE_INIT;
    archive_add_entry(&overlap, (struct zip_entry){.name = STR("x"), .packed = 80, .size = 80},
                      STR("abc"));
    archive_add(&overlap, "y", STR("abcdefghijklmnopqrstuvwxyz"));
    assert_refused(&overlap, DET_ECORRUPT, "entry 'x' at byte 0: it reaches into the next entry");

    struct archive misplaced = ARCHIVE_INIT;
    archive_add(&misplaced, "x", STR("abc"));
    archive_add_entry(&misplaced, (struct zip_entry){.name = STR("y"), .header_at = 1}, STR("abc"));
    assert_refused(&misplaced, DET_ECORRUPT, "there is no entry");
}

static void test_zip__refuses_a_name_that_differs_from_the_directory(void **state)
{
    (void)state;
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "x", STR("abc"));
    a.bytes.ptr[30] = 'y';
    assert_refused(&a, DET_ECORRUPT, "another name");
}

static void test_zip__refuses_64_bit_sizes_that_are_missing(void **state)
{
    (void)state;
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "x", STR("abc"));
    memset(a.central.ptr + 20, 0xff, 8);
    assert_refused(&a, DET_ECORRUPT, "64-bit sizes are missing");
}

static void test_zip__refuses_encrypted_entries(void **state)
{
    (void)state;
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "x", STR("abc"));
    a.central.ptr[8] |= 1;
    assert_refused(&a, DET_EUNSUPPORTED, "encrypted");
}

static void test_zip__finds_the_directory_in_front_of_a_comment(void **state)
{
    (void)state;
    det_err err = {0};
    struct archive a = ARCHIVE_INIT;
    struct zip z;
    archive_add(&a, "x", STR("abc"));
    archive_end(&a);
    a.bytes.ptr[a.bytes.len - 2] = 4;
    buf_addz(&a.bytes, "note");
    assert_ok(zip_open(&z, buf_str(&a.bytes), &err), &err);
    assert_non_null(zip_find(&z, STR("x")));
    zip_close(&z);
    archive_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip__gives_back_what_was_added),
        cmocka_unit_test(test_zip__reads_and_writes_64_bit_fields),
        cmocka_unit_test(test_zip__holds_more_than_65535_entries),
        cmocka_unit_test(test_zip__inflates),
        cmocka_unit_test(test_zip__refuses_to_expand_without_bounds),
        cmocka_unit_test(test_zip__refuses_entries_it_cannot_read),
        cmocka_unit_test(test_zip__refuses_entries_that_contradict_each_other),
        cmocka_unit_test(test_zip__refuses_a_name_that_differs_from_the_directory),
        cmocka_unit_test(test_zip__refuses_64_bit_sizes_that_are_missing),
        cmocka_unit_test(test_zip__refuses_encrypted_entries),
        cmocka_unit_test(test_zip__finds_the_directory_in_front_of_a_comment),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
