// State machines, cell by cell. A grid is written again here, in letters, from the specification:
// a row per state, a column per event; a letter is the next state, '.' no change, '!' a refusal.
#include "support/test.h"

#include "entity/entity.h"

// P paused, A active; stopping: c completed, x canceled, k killed, e error; ended: C X E; deleting:
// d, f failed, D deleted.
static const char run_letters[] = "PAcxkeCXEdfD";

static char experiment_cell(enum exp_state from, enum experiment_event event)
{
    enum exp_state to = EXP_N_STATE;
    det_err err;
    if (experiment_step(from, event, &to, &err)) {
        assert_int_equal(to, EXP_N_STATE); // outputs are untouched
        assert_true(err.msg[0]);
        return '!';
    }
    return to == from ? '.' : run_letters[to];
}

static void test_experiment__every_cell(void **state)
{
    (void)state;
    // activate pause cancel kill search-done search-canceled fail drained abandon continue archive
    // delete delete-done delete-fail
    static const char *const grid[EXP_N_STATE] = {
        [EXP_PAUSED] = "A.xkcxe.E!!!!!",
        [EXP_ACTIVE] = ".Pxkcxe.E!!!!!",
        [EXP_STOPPING_COMPLETED] = "!!....eCE!!!!!",
        [EXP_STOPPING_CANCELED] = "!!.k..eXE!!!!!",
        [EXP_STOPPING_KILLED] = "!!....eXE!!!!!",
        [EXP_STOPPING_ERROR] = "!!.....EEA!!!!",
        [EXP_COMPLETED] = "!!.......A.d!!",
        [EXP_CANCELED] = "!!.......A.d!!",
        [EXP_ERROR] = "!!.......A.d!!",
        [EXP_DELETING] = "!!!!.....!!.Df",
        [EXP_DELETE_FAILED] = "!!!!.....!!d!!",
        [EXP_DELETED] = "!!!!.....!!!.!",
    };
    for (int s = 0; s < EXP_N_STATE; s++) {
        char row[EXPERIMENT_N_EVENT + 1] = {0};
        for (int e = 0; e < EXPERIMENT_N_EVENT; e++)
            row[e] = experiment_cell((enum exp_state)s, (enum experiment_event)e);
        assert_string_equal(row, grid[s]);
    }
}

static void test_experiment__refusals_say_why(void **state)
{
    (void)state;
    enum exp_state to;
    det_err err;
    assert_int_equal(experiment_step(EXP_STOPPING_KILLED, EXPERIMENT_PAUSE, &to, &err), DET_ESTATE);
    assert_string_equal(err.msg, "cannot pause: incompatible state STOPPING_KILLED");
    assert_int_equal(experiment_step(EXP_COMPLETED, EXPERIMENT_PAUSE, &to, &err), DET_ESTATE);
    assert_string_equal(err.msg, "cannot pause: experiment in terminal state COMPLETED");
    assert_int_equal(experiment_step(EXP_ERROR, EXPERIMENT_ACTIVATE, &to, &err), DET_ENOTFOUND);
    assert_string_equal(err.msg, "cannot activate: no active experiment, it is ERROR");
    assert_int_equal(experiment_step(EXP_ACTIVE, EXPERIMENT_ARCHIVE, &to, &err), DET_ESTATE);
    assert_string_equal(err.msg,
                        "cannot archive: experiment is ACTIVE, which is not a terminal state");
    assert_int_equal(experiment_step(EXP_DELETED, EXPERIMENT_KILL, &to, &err), DET_ENOTFOUND);
    assert_string_equal(err.msg, "cannot kill: experiment is DELETED");
}

static void test_trial__every_cell(void **state)
{
    (void)state;
    // activate pause close cancel kill fail drained
    static const char *const grid[] = {
        "A.cxke.", ".Pcxke.", "...xkeC", "....keX", ".....eX",
        "......E", ".......", ".......", ".......",
    };
    for (int s = 0; s <= EXP_ERROR; s++) {
        char row[TRIAL_N_EVENT + 1] = {0};
        for (int e = 0; e < TRIAL_N_EVENT; e++) {
            enum exp_state to = trial_step((enum exp_state)s, (enum trial_event)e);
            row[e] = (int)to == s ? '.' : run_letters[to];
        }
        assert_string_equal(row, grid[s]);
    }
}

