// Unit archive.c: the functions of libarchive. Called by what packs and unpacks code.
#include "sys/archive.h"

#include "base/assert.h"

struct archive_functions libarchive;

int archive_load(det_err *err)
{
    static const char *const names[] = {ARCHIVE_FUNCTIONS(LIBRARY_NAME)};
    static struct library library = {.files = {"libarchive.so.13"},
                                     .package = "libarchive13",
                                     .names = names,
                                     .n = STATIC_LEN(names),
                                     .functions = &libarchive};
    return library_load(&library, err);
}
