// cli/python.h: which Python the user works with. Private to the layer.
#pragma once

#include "base/arena.h"

// The interpreter that det was called from: that of 'python -m determined' (DET_PYTHON), that of the
// virtual environment in use (VIRTUAL_ENV), or the one that det was installed beside. NULL: none, or
// it is not on the machine of the master.
const char *python_of_caller(struct arena *arena, const char *master_url);
