// master/events.h: what changes, for programs that show it. Private to the layer.
//
// Whoever changes something marks it. Marks are gathered for a moment; when all of them are durable
// the records are read, and become events (events.c), which are kept for a while and sent to those
// who watch (watch.c).
#pragma once

#include "master/auth.h"

// In the order in which they are sent: parts before the whole.
enum event_kind {
    EVENT_METRICS,    // a trial has reported: group (text), steps
    EVENT_CHECKPOINT, // a trial has a new one: its UUID (text)
    EVENT_LOGS,       // a trial has printed
    EVENT_RESOURCES,  // there are samples of what it uses
    EVENT_TRIAL,      // its record
    EVENT_EXPERIMENT, // its record, or that it is gone
    EVENT_QUEUE,      // jobs and slots
};

struct event_mark {
    enum event_kind kind;
    int64_t experiment_id, trial_id; // 0: not known, or not meant
    int64_t steps;
    const char *text; // NULL: none; copied
};

// Something is about to change. Costs nothing while nobody watches.
void events_mark(struct master *m, const struct event_mark *mark);

void events_close(struct master *m);

// --- watch.c

// One event: as the owner of what it is about and administrators see it, and as all others do.
struct event {
    enum event_kind kind;
    int64_t experiment_id, trial_id, owner_id; // owner 0: the same for all
    struct str whole, shown;                   // "event: ...\ndata: ...\n\n"
};

bool watch_is_on(struct master *m);      // somebody watches, or may come back
int64_t watch_n(const struct master *m); // those who watch
void watch_missed(struct master *m);     // something has changed, and there will be no event
void watch_send(struct master *m, const struct event *event);
void watch_close(struct master *m);
