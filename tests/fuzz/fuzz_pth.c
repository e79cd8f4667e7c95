// Fuzz target pth: whole archives. Checksums are made right first; otherwise no change of a byte
// would ever get past them.
#include "fuzz.h"

#include "base/mem.h"
#include "format/bytes.h"
#include "format/format.h"
#include <zlib.h>

// Fixes the checksum in the directory record at p, if it is about stored bytes inside of the
// archive.
static void repair(char *bytes, size_t size, char *p)
{
    uint64_t header = get_u32(p + 42), n = get_u32(p + 20);
    if (header + 30 > size) return;
    uint64_t data = header + 30 + get_u16(bytes + header + 26) + get_u16(bytes + header + 28);
    if (data + n > size) return;
    uint32_t crc = (uint32_t)crc32_z(0, (const Bytef *)bytes + data, n);
    memcpy(p + 16, &crc, sizeof crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size);
    if (size) memcpy(bytes, data, size);
    for (size_t at = 0; at + 46 <= size; at++)
        if (get_u32(bytes + at) == 0x02014b50) repair(bytes, size, bytes + at);
    det_value_free(pth_parse((struct str){bytes, size}, NULL));
    free(bytes);
    return 0;
}
