// Unit libpq.c: the functions of PostgreSQL's client library.
#include "db/libpq.h"

#include "base/assert.h"

struct libpq pq;

int libpq_load(det_err *err)
{
    static const char *const names[] = {PQ_FUNCTIONS(PQ_NAME)};
    static struct library library = {{"libpq.so.5"},    "libpq5", names,
                                     STATIC_LEN(names), &pq,      false};
    return library_load(&library, err);
}
