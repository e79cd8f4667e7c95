// Unit core.c: a det_core from init to close, and how its other parts reach the master.
#include "client/core.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/interrupt.h"
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

enum {
    ASK_PATIENCE_US = 600 * 1000000, // a master that restarts or moves is back by then
    ASK_FIRST_DELAY_US = 100000,
    ASK_LONGEST_DELAY_US = 5 * 1000000,
};

// --- those that are open, to be closed at exit

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static det_core *open_cores;

static void close_at_exit(void)
{
    for (;;) {
        pthread_mutex_lock(&open_lock);
        det_core *core = open_cores;
        pthread_mutex_unlock(&open_lock);
        if (!core) return;
        det_core_close(core, NULL);
    }
}

// A child that was forked (a worker that loads data) has copies of everything but the threads. It must
// not deliver reports a second time, nor keep the journal locked when its parent has died.
static void before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&open_lock);
}

static void after_fork_in_child(void)
{
    for (det_core *core = open_cores; core; core = core->next)
        if (core->journal) journal_disown(core->journal);
    open_cores = NULL; // nothing to close at exit
    pthread_mutex_unlock(&open_lock);
}

static void remember(det_core *core)
{
    static bool is_registered;
    pthread_mutex_lock(&open_lock);
    if (!is_registered) {
        atexit(close_at_exit);
        pthread_atfork(before_fork, after_fork, after_fork_in_child);
    }
    is_registered = true;
    core->owner = getpid();
    core->next = open_cores;
    open_cores = core;
    pthread_mutex_unlock(&open_lock);
}

static void forget(det_core *core)
{
    pthread_mutex_lock(&open_lock);
    det_core **at = &open_cores;
    while (*at && *at != core)
        at = &(*at)->next;
    if (*at) *at = core->next;
    pthread_mutex_unlock(&open_lock);
}

// --- paths

struct api_path core_trial_path(const det_core *core, const char *what)
{
    struct api_path path;
    snprintf(path.text, sizeof path.text, "/api/v1/trials/%lld/%s", (long long)core->info.trial_id,
             what);
    return path;
}

static const char *allocation_path(det_core *core, const char *what)
{
    struct buf path = BUF_INIT(4096);
    buf_addz(&path, "/api/v1/allocations/");
    http_encode(&path, str_from(core->settings.allocation));
    buf_printf(&path, "/%s", what);
    const char *out = arena_strdup(&core->arena, buf_str(&path).ptr);
    buf_done(&path);
    return out;
}

// --- talking to the master

int core_check_chief(const det_core *core, const char *what, det_err *err)
{
    if (!core->info.rank) return det_ok(err);
    return det_fail(err, DET_ESTATE, "%s is for rank 0 only; this is rank %d", what,
                    core->info.rank);
}

static int post(det_core *core, const char *path, struct str body, det_err *err)
{
    int rc = journal_add(core->journal, path, body, err);
    if (!rc && core->shipper) shipper_wake(core->shipper);
    return rc;
}

int core_mention(det_core *core, const char *path, const struct buf *body, det_err *err)
{
    if (!buf_ok(body)) return det_fail(err, DET_ELIMIT, "the report is too large");
    int rc = core->shipper ? shipper_take_error(core->shipper, err) : 0;
    return rc ? rc : post(core, path, buf_str(body), err);
}

int core_report(det_core *core, const char *path, const struct buf *body, det_err *err)
{
    int rc = core_mention(core, path, body, err);
    return rc ? rc : journal_sync(core->journal, err);
}

// False: somebody wants it to end.
static bool sleep_us(int64_t us)
{
    bool goes_on = !interrupted();
    for (; us > 0 && goes_on; us -= INTERRUPT_POLL_US) {
        struct timespec t = {.tv_nsec = MIN(us, (int64_t)INTERRUPT_POLL_US) * 1000};
        nanosleep(&t, NULL);
        goes_on = !interrupted();
    }
    return goes_on;
}

int core_persist(int (*once)(void *ctx, det_err *err), void *ctx, det_err *err)
{
    int64_t end_us = clock_mono_us() + ASK_PATIENCE_US, delay_us = ASK_FIRST_DELAY_US;
    for (;;) {
        int rc = once(ctx, err);
        if (!is_transient(rc) || clock_mono_us() > end_us) return rc;
        if (!sleep_us(delay_us)) return det_fail(err, DET_ECANCELED, "canceled");
        delay_us = delay_us < ASK_LONGEST_DELAY_US ? 2 * delay_us : delay_us;
    }
}

struct question {
    det_core *core;
    const char *path;
    struct arena *arena;
    struct doc **out;
};

