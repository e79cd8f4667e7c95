// What sched/ promises: who starts, who gives way, what people are told.
#include "sched/sched.h"
#include "support/test.h"

enum { MAX_ITEMS = 32 };

// A small pool; the arrays are those of its view.
struct world {
    struct sched_group groups[MAX_ITEMS];
    struct sched_request requests[MAX_ITEMS];
    struct sched_view view;
    struct arena arena;
    struct sched_plan plan;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->view = (struct sched_view){
        .preemption = true, .n_aux = 2, .groups = w->groups, .requests = w->requests};
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    arena_done(&w->arena);
    free(w);
    return 0;
}

static int add_group(struct world *w, const char *name, int priority)
{
    int at = (int)w->view.n_groups++;
    w->groups[at] =
        (struct sched_group){.name = name, .priority = priority, .position = at, .weight = 1};
    return at;
}

static int add_pending(struct world *w, int group, int n_slots)
{
    int at = (int)w->view.n_requests++;
    w->requests[at] = (struct sched_request){
        .id = at + 1, .group = group, .n_slots = n_slots, .preemptible = true};
    return at;
}

static int add_running(struct world *w, int group, int n_slots)
{
    int at = add_pending(w, group, n_slots);
    w->requests[at].state = SCHED_RUNNING;
    return at;
}

static void run(struct world *w)
{
    w->plan = sched_run(&w->view, &w->arena);
}

static void assert_action(const struct world *w, int i, enum sched_action action)
{
    if (w->plan.decisions[i].action != action)
        fail_msg("request %d: action %d, expected %d", i, w->plan.decisions[i].action, action);
}

static void assert_explained(struct world *w, int i, const char *text)
{
    struct buf out = BUF_INIT(1000);
    sched_explain(&w->view, &w->plan, (size_t)i, &out);
    assert_string_equal(out.ptr, text);
    buf_done(&out);
}

static void test_fit__a_request_gets_all_of_its_slots_or_none(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 8;
    int group = add_group(w, "experiment 1", 42);
    w->requests[add_running(w, group, 5)].preemptible = false;
    int large = add_pending(w, group, 4), small = add_pending(w, group, 3);
    run(w);
    assert_explained(w, large, "needs 4 slots, 3 are free");
    assert_action(w, small, SCHED_START);
}

static void test_fit__what_is_too_large_for_the_pool_is_known(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int i = add_pending(w, add_group(w, "experiment 1", 42), 8);
    run(w);
    assert_explained(w, i, "needs 8 slots, but there are only 4");
    assert_false(sched_could_ever_fit(&w->view, 8));
    assert_true(sched_could_ever_fit(&w->view, 4));
    assert_true(sched_could_ever_fit(&w->view, 0));
    w->view.n_aux = 0;
    assert_false(sched_could_ever_fit(&w->view, 0));
}

static void test_fit__a_pool_that_goes_away_starts_nothing(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    w->view.draining = true;
    int group = add_group(w, "experiment 1", 42), running = add_running(w, group, 1);
    int with = add_pending(w, group, 1), without = add_pending(w, group, 0);
    for (enum sched_policy policy = SCHED_PRIORITY; policy <= SCHED_HAND_ON; policy++) {
        w->view.policy = policy;
        run(w);
        assert_int_equal(w->plan.n_start + w->plan.n_release, 0);
        assert_action(w, running, SCHED_KEEP);
        assert_explained(
            w, with, "needs 1 slot; the machine is going away, so nothing new is started on it");
        assert_action(w, without, SCHED_WAIT);
    }
}

static void test_fit__requests_without_slots_use_auxiliary_places(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 1;
    int group = add_group(w, "command 1", 42);
    add_running(w, group, 1);
    int first = add_pending(w, group, 0), second = add_pending(w, group, 0);
    int third = add_pending(w, group, 0);
    run(w);
    assert_action(w, first, SCHED_START);
    assert_action(w, second, SCHED_START);
    assert_explained(w, third, "needs a place for a task without slots, all are taken");
}

