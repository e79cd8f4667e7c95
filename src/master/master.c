// Unit master.c: from an empty or a used directory to a running master, and back.
#include "master/master.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "master/browser.h"
#include "master/erase.h"
#include "master/events.h"
#include "master/isolation.h"
#include "master/local.h"
#include "master/logs.h"
#include "master/past.h"
#include "master/pool.h"
#include "master/pull.h"
#include "master/routes.h"
#include "master/settings.h"
#include "master/state.h"
#include "master/sweep.h"
#include "sys/clock.h"
#include "sys/dir.h"
#include "sys/log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAKE_US = 1000000, CLEAN_EVERY = 600 };

// --- the data directory

static int make_dir(const char *path, mode_t mode, det_err *err)
{
    int fd = -1;
    int rc = dir_open(path, DIR_CREATE | DIR_DURABLE, &fd, err);
    if (!rc && fchmod(fd, mode) < 0)
        rc = det_fail(err, DET_EIO, "cannot protect '%s': %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return rc;
}

// Folders that earlier versions called otherwise. Nothing is lost if both are there.
static int rename_old_dirs(struct master *m, det_err *err)
{
    const char *old = arena_printf(&m->arena, "%s/contexts", m->data_dir);
    const char *path = arena_printf(&m->arena, "%s/code", m->data_dir);
    if (!access(path, F_OK) || access(old, F_OK) || !rename(old, path)) return 0;
    return det_fail(err, DET_EIO, "cannot rename '%s' to '%s': %s", old, path, strerror(errno));
}

static int make_dirs(struct master *m, det_err *err)
{
    static const char *const names[] = {"/code",  "/work",        "/run",
                                        "/trash", "/checkpoints", "/users"};
    char full[PATH_MAX]; // tasks look from elsewhere
    int rc = make_dir(m->data_dir, 0700, err);
    if (!rc && !realpath(m->data_dir, full))
        rc = det_fail(err, DET_EIO, "cannot find '%s': %s", m->data_dir, strerror(errno));
    if (!rc) m->data_dir = arena_strdup(&m->arena, full);
    if (!rc) rc = rename_old_dirs(m, err);
    for (size_t i = 0; !rc && i < STATIC_LEN(names); i++)
        rc = make_dir(arena_printf(&m->arena, "%s%s", m->data_dir, names[i]), 0700, err);
    if (!rc) rc = make_dir(arena_printf(&m->arena, "%s/public", m->data_dir), 0755, err);
    m->checkpoint_dir = arena_printf(&m->arena, "%s/checkpoints", m->data_dir);
    return rc;
}

// --- the database

static int64_t read_number(struct master *m, struct db_reader *r, const char *setting,
                           int64_t otherwise)
{
    const char *text;
    int64_t x;
    if (db_setting_find(r, setting, &m->arena, &text, NULL)) return otherwise;
    return number_to_int(str_from(text), 10, &x) ? x : otherwise;
}

static void read_cluster_id(struct master *m, struct db_reader *r)
{
    uint8_t random[16];
    char *text = arena_alloc(&m->arena, UUID_TEXT_BYTES);
    if (!db_setting_find(r, "cluster_id", &m->arena, &m->cluster_id, NULL)) return;
    randombytes_buf(random, sizeof random);
    uuid_format(uuid_v4(random), text);
    m->cluster_id = text;
    struct db_tx *tx = db_tx_new(m->db);
    db_setting_save(tx, "cluster_id", text);
    db_tx_submit_must(tx, NULL, NULL);
}

// Checkpoints of experiments that are older stay where they are.
static void read_user_storage(struct master *m, struct db_reader *r)
{
    char text[32];
    m->user_storage_from = read_number(m, r, "user_storage_from", 0);
    if (m->user_storage_from) return;
    m->user_storage_from = m->next_experiment;
    snprintf(text, sizeof text, "%lld", (long long)m->user_storage_from);
    struct db_tx *tx = db_tx_new(m->db);
    db_setting_save(tx, "user_storage_from", text);
    db_tx_submit_must(tx, NULL, NULL);
}

static void begin_work(struct master *m);

// What cannot be written can be read: the master goes on to answer, and says why it takes nothing.
// A file that is found to be damaged when it is opened is not even read from. A master whose work
// another one does has nothing to answer any more.
static void on_db_broken(struct master *m)
{
    db_refuses(m->db, &m->failure);
    log_error("%s", m->failure.msg);
    if (db_is_fenced(m->db)) loop_stop(m->loop);
    if (!db_is_damaged(m->db) || !m->checking) return;
    past_advise(&m->failure);
    loop_stop(m->loop);
}

static void on_db(void *ctx, uint32_t events)
{
    struct master *m = ctx;
    struct db_note note;
    (void)events;
    while (db_next_note(m->db, &note))
        note.is_problem ? log_warn("%s", note.text) : log_info("%s", note.text);
    db_dispatch(m->db);
    if (db_is_broken(m->db) && !m->failure.code) on_db_broken(m);
    if (m->checking && !db_is_checking(m->db)) begin_work(m);
}

static int open_file(struct master *m, det_err *err)
{
    const int64_t hour_us = INT64_C(3600) * 1000000;
    const char *path = arena_printf(&m->arena, "%s/det.db", m->data_dir);
    int rc = past_check(m->data_dir, path, err);
    if (!rc) rc = db_open(path, NULL, &m->db, err);
    if (!rc) db_keep_backups(m->db, arena_printf(&m->arena, "%s/backups", m->data_dir), hour_us);
    return rc;
}

static void on_standby(void *ctx, const char *holder)
{
    (void)ctx;
    log_info("standby: the database is used by %s; this master waits, and takes over when that one "
             "ends",
             holder);
}

static int open_server_db(struct master *m, det_err *err)
{
    char host[256] = "this machine";
    gethostname(host, sizeof host - 1);
    const struct db_opts opts = {
        .standby = on_standby,
        .stop_fd = m->opts.stop_fd,
        .holder = arena_printf(&m->arena, "the master on %s (process %d)", host, (int)getpid())};
    return db_open(m->cfg->db, &opts, &m->db, err);
}

static int open_db(struct master *m, struct db_reader **r, det_err *err)
{
    int rc = m->cfg->db ? open_server_db(m, err) : open_file(m, err);
    if (!rc) rc = db_reader_open(m->db, r, err);
    if (!rc) rc = db_next_ids(*r, &m->next_experiment, &m->next_trial, &m->next_user, err);
    if (rc) return rc;
    m->next_token = read_number(m, *r, "next_token", 1);
    read_cluster_id(m, *r);
    read_user_storage(m, *r);
    m->db_watch = (struct loop_watch){.fn = on_db, .ctx = m, .fd = db_fd(m->db)};
    return loop_watch(m->loop, &m->db_watch, EPOLLIN, err);
}

// --- the resource manager

static void on_rm(void *ctx, uint32_t events)
{
    struct master *m = ctx;
    struct rm_event event;
    (void)events;
    while (rm_next(m->rm, &event))
        allocation_on_rm(m, &event);
    schedule_soon(m);
}

static int open_rm(struct master *m, det_err *err)
{
    const struct rm_opts opts = {.root = arena_printf(&m->arena, "%s/run", m->data_dir),
                                 .shim = m->opts.shim,
                                 .n_cpu_slots = (int)m->cfg->slots.value};
    m->rm = rm_open(&opts, err);
    if (!m->rm) return err->code;
    pools_open(m);
    m->rm_watch = (struct loop_watch){.fn = on_rm, .ctx = m, .fd = rm_fd(m->rm)};
    return 0;
}

// A task needs a descriptor, a client another one. Most systems let a program have 1024 until it
// asks for more. Tasks inherit the number, and some programs go through all that they might have,
// so it is not made larger than anybody needs.
static void raise_file_limit(int64_t max_connections)
{
    const rlim_t wanted = MAX(16384, (rlim_t)max_connections * 8 / 5 + 1);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = MIN(limit.rlim_max, wanted);
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warn("cannot have more than %llu files open: %s", (unsigned long long)limit.rlim_cur,
                 strerror(errno));
}

// --- signals and time

static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void on_signal(void *ctx, uint32_t events)
{
    struct master *m = ctx;
    struct signalfd_siginfo info;
    (void)events;
    if (read(m->signal_watch.fd, &info, sizeof info) != sizeof info) return;
    if (info.ssi_signo == SIGHUP && has_terminal() == m->has_terminal) {
        settings_reload(m);
        listener_renew(m);
        return;
    }
    log_info("signal %u: the master stops; tasks go on", info.ssi_signo);
    loop_stop(m->loop);
}

// Before there are threads: they inherit the mask.
static sigset_t block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return set;
}

