// tests/support/ranks.h: runs a function as several ranks, each in a process of its own, and tells
// what became of them.
#pragma once

#include "support/test.h"

#include "dist/dist.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, RANK_KILLED = -1, RANK_WEIGHTS_MAX = 4096 };

// What a rank leaves behind; in memory shared with the test.
struct rank_result {
    int status;       // 0: fine; RANK_KILLED; else what it returned
    det_err err;      // for the rank to fill
    double number[8]; // the same
    int n_weights;    // the same
    float weight[RANK_WEIGHTS_MAX];
};

// Returns the status. dist is NULL if joining failed; then err says why.
typedef int (*rank_fn)(struct dist *d, int rank, struct rank_result *mine, void *user);

static inline void ranks_new_key(char *key, size_t n)
{
    static int n_keys;
    snprintf(key, n, "test-%ld-%d", (long)getpid(), n_keys++);
}

// The line of a check that failed is the status of a rank.
#define RANK_CHECK(cond) \
    if (!(cond)) return __LINE__ % 250 + 1

static inline struct rank_result *ranks_memory(void)
{
    struct rank_result *all = mmap(NULL, RANKS_MAX * sizeof *all, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    return all;
}

static inline void ranks_wait(const pid_t *pid, int n, struct rank_result *all)
{
    for (int left = n; left; left--) { // whoever comes: ranks wait for the one that failed
        int status, i = 0;
        pid_t ended = waitpid(-1, &status, 0);
        while (i < n && pid[i] != ended)
            i++;
        assert_true(i < n);
        all[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : RANK_KILLED;
    }
}

// sizes NULL: all ranks know the true one. Results are valid until munmap, which tests leave to the
// end of the process.
static inline struct rank_result *ranks_run_sizes(int n, const int *sizes, rank_fn fn, void *user)
{
    struct rank_result *all = ranks_memory();
    pid_t pid[RANKS_MAX];
    char key[64];
    ranks_new_key(key, sizeof key);
    fflush(NULL); // ranks end as programs do, so that sanitizers see what they have left
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i]) continue;
        struct dist *d = NULL;
        const struct dist_opts opts = {
            .key = key, .rank = i, .size = sizes ? sizes[i] : n, .timeout_us = 20000000};
        dist_join(&opts, &d, &all[i].err);
        int status = fn(d, i, &all[i], user);
        dist_leave(d);
        exit(status);
    }
    ranks_wait(pid, n, all);
    return all;
}

// The same for programs that find the others by their environment, as det_init does. n may be 1.
static inline struct rank_result *ranks_run_env(int n, int (*fn)(int rank, struct rank_result *))
{
    struct rank_result *all = ranks_memory();
    pid_t pid[RANKS_MAX];
    char key[64], text[16];
    ranks_new_key(key, sizeof key);
    fflush(NULL); // ranks end as programs do, so that sanitizers see what they have left
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i]) continue;
        setenv("DET_RANKS_KEY", key, 1);
        snprintf(text, sizeof text, "%d", i);
        setenv("RANK", text, 1);
        snprintf(text, sizeof text, "%d", n);
        setenv("WORLD_SIZE", text, 1);
        exit(fn(i, &all[i]));
    }
    ranks_wait(pid, n, all);
    return all;
}

static inline struct rank_result *ranks_run(int n, rank_fn fn, void *user)
{
    return ranks_run_sizes(n, NULL, fn, user);
}

static inline void assert_ranks_fine(const struct rank_result *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].status) fail_msg("rank %d: status %d, '%s'", i, all[i].status, all[i].err.msg);
}