static void test_priority__backfills_and_preempts(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 8;
    int p40 = add_group(w, "experiment 1", 40), p40_large = add_group(w, "experiment 2", 40);
    int p45 = add_group(w, "experiment 3", 45), p50 = add_group(w, "experiment 4", 50);
    int p55 = add_group(w, "experiment 5", 55);
    int running_55 = add_running(w, p55, 1), pending_50 = add_pending(w, p50, 1);
    int pending_45 = add_pending(w, p45, 1), running_40 = add_running(w, p40, 4);
    int pending_40 = add_pending(w, p40, 2), large_40 = add_pending(w, p40_large, 8);
    run(w);
    assert_int_equal(w->plan.n_start, 2);
    assert_int_equal(w->plan.n_release, 1);
    assert_action(w, pending_45, SCHED_START);
    assert_true(w->plan.decisions[pending_45].backfilled);
    assert_action(w, pending_40, SCHED_START);
    assert_false(w->plan.decisions[pending_40].backfilled);
    assert_action(w, running_55, SCHED_RELEASE);
    assert_action(w, running_40, SCHED_KEEP);
    assert_explained(w, large_40, "needs 8 slots, 1 is free");
    assert_explained(w, pending_50, "needs 1 slot; experiment 5 is stopping to make room");
}

static void test_priority__only_preemptible_work_passes_what_waits(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 8;
    int ahead = add_group(w, "experiment 4", 42), behind = add_group(w, "command 5", 42);
    w->requests[add_running(w, ahead, 4)].preemptible = false;
    int large = add_pending(w, ahead, 8), small = add_pending(w, behind, 1);
    w->requests[small].preemptible = false;
    int larger = add_pending(w, behind, 6);
    w->requests[larger].preemptible = false;
    run(w);
    assert_int_equal(w->plan.n_start + w->plan.n_release, 0);
    assert_explained(w, large, "needs 8 slots, 4 are free");
    assert_explained(w, small, "needs 1 slot and would fit; behind experiment 4");
    assert_explained(w, larger, "needs 6 slots, 4 are free; behind experiment 4");
    w->requests[small].preemptible = true;
    run(w);
    assert_action(w, small, SCHED_START);
}

static void test_priority__without_preemption_nothing_passes_and_nothing_stops(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    w->view.preemption = false;
    int high = add_group(w, "experiment 1", 1), low = add_group(w, "experiment 2", 99);
    add_running(w, low, 2);
    add_pending(w, high, 4);
    add_pending(w, low, 1);
    run(w);
    assert_int_equal(w->plan.n_start + w->plan.n_release, 0);
}

static void test_priority__releases_the_least_important_and_no_more_than_needed(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 8;
    int high = add_group(w, "experiment 1", 1), mid = add_group(w, "experiment 2", 50);
    int low = add_group(w, "experiment 3", 99);
    int mid_0 = add_running(w, mid, 2), low_0 = add_running(w, low, 2);
    int low_1 = add_running(w, low, 4);
    add_pending(w, high, 2);
    run(w);
    assert_action(w, mid_0, SCHED_KEEP);
    assert_action(w, low_0, SCHED_KEEP);
    assert_action(w, low_1, SCHED_RELEASE);
    w->requests[low_1].preemptible = false;
    run(w);
    assert_action(w, low_0, SCHED_RELEASE);
    assert_action(w, mid_0, SCHED_KEEP);
}

static void test_priority__releases_nothing_when_it_would_not_help(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int high = add_group(w, "experiment 1", 1), low = add_group(w, "experiment 2", 99);
    w->requests[add_running(w, low, 1)].preemptible = false;
    add_running(w, low, 1);
    add_pending(w, high, 4);
    run(w);
    assert_int_equal(w->plan.n_release, 0);
}

static void test_priority__equals_give_way_by_queue_position(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 2;
    int first = add_group(w, "experiment 1", 42), second = add_group(w, "experiment 2", 42);
    int running = add_running(w, second, 2);
    add_pending(w, first, 2);
    run(w);
    assert_action(w, running, SCHED_RELEASE);
    w->groups[second].position = -1; // moved to the front
    run(w);
    assert_action(w, running, SCHED_KEEP);
}

