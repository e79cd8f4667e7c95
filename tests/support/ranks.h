// tests/support/ranks.h: runs a function as several ranks, each in a process of its own, and tells
// what became of them.
#pragma once

#include "support/test.h"

#include "dist/dist.h"
#include "sys/port.h"
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

// How a rank starts; the return is its status.
struct rank_start {
    char key[64];
    int size;
    const int *sizes;  // what ranks think the size is; NULL: all know the true one
    int n_nodes;       // that they are on, as many on each; 0: one
    const char *nodes; // their addresses
    rank_fn fn;        // or
    int (*fn_env)(int rank, struct rank_result *mine); // finds the others by its environment
    void *user;
};

static inline int rank_main(const struct rank_start *s, int rank, struct rank_result *mine)
{
    struct dist *d = NULL;
    struct dist_opts opts = {.key = s->key,
                             .rank = rank,
                             .size = s->sizes ? s->sizes[rank] : s->size,
                             .timeout_us = 20000000,
                             .nodes = s->nodes};
    if (s->n_nodes > 1) {
        opts.local_size = s->size / s->n_nodes;
        opts.local_rank = rank % opts.local_size;
        opts.node = rank / opts.local_size;
    }
    dist_join(&opts, &d, &mine->err);
    int status = s->fn(d, rank, mine, s->user);
    dist_leave(d);
    return status;
}

static inline int rank_main_env(const struct rank_start *s, int rank, struct rank_result *mine)
{
    char text[16];
    setenv("DET_RANKS_KEY", s->key, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", s->size);
    setenv("WORLD_SIZE", text, 1);
    return s->fn_env(rank, mine);
}

// Results are valid until munmap, which tests leave to the end of the process.
static inline struct rank_result *ranks_start(struct rank_start s)
{
    struct rank_result *all = ranks_memory();
    pid_t pid[RANKS_MAX];
    ranks_new_key(s.key, sizeof s.key);
    fflush(NULL); // ranks end as programs do, so that sanitizers see what they have left
    for (int i = 0; i < s.size; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (!pid[i]) exit((s.fn ? rank_main : rank_main_env)(&s, i, &all[i]));
    }
    ranks_wait(pid, s.size, all);
    return all;
}

static inline struct rank_result *ranks_run_sizes(int n, const int *sizes, rank_fn fn, void *user)
{
    return ranks_start((struct rank_start){.size = n, .sizes = sizes, .fn = fn, .user = user});
}

// For programs that find the others by their environment, as det_init does. n may be 1.
static inline struct rank_result *ranks_run_env(int n, int (*fn)(int rank, struct rank_result *))
{
    return ranks_start((struct rank_start){.size = n, .fn_env = fn});
}

static inline struct rank_result *ranks_run(int n, rank_fn fn, void *user)
{
    return ranks_run_sizes(n, NULL, fn, user);
}

// On several nodes, which are all on this machine but know nothing of that.
static inline struct rank_result *ranks_run_nodes(int n_nodes, int n_each, rank_fn fn, void *user)
{
    struct port ports[RANKS_MAX];
    char nodes[RANKS_MAX * 32] = "";
    for (int i = 0; i < n_nodes; i++) {
        size_t n = strlen(nodes);
        assert_int_equal(port_take(&ports[i], NULL), 0);
        snprintf(nodes + n, sizeof nodes - n, "%s127.0.0.1:%d", i ? "," : "", ports[i].number);
    }
    struct rank_result *all = ranks_start((struct rank_start){
        .size = n_nodes * n_each, .n_nodes = n_nodes, .nodes = nodes, .fn = fn, .user = user});
    for (int i = 0; i < n_nodes; i++)
        port_return(&ports[i]);
    return all;
}

static inline void assert_ranks_fine(const struct rank_result *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].status) fail_msg("rank %d: status %d, '%s'", i, all[i].status, all[i].err.msg);
}
