// client/batch.h: what is sent to the master in one request: the next entry of a journal, and what
// waits behind it if they are all reports of metrics. Private to the layer.
#pragma once

#include "client/journal.h"

enum { BATCH_MAX_REPORTS = 1000, BATCH_MAX_BYTES = 1 << 20 };

struct batch {
    struct buf path, body;
    char key[2 * JOURNAL_KEY_BYTES];
    int64_t last; // number of its last entry
    int n;
};

#define BATCH_INIT \
    ((struct batch){.path = BUF_INIT(JOURNAL_MAX_LINE), .body = BUF_INIT(JOURNAL_MAX_LINE)})

void batch_done(struct batch *b);

// As journal_next(). Entries up to the number alone_until are sent one by one.
int batch_next(struct batch *b, struct journal *j, int64_t alone_until, det_err *err);
