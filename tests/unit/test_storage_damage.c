#include "storage/storage.h"
#include "support/checkpoints.h"

#include "base/rng.h"
#include "sys/fs.h"
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {CKPT_STATE, CKPT_LOOP, "code/model_def.c", CKPT_MANIFEST};

enum damage { FLIP_BIT, CUT_SHORT, MAKE_LONGER, REMOVE, MAKE_LINK, N_DAMAGES };

// Damages a file of a checkpoint in a way that depends on n.
static void damage_file(const char *path, uint64_t n)
{
    det_err err = {0};
    struct buf b = BUF_INIT(1 << 20);
    assert_ok(fs_read(path, &b, &err), &err);
    size_t at = rng_below(1, n, 0, b.len);
    enum damage how = rng_below(1, n, 1, 2 * N_DAMAGES);
    if (how == REMOVE || how == MAKE_LINK) {
        assert_int_equal(unlink(path), 0);
        if (how == MAKE_LINK) {
            write_bytes(temp_path("elsewhere"), b.ptr, b.len);
            assert_int_equal(symlink(temp_path("elsewhere"), path), 0);
        }
    } else if (how == CUT_SHORT) {
        assert_int_equal(truncate(path, (off_t)at), 0);
    } else if (how == MAKE_LONGER) {
        buf_addc(&b, 0);
        write_bytes(path, b.ptr, b.len);
    } else { // half of all cases
        b.ptr[at] ^= (char)(1 << rng_below(1, n, 2, 8));
        write_bytes(path, b.ptr, b.len);
    }
    buf_done(&b);
}

static void restore(const char *path, const struct buf *content)
{
    unlink(path);
    write_bytes(path, content->ptr, content->len);
}

// Whatever happens to the newest checkpoint, the one before it is found, and the reason is given.
static void test_find__skips_every_damage(void **state)
{
    (void)state;
    enum { N = 1000 };
    det_err err = {0};
    struct store *s = new_store("damage");
    struct ckpt_info older = save(s, 3, 10), newer = save(s, 3, 20);
    char name[UUID_TEXT_BYTES];
    uuid_format(newer.id, name);
    for (uint64_t n = 0; n < N; n++) {
        struct arena arena = ARENA_INIT;
        struct ckpt_info found;
        struct ckpt_list skipped;
        struct buf content = BUF_INIT(1 << 20);
        const char *path = ckpt_file(s, newer.id, files[rng_below(1, n, 3, 4)], &arena);
        assert_ok(fs_read(path, &content, &err), &err);
        damage_file(path, n);
        assert_int_equal(ckpt_verify(s, newer.id, NULL, &err), DET_ECORRUPT);
        assert_ok(ckpt_find_newest(s, 3, &arena, &found, &skipped, &err), &err);
        assert_memory_equal(&found.id, &older.id, sizeof found.id);
        assert_int_equal(skipped.n_damaged, 1);
        assert_string_equal(skipped.damaged[0].name, name);
        assert_true(skipped.damaged[0].reason[0]);
        restore(path, &content);
        buf_done(&content);
        arena_done(&arena);
    }
    assert_ok(ckpt_verify(s, newer.id, NULL, &err), &err);
    store_close(s);
}

static void test_find__says_that_nothing_is_left(void **state)
{
    (void)state;
    det_err err = {0};
    struct arena arena = ARENA_INIT;
    struct store *s = new_store("nothing");
    struct ckpt_info found, saved = save(s, 1, 10);
    struct ckpt_list skipped;
    assert_int_equal(ckpt_find_newest(s, 2, &arena, &found, &skipped, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "no whole checkpoint of trial 2 (0 damaged)");
    assert_int_equal(truncate(ckpt_file(s, saved.id, CKPT_STATE, &arena), 5), 0);
    assert_int_equal(ckpt_find_newest(s, 1, &arena, &found, &skipped, &err), DET_ENOTFOUND);
    assert_failed_with(&err, DET_ENOTFOUND, "(1 damaged)");
    assert_non_null(strstr(skipped.damaged[0].reason, "has 5 bytes instead of 20000"));
    arena_done(&arena);
    store_close(s);
}

// Manifests with right checksums, as tests/fuzz/make-corpus.py writes them.
static void test_verify__refuses_manifests_that_lead_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int code;
        const char *text;
    } rows[] = {{"none.json", 0, ""},
                {"some.json", DET_ECORRUPT, "cannot open the directory 'code'"},
                {"outside.json", DET_ECORRUPT, "the file name '../x' leads elsewhere"},
                {"absolute.json", DET_ECORRUPT, "the file name '/etc/passwd' leads elsewhere"},
                {"twice.json", DET_ECORRUPT, "'a' is out of order"}};
    det_err err = {0};
    struct arena arena = ARENA_INIT;
    struct store *s = new_store("hostile");
    struct uuid id;
    assert_int_equal(uuid_parse("11111111-2222-4333-8444-555555555555", &id, &err), 0);
    write_bytes(temp_path("hostile/x"), "../x", 4);
    assert_int_equal(mkdir(ckpt_file(s, id, NULL, &arena), 0777), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = BUF_INIT(10000);
        const char *path = arena_printf(&arena, "tests/golden/manifest/%s", rows[i].file);
        assert_ok(fs_read(path, &text, &err), &err);
        write_bytes(ckpt_file(s, id, CKPT_MANIFEST, &arena), text.ptr, text.len);
        buf_done(&text);
        assert_int_equal(ckpt_verify(s, id, NULL, &err), rows[i].code);
        if (rows[i].code) assert_failed_with(&err, rows[i].code, rows[i].text);
    }
    arena_done(&arena);
    store_close(s);
}

// A checkpoint that was copied to another name is not that other one.
static void test_verify__notices_another_checkpoints_manifest(void **state)
{
    (void)state;
    det_err err = {0};
    struct arena arena = ARENA_INIT;
    struct store *s = new_store("other");
    struct ckpt_info a = save(s, 1, 10);
    struct uuid b;
    assert_int_equal(uuid_parse("11111111-2222-4333-8444-555555555555", &b, &err), 0);
    assert_int_equal(rename(ckpt_file(s, a.id, NULL, &arena), ckpt_file(s, b, NULL, &arena)), 0);
    assert_int_equal(ckpt_verify(s, b, NULL, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "is that of checkpoint");
    arena_done(&arena);
    store_close(s);
}

// A directory in the place of a link's target is not reached through it.
static void test_verify__does_not_follow_links_to_directories(void **state)
{
    (void)state;
    det_err err = {0};
    struct arena arena = ARENA_INIT;
    struct store *s = new_store("linked");
    struct ckpt_info a = save(s, 1, 10);
    const char *code = ckpt_file(s, a.id, CKPT_CODE, &arena);
    assert_int_equal(rename(code, temp_path("moved")), 0);
    assert_int_equal(symlink(temp_path("moved"), code), 0);
    assert_int_equal(ckpt_verify(s, a.id, NULL, &err), DET_ECORRUPT);
    arena_done(&arena);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find__skips_every_damage),
        cmocka_unit_test(test_find__says_that_nothing_is_left),
        cmocka_unit_test(test_verify__refuses_manifests_that_lead_elsewhere),
        cmocka_unit_test(test_verify__notices_another_checkpoints_manifest),
        cmocka_unit_test(test_verify__does_not_follow_links_to_directories),
    };
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
