// sys/ignore.h: .detignore: what of a folder is no part of the code.
//
// A pattern per line, as in .gitignore: * and ? match inside a name, a slash at the end means
// folders only, one elsewhere means from the top; # starts a comment, ! brings back what a line
// before left out. Compiled Python and the event files of TensorBoard are always left out.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "det/err.h"
#include "sys/dir.h"
#include <stdbool.h>

// The patterns of dir; empty if it has no such file.
int ignore_read(const char *dir, struct arena *arena, struct str *out, det_err *err);

// Whether a path below dir is left out. Nothing below a folder that is left out need be asked for.
bool ignore_has(struct str patterns, const char *path, bool is_folder);

// Whether a folder of that name and content was written by det itself: a checkpoint, or the data of
// a master. Those are no part of the code either, whatever .detignore says.
bool ignore_is_output(const char *name, const struct dir_entries *entries);
