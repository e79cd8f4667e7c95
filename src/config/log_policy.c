// Unit log_policy.c: what to do when a line of the log matches a pattern.
#include "config/tables.h"

#include "base/assert.h"

#define L(member) offsetof(struct log_policy, member)

static const char *const actions[] = {"", "cancel_retries", "exclude_node",
                                      NULL}; // enum log_action

// These hold unless a policy of the same name is there.
static const struct log_policy built_in[] = {
    {"CUDA OOM", ".*CUDA out of memory.*", LOG_LABEL_ONLY},
    {"ECC Error", ".*uncorrectable ECC error encountered.*", LOG_LABEL_ONLY},
};

// The old form is {type: action}.
static const struct doc *convert_action(struct field_ctx *ctx, const struct doc *value)
{
    (void)ctx;
    const struct doc *type = doc_find(value, "type");
    return type ? type : value;
}

// clang-format off
static const struct field rows[] = {
    {"name", FIELD_STR, L(name),
     .help = "A label for trials whose log matches, and the name to override a policy by."},
    {"pattern", FIELD_STR, L(pattern),
     .help = "A regular expression that is searched for in the lines of the log, with the syntax "
             "of PCRE2; those of RE2 and POSIX mean the same, except for \\C, \\< and \\>. At "
             "most 1000 bytes. A line that it takes longer than 20 ms for is passed over, and the "
             "log says so. Without it, the built-in policy of that name is off."},
    {"action", FIELD_ENUM, L(action), .values = actions, .convert = convert_action,
     .help = "cancel_retries: the trial is not restarted. exclude_node: restarts avoid the "
             "machine."},
};
// clang-format on

static void check_policy(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct log_policy *p = self;
    if (!p->name && !p->pattern)
        field_error(ctx, map, "needs a name or a pattern");
    else if (!p->name && p->action == LOG_LABEL_ONLY)
        field_error(ctx, map, "needs a name or an action");
    else if (p->action == LOG_EXCLUDE_NODE)
        field_warn(ctx, map, "exclude_node has no effect. There is one machine.");
}

const struct field_table log_policy_table = {
    .size = sizeof(struct log_policy), FIELD_ROWS(rows), .check = check_policy};

static bool same_value(const struct doc *a, const struct doc *b, const char *key)
{
    const struct doc *x = doc_find(a, key), *y = doc_find(b, key);
    return x && y ? x->kind == DOC_STR && doc_equal(x, y) : !x && !y;
}

// By name, or without names by what they do.
static bool same_policy(const struct doc *a, const struct doc *b)
{
    if (doc_find(a, "name") || doc_find(b, "name")) return same_value(a, b, "name");
    return same_value(a, b, "pattern") && same_value(a, b, "action");
}

const struct doc *merge_log_policies(struct field_ctx *ctx, const struct field *f,
                                     const struct doc *high, const struct doc *low)
{
    (void)f;
    if (high->kind != DOC_LIST || low->kind != DOC_LIST) return high;
    struct doc *out = doc_new(ctx->arena, DOC_LIST);
    out->pos = high->pos;
    for (const struct doc *e = high->first; e; e = e->next)
        doc_append(out, doc_share(ctx->arena, e));
    for (const struct doc *e = low->first; e; e = e->next) {
        bool known = false;
        for (const struct doc *h = high->first; h && !known; h = h->next)
            known = same_policy(h, e);
        if (!known) doc_append(out, doc_share(ctx->arena, e));
    }
    return out;
}

static bool has_name(const struct log_policy *policies, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (policies[i].name && !strcmp(policies[i].name, name)) return true;
    return false;
}

static void check_names(struct field_ctx *ctx, const struct doc *list,
                        const struct log_policy *given)
{
    struct field_path path = field_at_key(ctx, STR("log_policies"));
    ctx->path = &path;
    size_t i = 0;
    for (const struct doc *e = list ? list->first : NULL; e; e = e->next, i++)
        if (given[i].name && has_name(given, i, given[i].name))
            field_error(ctx, e, "there are two policies of the name '%.60s'", given[i].name);
    ctx->path = path.up;
}

void complete_log_policies(struct field_ctx *ctx, const struct doc *map, struct exp_config *cfg)
{
    const struct log_policy *given = cfg->log_policies.items;
    size_t n = cfg->log_policies.n;
    if (n) check_names(ctx, doc_find(map, "log_policies"), given);
    struct log_policy *all = arena_array(ctx->arena, n + STATIC_LEN(built_in), sizeof *all);
    if (n) memcpy(all, given, n * sizeof *all);
    for (size_t i = 0; i < STATIC_LEN(built_in); i++)
        if (!has_name(given, cfg->log_policies.n, built_in[i].name)) all[n++] = built_in[i];
    cfg->log_policies.items = all;
    cfg->log_policies.n = n;
}
