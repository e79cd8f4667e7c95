// Fuzz target safetensors: whole files.
#include "fuzz.h"

#include "base/mem.h"
#include "format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    det_value *metadata = NULL;
    det_value_free(safetensors_parse((struct str){bytes, size}, &metadata, NULL));
    det_value_free(metadata);
    free(bytes);
    return 0;
}
