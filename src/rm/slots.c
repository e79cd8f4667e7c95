// Unit slots.c: the slots of this machine: which there are, and who has them.
#include "rm/manager.h"

#include "base/assert.h"
#include "base/number.h"
#include <sched.h>

enum { MAX_SLOTS = 4096 };

// --- what there is

static void add_cpu_slot(struct rm *rm, const int64_t *cpus, size_t n)
{
    struct task_slot *s = &rm->slot_cpus[rm->n_slots];
    s->id = (int64_t)rm->n_slots;
    s->cpus.items = arena_array(&rm->arena, n, sizeof *cpus);
    memcpy(s->cpus.items, cpus, n * sizeof *cpus);
    s->cpus.n = n;
    const char *name = arena_printf(&rm->arena, n == 1 ? "CPU %lld" : "CPU %lld-%lld",
                                    (long long)cpus[0], (long long)cpus[n - 1]);
    rm->slots[rm->n_slots] = (struct rm_slot){.id = (int)rm->n_slots, .name = name};
    rm->n_slots++;
}

// Each its own processors, as evenly as possible; shared ones if there are more slots.
static void add_cpu_slots(struct rm *rm, int n)
{
    cpu_set_t set;
    int64_t cpus[CPU_SETSIZE];
    size_t n_cpus = 0;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) cpus[n_cpus++] = i;
    if (!n_cpus) cpus[n_cpus++] = 0;
    for (size_t i = 0, slots = (size_t)n; i < slots; i++) {
        size_t from = slots > n_cpus ? i % n_cpus : i * n_cpus / slots;
        size_t to = slots > n_cpus ? from + 1 : (i + 1) * n_cpus / slots;
        add_cpu_slot(rm, cpus + from, to - from);
    }
}

static struct str trimmed(struct str s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\r'))
        s = (struct str){s.ptr + 1, s.len - 1};
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\r'))
        s.len--;
    return s;
}

// "GPU-5d9a..., NVIDIA A100-SXM4-40GB", one a line. No such program, no such driver: no GPUs.
static void add_gpu_slots(struct rm *rm)
{
    enum { TIMEOUT_US = 20000000 };
    const char *argv[] = {"nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader", NULL};
    struct buf out = BUF_INIT(1 << 20);
    if (proc_run(argv, TIMEOUT_US, &out, NULL)) buf_clear(&out);
    for (struct str rest = buf_str(&out); rest.len && rm->n_slots < MAX_SLOTS;) {
        struct str line = str_cut(&rest, '\n');
        struct str uuid = trimmed(str_cut(&line, ',')), name = trimmed(line);
        if (!str_starts(uuid, STR("GPU-"))) continue;
        int id = (int)rm->n_slots++;
        rm->slots[id] = (struct rm_slot){.id = id,
                                         .uuid = arena_strndup(&rm->arena, uuid.ptr, uuid.len),
                                         .name = arena_strndup(&rm->arena, name.ptr, name.len)};
        rm->slot_cpus[id].id = id;
    }
    buf_done(&out);
}

int slots_find(struct rm *rm, int n_cpu_slots, det_err *err)
{
    if (n_cpu_slots < 0 || n_cpu_slots > MAX_SLOTS)
        return det_fail(err, DET_EINVAL, "there can be 1 to %d slots, not %d", MAX_SLOTS,
                        n_cpu_slots);
    rm->slots = arena_array(&rm->arena, MAX_SLOTS, sizeof *rm->slots);
    rm->slot_cpus = arena_array(&rm->arena, MAX_SLOTS, sizeof *rm->slot_cpus);
    if (n_cpu_slots == 0) add_gpu_slots(rm);
    if (rm->n_slots == 0) add_cpu_slots(rm, MAX(n_cpu_slots, 1));
    return det_ok(err);
}

const struct rm_slot *rm_slots(const struct rm *rm, size_t *n)
{
    *n = rm->n_slots;
    return rm->slots;
}

void rm_enable_slot(struct rm *rm, int id, bool enabled)
{
    if (id >= 0 && (size_t)id < rm->n_slots) rm->slots[id].disabled = !enabled;
}

void rm_put_slot(struct rm *rm, int id, int pool)
{
    if (id >= 0 && (size_t)id < rm->n_slots) rm->slots[id].pool = pool;
}

int rm_capacity(const struct rm *rm, int pool)
{
    int n = 0;
    for (size_t i = 0; i < rm->n_slots; i++)
        n += rm->slots[i].pool == pool && (!rm->slots[i].disabled || rm->slots[i].token);
    return n;
}

// --- who has them

int slots_choose(const struct rm *rm, int n, int pool, struct arena *arena, struct task_spec *out,
                 det_err *err)
{
    struct task_slot *chosen = arena_array(arena, (size_t)MAX(n, 0), sizeof *chosen);
    int n_free = 0;
    for (size_t i = 0; i < rm->n_slots; i++) {
        if (rm->slots[i].disabled || rm->slots[i].token || rm->slots[i].pool != pool) continue;
        if (n_free < n) chosen[n_free] = rm->slot_cpus[i];
        n_free++;
    }
    if (n_free < n)
        return det_fail(err, DET_ESTATE, "%d slots are wanted, but only %d are free", n, n_free);
    out->slots.items = chosen;
    out->slots.n = (size_t)n;
    return det_ok(err);
}

void slots_take(struct rm *rm, const struct task_spec *spec)
{
    for (size_t i = 0; i < spec->slots.n; i++) {
        int64_t id = spec->slots.items[i].id; // may be of a time when there were more
        if (id < (int64_t)rm->n_slots) rm->slots[id].token = spec->token;
    }
}

void slots_free(struct rm *rm, int64_t token)
{
    for (size_t i = 0; i < rm->n_slots; i++)
        if (rm->slots[i].token == token) rm->slots[i].token = 0;
}

// --- what a task is told of them

const char *slots_devices(const struct rm *rm, const struct task_spec *spec, struct arena *arena)
{
    struct buf text = BUF_INIT(1 << 20);
    if (!rm->slots[0].uuid) return NULL;
    buf_addz(&text, "CUDA_VISIBLE_DEVICES=");
    for (size_t i = 0; i < spec->slots.n; i++)
        buf_printf(&text, "%s%s", i ? "," : "", rm->slots[spec->slots.items[i].id].uuid);
    const char *entry = arena_strdup(arena, text.ptr);
    buf_done(&text);
    return entry;
}
