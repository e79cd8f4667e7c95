// entity/machine.h: a state machine as a table. Private to the layer.
//
// A cell holds the next state, or one of the negative values below.
#pragma once

#include "det/err.h"

enum {
    STAY = -1,
    WRONG = -2,    // not from this state
    ENDED = -3,    // it has ended
    NOTHING = -4,  // there is nothing left that it could act on
    NOT_YET = -5,  // only for what has ended
    VANISHED = -6, // deleted, or about to be
};

struct machine {
    const char *noun;
    const char *const *states;
    const char *const *events; // "pause", as in "cannot pause"
    const signed char *cells;  // [state][event]
    int n_events;
};

// The next state, or a negative DET_E* code.
int machine_step(const struct machine *m, int state, int event, det_err *err);
