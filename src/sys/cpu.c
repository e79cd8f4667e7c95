// Unit cpu.c: reads cpuid, the affinity mask and the cgroup quota.
#include "sys/cpu.h"

#include "base/assert.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const isa_names[CPU_N_ISA] = {"plain", "avx2", "avx512"};

const char *cpu_isa_name(enum cpu_isa isa)
{
    return isa_names[isa];
}

#if defined(__x86_64__)
#include <cpuid.h>

static enum cpu_isa detect_isa(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_PLAIN;
#if defined(DET_EMULATE_AVX512)
    return CPU_AVX512;
#endif
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 ? CPU_AVX512 : CPU_AVX2;
}

static bool detect_avx512_bf16(void)
{
    unsigned a, b, c, d;
#if defined(DET_EMULATE_AVX512)
    return false;
#endif
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

// AMX state is large, so Linux hands it out on request only; once granted it holds for all threads
// that are started later.
static bool request_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    bool tile = d >> 24 & 1, bf16 = d >> 22 & 1;
    return tile && bf16 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#else
static enum cpu_isa detect_isa(void)
{
    return CPU_PLAIN;
}
static bool detect_avx512_bf16(void)
{
    return false;
}
static bool request_amx(void)
{
    return false;
}
#endif

static struct cpu_features features;

static void detect(void)
{
    features.isa = detect_isa();
    const char *want = getenv("DET_ISA");
    for (int i = 0; want && i < (int)features.isa; i++)
        if (!strcmp(want, isa_names[i])) features.isa = (enum cpu_isa)i;
    if (features.isa != CPU_AVX512) return;
    features.avx512_bf16 = detect_avx512_bf16();
    features.amx_bf16 = features.avx512_bf16 && request_amx();
}

const struct cpu_features *cpu_features(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect);
    return &features;
}

// cgroup v2 writes "<quota> <period>" or "max <period>"; v1 keeps them in two files.
static int cgroup_quota(void)
{
    long quota = -1, period = 100000;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) != 2) quota = -1;
        fclose(f);
    } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
        if (fscanf(f, "%ld", &quota) != 1) quota = -1;
        fclose(f);
    }
    if (quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

int cpu_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = cgroup_quota();
    return MAX(1, quota > 0 ? MIN(n, quota) : n);
}
