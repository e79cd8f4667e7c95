// Unit module.c: the tree of modules: making, registering, walking, running. Knows no layer.
#include "nn/module.h"

#include "base/str.h"
#include <stdarg.h>

det_module *det_module_new(const char *type, size_t self_bytes, det_forward_fn forward)
{
    det_module *m = xcalloc(1, sizeof *m + self_bytes);
    m->type = xstrdup(type ? type : "Module");
    m->forward = forward;
    m->training = true;
    m->all = xcalloc(1, sizeof *m->all);
    return m;
}

static void slots_done(struct slot_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->slot[i].name);
        det_unref(l->slot[i].tensor);
    }
    free(l->slot);
}

static void module_destroy(det_module *m)
{
    if (m->done) m->done(m);
    for (int i = 0; i < m->n_child; i++)
        module_destroy(m->child[i]);
    slots_done(&m->params);
    slots_done(&m->buffers);
    free(m->child);
    free(m->all->tensor);
    free(m->all);
    free((char *)(uintptr_t)m->origin.name);
    free(m->type);
    free(m);
}

void det_module_free(det_module *m)
{
    if (!m) return;
    if (m->parent) {
        det_raise(DET_ESTATE, "det_module_free: '%s' belongs to a %s, which frees it",
                  m->origin.name, m->parent->type);
        return;
    }
    module_destroy(m);
}

void *det_module_self(det_module *m)
{
    return m ? m->self : NULL;
}

// --- errors

static int path_of(const det_module *m, char *out, int size)
{
    if (!m->parent) return 0;
    int n = path_of(m->parent, out, size);
    int wrote = snprintf(out + n, (size_t)(size - n), "%s%s", n ? "." : "", m->origin.name);
    return MIN(n + wrote, size - 1);
}

det_tensor *module_fail(const det_module *m, int code, const char *fmt, ...)
{
    char path[160] = "", text[512];
    path_of(m, path, sizeof path);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (path[0])
        det_raise(code, "%s '%s': %s", m->type, path, text);
    else
        det_raise(code, "%s: %s", m->type, text);
    return NULL;
}

bool arg_at_least(const char *type, const char *name, int64_t value, int64_t min)
{
    if (value >= min) return true;
    det_raise(DET_EINVAL, "%s: %s must be >= %lld, got %lld", type, name, (long long)min,
              (long long)value);
    return false;
}

bool arg_is_probability(const char *type, const char *name, double value)
{
    if (value >= 0 && value <= 1) return true;
    det_raise(DET_EINVAL, "%s: %s must be in 0 .. 1, got %g", type, name, value);
    return false;
}

// --- registering

static void forget_params(det_module *m)
{
    for (; m; m = m->parent)
        m->all->valid = false;
}

static struct tensor_slot *slot_find(const struct slot_list *l, struct str name)
{
    for (int i = 0; i < l->n; i++)
        if (str_eqz(name, l->slot[i].name)) return &l->slot[i];
    return NULL;
}

static int child_index(const det_module *m, struct str name)
{
    for (int i = 0; i < m->n_child; i++)
        if (str_eqz(name, m->child[i]->origin.name)) return i;
    return -1;
}

// Whether name may become a member of list (one of the module's three): a module's names are one
// space.
static bool name_is_good(const det_module *m, const char *name, const void *list)
{
    struct str s = str_from(name);
    if (!s.len || strchr(name, '.'))
        module_fail(m, DET_EINVAL, "'%s' is not a name: it is empty or has a dot",
                    s.len ? name : "");
    else if ((list != &m->params && slot_find(&m->params, s)) ||
             (list != &m->buffers && slot_find(&m->buffers, s)) ||
             (list != &m->child && child_index(m, s) >= 0))
        module_fail(m, DET_EINVAL, "'%s' is the name of something else already", name);
    else
        return true;
    return false;
}

static void slot_set(det_module *m, struct slot_list *l, const char *name, det_tensor *t)
{
    struct tensor_slot *s = slot_find(l, str_from(name));
    if (!s) {
        l->slot = xrealloc(l->slot, (size_t)(l->n + 1) * sizeof *l->slot);
        s = &l->slot[l->n++];
        *s = (struct tensor_slot){.name = xstrdup(name)};
    }
    det_ref(t);
    det_unref(s->tensor);
    s->tensor = t;
    forget_params(m);
}

