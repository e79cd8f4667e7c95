// Unit policy.c: log policies: patterns that say "do not try again", or only have a name.
#include "master/policy.h"

#include "base/assert.h"
#include "base/mem.h"
#include <regex.h>

enum { MAX_POLICIES = 64 };

struct policies {
    size_t n;
    regex_t patterns[]; // in the order of the configuration
};

int policies_open(struct live_experiment *e, det_err *err)
{
    size_t n = e->cfg.log_policies.n;
    if (n > MAX_POLICIES)
        return det_fail(err, DET_ELIMIT, "log_policies: more than %d", MAX_POLICIES);
    struct policies *p = xcalloc(1, sizeof *p + n * sizeof *p->patterns);
    e->policies = p;
    for (; p->n < n; p->n++) {
        const char *pattern = e->cfg.log_policies.items[p->n].pattern;
        char why[128];
        int rc = regcomp(&p->patterns[p->n], pattern ? pattern : "^$",
                         REG_EXTENDED | REG_NOSUB | REG_NEWLINE);
        if (!rc) continue;
        regerror(rc, &p->patterns[p->n], why, sizeof why);
        return det_fail(err, DET_EINVAL, "log_policies[%zu].pattern: %s", p->n, why);
    }
    return 0;
}

void policies_close(struct live_experiment *e)
{
    struct policies *p = e->policies;
    for (size_t i = 0; p && i < p->n; i++)
        regfree(&p->patterns[i]);
    free(p);
    e->policies = NULL;
}

uint64_t policies_match(const struct policies *p, uint64_t seen, const char *line)
{
    for (size_t i = 0; i < p->n; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (!(seen & bit) && !regexec(&p->patterns[i], line, 0, NULL, 0)) seen |= bit;
    }
    return seen;
}

void policies_act(struct live_trial *t, uint64_t seen, struct db_tx *tx)
{
    for (size_t i = 0; i < t->experiment->policies->n; i++) {
        const struct log_policy *policy = &t->experiment->cfg.log_policies.items[i];
        uint64_t bit = UINT64_C(1) << i;
        if (!policy->pattern || !(seen & bit) || t->policies_seen & bit) continue;
        if (policy->action == LOG_CANCEL_RETRIES) t->retries_off = true;
        logs_say(t, LOG_LEVEL_WARNING, tx, "log policy '%s' matches%s",
                 policy->name ? policy->name : policy->pattern,
                 t->retries_off ? ": the trial will not be restarted" : "");
    }
    t->policies_seen |= seen;
}
