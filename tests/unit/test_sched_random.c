// Random events against sched/: what must hold after each of them. Every tick is one event: work
// ends, arrives, is cancelled, operators change things; then a pass is made and carried out.
//
//     test_sched_random [EVENTS]
#include "base/assert.h"
#include "base/number.h"
#include "base/rng.h"
#include "sched/sched.h"
#include "support/test.h"

enum {
    MAX_SLOTS = 32,
    MAX_GROUPS = 8,
    MAX_REQUESTS = 24,
    MAX_RUN = 40,  // ticks that work runs
    MAX_STOP = 10, // ticks until released work has stopped
    N_AUX = 3,
    WORLD_TICKS = 2000, // then another cluster with another policy
    ROUNDS = 4,         // of (MAX_RUN + MAX_STOP) ticks in which a debt must be paid
};

static int64_t n_events = 100000;

struct task {
    struct sched_request request;
    int64_t end; // tick at which it ends or has stopped
    int64_t waits_since;
};

struct sim {
    uint64_t seed, n_random, digest;
    int64_t tick, next_id;
    struct sched_group groups[MAX_GROUPS];
    struct task tasks[MAX_REQUESTS];
    struct sched_request requests[MAX_REQUESTS];
    struct sched_view view;
    struct sched_plan plan; // in the arena, until the next pass
    struct arena arena;
    int64_t owner[MAX_SLOTS]; // request id in each slot; 0: free
    int64_t n_start, n_release, n_backfill, longest_wait;
};

static int pick(struct sim *s, int n)
{
    return (int)rng_below(s->seed, 1, s->n_random++, (uint64_t)n);
}

static void new_group(struct sim *s, int g)
{
    s->groups[g] = (struct sched_group){
        .name = "group",
        .priority = 1 + pick(s, 3),
        .position = s->tick * MAX_GROUPS + g,
        .weight = 1 + pick(s, 4),
        .max_slots = pick(s, 5) ? 0 : 1 + pick(s, 8),
    };
}

static void new_world(struct sim *s)
{
    s->view = (struct sched_view){
        .policy = (enum sched_policy)pick(s, 4),
        .preemption = pick(s, 3) > 0,
        .n_slots = 1 + pick(s, MAX_SLOTS),
        .n_aux = pick(s, N_AUX),
        .max_waiting = 1 + pick(s, 4),
        .groups = s->groups,
        .n_groups = MAX_GROUPS,
        .requests = s->requests,
    };
    for (int g = 0; g < MAX_GROUPS; g++)
        new_group(s, g);
    memset(s->owner, 0, sizeof s->owner);
}

// --- events

static bool group_is_empty(const struct sim *s, int g)
{
    for (size_t i = 0; i < s->view.n_requests; i++)
        if (s->tasks[i].request.group == g) return false;
    return true;
}

static void submit(struct sim *s)
{
    if (s->view.n_requests == MAX_REQUESTS) return;
    int group = pick(s, MAX_GROUPS);
    if (group_is_empty(s, group)) new_group(s, group);
    struct task *t = &s->tasks[s->view.n_requests++];
    *t = (struct task){
        .request = {.id = ++s->next_id,
                    .group = group,
                    .n_slots = pick(s, 6) ? 1 + pick(s, 4) * pick(s, 4) : 0,
                    .preemptible = pick(s, 3) > 0},
        .waits_since = -1,
    };
}

static void free_slots(struct sim *s, int64_t id)
{
    for (int k = 0; k < MAX_SLOTS; k++)
        if (s->owner[k] == id) s->owner[k] = 0;
}

static void remove_task(struct sim *s, int i)
{
    free_slots(s, s->tasks[i].request.id);
    s->tasks[i] = s->tasks[--s->view.n_requests];
}

// Preempted work comes back with its old id, most of the time.
static void end_task(struct sim *s, int i)
{
    struct task *t = &s->tasks[i];
    if (t->request.state == SCHED_RUNNING || pick(s, 4) == 0) {
        remove_task(s, i);
        return;
    }
    free_slots(s, t->request.id);
    t->request.state = SCHED_PENDING;
}

