// Fuzz target npy: whole files.
#include "fuzz.h"

#include "base/mem.h"
#include "format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    det_unref(npy_parse((struct str){bytes, size}, NULL));
    free(bytes);
    return 0;
}