static int watch_signals(struct master *m, int fd, det_err *err)
{
    m->has_terminal = has_terminal();
    m->signal_watch = (struct loop_watch){.fn = on_signal, .ctx = m, .fd = fd};
    return loop_watch(m->loop, &m->signal_watch, EPOLLIN, err);
}

static void clean(struct master *m)
{
    const int64_t day_us = 24LL * 3600 * 1000000;
    int64_t now = clock_unix_us();
    struct db_tx *tx = db_tx_new(m->db);
    db_keys_forget(tx, now - 2 * day_us);
    sessions_end_expired(m, tx);
    db_tx_submit(tx, NULL, NULL);
    sweep_code(m);
    sweep_logs(m);
}

static void on_time(void *ctx)
{
    struct master *m = ctx;
    logs_wake_all(m);
    pull_waiting(m);
    if (m->n_ticks++ % CLEAN_EVERY == 0 && !db_refuses(m->db, NULL)) clean(m);
    loop_timer_set(m->loop, &m->housekeeping_timer, WAKE_US);
}

// --- all of it

// The database is whole: from now on tasks are followed, and files that nobody needs are removed.
static void begin_work(struct master *m)
{
    det_err err;
    m->checking = false;
    if (loop_watch(m->loop, &m->rm_watch, EPOLLIN, &err)) log_error("%s", err.msg);
    erase_resume(m);
    sweep_workdirs(m);
    sweep_trash(m);
    schedule_soon(m);
    loop_timer_set(m->loop, &m->housekeeping_timer, WAKE_US);
}

