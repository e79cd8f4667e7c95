// Unit pool.c: pools of slots.
#include "master/pool.h"

#include "base/mem.h"
#include "sys/log.h"

static int pool_of_slot(const struct master_config *cfg, int64_t id)
{
    int rest = -1;
    for (size_t i = 0; i < cfg->pools.n; i++) {
        const struct pool_config *p = &cfg->pools.items[i];
        if (!p->slot_ids.n) rest = (int)i;
        for (size_t k = 0; k < p->slot_ids.n; k++)
            if (p->slot_ids.items[k] == id) return (int)i;
    }
    return rest;
}

static void put_slots(struct master *m)
{
    size_t n;
    const struct rm_slot *slots = rm_slots(m->rm, &n);
    for (size_t i = 0; i < n; i++) {
        int pool = pool_of_slot(m->cfg, slots[i].id);
        rm_put_slot(m->rm, slots[i].id, pool);
        if (pool < 0)
            log_warn("slot %d is in no resource pool, so nothing runs on it", slots[i].id);
    }
    for (size_t i = 0; i < m->cfg->pools.n; i++)
        for (size_t k = 0; k < m->cfg->pools.items[i].slot_ids.n; k++)
            if (m->cfg->pools.items[i].slot_ids.items[k] >= (int64_t)n)
                log_warn("resource pool '%s': this machine has no slot %lld, but %zu, from 0 on",
                         m->cfg->pools.items[i].name,
                         (long long)m->cfg->pools.items[i].slot_ids.items[k], n);
}

void pools_open(struct master *m)
{
    const struct master_config *cfg = m->cfg;
    m->n_pools = cfg->pools.n;
    m->pools = arena_array(&m->arena, m->n_pools, sizeof *m->pools);
    for (size_t i = 0; i < m->n_pools; i++)
        m->pools[i] = (struct pool){&cfg->pools.items[i], (int)i, m->rm};
    put_slots(m);
}

const struct pool *pool_find(const struct master *m, const char *name)
{
    const char *usual = m->cfg->default_pool;
    if (!name || !*name) name = usual ? usual : m->pools[0].cfg->name;
    for (size_t i = 0; i < m->n_pools; i++)
        if (str_eqz(str_from(name), m->pools[i].cfg->name)) return &m->pools[i];
    return NULL;
}

int pool_unknown(const struct master *m, const char *name, det_err *err)
{
    struct buf names = BUF_INIT(DET_ERR_MSG_MAX / 2);
    for (size_t i = 0; i < m->n_pools; i++)
        buf_printf(&names, "%s'%s'", i ? ", " : "", m->pools[i].cfg->name);
    det_fail(err, DET_EINVAL, "resources.resource_pool: there is no pool '%.100s', only %s", name,
             buf_str(&names).ptr);
    buf_done(&names);
    return err->code;
}

void pool_restore(struct live_experiment *e)
{
    const char *asked = e->cfg.resources.resource_pool;
    e->pool = pool_find(e->master, e->row.resource_pool);
    if (!e->pool && !(asked && *asked)) e->pool = pool_find(e->master, NULL);
    if (!e->pool)
        log_warn("experiment %lld waits: the configuration has no resource pool '%s'",
                 (long long)e->row.id, e->row.resource_pool);
    else
        e->row.resource_pool = e->job.resource_pool = e->pool->cfg->name;
}

struct sched_view pool_view(const struct pool *p)
{
    static const enum sched_policy policies[] = {[SCHEDULER_PRIORITY] = SCHED_PRIORITY,
                                                 [SCHEDULER_FAIR_SHARE] = SCHED_FAIR_SHARE,
                                                 [SCHEDULER_ROUND_ROBIN] = SCHED_ROUND_ROBIN};
    return (struct sched_view){
        .policy = policies[p->cfg->scheduler.type],
        .preemption = p->cfg->scheduler.preemption,
        .n_slots = rm_capacity(p->rm, p->number),
        .n_aux = (int)p->cfg->max_aux_tasks,
    };
}
