// doc/diag.h: everything that is wrong with a text, with its place; collected, then shown at once.
//   DIAG_INIT  diag_add  diag_print  diag_fail
#pragma once

#include "base/buf.h"
#include "doc/doc.h"
#include "det/err.h"

enum diag_level { DIAG_ERROR, DIAG_WARNING };

struct diag {
    enum diag_level level;
    struct doc_pos pos;
    const char *path; // "searcher.max_trials"; NULL when the text itself is wrong
    const char *text; // "must be at least 1, found 0"
    bool missing;     // nothing is there: texts that others complete may leave it to them
    struct diag *next;
};

struct diag_list {
    struct arena *arena; // what is collected lives here
    struct diag *first, *last;
    int n_errors, n_warnings; // all of them; only the first DIAG_MAX of each are kept
};

enum { DIAG_MAX = 100 };

#define DIAG_INIT(arena_ptr) ((struct diag_list){.arena = (arena_ptr)})

void diag_add(struct diag_list *list, enum diag_level level, struct doc_pos pos, const char *path,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void diag_vadd(struct diag_list *list, enum diag_level level, struct doc_pos pos, const char *path,
               const char *fmt, va_list args);

// One line each, in the order of the text: "const.yaml:4:3: searcher.max_trials: must be at least
// 1, found 0".
void diag_print(const struct diag_list *list, enum diag_level level, struct buf *out);

// Fills err from the first error (and says how many more there are). DET_EINVAL, or 0 without
// errors.
int diag_fail(const struct diag_list *list, det_err *err);
