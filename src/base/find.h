// base/find.h: finding a text in another, whatever the case of its letters.
#pragma once

#include "base/str.h"
#include <stdbool.h>

// ASCII letters of either case are the same; all other bytes count as they are.
bool find_any_case(struct str text, struct str wanted);