static void end_due_tasks(struct sim *s)
{
    for (int i = (int)s->view.n_requests - 1; i >= 0; i--)
        if (s->tasks[i].request.state != SCHED_PENDING && s->tasks[i].end <= s->tick)
            end_task(s, i);
}

// Promises about waiting hold while the cluster stays as it is.
static void forget_waits(struct sim *s)
{
    for (size_t i = 0; i < s->view.n_requests; i++)
        s->tasks[i].waits_since = -1;
}

static void operate(struct sim *s)
{
    struct sched_group *g = &s->groups[pick(s, MAX_GROUPS)];
    switch (pick(s, 4)) {
    case 0:
        s->view.draining = !s->view.draining;
        break;
    case 1:
        g->priority = 1 + pick(s, 3);
        break;
    case 2:
        g->position = pick(s, 2) ? -s->tick : s->tick * MAX_GROUPS;
        break;
    default:
        g->max_slots = pick(s, 2) ? 0 : 1 + pick(s, 8);
    }
    forget_waits(s);
}

static void make_event(struct sim *s, bool calm)
{
    end_due_tasks(s);
    if (calm) return;
    int kind = pick(s, 100);
    if (kind < 60)
        submit(s);
    else if (kind < 65 && s->view.n_requests)
        remove_task(s, pick(s, (int)s->view.n_requests));
    else if (kind < 66)
        operate(s);
}

// --- what must hold of a plan

static bool is_ahead(const struct sim *s, int i, int k)
{
    const struct sched_request *x = &s->requests[i], *y = &s->requests[k];
    const struct sched_group *a = &s->groups[x->group], *b = &s->groups[y->group];
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->position != b->position) return a->position < b->position;
    return x->group != y->group ? x->group < y->group : x->id < y->id;
}

static bool is_held_back(const struct sim *s, int i) // and stands in nobody's way
{
    enum sched_why why = s->plan.decisions[i].why;
    return why == SCHED_WHY_CAP || why == SCHED_WHY_NEVER || why == SCHED_WHY_DRAINING;
}

static bool waits(const struct sim *s, int i)
{
    return s->plan.decisions[i].action == SCHED_WAIT && !is_held_back(s, i);
}

static int count_aux(const struct sim *s)
{
    int n = 0;
    for (size_t i = 0; i < s->view.n_requests; i++) {
        const struct sched_request *r = &s->tasks[i].request;
        n += r->n_slots == 0 && r->state != SCHED_PENDING;
    }
    return n;
}

// Takes real slots: fails if there are not enough free ones. Whoever hands requests on has none.
static void check_start(struct sim *s, int i)
{
    const struct sched_request *r = &s->requests[i];
    int left = s->view.policy == SCHED_HAND_ON ? 0 : r->n_slots;
    assert_int_equal(r->state, SCHED_PENDING);
    assert_false(s->view.draining);
    for (int k = 0; k < s->view.n_slots && left; k++) {
        if (s->owner[k]) continue;
        s->owner[k] = r->id;
        left--;
    }
    if (left) fail_msg("seed %ld tick %ld: a slot is shared", (long)s->seed, (long)s->tick);
}

static void check_waiting_elsewhere(const struct sim *s)
{
    int n[2] = {0}, n_new[2] = {0};
    for (size_t i = 0; i < s->view.n_requests; i++) {
        bool starts = s->plan.decisions[i].action == SCHED_START, aux = !s->requests[i].n_slots;
        n[aux] += starts || s->requests[i].waits_elsewhere;
        n_new[aux] += starts;
    }
    for (int aux = 0; aux < 2; aux++)
        assert_true(!n_new[aux] || n[aux] <= s->view.max_waiting);
}

static void check_max_slots(const struct sim *s, int group)
{
    int used = 0, started = 0;
    for (size_t i = 0; i < s->view.n_requests; i++) {
        const struct sched_request *r = &s->requests[i];
        if (r->group != group) continue;
        bool starts = s->plan.decisions[i].action == SCHED_START;
        if (starts || r->state != SCHED_PENDING) used += r->n_slots;
        if (starts) started += r->n_slots;
    }
    int cap = s->groups[group].max_slots;
    if (cap && started) assert_true(used <= cap);
}