det_tensor *det_module_add_param(det_module *m, const char *name, det_tensor *t)
{
    if (!m || sticky_failed() || !name_is_good(m, name, &m->params)) return NULL;
    det_requires_grad(t, true);
    if (sticky_failed()) return NULL;
    slot_set(m, &m->params, name, t);
    return t;
}

det_tensor *det_module_add_buffer(det_module *m, const char *name, det_tensor *t)
{
    if (!m || sticky_failed() || !name_is_good(m, name, &m->buffers)) return NULL;
    slot_set(m, &m->buffers, name, t);
    return t;
}

static bool may_adopt(const det_module *m, const det_module *child, const char *name)
{
    if (child->parent) {
        module_fail(m, DET_ESTATE, "'%s' belongs to a %s already", name, child->parent->type);
        return false;
    }
    for (const det_module *up = m; up; up = up->parent)
        if (up == child) {
            module_fail(m, DET_EINVAL, "'%s' would contain itself", name);
            return false;
        }
    return true;
}

det_module *det_module_add(det_module *m, const char *name, det_module *child)
{
    if (!child) return NULL;
    if (!m || !name_is_good(m, name, &m->child)) {
        det_module_free(child);
        return NULL;
    }
    if (!may_adopt(m, child, name)) return NULL;
    child->parent = m;
    child->origin = (struct origin){&m->origin, xstrdup(name)};
    int at = child_index(m, str_from(name));
    if (at >= 0) {
        module_destroy(m->child[at]);
    } else {
        at = m->n_child++;
        m->child = xrealloc(m->child, (size_t)m->n_child * sizeof *m->child);
    }
    m->child[at] = child;
    forget_params(m);
    return child;
}

// The scope lets go of the tensor at once, so that it dies with the module and not with the thread.
void module_add_f32(det_module *m, const char *name, const int64_t *shape, int ndim)
{
    det_scope_begin();
    slot_set(m, &m->params, name, det_requires_grad(det_empty(DET_F32, shape, ndim), true));
    det_scope_end();
}

void module_add_none(det_module *m, const char *name)
{
    slot_set(m, &m->params, name, NULL);
}

void det_module_on_reset(det_module *m, void (*reset)(det_module *m))
{
    if (m) m->reset = reset;
}

void det_module_on_free(det_module *m, void (*done)(det_module *m))
{
    if (m) m->done = done;
}

// --- running

static bool is_below_autocast(const det_module *m)
{
    while (m && !m->autocast)
        m = m->parent;
    return m;
}

// A part that is called by itself is as precise as it is inside of the whole. What a forward
// function calls is left to that function.
struct module_call module_enter(det_module *m)
{
    struct module_call call = {.caller = tape_set_origin(&m->origin)};
    call.casts = m->autocast || (!call.caller && is_below_autocast(m));
    call.autocast = call.casts ? det_set_autocast(true) : false;
    return call;
}

void module_leave(const struct module_call *call)
{
    if (call->casts) det_set_autocast(call->autocast);
    tape_set_origin(call->caller);
}

det_tensor *module_result(const struct module_call *call, det_tensor *y)
{
    return call->casts && y && det_dtype_of(y) == DET_BF16 ? det_to(y, DET_F32) : y;
}

det_tensor *det_forward(det_module *m, det_tensor *x)
{
    if (sticky_failed()) return NULL;
    if (!m) {
        det_raise(DET_EINVAL, "det_forward: the module is NULL");
        return NULL;
    }
    if (!m->forward) return module_fail(m, DET_EUNSUPPORTED, "has no forward of its own");
    struct module_call call = module_enter(m);
    det_tensor *y = m->forward(m, x);
    module_leave(&call);
    return module_result(&call, y);
}

void det_module_train(det_module *m, bool training)
{
    if (!m) return;
    m->training = training;
    for (int i = 0; i < m->n_child; i++)
        det_module_train(m->child[i], training);
}