// What the database knows, into memory. Later on the loop never reads: see workers.c.
static int load(struct master *m, struct db_reader *r, det_err *err)
{
    int rc = local_first_user(m, r, err);
    if (!rc) rc = isolation_read_users(m, r, err);
    if (!rc) rc = open_rm(m, err);
    if (!rc) rc = listener_open(m, r, err);
    if (!rc) rc = master_restore(m, r, err);
    if (!rc) rc = sessions_load(m, r, err);
    return rc ? rc : local_announce(m, err);
}

// What the database cannot be read for is known before its check is over.
static int advise(int rc, det_err *err)
{
    if (rc == DET_ECORRUPT) past_advise(err);
    return rc;
}

static int open_all(struct master *m, det_err *err)
{
    struct db_reader *reader = NULL;
    int rc = make_dirs(m, err);
    if (!rc) rc = past_lock(m->data_dir, &m->lock_fd, err);
    if (!rc) rc = isolation_open(m, err); // before there are threads
    if (!rc) rc = advise(open_db(m, &reader, err), err);
    if (!rc) rc = workers_open(m, err);
    if (!rc) rc = auth_open(m, err);
    if (!rc) rc = advise(load(m, reader, err), err);
    db_reader_close(reader);
    return rc;
}

// What is under way is brought to its end; nothing new is begun, for nobody is listened to.
static void drain(struct master *m)
{
    if (!m->db || m->checking) return;
    do {
        db_wait(m->db); // first, for what becomes durable may give the workers something to do
    } while (workers_drain(m));
}

void master_free(struct master *m)
{
    if (!m) return;
    m->closes = true;
    drain(m);
    db_forbid_reading(false);
    launch_close(m);
    waiters_close(m);
    record_writes_close(m);
    http_server_free(m->server);
    workers_close(m);
    while (m->experiments.n) {
        struct live_experiment *e = m->experiments.items[0].value;
        set_remove(&m->experiments, e->row.id);
        experiment_free(e);
    }
    set_done(&m->experiments);
    set_done(&m->trials);
    set_done(&m->allocations);
    sessions_close(m);
    browser_close(m);
    events_close(m);
    auth_close(m);
    rm_close(m->rm);
    db_close(m->db);
    if (m->lock_fd >= 0) close(m->lock_fd);
    isolation_close(m);
    loop_free(m->loop);
    arena_done(&m->arena);
    free(m);
}

struct master *master_new(const struct master_opts *opts, det_err *err)
{
    struct master *m = xcalloc(1, sizeof *m);
    m->opts = *opts;
    m->lock_fd = -1;
    m->start_us = clock_unix_us();
    m->data_dir = arena_strdup(&m->arena, opts->data_dir);
    settings_open(m);
    m->housekeeping_timer = (struct loop_timer){.fn = on_time, .ctx = m};
    sessions_open(m);
    browser_open(m);
    m->loop = loop_new(err);
    schedule_start(m);
    m->checking = true; // until begin_work()
    if (m->loop && !open_all(m, err)) {
        db_forbid_reading(true); // this is the loop's thread
        if (!db_is_checking(m->db)) begin_work(m);
        return m;
    }
    master_free(m);
    return NULL;
}

// A standby that was told to end.
static int end_standby(int fd, int code)
{
    close(fd);
    return code == DET_ECANCELED ? 0 : code;
}

int master_run(const struct master_opts *given, det_err *err)
{
    sigset_t signals = block_signals();
    struct master_opts own = *given, *opts = &own;
    opts->stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    raise_file_limit(opts->config->limits.max_connections);
    struct master *m = master_new(opts, err);
    if (!m) return end_standby(opts->stop_fd, err->code);
    int rc = watch_signals(m, opts->stop_fd, err);
    if (!rc) {
        log_info("the master answers at %s", m->url);
        if (opts->ready) opts->ready(opts->ctx, m->url);
        loop_run(m->loop);
        if (m->failure.code) rc = det_fail(err, m->failure.code, "%s", m->failure.msg);
    }
    master_free(m);
    close(opts->stop_fd);
    return rc;
}
