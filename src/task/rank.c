// Unit rank.c: starts and watches one process of a task. Called by the shim.
#include "task/shim.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/mem.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *task_mark(struct arena *arena, const char *dir)
{
    return arena_printf(arena, "DET_RUN_DIR=%s", task_home(arena, dir));
}

// --- the environment

struct env {
    struct arena *arena;
    char **items; // up to a NULL
    size_t n;
};

static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strcspn(b, "=") == n && memcmp(a, b, n) == 0;
}

static void env_set(struct env *e, const char *entry)
{
    size_t i = 0;
    while (i < e->n && !same_name(e->items[i], entry))
        i++;
    if (i == e->n) e->n++;
    e->items[i] = arena_strdup(e->arena, entry);
}

static void env_set_int(struct env *e, const char *name, int64_t value)
{
    env_set(e, arena_printf(e->arena, "%s=%lld", name, (long long)value));
}

static void env_set_ranks(struct env *e, const struct ranks *all, int64_t rank)
{
    const struct task_spec *spec = all->spec;
    int64_t size = (int64_t)spec->slots.n;
    env_set(e, arena_printf(e->arena, "DET_RANKS_KEY=%s", all->key));
    env_set_int(e, "RANK", rank);
    env_set_int(e, "LOCAL_RANK", rank);
    env_set_int(e, "WORLD_SIZE", size);
    env_set_int(e, "LOCAL_WORLD_SIZE", size);
    env_set_int(e, "GROUP_RANK", 0);
    env_set_int(e, "GROUP_WORLD_SIZE", 1);
    env_set(e, "MASTER_ADDR=" TASK_ADDRESS);
    env_set_int(e, "MASTER_PORT", all->ports[0].number);
}

static const char *slot_ids(const struct task_spec *spec, struct arena *arena)
{
    struct buf text = BUF_INIT(1 << 20);
    struct json_writer w;
    json_init(&w, &text, 0);
    json_open_list(&w);
    for (size_t i = 0; i < spec->slots.n; i++)
        json_put_int(&w, spec->slots.items[i].id);
    json_close(&w);
    const char *entry = arena_printf(arena, "DET_SLOT_IDS=%s", text.ptr);
    buf_done(&text);
    return entry;
}

// What programs need to know of the machine, but nothing that somebody may have meant for himself.
// A name that ends with '*' stands for all that begin so.
static const char *const public_names[] = {
    "PATH",  "HOME",  "USER",  "LOGNAME", "SHELL",           "LANG",        "LANGUAGE",
    "LC_*",  "TZ",    "TERM",  "CC",      "LD_LIBRARY_PATH", "CUDA*",       "NVIDIA*",
    "ROCM*", "HIP_*", "OMP_*", "MKL_*",   "http_proxy",      "https_proxy", "no_proxy"};

static bool is_public(const char *entry)
{
    for (size_t i = 0; i < STATIC_LEN(public_names); i++) {
        struct str name = str_from(public_names[i]);
        bool is_family = str_ends(name, STR("*"));
        name.len -= is_family;
        if (str_starts(str_from(entry), name) && (is_family || entry[name.len] == '=')) return true;
    }
    return false;
}

// DET_*: of us as a program of det.
static bool is_inherited(const struct task_spec *spec, const char *entry)
{
    const struct sandbox *s = &spec->sandbox;
    bool is_for_others = s->guarded || s->mode == SANDBOX_USERS;
    if (spec->withheld && str_starts(str_from(entry), str_from(spec->withheld))) return false;
    return !str_starts(str_from(entry), STR("DET_")) && (!is_for_others || is_public(entry));
}

// Ours, as far as it is for the task; then what the task was given.
static char **make_env(const struct ranks *all, int64_t rank, struct arena *arena)
{
    enum { OUR_OWN = 24 };
    const struct task_spec *spec = all->spec;
    size_t n = 0;
    while (environ[n])
        n++;
    size_t cap = n + spec->env.n + OUR_OWN;
    struct env e = {.arena = arena, .items = arena_array(arena, cap, sizeof *e.items)};
    for (size_t i = 0; i < n; i++)
        if (is_inherited(spec, environ[i])) env_set(&e, environ[i]);
    for (int i = 0; i < TASK_N_PORTS && spec->slots.n; i++)
        env_set(&e, task_port_variable(arena, all->ports, i));
    for (size_t i = 0; i < spec->env.n; i++)
        env_set(&e, spec->env.items[i]);
    env_set(&e, slot_ids(spec, arena));
    env_set(&e, task_rendezvous(arena, spec));
    env_set(&e, task_mark(arena, all->dir));
    if (spec->rank_per_slot) env_set_ranks(&e, all, rank);
    return e.items;
}

// --- the new process

// All that the child needs, made before the fork.
struct plan {
    char **argv, **env;
    const char *workdir;
    cpu_set_t cpus;
    bool has_cpus;
    int output[2]; // writing ends
    int report;    // where the child says what went wrong
    pid_t shim;
    const struct sandbox_box *box;
};

struct failure {
    char what[64];
    int error;
    bool of_program; // else of the working directory
};

