// Fuzz target journal: whatever a file holds, its entries come in order, each has a body and a key,
// and what was taken does not come again.
#include "fuzz.h"

#include "base/assert.h"
#include "client/journal.h"
#include <fcntl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct journal *journal;
    struct journal_entry entry;
    int n = 0;
    if (!path[0]) snprintf(path, sizeof path, "/dev/shm/det-fuzz-journal-%ld", (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    if (journal_open(path, &journal, NULL) == 0) {
        int64_t last = 0;
        while (journal_next(journal, &entry, NULL) == 1) {
            ASSERT(entry.number > last && entry.path[0] && entry.key[0]);
            last = entry.number;
            journal_taken(journal, entry.number);
            n++;
        }
        ASSERT((size_t)n <= size);
        ASSERT(journal_note_taken(journal, NULL) == 0);
        journal_close(journal);
    }
    unlink(path);
    return 0;
}
