// runner/slots.h: det-run --slots N: one process (rank) for each slot. Private to the layer.
#pragma once

#include "det/err.h"
#include <stdbool.h>

struct slots {
    bool is_rank; // this is one of the new processes: it trains
    int rank;     // then
    int status;   // else: what to end with; all ranks have ended
};

enum { SLOTS_MAX = 256 };

enum slots_signals {
    SLOTS_SIGNAL_CHIEF, // the first signal to stop goes to rank 0, which decides for all
    SLOTS_SIGNAL_ALL,
};

// How a rank of det-run ends that failed because another one did: it may be the first to end, but
// is not the one to blame.
enum { SLOTS_FOLLOWER = 64 };

// Makes n processes of this one, which has one thread. Returns in all of them, and, when they have
// ended, in this one too. Lines of ranks above 0 get "[rank=N] " in front. A second signal to stop
// ends all at once. If a rank fails, the others get a few seconds to say what they know, and are
// killed.
int slots_start(int n, enum slots_signals signals, struct slots *out, det_err *err);