static int ask_once(void *ctx, det_err *err)
{
    const struct question *q = ctx;
    const struct http_call call = {.path = q->path};
    return http_call_json(q->core->client, &call, q->arena, q->out, err);
}

int core_ask(det_core *core, const char *path, struct arena *arena, struct doc **out, det_err *err)
{
    return core_persist(ask_once, &(struct question){core, path, arena, out}, err);
}

void core_acknowledge_end(det_core *core)
{
    if (core->info.is_local || !core->journal || atomic_exchange(&core->has_acked, true)) return;
    post(core, core->ack_path, STR("{}"), NULL);
}

// --- init

static int open_journal(det_core *core, det_err *err)
{
    char name[96];
    int folder;
    int rc = dir_open(core->settings.folder, DIR_CREATE | DIR_DURABLE, &folder, err);
    if (rc) return rc;
    close(folder);
    if (core->info.rank) return det_ok(err);
    snprintf(name, sizeof name, "metrics-%lld-%ld.journal", (long long)clock_unix_us(),
             (long)getpid());
    return journal_create(arena_printf(&core->arena, "%s/%s", core->settings.folder, name),
                          &core->journal, err);
}

static int connect_to_master(det_core *core, det_err *err)
{
    const struct settings *s = &core->settings;
    const struct http_client_opts master = {.url = s->master,
                                            .token = s->token,
                                            .ca_file = s->ca_file,
                                            .cert_name = s->cert_name,
                                            .hint = HTTP_MASTER_HINT};
    core->client = http_client_new(&master, err);
    if (!core->client) return err->code;
    core->ack_path = allocation_path(core, "signals/ack_preemption");
    int rc = 0;
    if (core->journal) rc = shipper_start(core->journal, &master, &core->shipper, err);
    if (!rc && core->journal) // it can be asked to end from now on
        rc = post(core, allocation_path(core, "ready"), STR("{}"), err);
    if (!rc)
        rc = watcher_start(allocation_path(core, "signals/preemption"), &master, &core->watcher,
                           err);
    return rc;
}

static void core_free(det_core *core)
{
    watcher_stop(core->watcher);
    shipper_stop(core->shipper);
    journal_close(core->journal);
    http_client_free(core->client);
    store_close(core->store);
    arena_done(&core->arena);
    free(core);
}

det_core *det_core_init_with(const det_core_opts *opts, det_err *err)
{
    det_err local;
    if (!err) err = &local;
    det_core *core = xcalloc(1, sizeof *core);
    int rc = settings_read(opts, &core->arena, &core->settings, &core->info, err);
    if (!rc) rc = open_journal(core, err);
    if (!rc && !core->info.is_local) rc = connect_to_master(core, err);
    if (rc) {
        core_free(core);
        return NULL;
    }
    remember(core);
    det_ok(err);
    return core;
}

det_core *det_core_init(det_err *err)
{
    return det_core_init_with(&(det_core_opts){0}, err);
}

const det_core_info *det_core_get_info(const det_core *core)
{
    return &core->info;
}

// --- close

// On a cluster a journal that was delivered has no further use; a local one is the record.
static int close_journal(det_core *core, int64_t patience_us, det_err *err)
{
    struct journal *journal = core->journal;
    if (!journal) return det_ok(err);
    if (!core->shipper) return journal_sync(journal, err);
    int rc = shipper_drain(core->shipper, patience_us, err);
    int refused = shipper_take_error(core->shipper, rc ? NULL : err);
    shipper_stop(core->shipper);
    core->shipper = NULL;
    if (rc) return rc;
    core->journal = NULL;
    int removed = journal_remove(journal, refused ? NULL : err);
    return refused ? refused : removed;
}

int client_close(det_core *core, int64_t patience_us, det_err *err)
{
    if (!core || core->owner != getpid()) return det_ok(err); // of a forked child, it is a copy
    forget(core);
    // Having done all that was asked is not the same as having had enough: the searcher may yet ask
    // for more, and then the trial is started again.
    if (core->has_op && core->op.is_complete) core_acknowledge_end(core);
    int rc = close_journal(core, patience_us < 0 ? core->settings.patience_us : patience_us, err);
    core_free(core);
    return rc;
}

int det_core_close(det_core *core, det_err *err)
{
    return client_close(core, -1, err);
}

// --- pause

bool det_core_should_preempt(det_core *core)
{
    if (!core->watcher || !watcher_should_end(core->watcher)) return false;
    core_acknowledge_end(core); // who was told will end
    return true;
}

int det_core_wait_preempt(det_core *core, bool *out, det_err *err)
{
    if (core->watcher && !watcher_wait(core->watcher))
        return det_fail(err, DET_ECANCELED, "canceled");
    *out = det_core_should_preempt(core);
    return det_ok(err);
}
