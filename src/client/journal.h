// client/journal.h: what is to be told to the master, on disk until it was.
//
// A file of lines, only ever appended to:
//
//     5c1f09ab 0 journal 0b7a3c7e-...          whose numbers these are
//     90be1d22 1 /api/v1/trials/7/metrics {"group":"training",...}
//     1be00c4f 1 acked                          all up to 1 were delivered
//
// The first word is the CRC-32C of the rest of the line. A process that is killed leaves at most
// half a line at the end, which was never acknowledged to anybody and counts for nothing.
//
// One thread adds, another one takes; both may call at the same time.
#pragma once

#include "base/buf.h"
#include "det/err.h"
#include <stdbool.h>
#include <stdint.h>

struct journal;

enum { JOURNAL_MAX_LINE = 16 << 20, JOURNAL_KEY_BYTES = 64 };

// A new file folder/<name>. It is locked: nobody else takes from it while we live.
int journal_create(const char *path, struct journal **out, det_err *err);

// One that somebody left behind. DET_ESTATE if its writer still lives. Everything in it that was
// not delivered can be taken.
int journal_open(const char *path, struct journal **out, det_err *err);
void journal_close(struct journal *j);
int journal_remove(struct journal *j, det_err *err); // and closes it
void journal_disown(struct journal *j); // in a forked child: gives its part of the lock back

// When it returns 0 the entry survives the death of this process; that of the machine after
// journal_sync(). body is one line of JSON.
int journal_add(struct journal *j, const char *path, struct str body, det_err *err);
int journal_sync(struct journal *j, det_err *err);

struct journal_entry {
    int64_t number;
    char key[JOURNAL_KEY_BYTES]; // the same whenever this entry is sent
    const char *path;
    struct str body; // both valid until the next call that gives an entry
};

// The first entry that was not taken. 1: *out; 0: none now; DET_ECORRUPT: the rest is damaged.
int journal_next(struct journal *j, struct journal_entry *out, det_err *err);
// The one behind what journal_next(), or this, gave last. The same results.
int journal_more(struct journal *j, struct journal_entry *out, det_err *err);
void journal_taken(struct journal *j, int64_t number);   // all up to it need not be sent again
int journal_note_taken(struct journal *j, det_err *err); // on disk, too

int64_t journal_n_waiting(struct journal *j);
const char *journal_path(const struct journal *j);