static void test_trial__effects(void **state)
{
    (void)state;
    // - leave, a allocate, t terminate, d destroy, e end; columns: no allocation without and with
    // work, an allocation
    static const char letters[] = "-atde";
    static const char *const grid[] = {"--t", "-a-", "eet", "eet", "eed",
                                       "eed", "---", "---", "---"};
    for (int s = 0; s <= EXP_ERROR; s++) {
        enum exp_state from = (enum exp_state)s;
        const char row[] = {letters[trial_effect(from, false, false)],
                            letters[trial_effect(from, false, true)],
                            letters[trial_effect(from, true, true)], 0};
        assert_string_equal(row, grid[s]);
        assert_int_equal(trial_effect(from, true, false), trial_effect(from, true, true));
    }
}

static void test_allocation__every_cell(void **state)
{
    (void)state;
    // PENDING aSSIGNED pUlling sTarting RUNNING WAITING terminatinG terminateD
    static const char letters[] = "PSUTRWGD";
    // assign pull start run wait stop exit
    static const char *const grid[] = {
        "S!!!!DD", "!UTRWGD", "!.TRWGD", "!..RWGD", "!...WGD", "!....GD", "!.....D", "!......",
    };
    for (int s = 0; s < ALLOCATION_N_STATE; s++) {
        char row[ALLOCATION_N_EVENT + 1] = {0};
        for (int e = 0; e < ALLOCATION_N_EVENT; e++) {
            enum allocation_state to = ALLOCATION_N_STATE;
            int rc = allocation_step((enum allocation_state)s, (enum allocation_event)e, &to, NULL);
            row[e] = rc ? '!' : (int)to == s ? '.' : letters[to];
            assert_true(rc || (int)to >= s); // never backwards
        }
        assert_string_equal(row, grid[s]);
    }
}

static void test_checkpoint__every_cell(void **state)
{
    (void)state;
    static const char letters[] = "ACEPD";
    // complete fail delete-some delete-all
    static const char *const grid[] = {"CE!D", ".EPD", "!.!D", "!E.D", "!.!."};
    for (int s = 0; s < CHECKPOINT_N_STATE; s++) {
        char row[CHECKPOINT_N_EVENT + 1] = {0};
        for (int e = 0; e < CHECKPOINT_N_EVENT; e++) {
            enum checkpoint_state to = CHECKPOINT_N_STATE;
            int rc = checkpoint_step((enum checkpoint_state)s, (enum checkpoint_event)e, &to, NULL);
            row[e] = rc ? '!' : (int)to == s ? '.' : letters[to];
        }
        assert_string_equal(row, grid[s]);
    }
}

static void test_job__every_cell(void **state)
{
    (void)state;
    static const char letters[] = "QSBEP";
    // start backfill release end
    static const char *const grid[] = {"SB.E", "..QE", "S.QE", "!!..", "SB.E"};
    for (int s = 0; s < JOB_N_STATE; s++) {
        char row[JOB_N_EVENT + 1] = {0};
        for (int e = 0; e < JOB_N_EVENT; e++) {
            enum job_state to = JOB_N_STATE;
            int rc = job_step((enum job_state)s, (enum job_event)e, &to, NULL);
            row[e] = rc ? '!' : (int)to == s ? '.' : letters[to];
        }
        assert_string_equal(row, grid[s]);
    }
}