bool det_module_training(const det_module *m)
{
    return m && m->training;
}

void det_module_autocast(det_module *m, bool on)
{
    if (m) m->autocast = on;
}

static void reset_tree(det_module *m)
{
    for (int i = 0; i < m->n_child; i++)
        reset_tree(m->child[i]);
    if (m->reset) m->reset(m);
}

static void without_grad(det_module *m, void (*reset)(det_module *m))
{
    bool old = det_set_grad_enabled(false);
    det_scope_begin();
    reset(m);
    det_scope_end();
    det_set_grad_enabled(old);
}

void det_module_reset_parameters(det_module *m)
{
    if (m) without_grad(m, reset_tree);
}

det_module *module_ready(det_module *m, void (*reset)(det_module *m))
{
    m->reset = reset;
    if (reset && !sticky_failed()) without_grad(m, reset);
    if (!sticky_failed()) return m;
    module_destroy(m);
    return NULL;
}

// --- looking

const char *det_module_type(const det_module *m)
{
    return m ? m->type : "";
}

const char *det_module_name(const det_module *m)
{
    return m ? m->origin.name : NULL;
}

int det_module_n_children(const det_module *m)
{
    return m ? m->n_child : 0;
}

det_module *det_module_child(const det_module *m, int index)
{
    return m && index >= 0 && index < m->n_child ? m->child[index] : NULL;
}

static det_module *find_module(det_module *m, struct str path)
{
    while (m && path.len) {
        int at = child_index(m, str_cut(&path, '.'));
        m = at >= 0 ? m->child[at] : NULL;
    }
    return m;
}

det_module *det_module_find(det_module *m, const char *path)
{
    return path ? find_module(m, str_from(path)) : NULL;
}

det_tensor *det_module_find_param(det_module *m, const char *path)
{
    if (!path) return NULL;
    const char *dot = strrchr(path, '.');
    m = find_module(m, (struct str){path, dot ? (size_t)(dot - path) : 0});
    if (!m) return NULL;
    struct str name = str_from(dot ? dot + 1 : path);
    struct tensor_slot *s = slot_find(&m->params, name);
    if (!s || !s->tensor) s = slot_find(&m->buffers, name);
    return s ? s->tensor : NULL;
}

// --- all parameters

static void collect_tensor(struct param_list *l, det_tensor *t)
{
    if (!t) return;
    for (int i = 0; i < l->n; i++)
        if (l->tensor[i] == t) return; // shared
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 8;
        l->tensor = xrealloc(l->tensor, (size_t)l->cap * sizeof *l->tensor);
    }
    l->tensor[l->n++] = t;
}

static void collect_tree(struct param_list *l, const det_module *m)
{
    for (int i = 0; i < m->params.n; i++)
        collect_tensor(l, param(m, i));
    for (int i = 0; i < m->n_child; i++)
        collect_tree(l, m->child[i]);
}

static const struct param_list *all_params(const det_module *m)
{
    static const struct param_list none;
    if (!m) return &none;
    if (!m->all->valid) {
        m->all->n = 0;
        collect_tree(m->all, m);
        m->all->valid = true;
    }
    return m->all;
}

int det_module_n_params(const det_module *m)
{
    return all_params(m)->n;
}

det_tensor *det_module_param(const det_module *m, int index)
{
    const struct param_list *l = all_params(m);
    return index >= 0 && index < l->n ? l->tensor[index] : NULL;
}

int64_t det_module_numel(const det_module *m)
{
    const struct param_list *l = all_params(m);
    int64_t n = 0;
    for (int i = 0; i < l->n; i++)
        n += det_numel(l->tensor[i]);
    return n;
}

void det_module_requires_grad(det_module *m, bool on)
{
    const struct param_list *l = all_params(m);
    for (int i = 0; i < l->n; i++)
        det_requires_grad(l->tensor[i], on);
}

void det_module_zero_grad(det_module *m)
{
    const struct param_list *l = all_params(m);
    for (int i = 0; i < l->n; i++)
        det_zero_grad(l->tensor[i]);
}
