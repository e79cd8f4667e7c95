// Unit version.c: the version of the library, which is that of its header.
#include "det/version.h"

const char *det_version(void)
{
    return DET_VERSION;
}
