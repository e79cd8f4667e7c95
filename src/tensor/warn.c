// Unit warn.c: warnings of a thread, each place once.
#include "base/str.h"
#include "tensor/node.h"

#include <stdarg.h>

enum { TEXT_MAX = 512, MAX_PLACES = 1000 }; // beyond them nothing is said any more

det_warning_handler det_set_warning_handler(det_warning_handler handler)
{
    struct tape *t = tape_get();
    det_warning_handler old = t->warning;
    t->warning = handler;
    return old;
}

static bool is_new(struct tape *t, const char *place)
{
    for (int i = 0; i < t->n_warned; i++)
        if (str_eqz(str_from(place), t->warned[i])) return false;
    if (t->n_warned == MAX_PLACES) return false;
    t->warned = xrealloc(t->warned, (size_t)(t->n_warned + 1) * sizeof *t->warned);
    t->warned[t->n_warned++] = xstrdup(place);
    return true;
}

void tensor_warn(const char *place, const char *fmt, ...)
{
    struct tape *t = tape_get();
    char text[TEXT_MAX];
    int n = place ? snprintf(text, sizeof text, "%s: ", place) : 0;
    n = MIN(n, TEXT_MAX - 1);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    if (!is_new(t, place ? place : text)) return;
    if (t->warning.fn)
        t->warning.fn(text, t->warning.user);
    else
        fprintf(stderr, "warning: %s\n", text);
}
