// Unit cmd_up.c: det up and det down: a master in the background.
#include "cli/cmd.h"

#include "base/assert.h"
#include "cli/remote.h"
#include "sys/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 10000, STOP_MS = 15000, STEP_MS = 10 };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

// Whether the master that the user started on this machine answers.
static bool answers(char *url, size_t size)
{
    struct arena arena = ARENA_INIT;
    const char *known = doc_text(home_master(&arena), "url");
    det_err err;
    const struct http_client_opts opts = {.url = known, .timeout_us = 1000000};
    struct http_client *client = *known ? http_client_new(&opts, &err) : NULL;
    bool ok = client && !http_call(client, &(struct http_call){.path = "/healthz"}, NULL, &err);
    if (client) http_client_free(client);
    snprintf(url, size, "%s", known);
    arena_done(&arena);
    return ok;
}

// In the child: its own session, output to the log, then 'det master' with the same options.
static void become_master(const struct call *call, const char *log)
{
    char self[PATH_MAX];
    char *argv[16] = {self, (char *)"master"};
    int n = 2;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0) _exit(127);
    self[len] = 0;
    for (int i = 0; i < call->n_given && n + 2 < 16; i++) {
        char *name = NULL;
        if (asprintf(&name, "--%s", call->given[i]->name) < 0) _exit(127);
        argv[n++] = name;
        argv[n++] = (char *)(uintptr_t)call->values[i];
    }
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0 || setsid() < 0) _exit(127);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(self, argv);
    _exit(127);
}

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

static int wait_for_start(pid_t pid, const char *log)
{
    char url[1024];
    int status;
    for (int ms = 0; ms < START_MS; ms += STEP_MS) {
        if (answers(url, sizeof url)) {
            struct buf line = BUF_INIT(8192);
            buf_printf(&line, "The master is at %s (process %d, log %s).\n", url, (int)pid, log);
            print_data(buf_str(&line));
            buf_done(&line);
            return EXIT_OK;
        }
        if (waitpid(pid, &status, WNOHANG) == pid) {
            print_error("the master did not start; see %s", log);
            return EXIT_FAILED;
        }
        pause_ms(STEP_MS);
    }
    print_error("the master does not answer after %d s; see %s", START_MS / 1000, log);
    return EXIT_FAILED;
}

static int run_up(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    char url[1024];
    int status = EXIT_FAILED;
    if (call_option(call, "data")) setenv("DET_HOME", call_option(call, "data"), 1);
    const char *home = home_dir(&arena);
    if (!home) {
        print_error("there is no place for data: give --data, or set DET_HOME or HOME");
    } else if (answers(url, sizeof url)) {
        struct buf line = BUF_INIT(8192);
        buf_printf(&line, "A master is running already, at %s.\n", url);
        print_data(buf_str(&line));
        buf_done(&line);
        status = EXIT_OK;
    } else if (make_home(home)) {
        const char *log = arena_printf(&arena, "%s/master.log", home);
        unlink(arena_printf(&arena, "%s/master.json", home)); // of one that is gone
        pid_t pid = fork();
        if (pid == 0) become_master(call, log);
        if (pid > 0) status = wait_for_start(pid, log);
        if (pid < 0) print_error("cannot start a process: %s", strerror(errno));
    }
    arena_done(&arena);
    return status;
}

static bool is_alive(pid_t pid)
{
    return !kill(pid, 0) || errno == EPERM;
}

static int stop(pid_t pid)
{
    if (kill(pid, SIGTERM)) {
        print_error("cannot stop process %d: %s", (int)pid, strerror(errno));
        return EXIT_FAILED;
    }
    for (int ms = 0; ms < STOP_MS && is_alive(pid); ms += STEP_MS)
        pause_ms(STEP_MS);
    if (is_alive(pid)) {
        print_error("the master (process %d) did not stop within %d s", (int)pid, STOP_MS / 1000);
        return EXIT_FAILED;
    }
    print_data(str_from("The master is stopped. Tasks that were running go on; 'det up' finds "
                        "them again.\n"));
    return EXIT_OK;
}

static int run_down(const struct call *call)
{
    struct arena arena = ARENA_INIT;
    char url[1024];
    int status = EXIT_OK;
    if (call_option(call, "data")) setenv("DET_HOME", call_option(call, "data"), 1);
    pid_t pid = (pid_t)doc_whole(home_master(&arena), "pid");
    if (pid > 0 && answers(url, sizeof url)) // else the number may be somebody else's by now
        status = stop(pid);
    else
        print_data(str_from("No master is running.\n"));
    arena_done(&arena);
    return status;
}

static const struct option up_options[] = {
    {"data", 'd', "DIR", "Where everything is kept; $DET_HOME or ~/.local/share/det if not given."},
    {"port", 'p', "N", "Port on the loopback interface; 8080 if not given, 0: any free one."},
    {"slots", 's', "N", "How many slots this machine has; its GPUs, or one, if not given."},
};

const struct command cmd_up = {
    .noun = "up",
    .args = "",
    .help = "Starts a master on this machine, in the background, unless one is running.",
    .example = "det up",
    .options = up_options,
    .n_options = STATIC_LEN(up_options),
    .run = run_up,
};

static const struct option down_options[] = {
    {"data", 'd', "DIR", "Where the master keeps everything."},
};

const struct command cmd_down = {
    .noun = "down",
    .args = "",
    .help = "Stops the master of this machine. Tasks go on without it.",
    .example = "det down",
    .options = down_options,
    .n_options = STATIC_LEN(down_options),
    .run = run_down,
};
