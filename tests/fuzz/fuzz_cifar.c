// Fuzz target cifar: files of one byte per record of the input: its label, or a cut.
#include "fuzz.h"

#include "base/mem.h"
#include "data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { RECORD = 3073, MAX_RECORDS = 64 };
    if (!size || size > MAX_RECORDS) return 0;
    size_t n = (size - 1) * RECORD + data[size - 1] % 2;
    char *bytes = calloc(n + 1, 1);
    for (size_t i = 0; i + 1 < size; i++)
        bytes[i * RECORD] = (char)data[i];
    int64_t n_images = -1;
    bool good = n % RECORD == 0;
    for (size_t i = 0; i + 1 < size; i++)
        good = good && data[i] < 10;
    bool read = cifar_parse((struct str){bytes, n}, &n_images, NULL) == 0;
    if (read != good || (good && n_images != (int64_t)size - 1)) abort();
    free(bytes);
    return 0;
}
