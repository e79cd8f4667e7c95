// base/diff.h: how two texts differ, line by line.
//   diff_unified
#pragma once

#include "base/buf.h"

enum diff_result {
    DIFF_NONE,     // they are the same
    DIFF_MADE,     // what was appended says how
    DIFF_TOO_MUCH, // they have too many lines, or too little in common
};

// Appends the differences in the unified format: "@@ -4,7 +4,8 @@", then lines that begin with ' ',
// '-' or '+', with three lines of context around each change. A last line without an end is
// followed by "\ No newline at end of file".
enum diff_result diff_unified(struct str before, struct str after, struct buf *out);
