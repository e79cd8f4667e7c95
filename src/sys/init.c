// Unit init.c: the duties of a first process. Called by programs that run as one in containers.
#include "sys/init.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// The status of the child, once it has ended; -1 before.
static int reap(pid_t child)
{
    int status, result = -1;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == child) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

static _Noreturn void serve(pid_t child, const sigset_t *signals)
{
    for (int status = -1, signal;;) {
        if (sigwait(signals, &signal)) continue; // interrupted
        if (signal != SIGCHLD)
            kill(child, signal);
        else if ((status = reap(child)) >= 0)
            _exit(status);
    }
}

void init_stay_behind(void)
{
    if (getpid() != 1) return;
    sigset_t signals, before;
    sigemptyset(&signals);
    const int passed[] = {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&signals, passed[i]);
    sigprocmask(SIG_BLOCK, &signals, &before); // what arrives meanwhile waits
    pid_t child = fork();
    if (child > 0) serve(child, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL); // the child; or, without one, the program itself
}
