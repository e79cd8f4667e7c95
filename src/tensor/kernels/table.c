// Unit table.c: the kernel table of this instruction set.
#include "tensor/kernels/kernels.h"

#define KERNELS_ENTRY(result, name, args) .name = KERNEL(name),
const struct kernels KERNEL(kernels) = {KERNELS(KERNELS_ENTRY)};
