// Unit machine.c: picks the kernels for this processor, and the switches about threads.
#include "tensor/kernels/kernels.h"

#include "sys/cpu.h"
#include "sys/pool.h"

#if defined(__x86_64__)
static const struct kernels *const kernel_sets[CPU_N_ISA] = {&kernels_plain, &kernels_avx2,
                                                             &kernels_avx512};
#else
static const struct kernels *const kernel_sets[CPU_N_ISA] = {&kernels_plain};
#endif

const struct kernels *kernels = &kernels_plain;

// Before main, so that no call has to ask whether it is the first.
__attribute__((constructor)) static void choose_kernels(void)
{
    kernels = kernel_sets[cpu_features()->isa];
}

const char *det_isa(void)
{
    const struct cpu_features *f = cpu_features();
    if (f->amx_bf16) return "avx512+amx";
    if (f->avx512_bf16) return "avx512+bf16";
    return cpu_isa_name(f->isa);
}

void det_set_threads(int n)
{
    pool_set_threads(n);
}

int det_threads(void)
{
    return pool_threads();
}
