// Unit deliver.c: journals of programs that died before the master had heard everything. Called by
// whoever started them.
#include "client/client.h"

#include "base/assert.h"
#include "client/journal.h"
#include "client/shipper.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include <poll.h>
#include <unistd.h>

static const int64_t MAX_DYING_US = 10 * INT64_C(1000000);

// A process that was killed keeps its locks for a moment. Whoever writes for longer is not dead.
static int open_when_free(const char *path, int64_t give_up_us, struct journal **out, det_err *err)
{
    enum { RETRY_MS = 2 };
    int rc;
    while ((rc = journal_open(path, out, err)) == DET_ESTATE && clock_mono_us() < give_up_us)
        poll(NULL, 0, RETRY_MS);
    return rc;
}

static int deliver_one(const char *path, const struct http_client_opts *master, int64_t give_up_us,
                       int64_t timeout_us, det_err *err)
{
    struct journal *journal;
    struct shipper *shipper;
    int rc = open_when_free(path, give_up_us, &journal, err);
    if (rc) return rc;
    rc = shipper_start(journal, master, &shipper, err);
    if (rc) {
        journal_close(journal);
        return rc;
    }
    rc = shipper_drain(shipper, timeout_us, err);
    int refused = shipper_take_error(shipper, rc ? NULL : err);
    shipper_stop(shipper);
    if (rc) {
        journal_close(journal);
        return rc;
    }
    int removed = journal_remove(journal, refused ? NULL : err);
    return refused ? refused : removed;
}

int client_deliver(const char *folder, const struct http_client_opts *master, int64_t timeout_us,
                   det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct dir_entries entries = {0};
    const int64_t now_us = clock_mono_us(), end_us = now_us + timeout_us;
    const int64_t free_us = now_us + MIN(timeout_us, MAX_DYING_US);
    int dir, first = 0;
    int rc = dir_open(folder, 0, &dir, err);
    if (rc) return rc;
    rc = dir_list(dir, folder, &arena, &entries, err);
    close(dir);
    det_err one = {0};
    for (size_t i = 0; !rc && i < entries.n; i++) {
        const struct dir_entry *e = &entries.items[i];
        if (e->kind != DIR_FILE || !str_ends(str_from(e->name), STR(".journal"))) continue;
        const char *path = arena_printf(&arena, "%s/%s", folder, e->name);
        int64_t left_us = end_us - clock_mono_us();
        int code = deliver_one(path, master, free_us, left_us > 0 ? left_us : 0, &one);
        if (code && !first) { // the others get their chance
            first = code;
            if (err) *err = one;
        }
    }
    arena_done(&arena);
    return rc ? rc : first ? first : det_ok(err);
}
