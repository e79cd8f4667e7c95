// Unit schedule.c: asks the scheduler whenever something has changed, and does what it says.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/pool.h"
#include "sys/log.h"

enum { RETRY_US = 1000000 };

// The pools as the scheduler sees them, and whom their requests stand for. Requests have numbers
// over all pools.
struct pool_picture {
    struct sched_view view;
    size_t first; // request
    bool has_plan;
    struct sched_plan plan;
};

struct picture {
    struct arena arena;
    struct pool_picture *pools;
    size_t n_pools;
    struct sched_group *groups;
    struct sched_request *requests;
    struct live_allocation **allocations; // of each request
    size_t n_groups, n_requests;
};

static void add_request(struct picture *p, struct live_allocation *a, int group)
{
    bool pending = a->row.state == ALLOCATION_PENDING;
    p->allocations[p->n_requests] = a;
    p->requests[p->n_requests++] = (struct sched_request){
        .id = a->request_id,
        .group = group,
        .n_slots = (int)a->row.slots,
        .preemptible = pending || a->row.ready, // others would lose what they have done
        .state = pending                         ? SCHED_PENDING
                 : a->row.preempt || a->row.kill ? SCHED_STOPPING
                                                 : SCHED_RUNNING,
    };
}

static size_t most_requests(const struct sched_view *view, const struct live_experiment *e)
{
    return 1 + (size_t)(e->cfg.resources.slots ? view->n_slots : view->n_aux);
}

// Of requests that are all alike no more can be granted at once than there are places; one more says
// who waits. That counts when there are a hundred thousand.
static void add_requests(struct picture *p, const struct sched_view *view,
                         const struct live_experiment *e)
{
    size_t n = most_requests(view, e);
    if (e->row.state != EXP_ACTIVE) return; // they will be taken back, see background.c
    for (struct live_allocation *a = e->first_request; a && n; a = a->next, n--)
        add_request(p, a, e->group);
}

static void add_group(struct picture *p, struct live_experiment *e, size_t first)
{
    const struct resources_config *r = &e->cfg.resources;
    e->group = (int)(p->n_groups - first);
    p->groups[p->n_groups++] = (struct sched_group){
        .name = arena_printf(&p->arena, "experiment %lld", (long long)e->row.id),
        .priority = (int)e->job.priority,
        .position = (int64_t)e->job.position,
        .weight = e->job.weight,
        .max_slots = r->max_slots.is_set ? (int)r->max_slots.value : 0,
    };
}

static void take_pool(struct master *m, struct picture *p, size_t number)
{
    const struct pool *pool = &m->pools[number];
    struct pool_picture *shown = &p->pools[number];
    size_t first_group = p->n_groups;
    *shown = (struct pool_picture){.view = pool_view(pool), .first = p->n_requests};
    for (size_t i = 0; i < m->experiments.n; i++) {
        struct live_experiment *e = m->experiments.items[i].value;
        if (e->pool != pool) continue;
        add_group(p, e, first_group);
        add_requests(p, &shown->view, e);
    }
    for (size_t i = 0; i < m->allocations.n; i++) {
        struct live_allocation *a = m->allocations.items[i].value;
        if (a->trial->experiment->pool == pool) add_request(p, a, a->trial->experiment->group);
    }
    shown->view.groups = p->groups + first_group;
    shown->view.n_groups = p->n_groups - first_group;
    shown->view.requests = p->requests + shown->first;
    shown->view.n_requests = p->n_requests - shown->first;
}

static size_t count_requests(struct master *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->experiments.n; i++) {
        const struct live_experiment *e = m->experiments.items[i].value;
        struct sched_view view = e->pool ? pool_view(e->pool) : (struct sched_view){0};
        n += MIN((size_t)e->n_requests, most_requests(&view, e));
    }
    return n + m->allocations.n;
}

static void take_picture(struct master *m, struct picture *p)
{
    size_t n = count_requests(m);
    *p = (struct picture){.n_pools = m->n_pools};
    p->pools = arena_array(&p->arena, m->n_pools, sizeof *p->pools);
    p->groups = arena_array(&p->arena, m->experiments.n, sizeof *p->groups);
    p->requests = arena_array(&p->arena, n, sizeof *p->requests);
    p->allocations = arena_array(&p->arena, n, sizeof(struct live_allocation *));
    for (size_t i = 0; i < m->n_pools; i++)
        take_pool(m, p, i);
}

static void release(struct live_allocation *a)
{
    struct master *m = a->trial->experiment->master;
    struct db_tx *tx = db_tx_new(m->db);
    logs_say(a->trial, LOG_LEVEL_INFO, tx, "more important work needs the slots: asked to stop");
    allocation_preempt(a, false, tx);
    db_tx_submit_must(tx, NULL, NULL);
}

static void run_pool(struct picture *p, const struct pool_picture *pool)
{
    struct sched_plan plan = sched_run(&pool->view, &p->arena);
    for (size_t i = 0; i < pool->view.n_requests; i++) {
        const struct sched_decision *d = &plan.decisions[i];
        struct live_allocation *a = p->allocations[pool->first + i];
        if (d->action == SCHED_START)
            allocation_assign(a, d->backfilled);
        else if (d->action == SCHED_RELEASE)
            release(a);
    }
}

static void run(void *ctx)
{
    struct master *m = ctx;
    struct picture p;
    if (m->checking || db_refuses(m->db, NULL)) { // what is started could not be remembered
        loop_timer_set(m->loop, &m->schedule_timer, RETRY_US);
        return;
    }
    take_picture(m, &p);
    for (size_t i = 0; i < p.n_pools; i++)
        run_pool(&p, &p.pools[i]);
    arena_done(&p.arena);
}

void schedule_start(struct master *m)
{
    m->schedule_timer = (struct loop_timer){.fn = run, .ctx = m};
}

void schedule_soon(struct master *m)
{
    loop_timer_set(m->loop, &m->schedule_timer, 0);
}

// --- for people

struct picture *picture_take(struct master *m)
{
    struct picture *p = xcalloc(1, sizeof *p);
    take_picture(m, p);
    return p;
}

void picture_free(struct picture *p)
{
    if (!p) return;
    arena_done(&p->arena);
    free(p);
}

size_t picture_find(const struct picture *p, const struct live_allocation *a)
{
    size_t found = PICTURE_NONE; // this one, or else one like it
    for (size_t i = 0; i < p->n_requests; i++) {
        if (p->allocations[i] == a) return i;
        if (p->requests[i].state == SCHED_PENDING &&
            p->allocations[i]->trial->experiment == a->trial->experiment)
            found = i;
    }
    return found;
}

void picture_explain(struct picture *p, size_t request, struct buf *out)
{
    if (request == PICTURE_NONE) return;
    struct pool_picture *pool = p->pools;
    while (request >= pool->first + pool->view.n_requests)
        pool++;
    if (!pool->has_plan) pool->plan = sched_run(&pool->view, &p->arena);
    pool->has_plan = true;
    sched_explain(&pool->view, &pool->plan, request - pool->first, out);
}