static void test_exit__first_cause_counts(void **state)
{
    (void)state;
    static const struct {
        struct exit_facts facts;
        enum exit_kind kind;
    } cases[] = {
        {{.killed_by_us = true, .status = 137}, EXIT_KILLED},
        {{.killed_by_us = true, .preemption_acked = true}, EXIT_KILLED},
        {{.preemption_acked = true, .status = 0}, EXIT_PREEMPTED},
        {{.preemption_acked = true, .status = 1}, EXIT_PREEMPTED},
        {{.preemption_acked = true, .system = EXIT_NODE_FAILED}, EXIT_NODE_FAILED},
        {{.status = 0}, EXIT_DONE},
        {{.status = 1}, EXIT_TASK_FAILED},
        {{.system = EXIT_ABORTED, .status = 1}, EXIT_ABORTED},
        {{.system = EXIT_RESTORE_FAILED}, EXIT_RESTORE_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(exit_classify(&cases[i].facts), cases[i].kind);
    assert_false(exit_is_error(EXIT_PREEMPTED));
    assert_true(exit_is_error(EXIT_UNRECOVERABLE));
}

static void test_trial__judged_by_first_rule(void **state)
{
    (void)state;
    static const struct {
        struct trial_facts facts;
        enum trial_verdict verdict;
    } cases[] = {
        {{.state = EXP_STOPPING_CANCELED, .exit = EXIT_TASK_FAILED, .has_work = true}, TRIAL_FAILS},
        {{.state = EXP_STOPPING_CANCELED, .exit = EXIT_PREEMPTED}, TRIAL_STOPS},
        {{.state = EXP_STOPPING_KILLED, .exit = EXIT_KILLED, .searcher_done = true}, TRIAL_STOPS},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .searcher_done = true}, TRIAL_FAILS},
        {{.state = EXP_ACTIVE, .exit = EXIT_DONE, .searcher_done = true}, TRIAL_COMPLETES},
        {{.state = EXP_ACTIVE, .exit = EXIT_UNRECOVERABLE}, TRIAL_FAILS},
        {{.state = EXP_ACTIVE, .exit = EXIT_NODE_FAILED, .restarts = 9}, TRIAL_GOES_ON},
        {{.state = EXP_ACTIVE, .exit = EXIT_ABORTED}, TRIAL_GOES_ON},
        {{.state = EXP_ACTIVE, .exit = EXIT_RESTORE_FAILED}, TRIAL_GOES_ON},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .retries_off = true, .max_restarts = 5},
         TRIAL_FAILS},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .same_failure = true, .max_restarts = 5},
         TRIAL_FAILS},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .restarts = 4, .max_restarts = 5},
         TRIAL_RESTARTS},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .restarts = 5, .max_restarts = 5},
         TRIAL_FAILS},
        {{.state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .invalid_hp = true, .max_restarts = 5},
         TRIAL_IS_INVALID},
        {{.state = EXP_ACTIVE, .exit = EXIT_DONE, .has_work = true}, TRIAL_COMPLETES},
        {{.state = EXP_ACTIVE, .exit = EXIT_PREEMPTED, .has_work = true}, TRIAL_GOES_ON},
        {{.state = EXP_PAUSED, .exit = EXIT_PREEMPTED, .has_work = true}, TRIAL_GOES_ON},
        {{.state = EXP_PAUSED, .exit = EXIT_KILLED, .has_work = true}, TRIAL_GOES_ON},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = NULL;
        assert_int_equal(trial_judge(&cases[i].facts, &why), cases[i].verdict);
        assert_non_null(why);
    }
}

// Six runs for five restarts.
static void test_trial__runs_once_more_than_it_restarts(void **state)
{
    (void)state;
    struct trial_facts f = {
        .state = EXP_ACTIVE, .exit = EXIT_TASK_FAILED, .has_work = true, .max_restarts = 5};
    const char *why;
    int n_runs = 1;
    for (; trial_judge(&f, &why) == TRIAL_RESTARTS; n_runs++)
        f.restarts++;
    assert_int_equal(n_runs, 6);
}

RUN_TESTS(cmocka_unit_test(test_experiment__every_cell),
          cmocka_unit_test(test_experiment__refusals_say_why),
          cmocka_unit_test(test_trial__every_cell), cmocka_unit_test(test_trial__effects),
          cmocka_unit_test(test_allocation__every_cell),
          cmocka_unit_test(test_checkpoint__every_cell), cmocka_unit_test(test_job__every_cell),
          cmocka_unit_test(test_exit__first_cause_counts),
          cmocka_unit_test(test_trial__judged_by_first_rule),
          cmocka_unit_test(test_trial__runs_once_more_than_it_restarts))
