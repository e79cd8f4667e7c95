// Unit holes.c: gives the free pages of a database file back to the file system, where they are.
// Called by tidy.c, in the writer thread.
//
// A file that was made by an older version cannot be made shorter by SQLite while others use it.
// But what is in a free page does not matter to anybody, so the file can have a hole there. That is
// done while the file is all there is: the log (WAL) is empty, so no reader looks at an older
// state, and the lock of a writer is held, so no page is taken into use meanwhile.
//
// The list of free pages (https://www.sqlite.org/fileformat2.html, "The Freelist"): byte 32 of the
// file has the number of the first trunk page. A trunk page has the number of the next one, how
// many leaves it has, and the numbers of the leaves, which are pages that hold nothing.
#include "db/tidy.h"

#include "base/mem.h"
#include "db/sqlite.h"
#include "db/tx.h"
#include "sys/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { HEADER_BYTES = 100, AT_PAGE_SIZE = 16, AT_FIRST_TRUNK = 32, MAX_PAGE_BYTES = 65536 };
enum { TRUNKS_AT_ONCE = 4 }; // of up to a thousand pages each

static uint32_t big_endian(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// False if the file system cannot do that.
static bool punch(int fd, uint32_t page, size_t n_pages, size_t page_bytes)
{
    off_t at = (off_t)(page - 1) * (off_t)page_bytes;
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                     (off_t)(n_pages * page_bytes)) < 0)
        if (errno != EINTR) return false;
    return true;
}

// Leaves that lie side by side become one hole.
static bool punch_leaves(int fd, unsigned char *trunk, size_t page_bytes)
{
    size_t n = big_endian(trunk + 4), max = page_bytes / 4 - 2;
    uint32_t leaves[MAX_PAGE_BYTES / 4];
    bool good = n <= max;
    for (size_t i = 0; good && i < n; i++) {
        leaves[i] = big_endian(trunk + 8 + 4 * i);
        good = leaves[i] > 1;
    }
    if (!good) return false;
    qsort(leaves, n, sizeof *leaves, order);
    for (size_t i = 0, k; good && i < n; i = k) {
        for (k = i + 1; k < n && leaves[k] == leaves[k - 1] + 1;)
            k++;
        good = punch(fd, leaves[i], k - i, page_bytes);
    }
    return good;
}

// From the n_trunks-th trunk on. Returns false at the end of the list, or of what can be done.
static bool punch_some(struct db *db, int fd)
{
    unsigned char header[HEADER_BYTES], trunk[MAX_PAGE_BYTES];
    int64_t n_passed = 0;
    if (pread(fd, header, sizeof header, 0) != sizeof header) return false;
    size_t page_bytes = (size_t)header[AT_PAGE_SIZE] << 8 | header[AT_PAGE_SIZE + 1];
    if (page_bytes == 1) page_bytes = MAX_PAGE_BYTES;
    if (page_bytes < 512) return false;
    for (uint32_t page = big_endian(header + AT_FIRST_TRUNK); page; page = big_endian(trunk)) {
        off_t at = (off_t)(page - 1) * (off_t)page_bytes;
        if (pread(fd, trunk, page_bytes, at) != (ssize_t)page_bytes) return false;
        if (n_passed++ < db->tidy.n_trunks) continue;
        if (!punch_leaves(fd, trunk, page_bytes)) return false;
        if (n_passed >= db->tidy.n_trunks + TRUNKS_AT_ONCE) break;
        if (n_passed > INT32_MAX) return false; // a list that leads to itself
    }
    bool more = n_passed > db->tidy.n_trunks;
    db->tidy.n_trunks = n_passed;
    return more;
}

int holes_punch(struct db *db, bool *done, det_err *err)
{
    sqlite3 *sql = db->writer.sql;
    int n_log = 0, n_copied = 0;
    *done = false;
    sqlite3_busy_timeout(sql, 0);
    int rc = sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, &n_log, &n_copied);
    sqlite3_busy_timeout(sql, DB_BUSY_MS);
    guard_expect_change(&db->guard);
    if (rc == SQLITE_BUSY) { // somebody reads; later
        db->tidy.not_before_us = clock_mono_us() + 200000;
        return 0;
    }
    if (rc == SQLITE_OK) rc = sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK) return sqlite_fail(sql, rc, err);
    *done = !punch_some(db, guard_fd(&db->guard));
    if (*done) db->tidy.n_trunks = 0;
    sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    return 0;
}