static void add_cpus(struct plan *p, const struct task_slot *slot)
{
    for (size_t i = 0; i < slot->cpus.n; i++) {
        int64_t cpu = slot->cpus.items[i];
        if (cpu < 0 || cpu >= CPU_SETSIZE) continue;
        CPU_SET((size_t)cpu, &p->cpus);
        p->has_cpus = true;
    }
}

static char **make_argv(const struct task_spec *spec, struct arena *arena)
{
    size_t n = 0, total = spec->launch.n + spec->argv.n;
    char **argv = arena_array(arena, total + 1, sizeof *argv);
    for (size_t i = 0; i < spec->launch.n; i++)
        argv[n++] = arena_strdup(arena, spec->launch.items[i]);
    for (size_t i = 0; i < spec->argv.n; i++)
        argv[n++] = arena_strdup(arena, spec->argv.items[i]);
    return argv;
}

static _Noreturn void give_up(const struct plan *p, const char *what, int error, bool of_program)
{
    struct failure f = {.error = error, .of_program = of_program};
    snprintf(f.what, sizeof f.what, "%s", what);
    ssize_t n = write(p->report, &f, sizeof f);
    _exit(n == sizeof f ? 127 : 126);
}

// Its own session; dies with the shim; only the processors of its slots, if the machine lets us.
// In a sandbox the parent cannot be seen, but there the first process ends with the shim, too.
static _Noreturn void run_child(const struct plan *p)
{
    sigset_t none;
    const char *what;
    sigemptyset(&none);
    setsid();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, 0);
    dup2(p->output[0], 1);
    dup2(p->output[1], 2);
    if (p->has_cpus) sched_setaffinity(0, sizeof p->cpus, &p->cpus);
    int error = sandbox_join(p->box, &what);
    if (error) give_up(p, what, error, true);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a change of user would have undone it
    if (!p->box->init && getppid() != p->shim) _exit(126);
    if (chdir(p->workdir) < 0) give_up(p, "change to the directory", errno, false);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = p->env; // where execvp looks for PATH
    execvp(p->argv[0], p->argv);
    give_up(p, "start", errno, true);
}

// Waits until the program runs, or the child says why it does not.
static int wait_for_exec(int report, const struct plan *p, det_err *err)
{
    struct failure f;
    ssize_t n;
    do
        n = read(report, &f, sizeof f);
    while (n < 0 && errno == EINTR);
    if (n == 0) return det_ok(err);
    if (n != sizeof f) f = (struct failure){.what = "start", .error = EIO, .of_program = true};
    errno = f.error;
    return fs_fail(err, f.what, f.of_program ? p->argv[0] : p->workdir);
}

static int fork_child(struct rank *r, struct plan *p, det_err *err)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) return fs_fail(err, "start", p->argv[0]);
    p->report = report[1];
    pid_t pid = fork();
    if (pid == 0) run_child(p);
    close(report[1]);
    int rc = pid < 0 ? fs_fail(err, "start", p->argv[0]) : wait_for_exec(report[0], p, err);
    close(report[0]);
    if (pid > 0 && rc) waitpid(pid, NULL, 0);
    if (!rc) r->pid = pid;
    return rc;
}

static int open_pipes(struct rank *r, struct plan *p)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) return -1;
        r->pipes[i] = ends[0];
        p->output[i] = ends[1];
        fcntl(ends[0], F_SETFL, O_NONBLOCK); // the reading end only: it is ours alone
    }
    return 0;
}

int rank_start(struct rank *r, const struct ranks *all, int64_t index, det_err *err)
{
    const struct task_spec *spec = all->spec;
    struct arena arena = ARENA_INIT;
    struct plan p = {.argv = make_argv(spec, &arena),
                     .env = make_env(all, index, &arena),
                     .workdir = spec->workdir ? spec->workdir : all->home,
                     .output = {-1, -1},
                     .shim = getpid(),
                     .box = &all->box};
    for (int64_t i = 0; i < (int64_t)spec->slots.n; i++)
        if (!spec->rank_per_slot || i == index) add_cpus(&p, &spec->slots.items[i]);
    int rc = open_pipes(r, &p) ? fs_fail(err, "start", p.argv[0]) : fork_child(r, &p, err);
    for (int i = 0; i < 2; i++)
        if (p.output[i] >= 0) close(p.output[i]);
    arena_done(&arena);
    return rc;
}

bool rank_check(struct rank *r)
{
    siginfo_t info = {0};
    if (!r->pid || r->ended) return false;
    if (waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
        return false;
    r->ended = true;
    bool returned = info.si_code == CLD_EXITED;
    r->code = returned ? info.si_status : -1;
    r->signal = returned ? 0 : info.si_status;
    return true;
}

void rank_signal(const struct rank *r, int signal)
{
    if (r->pid) kill(-r->pid, signal);
}

bool rank_read(struct rank *r, int stream, int64_t now_us)
{
    char bytes[64 << 10];
    ssize_t n = read(r->pipes[stream], bytes, sizeof bytes);
    if (n > 0) liner_add(&r->liners[stream], (struct str){bytes, (size_t)n}, now_us);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close(r->pipes[stream]);
        r->pipes[stream] = -1;
    }
    return n > 0;
}

void rank_drain(struct rank *r)
{
    for (int i = 0; i < 2; i++)
        while (r->pipes[i] >= 0 && rank_read(r, i, clock_mono_us()))
            ;
}
