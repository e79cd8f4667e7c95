// Unit gpu.c: what GPUs are doing, as NVIDIA's management library says, if it is there. Called by
// usage.c.
//
// A driver may hang, and a shim must not; and a process that has made a namespace of processes can
// have no threads. So a child of the shim asks, and writes what it hears into a pipe.
#include "task/shim.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/library.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_GPUS = 64, EVERY_S = 1 };

// What we need of nvml.h.
typedef struct nvml_device *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory; // percent
};
struct nvml_memory {
    unsigned long long total, free, used;
};

static struct {
    int (*init)(void);
    int (*find)(const char *uuid, nvml_device *out);
    int (*utilization)(nvml_device device, struct nvml_utilization *out);
    int (*memory)(nvml_device device, struct nvml_memory *out);
} nvml;
static const char *const names[] = {"nvmlInit_v2", "nvmlDeviceGetHandleByUUID",
                                    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo"};
static struct library library = {{"libnvidia-ml.so.1"}, "libnvidia-ml1", names,
                                 STATIC_LEN(names),     &nvml,           false};

struct reading {
    double share;
    int64_t memory_bytes;
};

struct gpus {
    pid_t pid; // of the child
    int fd;    // readings
};

// --- in the child

static bool ask(nvml_device *devices, size_t n, struct reading *out)
{
    struct nvml_utilization use;
    struct nvml_memory memory;
    *out = (struct reading){0};
    for (size_t i = 0; i < n; i++) {
        if (nvml.utilization(devices[i], &use) || nvml.memory(devices[i], &memory)) return false;
        out->share += use.gpu / 100.0 / (double)n;
        out->memory_bytes += (int64_t)memory.used;
    }
    return n > 0;
}

static bool find_devices(const char *uuids, nvml_device devices[MAX_GPUS], size_t *n)
{
    struct str rest = str_from(uuids);
    char uuid[128];
    for (*n = 0; rest.ptr && *n < MAX_GPUS; ++*n) {
        struct str one = str_cut(&rest, ',');
        snprintf(uuid, sizeof uuid, "%.*s", STR_ARG(one));
        if (nvml.find(uuid, &devices[*n])) return false;
    }
    return true;
}

// Keeps nothing of the shim's but the pipe: above all not the lock, which would seem to live on.
static _Noreturn void watch(const char *uuids, pid_t parent, int fd)
{
    nvml_device devices[MAX_GPUS];
    struct reading reading;
    size_t n;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fd, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    bool good = (getppid() == parent || !getppid()) && !library_load(&library, NULL) &&
                !nvml.init() && find_devices(uuids, devices, &n);
    while (good && ask(devices, n, &reading)) {
        ssize_t written = write(STDOUT_FILENO, &reading, sizeof reading);
        (void)written; // if nobody has read for long, it is too late for this one
        sleep(EVERY_S);
    }
    _exit(0);
}

// --- in the shim

struct gpus *gpus_watch(const char *uuids)
{
    int ends[2];
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return NULL;
    pid_t pid = fork();
    if (!pid) watch(uuids, self, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return NULL;
    }
    struct gpus *g = xmalloc(sizeof *g);
    *g = (struct gpus){pid, ends[0]};
    return g;
}

// If the child hangs in the driver nobody waits for it; it ends with the shim.
void gpus_done(struct gpus *g)
{
    if (!g) return;
    kill(g->pid, SIGKILL);
    waitpid(g->pid, NULL, WNOHANG);
    close(g->fd);
    free(g);
}

bool gpus_has(const struct gpus *g, pid_t pid)
{
    return g && g->pid == pid;
}

bool gpus_read(struct gpus *g, double *share, int64_t *memory_bytes)
{
    struct reading reading;
    bool any = false;
    while (read(g->fd, &reading, sizeof reading) == sizeof reading) {
        *share = reading.share;
        *memory_bytes = reading.memory_bytes;
        any = true;
    }
    return any;
}
