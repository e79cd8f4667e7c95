// Unit fake_rm.c: the resource manager of tests/support/fake_rm.h.
#include "support/fake_rm.h"

#include "base/assert.h"
#include "base/mem.h"
#include <sys/eventfd.h>
#include <unistd.h>

enum { N_SLOTS = 4, N_AUX = 4 };

struct fake {
    struct rm_alloc seen;
    bool tell_started, tell_exited;
    int64_t code;
    struct fake *next; // started after it
};

struct rm {
    int wake;
    struct fake *first;
    struct rm_slot slots[N_SLOTS];
};

static struct fake **place_of(const struct rm *rm, int64_t token)
{
    struct fake **at = (struct fake **)(uintptr_t)&rm->first;
    while (*at && (*at)->seen.token != token)
        at = &(*at)->next;
    return at;
}

struct rm *rm_open(const struct rm_opts *opts, det_err *err)
{
    struct rm *rm = xcalloc(1, sizeof *rm);
    (void)opts, (void)err;
    rm->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (int i = 0; i < N_SLOTS; i++)
        rm->slots[i] = (struct rm_slot){.id = i, .name = "CPU"};
    return rm;
}

void rm_close(struct rm *rm)
{
    if (!rm) return;
    for (struct fake *f; (f = rm->first);) {
        rm->first = f->next;
        free(f);
    }
    close(rm->wake);
    free(rm);
}

int rm_fd(const struct rm *rm)
{
    return rm->wake;
}

bool rm_next(struct rm *rm, struct rm_event *out)
{
    eventfd_t n;
    for (struct fake *f = rm->first; f; f = f->next) {
        if (!f->tell_started && !f->tell_exited) continue;
        *out = (struct rm_event){.kind = f->tell_started ? RM_STARTED : RM_EXITED,
                                 .token = f->seen.token};
        out->exit = (struct task_exit){.token = f->seen.token,
                                       .end = f->code ? TASK_FAILED : TASK_SUCCEEDED,
                                       .code = f->code,
                                       .rank = -1};
        *(f->tell_started ? &f->tell_started : &f->tell_exited) = false;
        return true;
    }
    if (eventfd_read(rm->wake, &n)) return false;
    return false;
}

int rm_start(struct rm *rm, const struct rm_task *task, det_err *err)
{
    int n_free = 0;
    struct fake **last = place_of(rm, task->token);
    ASSERT(!*last && task->token > 0 && task->argv && task->argv[0] && task->n_slots >= 0);
    for (int i = 0; i < N_SLOTS; i++)
        n_free += !rm->slots[i].token && !rm->slots[i].disabled;
    if (n_free < task->n_slots) return det_fail(err, DET_ESTATE, "only %d slots", n_free);
    for (int i = 0, n = task->n_slots; i < N_SLOTS && n; i++) {
        if (rm->slots[i].token || rm->slots[i].disabled) continue;
        rm->slots[i].token = task->token;
        n--;
    }
    *last = xcalloc(1, sizeof **last);
    **last = (struct fake){.seen = {task->token, true, "/", task->n_slots}, .tell_started = true};
    eventfd_write(rm->wake, 1);
    return 0;
}

static void end(struct rm *rm, struct fake *f, int code)
{
    if (!f->seen.running) return;
    for (int i = 0; i < N_SLOTS; i++)
        if (rm->slots[i].token == f->seen.token) rm->slots[i].token = 0;
    f->seen.running = false;
    f->tell_exited = true;
    f->code = code;
    eventfd_write(rm->wake, 1);
}

bool fake_rm_exit(struct rm *rm, int code)
{
    struct fake *f = rm->first;
    while (f && !f->seen.running)
        f = f->next;
    if (f) end(rm, f, code);
    return f;
}

int rm_kill(struct rm *rm, int64_t token, enum rm_how how, det_err *err)
{
    struct fake *f = *place_of(rm, token);
    (void)how;
    if (!f) return det_fail(err, DET_ENOTFOUND, "no allocation %lld", (long long)token);
    end(rm, f, 1);
    return 0;
}

int rm_forget(struct rm *rm, int64_t token, const char *aside, det_err *err)
{
    (void)aside;
    struct fake **at = place_of(rm, token), *f = *at;
    (void)err;
    ASSERT(f && !f->seen.running);
    *at = f->next;
    free(f);
    return 0;
}

const struct rm_alloc *rm_find(const struct rm *rm, int64_t token)
{
    const struct fake *f = *place_of(rm, token);
    return f ? &f->seen : NULL;
}

size_t rm_count(const struct rm *rm)
{
    (void)rm;
    return 0;
}

const struct rm_alloc *rm_at(const struct rm *rm, size_t index)
{
    (void)index;
    return &rm->first->seen;
}

const struct rm_slot *rm_slots(const struct rm *rm, size_t *n)
{
    *n = N_SLOTS;
    return rm->slots;
}

void rm_enable_slot(struct rm *rm, int id, bool enabled)
{
    if (id >= 0 && id < N_SLOTS) rm->slots[id].disabled = !enabled;
}

void rm_put_slot(struct rm *rm, int id, int pool)
{
    if (id >= 0 && id < N_SLOTS) rm->slots[id].pool = pool;
}

int rm_capacity(const struct rm *rm, int pool)
{
    int n = 0;
    for (int i = 0; i < N_SLOTS; i++)
        n += rm->slots[i].pool == pool && (!rm->slots[i].disabled || rm->slots[i].token);
    return n;
}
