// base/safe.h: text of others on a terminal. A terminal obeys what is in the text that it shows: it
// moves the cursor, renames its window, answers questions as if the user had typed.
//   safe_add
#pragma once

#include "base/buf.h"

enum safe_keep {
    SAFE_LINE,    // one line: a name, a cell of a table
    SAFE_LINES,   // lines, and tabs in them
    SAFE_COLOURS, // and colours, which end with their line: logs
};

// Appends text as a terminal can show it without obeying it: line ends and tabs that are not kept
// become blanks, other control characters and damaged UTF-8 become \x1b, \u202e and the like.
void safe_add(struct buf *out, struct str text, enum safe_keep keep);
