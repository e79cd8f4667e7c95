// Fuzz target csv: the first byte chooses options, the rest is the text.
#include "fuzz.h"

#include "base/mem.h"
#include "data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    det_csv_opts opts = {.separator = data[0] & 1 ? ';' : 0,
                         .no_header = data[0] & 2,
                         .target = data[0] & 4 ? (data[0] & 2 ? "1" : "y") : NULL};
    char *text = xmalloc(size); // one byte less is used: reading beyond it is noticed
    memcpy(text, data + 1, size - 1);
    struct csv csv = {0};
    struct str all = {text, size - 1};
    if (!csv_parse(all, &opts, &csv, NULL)) {
        bool as_long = !csv.target || det_size(csv.target, 0) == det_size(csv.features, 0);
        if (det_ndim(csv.features) != 2 || !as_long) abort();
    }
    det_unref(csv.features);
    det_unref(csv.target);
    free(text);
    return 0;
}