static void test_priority__room_that_is_becoming_free_is_held(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int high = add_group(w, "experiment 1", 1), low = add_group(w, "experiment 2", 99);
    w->requests[add_running(w, low, 2)].state = SCHED_STOPPING;
    int kept = add_running(w, low, 1);
    int wants_3 = add_pending(w, high, 3), wants_1 = add_pending(w, low, 1);
    run(w);
    assert_action(w, kept, SCHED_KEEP);
    assert_explained(w, wants_3, "needs 3 slots; room is becoming free");
    assert_explained(w, wants_1, "needs 1 slot, 0 are free; behind experiment 1");
}

static void test_priority__what_can_never_run_stops_nobody(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int high = add_group(w, "experiment 1", 1), low = add_group(w, "experiment 2", 99);
    add_pending(w, high, 8);
    int i = add_pending(w, low, 4);
    w->requests[i].preemptible = false;
    run(w);
    assert_action(w, i, SCHED_START);
}

static void test_priority__max_slots_limits_a_group(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 8;
    int group = add_group(w, "experiment 1", 1), other = add_group(w, "experiment 2", 99);
    w->groups[group].max_slots = 2;
    add_pending(w, group, 2);
    int over = add_pending(w, group, 1), free_rider = add_pending(w, other, 6);
    run(w);
    assert_explained(w, over, "needs 1 slot, max_slots of experiment 1 is 2");
    assert_action(w, free_rider, SCHED_START);
}

static void test_priority__a_lowered_limit_releases_the_newest(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int group = add_group(w, "experiment 1", 1);
    w->groups[group].max_slots = 2;
    int oldest = add_running(w, group, 2);
    add_running(w, group, 1);
    add_running(w, group, 1);
    run(w);
    assert_int_equal(w->plan.n_release, 2);
    assert_action(w, oldest, SCHED_KEEP);
}

static void test_priority__room_made_for_a_group_counts_against_its_limit(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 3;
    int high = add_group(w, "experiment 1", 1), low = add_group(w, "experiment 2", 99);
    w->groups[high].max_slots = 2;
    add_running(w, low, 2);
    add_pending(w, high, 2);
    int small = add_pending(w, high, 1);
    run(w);
    assert_int_equal(w->plan.n_release, 1);
    assert_explained(w, small, "needs 1 slot, max_slots of experiment 1 is 2");
}

static int count_starts(const struct world *w, int group)
{
    int n = 0;
    for (size_t i = 0; i < w->view.n_requests; i++)
        n += w->requests[i].group == group && w->plan.decisions[i].action == SCHED_START;
    return n;
}

static void add_pendings(struct world *w, int group, int n, int n_slots)
{
    for (int i = 0; i < n; i++)
        add_pending(w, group, n_slots);
}

static void test_fair_share__follows_the_weights(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 8;
    int light = add_group(w, "experiment 1", 42), heavy = add_group(w, "experiment 2", 42);
    w->groups[light].weight = 10;
    w->groups[heavy].weight = 30;
    add_pendings(w, light, 3, 1);
    add_pendings(w, heavy, 7, 1);
    run(w);
    assert_int_equal(count_starts(w, light), 2);
    assert_int_equal(count_starts(w, heavy), 6);
    assert_explained(w, 2, "needs 1 slot, the fair share of experiment 1 is 2");
}

static void test_fair_share__gives_what_a_limit_leaves_to_others(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 4;
    int limited = add_group(w, "experiment 1", 42), other = add_group(w, "experiment 2", 42);
    w->groups[limited].max_slots = 1;
    add_pendings(w, limited, 4, 1);
    add_pendings(w, other, 4, 1);
    run(w);
    assert_int_equal(count_starts(w, limited), 1);
    assert_int_equal(count_starts(w, other), 3);
}