// Nothing passes what waits, except preemptible work; nothing stops but for work ahead of it.
static void check_priorities(const struct sim *s, int i)
{
    const struct sched_request *r = &s->requests[i];
    enum sched_action action = s->plan.decisions[i].action;
    bool passes = false, gives_way = false;
    for (int k = 0; k < (int)s->view.n_requests; k++) {
        bool same_kind = (s->requests[k].n_slots == 0) == (r->n_slots == 0);
        if (!same_kind || !waits(s, k) || !is_ahead(s, k, i)) continue;
        passes = true;
        gives_way |= s->plan.decisions[k].why == SCHED_WHY_FREEING;
    }
    if (action == SCHED_START && passes) assert_true(r->preemptible && s->view.preemption);
    if (action == SCHED_START) assert_int_equal(s->plan.decisions[i].backfilled, passes);
    int cap = s->groups[r->group].max_slots;
    if (action == SCHED_RELEASE && !cap) assert_true(gives_way && s->view.preemption);
}

static void check_release(const struct sim *s, int i)
{
    assert_int_equal(s->requests[i].state, SCHED_RUNNING);
    assert_true(s->requests[i].preemptible);
    assert_int_not_equal(s->view.policy, SCHED_ROUND_ROBIN);
    assert_int_not_equal(s->view.policy, SCHED_HAND_ON);
}

// The waiting request that is owed the next room, by the promise of the policy; -1: none.
static int first_waiting(const struct sim *s)
{
    int first = -1;
    for (int i = 0; i < (int)s->view.n_requests; i++) {
        if (!waits(s, i) || s->requests[i].n_slots == 0) continue;
        if (first < 0 || is_ahead(s, i, first)) first = i;
    }
    return first;
}

static int slots_of_group(const struct sim *s, int group)
{
    int n = 0;
    for (size_t i = 0; i < s->view.n_requests; i++)
        if (s->requests[i].group == group && s->requests[i].state == SCHED_RUNNING)
            n += s->requests[i].n_slots;
    return n;
}

static bool has_turn_before(const struct sim *s, int i, int k)
{
    int x = slots_of_group(s, s->requests[i].group), y = slots_of_group(s, s->requests[k].group);
    return x != y ? x < y : is_ahead(s, i, k);
}

static bool is_owed_room(const struct sim *s, int i)
{
    const struct sched_decision *d = &s->plan.decisions[i];
    if (!waits(s, i) || s->requests[i].n_slots == 0) return false;
    if (s->view.policy == SCHED_FAIR_SHARE) return d->why == SCHED_WHY_SLOTS;
    if (s->view.policy == SCHED_HAND_ON) return false; // the other scheduler decides
    for (int k = 0; k < (int)s->view.n_requests; k++) {
        bool starts = d[k - i].action == SCHED_START && s->requests[k].n_slots;
        if (starts && is_ahead(s, k, i) && s->view.policy == SCHED_PRIORITY) return false;
        bool contends = starts || (waits(s, k) && s->requests[k].n_slots);
        if (s->view.policy == SCHED_ROUND_ROBIN && contends && k != i && has_turn_before(s, k, i))
            return false;
    }
    return s->view.policy == SCHED_ROUND_ROBIN || first_waiting(s) == i;
}

static void check_waits(struct sim *s)
{
    for (int i = 0; i < (int)s->view.n_requests; i++) {
        struct task *t = &s->tasks[i];
        if (!is_owed_room(s, i)) {
            t->waits_since = -1;
            continue;
        }
        if (t->waits_since < 0) t->waits_since = s->tick;
        int64_t waited = s->tick - t->waits_since;
        s->longest_wait = MAX(s->longest_wait, waited);
        int64_t bound = (MAX_RUN + MAX_STOP) * (s->view.policy == SCHED_PRIORITY ? 1 : ROUNDS);
        if (waited > bound)
            fail_msg("seed %ld tick %ld: policy %d starves a request of %d slots", (long)s->seed,
                     (long)s->tick, s->view.policy, s->requests[i].n_slots);
    }
}

