// base/str.h: a piece of text or bytes that somebody else owns: pointer and length.
//   STR(literal)  str_from  str_eq  str_eqz  str_order  str_starts  str_ends  str_cut
#pragma once

#include "base/banned.h"
#include <stdbool.h>
#include <stddef.h>

struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){literal, sizeof(literal) - 1})
#define STR_ARG(s) (int)(s).len, (s).ptr // for "%.*s"

static inline struct str str_from(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_from(z));
}

// By bytes: negative, 0 or positive.
static inline int str_order(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && memcmp(s.ptr, prefix.ptr, prefix.len) == 0;
}

static inline bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0;
}

// Splits *rest at the first sep: returns what is before it and leaves what follows in *rest.
// Without a sep, returns everything and leaves *rest empty with a NULL pointer.
struct str str_cut(struct str *rest, char sep);
