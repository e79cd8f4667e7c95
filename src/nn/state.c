// Unit state.c: state dicts and descriptions of module trees.
#include "nn/module.h"

#include "base/buf.h"

enum { KEY_MAX = 1 << 12, DESCRIPTION_MAX = 16 << 20 };

// --- a tree as a list of keys

struct entry {
    char *key;
    det_tensor *tensor, *loaded;
};

struct entry_list {
    struct entry *entry;
    int n, cap;
};

static void entry_add(struct entry_list *l, const struct buf *prefix, const struct tensor_slot *s)
{
    if (!s->tensor) return;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 16;
        l->entry = xrealloc(l->entry, (size_t)l->cap * sizeof *l->entry);
    }
    struct buf key = BUF_INIT(KEY_MAX);
    buf_printf(&key, "%.*s%s", STR_ARG(buf_str(prefix)), s->name);
    l->entry[l->n++] = (struct entry){buf_take(&key), s->tensor, NULL};
}

// torch's order: parameters, buffers, then the children one after the other.
static void entries_collect(struct entry_list *l, const det_module *m, const struct buf *prefix)
{
    for (int i = 0; i < m->params.n; i++)
        entry_add(l, prefix, &m->params.slot[i]);
    for (int i = 0; i < m->buffers.n; i++)
        entry_add(l, prefix, &m->buffers.slot[i]);
    for (int i = 0; i < m->n_child; i++) {
        struct buf below = BUF_INIT(KEY_MAX);
        buf_printf(&below, "%.*s%s.", STR_ARG(buf_str(prefix)), m->child[i]->origin.name);
        entries_collect(l, m->child[i], &below);
        buf_done(&below);
    }
}

static struct entry_list entries_of(const det_module *m)
{
    struct entry_list l = {0};
    struct buf top = BUF_INIT(KEY_MAX);
    if (m) entries_collect(&l, m, &top);
    return l;
}

static void entries_done(struct entry_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->entry[i].key);
    free(l->entry);
}

det_value *det_module_state_dict(const det_module *m)
{
    struct entry_list l = entries_of(m);
    det_value *dict = det_value_dict();
    for (int i = 0; i < l.n; i++)
        det_value_set(dict, l.entry[i].key, det_value_tensor(l.entry[i].tensor));
    entries_done(&l);
    return dict;
}

// --- loading

enum complaint { MISSING, UNEXPECTED, NO_TENSOR, WRONG_SHAPE, N_COMPLAINTS };

// "missing: a, b; unexpected: c". What does not fit into an error message is left out.
struct complaints {
    struct buf text;
    enum complaint last; // N_COMPLAINTS: none yet
};

static void complain(struct complaints *c, enum complaint kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(struct complaints *c, enum complaint kind, const char *fmt, ...)
{
    static const char *const title[N_COMPLAINTS] = {
        "missing: ", "unexpected: ", "not a tensor: ", "wrong shape: "};
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (c->last == kind)
        buf_printf(&c->text, ", %s", what);
    else
        buf_printf(&c->text, "%s%s%s", c->last == N_COMPLAINTS ? "" : "; ", title[kind], what);
    c->last = kind;
}

static void find_missing(const struct entry_list *l, const det_value *state, struct complaints *c)
{
    for (int i = 0; i < l->n; i++)
        if (!det_value_get(state, l->entry[i].key)) complain(c, MISSING, "%s", l->entry[i].key);
}

static void find_unexpected(const struct entry_list *l, const det_value *state,
                            struct complaints *c)
{
    for (int k = 0; k < det_value_len(state); k++) {
        const char *key = det_value_key(state, k, NULL);
        bool known = false;
        for (int i = 0; key && i < l->n && !known; i++)
            known = str_eq(str_from(key), str_from(l->entry[i].key));
        if (!known) complain(c, UNEXPECTED, "%s", key ? key : "(a number)");
    }
}

// Looks up what will be loaded; it must be tensors of the right shapes.
static void find_misfits(struct entry_list *l, const det_value *state, struct complaints *c)
{
    for (int i = 0; i < l->n; i++) {
        struct entry *e = &l->entry[i];
        const det_value *v = det_value_get(state, e->key);
        e->loaded = det_value_as_tensor(v);
        if (v && !e->loaded) complain(c, NO_TENSOR, "%s", e->key);
    }
    for (int i = 0; i < l->n; i++) {
        const struct entry *e = &l->entry[i];
        if (!e->loaded || same_shape(e->tensor, e->loaded)) continue;
        char have[96], want[96];
        complain(c, WRONG_SHAPE, "%s is %s, wants %s", e->key,
                 det_describe(e->loaded, have, sizeof have),
                 det_describe(e->tensor, want, sizeof want));
    }
}

static int copy_in(const struct entry_list *l, det_err *err)
{
    bool old = det_set_grad_enabled(false);
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].loaded) det_copy_(l->entry[i].tensor, l->entry[i].loaded);
    det_set_grad_enabled(old);
    return sticky_failed() ? det_check(err) : det_ok(err);
}

int det_module_load_state_dict(det_module *m, const det_value *state, bool strict, det_err *err)
{
    if (!m) return det_fail(err, DET_EINVAL, "load_state_dict: the module is NULL");
    if (det_value_kind(state) != DET_KIND_DICT)
        return det_fail(err, DET_EINVAL, "load_state_dict: wants a dict, got %s",
                        det_kind_name(det_value_kind(state)));
    if (sticky_failed())
        return det_fail(err, DET_ESTATE, "load_state_dict: an earlier error waits");
    struct entry_list l = entries_of(m);
    struct complaints c = {BUF_INIT(DET_ERR_MSG_MAX - 64), N_COMPLAINTS};
    if (strict) find_missing(&l, state, &c);
    if (strict) find_unexpected(&l, state, &c);
    find_misfits(&l, state, &c);
    int rc = c.last == N_COMPLAINTS
                 ? copy_in(&l, err)
                 : det_fail(err, DET_EINVAL, "the state dict does not fit: %.*s%s",
                            STR_ARG(buf_str(&c.text)), buf_ok(&c.text) ? "" : " ...");
    buf_done(&c.text);
    entries_done(&l);
    return rc;
}

// --- describing

static void describe(const det_module *m, int depth, struct buf *out)
{
    int64_t n = det_module_numel(m);
    buf_printf(out, "%*s", 2 * depth, "");
    if (m->origin.name) buf_printf(out, "(%s) ", m->origin.name);
    buf_addz(out, m->type);
    if (n) buf_printf(out, ": %lld parameters", (long long)n);
    buf_addc(out, '\n');
    for (int i = 0; i < m->n_child; i++)
        describe(m->child[i], depth + 1, out);
}

char *det_module_describe(const det_module *m)
{
    struct buf out = BUF_INIT(DESCRIPTION_MAX);
    if (m) describe(m, 0, &out);
    return buf_take(&out);
}
