// master/past.h: whether a data directory has been used before, and what to do when its database is
// lost. Private to the layer.
#pragma once

#include "det/err.h"

// One master at a time uses a directory. The lock goes with the descriptor, or with the process.
int past_lock(const char *data_dir, int *out, det_err *err);

// Refuses to begin with an empty database where there was another: DET_ECORRUPT.
int past_check(const char *data_dir, const char *database, det_err *err);

// Adds how to go on.
void past_advise(det_err *err);
