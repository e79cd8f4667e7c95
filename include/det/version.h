// det/version.h: which version this is, and what a version promises.
//
// Before 1.0 a new minor version (0.1, 0.2) may change everything in these headers. Both numbers are
// in the soname (libdet.so.0.1), so an installed program never meets a library of another minor
// version. A new patch version (0.1.0, 0.1.1) adds functions and changes nothing else: not the
// arguments of a function, not a struct, not the value of an enum. Structs of options therefore need
// no size in them. What is in files (checkpoints, databases, journals) outlives versions of any kind:
// a newer det reads what an older one has written.
//
// The headers are for C11 with the extensions of gcc and clang. Named options, defaults in macros
// and _Generic have no counterpart in C++; a C++ program calls det from a file of C.
#pragma once

#include "det/err.h"

#define DET_VERSION_MAJOR 0
#define DET_VERSION_MINOR 1
#define DET_VERSION_PATCH 0
#define DET_VERSION "0.1.0"

// The version of the library that the program runs with; DET_VERSION is that of the headers it was
// compiled with.
DET_API const char *det_version(void);
