// sys/cpu.h: what this processor can do and how much of it is ours.
#pragma once

#include <stdbool.h>

// Instruction sets in order of preference; a better one includes all before it.
enum cpu_isa { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_N_ISA };

struct cpu_features {
    enum cpu_isa isa;
    bool avx512_bf16; // vdpbf16ps
    bool amx_bf16;    // tile registers, granted to this process by the kernel
};

// Detected once. DET_ISA=plain|avx2|avx512 lowers the choice (never raises it above the hardware);
// bf16 and AMX instructions go with avx512 only.
const struct cpu_features *cpu_features(void);

const char *cpu_isa_name(enum cpu_isa isa);

// Processors this process may run on: the affinity mask, limited by the cgroup's CPU quota. >= 1.
int cpu_count(void);
