// Fuzz target pattern: whatever pattern is searched for in whatever text, the search ends, and says
// the same when it is done again.
#include "fuzz.h"

#include "base/assert.h"
#include "sys/pattern.h"
#include <stdlib.h>
#include <string.h>

// The first line is the pattern, the rest the text.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, line = str_cut(&text, '\n');
    struct pattern *p;
    det_err err = {0};
    char *copy = strndup(line.ptr ? line.ptr : "", line.len);
    int rc = pattern_new(copy, &p, &err);
    if (rc) {
        ASSERT((rc == DET_EINVAL || rc == DET_ELIMIT) && err.msg[0]);
    } else {
        struct matcher *m = matcher_new(1000000), *spent = matcher_new(0);
        enum pattern_result first = pattern_search(p, text.ptr ? text : STR(""), m);
        enum pattern_result second = pattern_search(p, text.ptr ? text : STR(""), m);
        bool gave_up = first == PATTERN_GAVE_UP || second == PATTERN_GAVE_UP;
        ASSERT(gave_up || first == second);
        ASSERT(pattern_search(p, text, spent) == PATTERN_SPENT);
        matcher_free(m);
        matcher_free(spent);
        pattern_free(p);
    }
    free(copy);
    return 0;
}