static void check_plan(struct sim *s)
{
    for (int i = 0; i < (int)s->view.n_requests; i++) {
        if (s->view.policy == SCHED_PRIORITY) check_priorities(s, i);
        if (s->plan.decisions[i].action == SCHED_RELEASE) check_release(s, i);
    }
    for (int g = 0; g < MAX_GROUPS; g++)
        check_max_slots(s, g);
    if (s->view.policy == SCHED_HAND_ON) check_waiting_elsewhere(s);
    check_waits(s);
}

// --- carrying a plan out

static void carry_out(struct sim *s, int i)
{
    struct task *t = &s->tasks[i];
    const struct sched_decision *d = &s->plan.decisions[i];
    s->digest = rng_u64(s->digest, (uint64_t)d->action, (uint64_t)t->request.id);
    if (d->action == SCHED_RELEASE) {
        t->request.state = SCHED_STOPPING;
        t->end = MIN(t->end, s->tick + 1 + pick(s, MAX_STOP));
        s->n_release++;
    } else if (d->action == SCHED_START) {
        check_start(s, i);
        t->request.state = SCHED_RUNNING;
        t->request.waits_elsewhere = s->view.policy == SCHED_HAND_ON;
        t->end = s->tick + 1 + pick(s, MAX_RUN);
        s->n_start++;
        s->n_backfill += d->backfilled;
    }
}

static void make_pass(struct sim *s)
{
    arena_done(&s->arena);
    for (size_t i = 0; i < s->view.n_requests; i++) {
        struct sched_request *r = &s->tasks[i].request;
        if (r->waits_elsewhere && (r->state != SCHED_RUNNING || !pick(s, 8)))
            r->waits_elsewhere = false;
        s->requests[i] = *r;
    }
    s->plan = sched_run(&s->view, &s->arena);
    check_plan(s);
    for (int i = 0; i < (int)s->view.n_requests; i++)
        carry_out(s, i);
    assert_true(s->view.policy == SCHED_HAND_ON || count_aux(s) <= s->view.n_aux);
}

// After the last arrival everything that can run does so, and ends.
static void drain(struct sim *s)
{
    forget_waits(s);
    s->view.draining = false;
    for (int i = 0; i < 4 * MAX_REQUESTS * (MAX_RUN + MAX_STOP) && s->view.n_requests; i++) {
        s->tick++;
        make_event(s, true);
        make_pass(s);
        if (s->plan.n_start) continue;
        bool stuck = s->view.n_requests > 0;
        for (int k = 0; k < (int)s->view.n_requests; k++)
            stuck &= s->requests[k].state == SCHED_PENDING && is_held_back(s, k);
        if (stuck) return;
    }
    if (s->view.n_requests)
        fail_msg("seed %ld: %zu requests never end", (long)s->seed, s->view.n_requests);
}

static struct sim run_world(uint64_t seed, int64_t n_ticks)
{
    struct sim s = {.seed = seed};
    new_world(&s);
    for (; s.tick < n_ticks; s.tick++) {
        make_event(&s, false);
        make_pass(&s);
    }
    drain(&s);
    arena_done(&s.arena);
    return s;
}

static void test_random__keeps_all_promises(void **state)
{
    (void)state;
    int64_t n_start = 0, n_release = 0, n_backfill = 0, longest = 0;
    for (int64_t seed = 1; seed <= n_events / WORLD_TICKS; seed++) {
        struct sim s = run_world((uint64_t)seed, WORLD_TICKS);
        n_start += s.n_start;
        n_release += s.n_release;
        n_backfill += s.n_backfill;
        longest = MAX(longest, s.longest_wait);
    }
    print_message("%ld starts, %ld of them backfilled, %ld releases, longest wait %ld ticks\n",
                  (long)n_start, (long)n_backfill, (long)n_release, (long)longest);
    assert_true(n_start > n_events / 10); // the events did reach the policies
    assert_true(n_release > n_events / 100);
    assert_true(n_backfill > n_events / 1000);
}

static void test_random__a_seed_replays_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim a = run_world(seed, 1000), b = run_world(seed, 1000);
        assert_true(a.digest == b.digest && a.tick == b.tick && a.n_random == b.n_random);
    }
    assert_true(run_world(1, 1000).digest != run_world(2, 1000).digest);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !number_to_int(str_from(argv[1]), 10, &n_events)) return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random__keeps_all_promises),
        cmocka_unit_test(test_random__a_seed_replays_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
