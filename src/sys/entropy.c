// Unit entropy.c: the system's source of randomness.
#include "sys/entropy.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int entropy_read(void *out, size_t n, det_err *err)
{
    if (getentropy(out, n) < 0)
        return det_fail(err, DET_EIO, "the system gives no random bytes: %s", strerror(errno));
    return det_ok(err);
}
