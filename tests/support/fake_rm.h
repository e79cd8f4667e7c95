// tests/support/fake_rm.h: a resource manager (rm/rm.h) without processes, for a master in a test.
// Linked in place of the real one. Tasks start at once and run until they are killed, or until the
// test ends one.
#pragma once

#include "rm/rm.h"

// The task that runs for the longest ends with this code. False: none runs.
bool fake_rm_exit(struct rm *rm, int code);
