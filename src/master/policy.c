// Unit policy.c: log policies: patterns that say "do not try again", or only have a name. Anybody
// may write them, and anybody may print what they are looked for in, so that is done by other
// threads and for a limited time.
#include "master/policy.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/number.h"
#include "sys/log.h"

enum { MAX_POLICIES = 64, SCAN_US = 500000 }; // of all patterns in a page of output

#define SETTING_PREFIX "policies."

struct policies {
    size_t n;
    struct pattern *patterns[]; // in the order of the configuration; NULL: none
};

int policies_open(struct live_experiment *e, bool lenient, det_err *err)
{
    size_t n = e->cfg.log_policies.n;
    det_err why;
    if (n > MAX_POLICIES)
        return det_fail(err, DET_ELIMIT, "log_policies: more than %d", MAX_POLICIES);
    struct policies *p = xcalloc(1, sizeof *p + n * sizeof(struct pattern *));
    e->policies = p;
    for (; p->n < n; p->n++) {
        const char *text = e->cfg.log_policies.items[p->n].pattern;
        int rc = text ? pattern_new(text, &p->patterns[p->n], &why) : 0;
        if (rc && !lenient)
            return det_fail(err, rc == DET_ENOTFOUND ? DET_EUNSUPPORTED : DET_EINVAL,
                            "log_policies[%zu].pattern: %s", p->n, why.msg);
        if (rc)
            log_warn("experiment %lld: log_policies[%zu].pattern is not looked for: %s",
                     (long long)e->row.id, p->n, why.msg);
    }
    return 0;
}

void policies_close(struct live_experiment *e)
{
    struct policies *p = e->policies;
    for (size_t i = 0; p && i < p->n; i++)
        pattern_free(p->patterns[i]);
    free(p);
    e->policies = NULL;
}

// --- looking

void policy_scan_begin(struct policy_scan *s, const struct live_trial *t)
{
    *s = (struct policy_scan){.policies = t->experiment->policies,
                              .seen = t->policies_seen,
                              .match = matcher_new(SCAN_US)};
}

void policy_scan_end(struct policy_scan *s)
{
    matcher_free(s->match);
    s->match = NULL;
}

void policy_scan_line(struct policy_scan *s, struct str line)
{
    bool left_out = false;
    for (size_t i = 0; i < s->policies->n; i++) {
        const struct pattern *p = s->policies->patterns[i];
        uint64_t bit = UINT64_C(1) << i;
        if (!p || (s->seen | s->found) & bit) continue;
        switch (pattern_search(p, line, s->match)) {
        case PATTERN_FOUND:
            s->found |= bit;
            break;
        case PATTERN_GAVE_UP:
            s->gave_up |= bit;
            s->longest = MAX(s->longest, line.len);
            break;
        case PATTERN_SPENT:
            left_out = true;
            break;
        case PATTERN_MISSING:
            break;
        }
    }
    s->n_left_out += left_out;
}

// --- what it means

static const char *name_of(const struct live_trial *t, size_t i)
{
    const struct log_policy *policy = &t->experiment->cfg.log_policies.items[i];
    return policy->name ? policy->name : policy->pattern;
}

// Whether the trial may be restarted depends on what was seen.
static void set_seen(struct live_trial *t, uint64_t seen)
{
    t->policies_seen = seen;
    for (size_t i = 0; i < t->experiment->policies->n; i++)
        if (seen >> i & 1 && t->experiment->cfg.log_policies.items[i].action == LOG_CANCEL_RETRIES)
            t->retries_off = true;
}

static void say_slow(struct live_trial *t, const struct policy_scan *s, struct db_tx *tx)
{
    for (size_t i = 0; i < s->policies->n; i++)
        if ((s->gave_up & ~t->policies_slow) >> i & 1)
            logs_say(t, LOG_LEVEL_WARNING, tx,
                     "log policy '%s': its pattern takes too long for a line of %zu bytes; such "
                     "lines are passed over",
                     name_of(t, i), s->longest);
    if (s->n_left_out && !t->lines_left_out)
        logs_say(t, LOG_LEVEL_WARNING, tx,
                 "log policies: their patterns take too long; %lld lines were not looked at",
                 (long long)s->n_left_out);
    t->policies_slow |= s->gave_up;
    t->lines_left_out = t->lines_left_out || s->n_left_out;
}

static const char *setting_of(const struct live_trial *t, char *out, size_t size)
{
    snprintf(out, size, SETTING_PREFIX "%lld", (long long)t->row.id);
    return out;
}

void policies_note(struct live_trial *t, const struct policy_scan *s, struct db_tx *tx)
{
    char name[48], bits[24];
    say_slow(t, s, tx);
    if (!s->found) return;
    for (size_t i = 0; i < s->policies->n; i++) {
        if (!(s->found >> i & 1)) continue;
        set_seen(t, t->policies_seen | UINT64_C(1) << i);
        logs_say(t, LOG_LEVEL_WARNING, tx, "log policy '%s' matches%s", name_of(t, i),
                 t->retries_off ? ": the trial will not be restarted" : "");
    }
    snprintf(bits, sizeof bits, "%lld", (long long)t->policies_seen);
    db_setting_save(tx, setting_of(t, name, sizeof name), bits);
}

void policies_forget(const struct live_trial *t, struct db_tx *tx)
{
    char name[48];
    if (t->policies_seen) db_setting_delete(tx, setting_of(t, name, sizeof name));
}

int policies_restore(struct master *m, struct db_reader *r, det_err *err)
{
    struct arena arena = ARENA_INIT;
    struct db_list list = {0};
    int rc = db_settings_list(r, SETTING_PREFIX, &arena, &list, err);
    const struct setting *all = list.items;
    for (size_t i = 0; !rc && i < list.n; i++) {
        int64_t id, seen;
        struct str number = str_from(all[i].name + strlen(SETTING_PREFIX));
        struct live_trial *t = number_to_int(number, 10, &id) ? set_find(&m->trials, id) : NULL;
        if (t && number_to_int(str_from(all[i].value), 10, &seen)) set_seen(t, (uint64_t)seen);
    }
    arena_done(&arena);
    return rc;
}
