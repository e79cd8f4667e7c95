// sandbox/box.h: parts of a sandbox's processes. Private to the layer.
#pragma once

#include "sandbox/sandbox.h"

// --- privileges.c

bool privileges_are_full(void); // those that namespaces need

int privileges_set_groups(const struct sandbox *s); // those of the task's user; 0 or an errno

// Becomes the task's user, if it has one of its own, without any capability for good. Returns 0 or
// an errno, and *what failed.
int privileges_drop(const struct sandbox *s, const char **what);

// --- cgroup.c

int cgroup_make(const struct sandbox_limits *l, det_err *err);
int cgroup_join(const struct sandbox_limits *l); // 0 or an errno