static void test_fair_share__shares_of_no_use_go_to_the_first_in_the_queue(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 2;
    int first = add_group(w, "experiment 1", 42), second = add_group(w, "experiment 2", 42);
    add_pending(w, second, 2);
    add_pending(w, first, 2);
    run(w);
    assert_int_equal(count_starts(w, first), 1);
    assert_int_equal(count_starts(w, second), 0);
}

static void test_fair_share__releases_what_is_beyond_the_share(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 4;
    int group = add_group(w, "experiment 1", 42);
    w->groups[group].max_slots = 2;
    for (int i = 0; i < 4; i++)
        add_running(w, group, 1);
    run(w);
    assert_int_equal(w->plan.n_release, 2);
    assert_action(w, 0, SCHED_KEEP);
    assert_action(w, 1, SCHED_KEEP);
}

static void test_fair_share__makes_a_running_group_share(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 4;
    int old = add_group(w, "experiment 1", 42), new = add_group(w, "experiment 2", 42);
    for (int i = 0; i < 4; i++)
        add_running(w, old, 1);
    add_pendings(w, new, 4, 1);
    run(w);
    assert_int_equal(w->plan.n_release, 2);
    assert_int_equal(w->plan.n_start, 0);
}

// Work that cannot be released keeps its slots; what it frees goes to the group that is owed them,
// even if that needs several at once.
static void test_fair_share__freed_slots_gather_for_the_group_that_is_owed_them(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 8;
    int greedy = add_group(w, "command 1", 42), owed = add_group(w, "experiment 2", 42);
    for (int i = 0; i < 6; i++)
        w->requests[add_running(w, greedy, 1)].preemptible = false;
    add_pendings(w, greedy, 4, 1);
    int large = add_pending(w, owed, 4);
    run(w);
    assert_int_equal(w->plan.n_start + w->plan.n_release, 0);
    w->requests[0].state = w->requests[1].state = SCHED_PENDING; // they ended, and came again
    run(w);
    assert_int_equal(w->plan.n_start, 1);
    assert_action(w, large, SCHED_START);
}

static void test_fair_share__divides_what_cannot_be_released_last(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 8;
    int fixed = add_group(w, "command 1", 42), yielding = add_group(w, "experiment 2", 42);
    int new = add_group(w, "experiment 3", 42);
    w->requests[add_running(w, fixed, 6)].preemptible = false;
    add_running(w, yielding, 1);
    int last = add_running(w, yielding, 1);
    add_pendings(w, new, 2, 1);
    run(w);
    assert_int_equal(w->plan.n_release, 1);
    assert_action(w, last, SCHED_RELEASE);
}

// Others take no more than leaves room for the request that is owed the most, when what stops now
// has stopped.
static void test_fair_share__keeps_room_for_who_is_owed_most(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_FAIR_SHARE;
    w->view.n_slots = 8;
    int small = add_group(w, "experiment 1", 42), large = add_group(w, "experiment 2", 42);
    int leaving = add_group(w, "experiment 3", 42);
    for (int i = 0; i < 3; i++)
        add_running(w, small, 1);
    w->requests[add_running(w, leaving, 2)].state = SCHED_STOPPING;
    int next = add_pending(w, small, 1), whole = add_pending(w, large, 4);
    run(w);
    assert_explained(w, whole, "needs 4 slots, 3 are free");
    assert_action(w, next, SCHED_START);
}

static void test_round_robin__gives_every_group_its_turn(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_ROUND_ROBIN;
    w->view.n_slots = 4;
    int busy = add_group(w, "experiment 1", 42), idle = add_group(w, "experiment 2", 42);
    add_running(w, busy, 1);
    add_pendings(w, busy, 4, 1);
    add_pendings(w, idle, 4, 1);
    run(w);
    assert_int_equal(count_starts(w, idle), 2);
    assert_int_equal(count_starts(w, busy), 1);
    assert_int_equal(w->plan.n_release, 0);
}

