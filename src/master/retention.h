// master/retention.h: the end of checkpoints. Private to the layer.
#pragma once

#include "master/state.h"

// Deletes records and, when that is durable, files below dir, in the background.
void checkpoints_remove(struct master *m, const char *dir, struct checkpoint *const *all, size_t n);
