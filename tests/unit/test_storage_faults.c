#include "storage/storage.h"
#include "support/checkpoints.h"
#include "support/mounts.h"

#include "base/rng.h"
#include "sys/clock.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static int n_hidden(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] == '.' && e->d_name[1] != 0 && e->d_name[1] != '.';
    closedir(dir);
    return n;
}

// --- kill -9

// Saves checkpoints for ever, deletes old ones, and says on the pipe which ones were committed.
static void save_until_killed(const char *base, int64_t steps, int pipe)
{
    struct store *s = NULL;
    if (store_open(base, &s, NULL)) _exit(1);
    for (;; steps++) {
        const struct ckpt_info info = {.trial_id = 1, .steps_completed = steps};
        struct ckpt *c = NULL;
        struct arena arena = ARENA_INIT;
        struct ckpt_list list;
        if (ckpt_begin(s, &info, &c, NULL) || write_files(c, steps, NULL)) _exit(1);
        if (ckpt_commit(c, NULL, NULL)) _exit(1);
        if (write(pipe, &steps, sizeof steps) != sizeof steps) _exit(1);
        if (ckpt_list(s, 1, &arena, &list, NULL)) _exit(1);
        for (size_t i = 3; i < list.n; i++)
            if (ckpt_delete(s, list.items[i].id, NULL)) _exit(1);
        arena_done(&arena);
    }
}

// The last number on the pipe, or the one before.
static int64_t last_committed(int pipe, int64_t before)
{
    int64_t steps;
    while (read(pipe, &steps, sizeof steps) == sizeof steps)
        before = steps;
    return before;
}

// Kills at a random instant of the time that three checkpoints take.
static int64_t run_and_kill(const char *base, int64_t last, int64_t save_us, uint64_t n)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) save_until_killed(base, last + 1, ends[1]);
    assert_true(child > 0);
    close(ends[1]);
    uint64_t us = rng_below(1, n, 0, (uint64_t)(3 * save_us));
    const struct timespec instant = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&instant, NULL); // nothing is waited for: the instant is what is random
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    last = last_committed(ends[0], last);
    close(ends[0]);
    return last;
}

static void test_kill__leaves_only_whole_checkpoints(void **state)
{
    (void)state;
    enum { N_KILLS = 50 };
    det_err err = {0};
    char base[128];
    int64_t last = 0;
    struct store *s = new_store("kill");
    int64_t start_us = clock_mono_us();
    save(s, 1, 0);
    int64_t save_us = clock_mono_us() - start_us;
    snprintf(base, sizeof base, "%s", temp_path("kill"));
    for (uint64_t n = 0; n < N_KILLS; n++) {
        struct arena arena = ARENA_INIT;
        struct ckpt_info newest = {0};
        struct ckpt_list list;
        last = run_and_kill(base, last, save_us, n);
        assert_ok(ckpt_list(s, 1, &arena, &list, &err), &err);
        assert_int_equal(list.n_damaged, 0);
        for (size_t i = 0; i < list.n; i++)
            assert_ok(ckpt_verify(s, list.items[i].id, NULL, &err), &err);
        // What was committed is there; at most one more had no time to say so.
        assert_ok(ckpt_find_newest(s, 1, &arena, &newest, &list, &err), &err);
        assert_in_range(newest.steps_completed, last, last + 1);
        assert_ok(store_clean(s, NULL, &err), &err);
        assert_int_equal(n_hidden(base), 0);
        last = newest.steps_completed;
        arena_done(&arena);
    }
    assert_true(last > 0);
    store_close(s);
}

// --- a full disk

static int try_to_save(struct store *s, int64_t steps, det_err *err)
{
    struct ckpt *c = NULL;
    int rc = ckpt_begin(s, &(struct ckpt_info){.steps_completed = steps}, &c, err);
    if (rc) return rc;
    rc = write_files(c, steps, err);
    if (!rc) return ckpt_commit(c, NULL, err);
    ckpt_abort(c);
    return rc;
}

// Leaves room for n_pages and sees what a checkpoint makes of it.
static bool save_in_room_for(struct store *s, const char *disk, int n_pages)
{
    det_err err = {0};
    char filler[128];
    snprintf(filler, sizeof filler, "%s/filler", disk);
    unlink(filler);
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    int pages = 0;
    while (posix_fallocate(fd, (off_t)pages * 4096, 4096) == 0)
        pages++;
    assert_true(pages > n_pages);
    assert_int_equal(ftruncate(fd, (off_t)(pages - n_pages) * 4096), 0);
    close(fd);
    int rc = try_to_save(s, 100 + n_pages, &err);
    if (rc) assert_failed_with(&err, DET_ENOSPC, "No space left on device");
    assert_int_equal(n_hidden(disk), 0);
    return !rc;
}

static void test_full_disk__loses_nothing(void **state)
{
    (void)state;
    enum { N_TRIES = 16 };
    det_err err = {0};
    char disk[128];
    snprintf(disk, sizeof disk, "%s", temp_path("disk"));
    mkdir(disk, 0700);
    if (!mount_small_disk(disk, "size=1m")) {
        print_message("skipped: a small disk can be mounted by root only\n");
        skip();
    }
    struct store *s = new_store("disk");
    struct arena arena = ARENA_INIT;
    struct ckpt_list list;
    struct ckpt_info first = save(s, 0, 1);
    size_t n_saved = 1;
    for (int n = 0; n < N_TRIES; n++) // fails at every step from the directory to the manifest
        n_saved += save_in_room_for(s, disk, n);
    assert_in_range(n_saved, 2, N_TRIES);
    assert_ok(ckpt_list(s, 0, &arena, &list, &err), &err);
    assert_int_equal(list.n, n_saved);
    assert_int_equal(list.n_damaged, 0);
    for (size_t i = 0; i < list.n; i++)
        assert_ok(ckpt_verify(s, list.items[i].id, NULL, &err), &err);
    assert_ok(ckpt_verify(s, first.id, NULL, &err), &err);
    arena_done(&arena);
    store_close(s);
}

static int unmount_and_remove(void **state)
{
    umount(temp_path("disk")); // if it was mounted
    return temp_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill__leaves_only_whole_checkpoints),
        cmocka_unit_test(test_full_disk__loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, unmount_and_remove);
}