static void test_round_robin__small_requests_do_not_starve_a_large_one(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_ROUND_ROBIN;
    w->view.n_slots = 4;
    int large = add_group(w, "experiment 1", 42), small = add_group(w, "experiment 2", 42);
    add_running(w, small, 1);
    add_pending(w, large, 4);
    int i = add_pending(w, small, 1);
    run(w);
    assert_int_equal(w->plan.n_start, 0);
    assert_explained(w, i, "needs 1 slot, 0 are free; behind experiment 1");
}

static void test_hand_on__goes_by_priority_and_groups_take_turns(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_HAND_ON;
    w->view.n_slots = 1000;
    w->view.max_waiting = 4;
    int many = add_group(w, "experiment 1", 42), few = add_group(w, "experiment 2", 42);
    int urgent = add_group(w, "experiment 3", 1);
    w->requests[add_running(w, many, 100)].waits_elsewhere = true;
    add_running(w, many, 100); // has begun, and counts no more
    add_pendings(w, many, 4, 1);
    int other = add_pending(w, few, 1), first = add_pending(w, urgent, 1);
    run(w);
    assert_int_equal(w->plan.n_start, 3);
    assert_int_equal(w->plan.n_release, 0);
    assert_action(w, first, SCHED_START);
    assert_action(w, other, SCHED_START);
    assert_int_equal(count_starts(w, many), 1);
    assert_explained(w, 3, "needs 1 slot; 4 wait already to be started");
}

static void test_hand_on__limits_are_kept(void **state)
{
    struct world *w = *state;
    w->view.policy = SCHED_HAND_ON;
    w->view.n_slots = 16;
    w->view.max_waiting = 100;
    int group = add_group(w, "experiment 1", 42);
    w->groups[group].max_slots = 4;
    add_running(w, group, 2);
    int first = add_pending(w, group, 2), over = add_pending(w, group, 2);
    int too_large = add_pending(w, add_group(w, "experiment 2", 42), 17);
    run(w);
    assert_action(w, first, SCHED_START);
    assert_explained(w, over, "needs 2 slots, max_slots of experiment 1 is 4");
    assert_explained(w, too_large, "needs 17 slots, but there are only 16");
}

static void test_explain__says_nothing_about_what_does_not_wait(void **state)
{
    struct world *w = *state;
    w->view.n_slots = 4;
    int i = add_pending(w, add_group(w, "experiment 1", 42), 1);
    run(w);
    struct buf out = BUF_INIT(1000);
    sched_explain(&w->view, &w->plan, (size_t)i, &out);
    assert_int_equal(out.len, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

RUN_TESTS(
    T(fit__a_request_gets_all_of_its_slots_or_none),
    T(fit__what_is_too_large_for_the_pool_is_known), T(fit__a_pool_that_goes_away_starts_nothing),
    T(fit__requests_without_slots_use_auxiliary_places), T(priority__backfills_and_preempts),
    T(priority__only_preemptible_work_passes_what_waits),
    T(priority__without_preemption_nothing_passes_and_nothing_stops),
    T(priority__releases_the_least_important_and_no_more_than_needed),
    T(priority__releases_nothing_when_it_would_not_help),
    T(priority__equals_give_way_by_queue_position), T(priority__room_that_is_becoming_free_is_held),
    T(priority__what_can_never_run_stops_nobody), T(priority__max_slots_limits_a_group),
    T(priority__a_lowered_limit_releases_the_newest),
    T(priority__room_made_for_a_group_counts_against_its_limit), T(fair_share__follows_the_weights),
    T(fair_share__gives_what_a_limit_leaves_to_others),
    T(fair_share__shares_of_no_use_go_to_the_first_in_the_queue),
    T(fair_share__releases_what_is_beyond_the_share), T(fair_share__makes_a_running_group_share),
    T(fair_share__freed_slots_gather_for_the_group_that_is_owed_them),
    T(fair_share__divides_what_cannot_be_released_last),
    T(fair_share__keeps_room_for_who_is_owed_most), T(round_robin__gives_every_group_its_turn),
    T(round_robin__small_requests_do_not_starve_a_large_one),
    T(hand_on__goes_by_priority_and_groups_take_turns), T(hand_on__limits_are_kept),
    T(explain__says_nothing_about_what_does_not_wait))
