// Unit machine.c: looks a step up in a table of states and events. Called by the *_state.c files.
#include "entity/machine.h"

#include "base/assert.h"

static const char *short_name(const char *name)
{
    const char *underscore = strchr(name, '_');
    return underscore ? underscore + 1 : name;
}

int machine_step(const struct machine *m, int state, int event, det_err *err)
{
    int cell = m->cells[state * m->n_events + event];
    const char *verb = m->events[event], *name = short_name(m->states[state]);
    switch (cell) {
    case STAY:
        return state;
    case WRONG:
        return det_fail(err, DET_ESTATE, "cannot %s: incompatible state %s", verb, name);
    case ENDED:
        return det_fail(err, DET_ESTATE, "cannot %s: %s in terminal state %s", verb, m->noun, name);
    case NOTHING:
        return det_fail(err, DET_ENOTFOUND, "cannot %s: no active %s, it is %s", verb, m->noun,
                        name);
    case NOT_YET:
        return det_fail(err, DET_ESTATE, "cannot %s: %s is %s, which is not a terminal state", verb,
                        m->noun, name);
    case VANISHED:
        return det_fail(err, DET_ENOTFOUND, "cannot %s: %s is %s", verb, m->noun, name);
    default:
        ASSERT(cell >= 0);
        return cell;
    }
}
