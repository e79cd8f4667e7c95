// base/path.h: paths as text, without looking at any file.
//   path_normal  path_is_inside  path_is_plain
#pragma once

#include "base/arena.h"
#include "base/str.h"

// An absolute path without ".", "//" and "..": "/a/b"; the root is "". A ".." at the top stays at
// the top, and a relative path is taken as if it began there.
const char *path_normal(struct arena *arena, const char *path);

// Of two normal paths: the same, or somewhere below.
bool path_is_inside(const char *path, const char *folder);

// A name below some folder that cannot lead out of it: "a/b.txt". Not empty, not absolute, no empty
// step, no "." or "..".
bool path_is_plain(struct str name);
