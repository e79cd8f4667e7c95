// base/utf8.h: is this text?
//   utf8_valid
#pragma once

#include "base/str.h"

// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing beyond
// U+10FFFF.
bool utf8_valid(struct str s);
