// base/crc32c.h: CRC-32C (Castagnoli), the checksum of checkpoint files and of TensorBoard records.
//   crc32c_add
//
// It notices every damage within 32 neighbouring bits, so every flipped bit, and all but one in
// 2^32 of the others. The processor has an instruction for it: 8 bytes in 3 cycles.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The checksum of what was summed up before, followed by these bytes; start with 0.
uint32_t crc32c_add(uint32_t crc, const void *bytes, size_t n);
