// sys/library.h: shared libraries that are loaded when they are first needed. Some bring dozens of
// others with them, which a command that does without should not wait for.
//   library_load
//
//     #define ZIP_FUNCTIONS(F) F(zip, open) F(zip, close)  // zip_open, zip_close of zip.h
//     static struct { ZIP_FUNCTIONS(LIBRARY_MEMBER) } libzip;
//     static const char *const names[] = {ZIP_FUNCTIONS(LIBRARY_NAME)};
//     static struct library library = {
//         {"libzip.so.4"}, "libzip4", names, STATIC_LEN(names), &libzip};
//
//     if (!library_load(&library, err)) libzip.open(...);
#pragma once

#include "det/err.h"
#include <stdbool.h>
#include <stddef.h>

#define LIBRARY_MEMBER(prefix, name) __typeof__(prefix##_##name) *name;
#define LIBRARY_NAME(prefix, name) #prefix "_" #name,

struct library {
    const char *files[2]; // the first that is there is taken
    const char *package;  // that has it, for people
    const char *const *names;
    size_t n;
    void *functions; // a struct of that many pointers
    bool is_loaded;
};

// By any thread, as often as one likes. DET_ENOTFOUND names what should be installed.
int library_load(struct library *library, det_err *err);
