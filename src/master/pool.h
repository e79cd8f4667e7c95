// master/pool.h: pools of slots: what experiments choose one of. Private to the layer.
#pragma once

#include "master/state.h"

struct pool {
    const struct pool_config *cfg;
    int number;
    struct rm *rm; // that its slots are of
};

// After the resource managers.
void pools_open(struct master *m);

// NULL: there is none of that name; "" or NULL is that of the default pool. By any thread.
const struct pool *pool_find(const struct master *m, const char *name);

// Says which ones there are. DET_EINVAL.
int pool_unknown(const struct master *m, const char *name, det_err *err);

// That of an experiment of an earlier master, if it is still there.
void pool_restore(struct live_experiment *e);

// The slots and places of a pool and how they are given, without requests.
struct sched_view pool_view(const struct pool *p);
