// Fuzz target pickle: the input is the data.pkl of an archive that also holds a few storages.
#include "fuzz.h"

#include "format/format.h"
#include "support/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char content[64] = {1, 0, 2};
    struct archive a = ARCHIVE_INIT;
    archive_add(&a, "a/data.pkl", (struct str){(const char *)data, size});
    archive_add(&a, "a/data/0", (struct str){content, 64});
    archive_add(&a, "a/data/1", (struct str){content, 8});
    archive_add(&a, "a/data/2", (struct str){content, 0});
    det_value_free(pth_parse(archive_end(&a), NULL));
    archive_done(&a);
    return 0;
}
