// master/events.h: a stream of changes, for programs that show them. Private to the layer.
#pragma once

#include "master/state.h"

enum event_kind { EVENT_TRIAL, EVENT_EXPERIMENT }; // parts are sent before the whole

// A record is about to change. Those who watch get it, as it is then, when the change is durable.
void events_mark(struct master *m, enum event_kind kind, int64_t id);

void events_close(struct master *m);
