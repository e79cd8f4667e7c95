// Unit usage.c: what a task uses of the machine, as lines of its log: so they get to the master as
// output does, none lost or doubled. Called by shim.c.
#include "task/shim.h"

#include "base/assert.h"
#include "base/number.h"
#include "sys/clock.h"
#include <math.h>

enum { SHORTEST_US = 1000000, LONGEST_US = 30 * 1000000, PER_TIME = 60 };

void usage_init(struct usage *u, const struct task_spec *spec, int64_t now_us)
{
    const char *devices = task_variable(spec, "CUDA_VISIBLE_DEVICES");
    *u = (struct usage){.began_us = now_us, .last_us = now_us, .next_us = now_us + SHORTEST_US};
    if (devices && *devices) u->gpus = gpus_watch(devices);
}

void usage_done(struct usage *u)
{
    gpus_done(u->gpus);
}

static void put_line(const struct usage *u, struct spool *spool, double cpu, int64_t memory_bytes)
{
    char text[128];
    double share = -1;
    int64_t gpu_memory_bytes = -1;
    if (u->gpus && !gpus_read(u->gpus, &share, &gpu_memory_bytes)) share = -1;
    int n = snprintf(text, sizeof text, "%lld %lld %lld %lld", (long long)(cpu * 1e6),
                     (long long)memory_bytes, share < 0 ? -1 : (long long)(share * 1e6),
                     (long long)gpu_memory_bytes);
    const struct task_line line = {
        .time_us = clock_unix_us(), .rank = -1, .stream = TASK_USAGE, .text = {text, (size_t)n}};
    spool_add(spool, &line);
}

// The longer a task has run, the less often: as many samples for each doubling of its time.
void usage_add(struct usage *u, struct spool *spool, const pid_t *roots, size_t n, int64_t now_us)
{
    struct proc_usage now;
    if (now_us < u->next_us) return;
    u->next_us = now_us + MIN(LONGEST_US, MAX(SHORTEST_US, (now_us - u->began_us) / PER_TIME));
    if (!n) return;
    proc_usage_of(roots, n, &now);
    double cpu = (double)(now.cpu_us - u->cpu_us) / (double)MAX(1, now_us - u->last_us);
    put_line(u, spool, MAX(0, cpu), now.memory_bytes);
    u->cpu_us = now.cpu_us;
    u->last_us = now_us;
}

bool task_usage_parse(struct str text, struct task_usage *out)
{
    int64_t numbers[4];
    for (size_t i = 0; i < STATIC_LEN(numbers); i++)
        if (!number_to_int(str_cut(&text, ' '), 10, &numbers[i])) return false;
    *out = (struct task_usage){.cpu = (double)numbers[0] / 1e6,
                               .memory_bytes = numbers[1],
                               .gpu = numbers[2] < 0 ? NAN : (double)numbers[2] / 1e6,
                               .gpu_memory_bytes = numbers[3]};
    return !text.ptr;
}
