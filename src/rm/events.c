// Unit events.c: what happens to allocations, told one by one. Called by the owner's loop.
#include "rm/manager.h"

#include "base/assert.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

static void note_file(struct rm *rm, struct alloc *a, const char *name)
{
    if (str_eqz(str_from(name), "shim.json")) alloc_note_ready(rm, a);
    if (str_starts(str_from(name), STR("log."))) a->tell_log = true;
}

// The kernel drops events when there are too many: then anything may have happened.
static void note_anything(struct rm *rm)
{
    struct proc_id id;
    for (size_t i = 0; i < rm->n_allocs; i++) {
        struct alloc *a = rm->allocs[i];
        if (!a->seen.running) continue;
        a->tell_log = true;
        if (!task_shim_load(a->seen.dir, &id, NULL)) alloc_note_ready(rm, a);
    }
}

static void note_file_event(struct rm *rm, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW) note_anything(rm);
    if (!e->len) return;
    for (size_t i = 0; i < rm->n_allocs; i++)
        if (rm->allocs[i]->watch == e->wd) note_file(rm, rm->allocs[i], e->name);
}

static void read_file_events(struct rm *rm)
{
    enum { MAX_READS = 64 }; // what is left is there the next time
    _Alignas(struct inotify_event) char bytes[16 << 10];
    ssize_t n;
    for (int i = 0; i < MAX_READS && (n = read(rm->inotify, bytes, sizeof bytes)) > 0; i++)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(bytes + at);
            note_file_event(rm, e);
            at += (ssize_t)(sizeof *e + e->len);
        }
}

static void note_shim_end(struct rm *rm, int pidfd)
{
    for (size_t i = 0; i < rm->n_allocs; i++) {
        struct alloc *a = rm->allocs[i];
        if (a->pidfd != pidfd) continue;
        alloc_conclude(rm, a, proc_reap(pidfd));
    }
}

// Files before ends: that a shim was ready is told before that it is gone.
static void look(struct rm *rm)
{
    enum { AT_ONCE = 64 };
    struct epoll_event ready[AT_ONCE];
    eventfd_t ignored;
    int n = epoll_wait(rm->epoll, ready, AT_ONCE, 0);
    eventfd_read(rm->wake, &ignored);
    read_file_events(rm);
    for (int i = 0; i < n; i++)
        if (ready[i].data.fd != rm->wake && ready[i].data.fd != rm->inotify)
            note_shim_end(rm, ready[i].data.fd);
    for (size_t i = 0; i < rm->n_allocs; i++)
        alloc_finish(rm, rm->allocs[i]);
}

static bool tell(struct alloc *a, struct rm_event *out)
{
    bool *const flags[] = {&a->tell_started, &a->tell_log, &a->tell_exited};
    static const enum rm_event_kind kinds[] = {RM_STARTED, RM_LOG, RM_EXITED};
    for (size_t i = 0; i < STATIC_LEN(flags); i++) {
        if (!*flags[i]) continue;
        *flags[i] = false;
        *out = (struct rm_event){.kind = kinds[i], .token = a->seen.token};
        if (kinds[i] == RM_EXITED) out->exit = a->exit;
        return true;
    }
    return false;
}

static bool tell_next(struct rm *rm, struct rm_event *out)
{
    for (size_t i = 0; i < rm->n_allocs; i++) {
        size_t at = (rm->turn + i) % rm->n_allocs;
        if (!tell(rm->allocs[at], out)) continue;
        rm->turn = at;
        return true;
    }
    return false;
}

// Looks once: a task that prints without a pause could keep the owner here for ever. What comes
// meanwhile makes the descriptor readable again.
bool rm_next(struct rm *rm, struct rm_event *out)
{
    if (tell_next(rm, out)) return true;
    if (!rm->looked) look(rm);
    rm->looked = !rm->looked && tell_next(rm, out);
    return rm->looked;
}
