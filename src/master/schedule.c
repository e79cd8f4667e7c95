// Unit schedule.c: asks the scheduler whenever something has changed, and does what it says.
#include "master/state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sys/log.h"

enum { RETRY_US = 1000000 };

// The cluster as the scheduler sees it, and whom its requests stand for.
struct picture {
    struct arena arena;
    struct sched_view view;
    struct sched_agent agent;
    struct sched_group *groups;
    struct sched_request *requests;
    struct live_allocation **allocations; // of each request
    size_t n_groups, n_requests;
    bool has_plan;
    struct sched_plan plan;
};

static void add_request(struct picture *p, struct live_allocation *a, int group)
{
    struct sched_place *place = arena_alloc(&p->arena, sizeof *place);
    bool pending = a->row.state == ALLOCATION_PENDING;
    *place = (struct sched_place){0, (int)a->row.slots};
    p->allocations[p->n_requests] = a;
    p->requests[p->n_requests++] = (struct sched_request){
        .id = a->request_id,
        .group = group,
        .n_slots = (int)a->row.slots,
        .preemptible = pending || a->row.ready, // others would lose what they have done
        .one_agent = true,
        .state = pending                         ? SCHED_PENDING
                 : a->row.preempt || a->row.kill ? SCHED_STOPPING
                                                 : SCHED_RUNNING,
        .places = pending ? NULL : place,
        .n_places = !pending,
    };
}

// Of requests that are all alike no more can be granted at once than there are places; one more says
// who waits. That counts when there are a hundred thousand.
static void add_requests(struct picture *p, const struct live_experiment *e)
{
    int n = 1 + (e->cfg.resources.slots ? p->agent.n_slots : p->agent.n_aux);
    if (e->row.state != EXP_ACTIVE) return; // they will be taken back, see background.c
    for (struct live_allocation *a = e->first_request; a && n; a = a->next, n--)
        add_request(p, a, e->group);
}

static void add_group(struct picture *p, struct live_experiment *e)
{
    e->group = (int)p->n_groups++;
    const struct resources_config *r = &e->cfg.resources;
    p->groups[e->group] = (struct sched_group){
        .name = arena_printf(&p->arena, "experiment %lld", (long long)e->row.id),
        .priority = (int)e->job.priority,
        .position = (int64_t)e->job.position,
        .weight = e->job.weight,
        .max_slots = r->max_slots.is_set ? (int)r->max_slots.value : 0,
    };
}

static void take_picture(struct master *m, struct picture *p)
{
    *p = (struct picture){.agent = rm_agent(m->rm, 1)};
    size_t most = m->experiments.n * (size_t)(1 + MAX(p->agent.n_slots, p->agent.n_aux));
    size_t n = m->allocations.n + MIN(m->trials.n, most);
    p->groups = arena_array(&p->arena, m->experiments.n, sizeof *p->groups);
    p->requests = arena_array(&p->arena, n, sizeof *p->requests);
    p->allocations = arena_array(&p->arena, n, sizeof(struct live_allocation *));
    for (size_t i = 0; i < m->experiments.n; i++) {
        add_group(p, m->experiments.items[i].value);
        add_requests(p, m->experiments.items[i].value);
    }
    for (size_t i = 0; i < m->allocations.n; i++) {
        struct live_allocation *a = m->allocations.items[i].value;
        add_request(p, a, a->trial->experiment->group);
    }
    p->view = (struct sched_view){
        .policy = SCHED_PRIORITY,
        .preemption = true,
        .agents = &p->agent,
        .n_agents = 1,
        .groups = p->groups,
        .n_groups = p->n_groups,
        .requests = p->requests,
        .n_requests = p->n_requests,
    };
}

static void release(struct live_allocation *a)
{
    struct master *m = a->trial->experiment->master;
    struct db_tx *tx = db_tx_new(m->db);
    logs_say(a->trial, LOG_LEVEL_INFO, tx, "more important work needs the slots: asked to stop");
    allocation_preempt(a, false, tx);
    db_tx_submit_must(tx, NULL, NULL);
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
    struct sched_plan plan = sched_run(&p.view, &p.arena);
    for (size_t i = 0; i < p.n_requests; i++) {
        const struct sched_decision *d = &plan.decisions[i];
        if (d->action == SCHED_START)
            allocation_assign(p.allocations[i], d->backfilled);
        else if (d->action == SCHED_RELEASE)
            release(p.allocations[i]);
    }
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
    p->view.agents = &p->agent;
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
    if (!p->has_plan) p->plan = sched_run(&p->view, &p->arena);
    p->has_plan = true;
    sched_explain(&p->view, &p->plan, request, out);
}
