// master/sweep.h: removes files that nothing uses any more. Private to the layer.
#pragma once

#include "master/state.h"

// In the background. Model definitions that no experiment has, and that were not uploaded lately.
void sweep_code(struct master *m);

// Working directories of tasks that a master before this one has left behind.
void sweep_workdirs(struct master *m);
void sweep_trash(struct master *m); // directories of runs that were forgotten

// Logs of trials that ended longer ago than logs are kept.
void sweep_logs(struct master *m);
