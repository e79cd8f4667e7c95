// Unit own_master.c: starts and stops masters.
#include "cli/own_master.h"

#include "args/args.h"
#include "cli/remote.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 10000, STOP_MS = 15000, STEP_MS = 10, MAX_ARGS = 64 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

bool own_master_answers(char *url, size_t size)
{
    struct arena arena = ARENA_INIT;
    const struct doc *master = home_master(&arena);
    const char *known = doc_text(master, "url");
    det_err err;
    struct http_client_opts opts = {.url = known, .timeout_us = 1000000};
    remote_trust(master, &opts);
    struct http_client *client = *known ? http_client_new(&opts, &err) : NULL;
    bool ok = client && !http_call(client, &(struct http_call){.path = "/healthz"}, NULL, &err);
    if (client) http_client_free(client);
    snprintf(url, size, "%s", known);
    arena_done(&arena);
    return ok;
}

// --- the configuration

// A line with the name of the file.
static const char *memory_of(const char *home, struct arena *arena)
{
    return arena_printf(arena, "%s/config-file", home);
}

// That 'det up' was given last. NULL: none.
static const char *remembered_config(struct arena *arena)
{
    const char *home = home_dir(arena), *file = NULL;
    struct buf text = BUF_INIT(PATH_MAX + 1);
    if (home && !fs_read(memory_of(home, arena), &text, NULL) && text.len > 1)
        file = arena_strndup(arena, text.ptr, strcspn(buf_str(&text).ptr, "\n"));
    buf_done(&text);
    return file;
}

// --- starting

static bool make_home(const char *home)
{
    det_err err;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/", home);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0700) && errno != EEXIST) {
            fs_fail(&err, "make the folder", path);
            print_error("%s", err.msg);
            return false;
        }
        *slash = '/';
    }
    return true;
}

bool own_master_keep_config(const char *file)
{
    struct arena arena = ARENA_INIT;
    const char *home = home_dir(&arena), *line = NULL;
    struct fs_writer w = FS_WRITER_INIT;
    det_err err;
    char full[PATH_MAX];
    int rc = 0;
    if (home && file && make_home(home)) {
        line = realpath(file, full) ? arena_printf(&arena, "%s\n", full) : NULL;
        rc = line ? fs_writer_open(&w, memory_of(home, &arena), &err) : fs_fail(&err, "open", file);
        if (!rc) rc = fs_writer_add(&w, line, strlen(line), &err);
        if (!rc) rc = fs_writer_commit(&w, &err);
        fs_writer_close(&w);
    } else if (home && unlink(memory_of(home, &arena)) && errno != ENOENT) {
        rc = fs_fail(&err, "remove", memory_of(home, &arena));
    }
    if (rc) print_error("%s", err.msg);
    arena_done(&arena);
    return !rc;
}

// In the child: its own session, so that Ctrl-C is ours alone, output to the log, then 'det
// master'.
static void become_master(const char *const *options, const char *config, enum own_master_life life,
                          const char *log)
{
    char self[PATH_MAX];
    const char *argv[MAX_ARGS + 1] = {self, "master"};
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0) _exit(127);
    self[len] = 0;
    int n = 2;
    if (config) {
        argv[n++] = "--config";
        argv[n++] = config; // one that follows counts instead
    }
    while (*options && n < MAX_ARGS)
        argv[n++] = *options++;
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0 || setsid() < 0) _exit(127);
    if (life == DIES_WITH_US && prctl(PR_SET_PDEATHSIG, SIGTERM)) _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(self, (char *const *)(uintptr_t)argv);
    _exit(127);
}

// What a master that ended said last.
static void report_end(const char *log)
{
    det_err err;
    struct buf text = BUF_INIT(64 << 20);
    const char *said = fs_read(log, &text, &err) ? "" : buf_str(&text).ptr;
    size_t end = strlen(said), start;
    while (end && said[end - 1] == '\n')
        end--;
    for (start = end; start && said[start - 1] != '\n';)
        start--;
    if (!strncmp(said + start, "det: ", 5)) start += 5; // we say that ourselves
    print_error("the master did not start: %.*s (all of it is in %s)", (int)(end - start),
                said + start, log);
    buf_done(&text);
}

static bool wait_for_start(pid_t pid, const char *log)
{
    char url[1024];
    for (int ms = 0; ms < START_MS; ms += STEP_MS, pause_ms(STEP_MS)) {
        if (own_master_answers(url, sizeof url)) return true;
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            report_end(log);
            return false;
        }
    }
    print_error("the master does not answer after %d s; see %s", START_MS / 1000, log);
    return false;
}

pid_t own_master_start(const char *const *options, enum own_master_life life)
{
    struct arena arena = ARENA_INIT;
    const char *home = home_dir(&arena);
    pid_t pid = 0;
    if (!home) {
        print_error("there is no place for data: give --data, or set DET_HOME or HOME");
    } else if (make_home(home)) {
        const char *log = arena_printf(&arena, "%s/master.log", home);
        unlink(arena_printf(&arena, "%s/master.json", home)); // of one that is gone
        const char *config = remembered_config(&arena);
        pid = fork();
        if (pid == 0) become_master(options, config, life, log);
        if (pid < 0) print_error("cannot start a process: %s", strerror(errno));
        if (pid < 0 || !wait_for_start(pid, log)) pid = 0;
    }
    arena_done(&arena);
    return pid;
}

// By a descriptor, which tells that it has ended even if nobody has asked for its status yet.
bool own_master_stop(pid_t pid)
{
    struct pollfd process = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    bool ended = false;
    if (process.fd < 0 || kill(pid, SIGTERM))
        print_error("cannot stop process %d: %s", (int)pid, strerror(errno));
    else if (!(ended = poll(&process, 1, STOP_MS) == 1))
        print_error("the master (process %d) did not stop within %d s", (int)pid, STOP_MS / 1000);
    if (process.fd >= 0) close(process.fd);
    waitpid(pid, NULL, WNOHANG); // it may be a child of ours
    return ended;
}
