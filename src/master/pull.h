// master/pull.h: output of tasks into the database. Private to the layer.
#pragma once

#include "master/state.h"

// There may be something new. If the task has exited, allocation_exited() is called when all of its
// output is stored.
void pull_output(struct live_allocation *a);

// What had to wait for the database, or for space on its disk.
void pull_waiting(struct master *m);
