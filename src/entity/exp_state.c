// Unit exp_state.c: states of experiments and trials.
#include "entity/state.h"

#include "base/assert.h"
#include "entity/machine.h"

const char *const exp_state_names[] = {
    "STATE_PAUSED",
    "STATE_ACTIVE",
    "STATE_STOPPING_COMPLETED",
    "STATE_STOPPING_CANCELED",
    "STATE_STOPPING_KILLED",
    "STATE_STOPPING_ERROR",
    "STATE_COMPLETED",
    "STATE_CANCELED",
    "STATE_ERROR",
    "STATE_DELETING",
    "STATE_DELETE_FAILED",
    "STATE_DELETED",
    NULL,
};

bool exp_state_is_terminal(enum exp_state state)
{
    return state >= EXP_COMPLETED && state <= EXP_ERROR;
}

bool exp_state_is_stopping(enum exp_state state)
{
    return state >= EXP_STOPPING_COMPLETED && state <= EXP_STOPPING_ERROR;
}

// clang-format off
#define PAUSED     EXP_PAUSED
#define ACTIVE     EXP_ACTIVE
#define S_COMPLETED EXP_STOPPING_COMPLETED
#define S_CANCELED EXP_STOPPING_CANCELED
#define S_KILLED   EXP_STOPPING_KILLED
#define S_ERROR    EXP_STOPPING_ERROR
#define COMPLETED  EXP_COMPLETED
#define CANCELED   EXP_CANCELED
#define ERROR      EXP_ERROR
#define DELETING   EXP_DELETING
#define DEL_FAILED EXP_DELETE_FAILED
#define DELETED    EXP_DELETED

// Canceling or killing what is already that far succeeds silently; kill escalates a cancel. Searches
// end only once. A failure while stopping wins over how it was meant to end.
static const signed char experiment_cells[EXP_N_STATE][EXPERIMENT_N_EVENT] = {
//                           ACTIVATE  PAUSE     CANCEL      KILL      SEARCH_DONE  SEARCH_CANC FAIL     DRAINED    ABANDON  CONTINUE  ARCHIVE   DELETE    DEL_DONE DEL_FAIL
    [EXP_PAUSED]          = {ACTIVE,   STAY,     S_CANCELED, S_KILLED, S_COMPLETED, S_CANCELED, S_ERROR, STAY,      ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_ACTIVE]          = {STAY,     PAUSED,   S_CANCELED, S_KILLED, S_COMPLETED, S_CANCELED, S_ERROR, STAY,      ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_STOPPING_COMPLETED] = {WRONG, WRONG,    STAY,       STAY,     STAY,        STAY,       S_ERROR, COMPLETED, ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_STOPPING_CANCELED]  = {WRONG, WRONG,    STAY,       S_KILLED, STAY,        STAY,       S_ERROR, CANCELED,  ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_STOPPING_KILLED] = {WRONG,    WRONG,    STAY,       STAY,     STAY,        STAY,       S_ERROR, CANCELED,  ERROR,   WRONG,    NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_STOPPING_ERROR]  = {WRONG,    WRONG,    STAY,       STAY,     STAY,        STAY,       STAY,    ERROR,     ERROR,   ACTIVE,   NOT_YET,  NOT_YET,  WRONG,   WRONG},
    [EXP_COMPLETED]       = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [EXP_CANCELED]        = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [EXP_ERROR]           = {NOTHING,  ENDED,    STAY,       STAY,     STAY,        STAY,       STAY,    STAY,      STAY,    ACTIVE,   STAY,     DELETING, WRONG,   WRONG},
    [EXP_DELETING]        = {VANISHED, VANISHED, VANISHED,   VANISHED, STAY,        STAY,       STAY,    STAY,      STAY,    VANISHED, VANISHED, STAY,     DELETED, DEL_FAILED},
    [EXP_DELETE_FAILED]   = {WRONG,    WRONG,    WRONG,      WRONG,    STAY,        STAY,       STAY,    STAY,      STAY,    WRONG,    WRONG,    DELETING, WRONG,   WRONG},
    [EXP_DELETED]         = {VANISHED, VANISHED, VANISHED,   VANISHED, STAY,        STAY,       STAY,    STAY,      STAY,    VANISHED, VANISHED, VANISHED, STAY,    WRONG},
};

static const signed char trial_cells[EXP_DELETING][TRIAL_N_EVENT] = {
//                              ACTIVATE PAUSE   CLOSE        CANCEL      KILL      FAIL     DRAINED
    [EXP_PAUSED]             = {ACTIVE,  STAY,   S_COMPLETED, S_CANCELED, S_KILLED, S_ERROR, STAY},
    [EXP_ACTIVE]             = {STAY,    PAUSED, S_COMPLETED, S_CANCELED, S_KILLED, S_ERROR, STAY},
    [EXP_STOPPING_COMPLETED] = {STAY,    STAY,   STAY,        S_CANCELED, S_KILLED, S_ERROR, COMPLETED},
    [EXP_STOPPING_CANCELED]  = {STAY,    STAY,   STAY,        STAY,       S_KILLED, S_ERROR, CANCELED},
    [EXP_STOPPING_KILLED]    = {STAY,    STAY,   STAY,        STAY,       STAY,     S_ERROR, CANCELED},
    [EXP_STOPPING_ERROR]     = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    ERROR},
    [EXP_COMPLETED]          = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
    [EXP_CANCELED]           = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
    [EXP_ERROR]              = {STAY,    STAY,   STAY,        STAY,       STAY,     STAY,    STAY},
};
// clang-format on

int experiment_step(enum exp_state from, enum experiment_event event, enum exp_state *out,
                    det_err *err)
{
    static const char *const events[] = {
        "activate",        "pause",          "cancel",  "kill",
        "complete",        "cancel",         "fail",    "end",
        "give it up",      "continue",       "archive", "delete",
        "finish deleting", "fail to delete",
    };
    static const struct machine machine = {"experiment", exp_state_names, events,
                                           experiment_cells[0], EXPERIMENT_N_EVENT};
    int next = machine_step(&machine, from, event, err);
    if (next < 0) return next;
    *out = (enum exp_state)next;
    return 0;
}

enum exp_state trial_step(enum exp_state from, enum trial_event event)
{
    ASSERT(from <= EXP_ERROR);
    int cell = trial_cells[from][event];
    return cell == STAY ? from : (enum exp_state)cell;
}

enum trial_effect trial_effect(enum exp_state state, bool has_allocation, bool has_work)
{
    switch (state) {
    case EXP_ACTIVE:
        return !has_allocation && has_work ? TRIAL_ALLOCATE : TRIAL_LEAVE;
    case EXP_PAUSED:
        return has_allocation ? TRIAL_TERMINATE : TRIAL_LEAVE;
    case EXP_STOPPING_COMPLETED:
    case EXP_STOPPING_CANCELED:
        return has_allocation ? TRIAL_TERMINATE : TRIAL_END;
    case EXP_STOPPING_KILLED:
    case EXP_STOPPING_ERROR:
        return has_allocation ? TRIAL_DESTROY : TRIAL_END;
    default:
        return TRIAL_LEAVE;
    }
}
