// Unit exit.c: what the end of a task means, and what becomes of its trial.
#include "entity/state.h"

#include "base/assert.h"

const char *const exit_kind_names[] = {
    "",        "KILLED",         "PREEMPTED",     "DONE", "TASK_FAILED", "NODE_FAILED",
    "ABORTED", "RESTORE_FAILED", "UNRECOVERABLE", NULL,
};

enum exit_kind exit_classify(const struct exit_facts *facts)
{
    if (facts->killed_by_us) return EXIT_KILLED;
    if (facts->preemption_acked && !facts->system) return EXIT_PREEMPTED;
    if (facts->system) return facts->system;
    return facts->status ? EXIT_TASK_FAILED : EXIT_DONE;
}

bool exit_is_error(enum exit_kind kind)
{
    return kind >= EXIT_TASK_FAILED;
}

static bool is_stopping_with_error(const struct trial_facts *f)
{
    return exp_state_is_stopping(f->state) && exit_is_error(f->exit);
}

static bool is_stopping(const struct trial_facts *f)
{
    return exp_state_is_stopping(f->state);
}

static bool is_searched_with_error(const struct trial_facts *f)
{
    return f->searcher_done && exit_is_error(f->exit);
}

static bool is_searched(const struct trial_facts *f)
{
    return f->searcher_done;
}

static bool is_unrecoverable(const struct trial_facts *f)
{
    return f->exit == EXIT_UNRECOVERABLE;
}

static bool is_transient(const struct trial_facts *f)
{
    return f->exit == EXIT_NODE_FAILED || f->exit == EXIT_ABORTED || f->exit == EXIT_RESTORE_FAILED;
}

static bool is_invalid(const struct trial_facts *f)
{
    return f->invalid_hp;
}

static bool is_failed_for_good(const struct trial_facts *f)
{
    return f->exit == EXIT_TASK_FAILED && f->retries_off;
}

static bool is_failed_alike(const struct trial_facts *f)
{
    return f->exit == EXIT_TASK_FAILED && f->same_failure;
}

static bool is_failed_too_often(const struct trial_facts *f)
{
    return f->exit == EXIT_TASK_FAILED && f->restarts >= f->max_restarts;
}

static bool is_failed(const struct trial_facts *f)
{
    return f->exit == EXIT_TASK_FAILED;
}

static bool is_done(const struct trial_facts *f)
{
    return f->exit == EXIT_DONE;
}

static bool is_anything(const struct trial_facts *f)
{
    return f->exit != EXIT_NONE;
}

// A trial that reported invalid hyperparameters is judged before its failure: it usually exits with
// an error right after, and must not be tried again.
static const struct {
    bool (*matches)(const struct trial_facts *f);
    enum trial_verdict verdict;
    const char *why;
} rules[] = {
    {is_stopping_with_error, TRIAL_FAILS, "it failed while it was being stopped"},
    {is_stopping, TRIAL_STOPS, "it was being stopped"},
    {is_searched_with_error, TRIAL_FAILS, "it failed after the search was done with it"},
    {is_searched, TRIAL_COMPLETES, "the search is done with it"},
    {is_invalid, TRIAL_IS_INVALID, "its hyperparameters are invalid"},
    {is_unrecoverable, TRIAL_FAILS, "the system cannot run it"},
    {is_transient, TRIAL_GOES_ON, "the system failed, not the task: no restart is counted"},
    {is_failed_for_good, TRIAL_FAILS, "a log policy forbids to try again"},
    {is_failed_alike, TRIAL_FAILS, "it failed twice in the same way at the same point"},
    {is_failed_too_often, TRIAL_FAILS, "it failed more often than max_restarts allows"},
    {is_failed, TRIAL_RESTARTS, "it failed"},
    {is_done, TRIAL_COMPLETES, "it ended of its own accord"},
    {is_anything, TRIAL_GOES_ON, "it gave its slots back"},
};

enum trial_verdict trial_judge(const struct trial_facts *facts, const char **why)
{
    size_t i = 0;
    ASSERT(facts->exit != EXIT_NONE);
    while (!rules[i].matches(facts))
        i++;
    *why = rules[i].why;
    return rules[i].verdict;
}
