// Fuzz target idx: whole files, as they are and unpacked.
#include "fuzz.h"

#include "base/mem.h"
#include "data/data.h"
#include "tensor/tensor.h"

// Reads every element that the header promises.
static void read_idx(struct str bytes)
{
    struct idx idx;
    if (idx_parse(bytes, &idx, NULL)) return;
    int64_t n = 1;
    for (int i = 0; i < idx.ndim; i++)
        n *= idx.shape[i];
    uint8_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum ^= idx.data[i];
    volatile uint8_t sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    struct storage *block = NULL;
    struct str unpacked;
    read_idx((struct str){bytes, size});
    if (!gunzip((struct str){bytes, size}, &block, &unpacked, NULL)) read_idx(unpacked);
    storage_unref(block);
    free(bytes);
    return 0;
}
