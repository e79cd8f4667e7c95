// runner/cache.h: where what was made once is kept for the next time. Private to the layer.
#pragma once

#include "base/arena.h"
#include "det/err.h"

// $XDG_CACHE_HOME/det/<name>, made if it is missing. NULL with err.
const char *cache_folder(const char *name, struct arena *arena, det_err *err);
