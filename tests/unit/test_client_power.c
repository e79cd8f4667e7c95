// Power losses: a report whose call has returned is in the journal, and a checkpoint that was
// committed can be loaded. The disk is one that forgets what was not synced (support/power.h).
//
//     test_client_power [ROUNDS]
#include "support/files.h"

#include "client/journal.h"
#include "det/client.h"
#include "storage/storage.h"
#include "support/power.h"
#include "sys/dir.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { N_REPORTS = 12, CHECKPOINT_EVERY = 4 };

// What the program that lost its power had been told; shared with its parent.
static struct {
    int64_t n_reported; // metrics
    int64_t n_saved;    // checkpoints
    int64_t n_calls;    // of a round without a loss
} * seen;

static int n_rounds = 60;
static det_err err;

static void save(det_core *core)
{
    det_checkpoint *c;
    char text[64], path[512];
    const char *folder = det_checkpoint_begin(core, &c, &err);
    if (!folder) _exit(1);
    snprintf(path, sizeof path, "%s/state", folder);
    snprintf(text, sizeof text, "state %lld", (long long)seen->n_reported);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd)) _exit(1);
    if (det_checkpoint_commit(c, NULL, &err)) _exit(1);
    seen->n_saved++;
}

static void train(const char *folder)
{
    det_core *core = det_core_init_with(&(det_core_opts){.folder = folder}, &err);
    if (!core) _exit(1);
    for (int i = 1; i <= N_REPORTS; i++) {
        if (det_core_report_training_metrics(core, i, DET_METRICS({"loss", 1.0 / i}), &err))
            _exit(1);
        seen->n_reported = i;
        if (i % CHECKPOINT_EVERY == 0) save(core);
    }
    if (det_core_close(core, &err)) _exit(1);
}

static void check_journal(const char *path, int64_t *n_metrics, int64_t *n_checkpoints)
{
    struct journal *j;
    struct journal_entry e;
    if (journal_open(path, &j, &err)) return; // nothing of it was acknowledged
    while (journal_next(j, &e, &err) == 1) {
        *n_metrics += strstr(e.path, "/metrics") != NULL;
        *n_checkpoints += strstr(e.path, "/checkpoints") != NULL;
        journal_taken(j, e.number);
    }
    journal_close(j);
}

static void check(uint64_t seed, const char *folder)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    int64_t n_metrics = 0, n_checkpoints = 0;
    int dir;
    if (!dir_open(folder, 0, &dir, &err)) {
        assert_ok(dir_list(dir, folder, &arena, &entries, &err), &err);
        close(dir);
    }
    for (size_t i = 0; i < entries.n; i++)
        if (strstr(entries.items[i].name, ".journal"))
            check_journal(arena_printf(&arena, "%s/%s", folder, entries.items[i].name), &n_metrics,
                          &n_checkpoints);
    if (n_metrics < seen->n_reported)
        fail_msg("seed %llu: %lld reports were acknowledged, %lld are there",
                 (unsigned long long)seed, (long long)seen->n_reported, (long long)n_metrics);
    assert_true(n_checkpoints >= seen->n_saved);
    if (seen->n_saved) { // the newest one is whole
        struct store *store;
        struct ckpt_info info;
        struct ckpt_list skipped = {0};
        assert_ok(store_open(arena_printf(&arena, "%s/checkpoints", folder), &store, &err), &err);
        assert_ok(ckpt_find_newest(store, 0, &arena, &info, &skipped, &err), &err);
        assert_true(info.steps_completed >= seen->n_saved * CHECKPOINT_EVERY);
        store_close(store);
    }
    arena_done(&arena);
}

static void test_power__no_report_and_no_checkpoint_is_lost(void **state)
{
    (void)state;
    for (int round = 0; round < n_rounds; round++) {
        uint64_t seed = (uint64_t)round + 1;
        char root[64], folder[80], command[160];
        int status;
        snprintf(root, sizeof root, "/tmp/det-test-power-XXXXXX");
        assert_non_null(mkdtemp(root));
        snprintf(folder, sizeof folder, "%s/run", root);
        seen->n_reported = seen->n_saved = 0;
        int64_t last =
            seen->n_calls ? 1 + (int64_t)(seed * 2654435761u % (uint64_t)seen->n_calls) : 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            power_on(root, seed, last);
            train(folder);
            seen->n_calls = power_n_calls();
            power_off();
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(power_was_lost(status));
        check(seed, folder);
        snprintf(command, sizeof command, "rm -rf '%s'", root);
        assert_int_equal(system(command), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power__no_report_and_no_checkpoint_is_lost)};
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 1) n_rounds = (int)strtol(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
