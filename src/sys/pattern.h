// sys/pattern.h: regular expressions that anybody may have written, searched for in text that
// anybody may have printed. Both can be made so that a search takes years and all memory, so a
// search ends after a given time, found or not, and takes 4 MB at most. The syntax is that of
// PCRE2.
//   pattern_new  pattern_free  matcher_new  matcher_free  pattern_search
//
//     struct pattern *p;
//     if (pattern_new("error: [0-9]+", &p, err)) return err->code;
//     struct matcher *m = matcher_new(100000);                // microseconds, for all that follows
//     if (pattern_search(p, line, m) == PATTERN_FOUND) ...
#pragma once

#include "base/str.h"
#include "det/err.h"
#include <stdint.h>

enum {
    PATTERN_MAX_BYTES = 1000,
    PATTERN_MAX_TEXT = 64 << 10, // what is behind that is not looked at
    PATTERN_SEARCH_US = 20000,   // of one search
};

struct pattern;
struct matcher;

// DET_EINVAL: it is none, and where; DET_ELIMIT: it is too long or would become too large.
// DET_ENOTFOUND: the library is not installed.
int pattern_new(const char *text, struct pattern **out, det_err *err);
void pattern_free(struct pattern *p);

// What searches work with. A pattern may be used by several threads, a matcher by one.
struct matcher *matcher_new(int64_t budget_us); // of all searches together
void matcher_free(struct matcher *m);

enum pattern_result {
    PATTERN_MISSING,
    PATTERN_FOUND,
    PATTERN_GAVE_UP, // it took too long or too much memory
    PATTERN_SPENT,   // so did all searches before it: it was not looked for
};

enum pattern_result pattern_search(const struct pattern *p, struct str text, struct matcher *m);
