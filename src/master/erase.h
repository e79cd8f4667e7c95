// master/erase.h: the end of experiments that people delete. Private to the layer.
#pragma once

#include "master/state.h"

// Removes files and records of an experiment that is DELETING, in the background.
void erase_later(struct master *m, int64_t experiment_id);

// Goes on with what a restart has interrupted.
void erase_resume(struct master *m);
