// run/slots.h: det-run --slots N: one process (rank) for each slot. Private to the layer.
#pragma once

#include "det/err.h"
#include <stdbool.h>

struct slots {
    bool is_rank; // this is one of the new processes: it trains
    int rank;     // then
    int status;   // else: what to end with; all ranks have ended
};

// Makes n processes of this one, which has one thread. Returns in all of them, and, when they have
// ended, in this one too. Lines of ranks above 0 get "[rank=N] " in front. The first signal to stop
// goes to rank 0, the second one to all. If a rank fails, the others get a few seconds to say what
// they know, and are killed.
int slots_start(int n, struct slots *out, det_err *err);
