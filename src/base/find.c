// Unit find.c: Horspool's search with folded letters: it looks at one byte in as many as are
// wanted, mostly.
#include "base/find.h"

#include <stdint.h>
#include <string.h>

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static bool equals(const char *a, const char *b, size_t n)
{
    size_t i = 0;
    while (i < n && fold(a[i]) == fold(b[i]))
        i++;
    return i == n;
}

bool find_any_case(struct str text, struct str wanted)
{
    size_t n = wanted.len, shift[256];
    if (!n) return true;
    for (size_t i = 0; i < 256; i++)
        shift[i] = n;
    for (size_t i = 0; i + 1 < n; i++) {
        unsigned char low = fold(wanted.ptr[i]);
        bool is_letter = low >= 'a' && low <= 'z';
        shift[low] = n - 1 - i;
        if (is_letter) shift[low - 32] = n - 1 - i;
    }
    for (size_t at = 0; at + n <= text.len; at += shift[(unsigned char)text.ptr[at + n - 1]])
        if (equals(text.ptr + at, wanted.ptr, n)) return true;
    return false;
}
