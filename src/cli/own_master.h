// cli/own_master.h: a master of the user's own on this machine, as another process. Private to the
// layer.
#pragma once

#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum own_master_life {
    OUTLIVES_US, // in the background
    DIES_WITH_US,
};

// Whether the master that was started with this data directory (home_dir) answers, and where.
bool own_master_answers(char *url, size_t size);

// Starts 'det master' with the options (up to a NULL) and waits until it answers. Its output goes
// to <data>/master.log. 0 after the error was printed.
pid_t own_master_start(const char *const *options, enum own_master_life life);

// Lets it end. False, after saying so, if it does not.
bool own_master_stop(pid_t pid);
