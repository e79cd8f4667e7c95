// base/utf8.h: walking through UTF-8 that may be damaged.
//   utf8_next  utf8_valid
#pragma once

#include "base/str.h"
#include <stdint.h>

// The code point at the front of *rest (not empty), which moves past it. A byte that starts no
// valid sequence (overlong forms and surrogates included) is passed over alone and gives -1.
int32_t utf8_next(struct str *rest);

bool utf8_valid(struct str s);
