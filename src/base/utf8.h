// base/utf8.h: walking through UTF-8 that may be damaged.
//   utf8_next  utf8_valid  utf8_is_control  utf8_has_control
#pragma once

#include "base/str.h"
#include <stdint.h>

// The code point at the front of *rest (not empty), which moves past it. A byte that starts no
// valid sequence (overlong forms and surrogates included) is passed over alone and gives -1.
int32_t utf8_next(struct str *rest);

bool utf8_valid(struct str s);

// Whether a code point steers how the text around it is shown instead of being text: C0, DEL, C1,
// line separators, and the marks that change the direction of writing.
bool utf8_is_control(int32_t point);
bool utf8_has_control(struct str s); // or is damaged
