// Fuzz target images: whole JPEG and PNG files.
#include "fuzz.h"

#include "base/mem.h"
#include "data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { PIXELS_MAX = 1 << 14 };
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    det_err err;
    det_ok(&err);
    det_scope_begin();
    det_tensor *image = image_decode((struct str){bytes, size}, PIXELS_MAX, &err);
    if (image ? det_numel(image) > 3 * PIXELS_MAX : !err.code) abort();
    det_scope_end();
    if (det_check(&err)) abort();
    free(bytes);
    return 0;
}
