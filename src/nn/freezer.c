// Unit freezer.c: freezes and unfreezes layer groups of a model. Called by users.
#include "det/finetuning.h"

#include "base/mem.h"
#include "base/str.h"
#include "value/value.h"

struct module_list {
    det_module **item;
    int n;
};

struct det_freezer {
    det_module *model;
    bool freeze_batch_norms;
    struct module_list layers; // without children, in order
};

static void add_leaves(struct module_list *list, det_module *m)
{
    int n = det_module_n_children(m);
    for (int i = 0; i < n; i++)
        add_leaves(list, det_module_child(m, i));
    if (n) return;
    list->item = xrealloc(list->item, (size_t)(list->n + 1) * sizeof(det_module *));
    list->item[list->n++] = m;
}

det_freezer *det_freezer_new(det_module *model, bool freeze_batch_norms)
{
    if (!model) det_raise(DET_EINVAL, "freezer: the model is NULL");
    if (sticky_failed()) return NULL;
    det_freezer *f = xcalloc(1, sizeof *f);
    f->model = model;
    f->freeze_batch_norms = freeze_batch_norms;
    add_leaves(&f->layers, model);
    det_module_requires_grad(model, true);
    return f;
}

void det_freezer_free(det_freezer *f)
{
    if (!f) return;
    free(f->layers.item);
    free(f);
}

int det_freezer_n_groups(const det_freezer *f)
{
    return f ? det_module_n_children(f->model) : 0;
}

det_module *det_freezer_group(const det_freezer *f, int index)
{
    return f ? det_module_child(f->model, index) : NULL;
}

int det_freezer_n_layers(const det_freezer *f)
{
    return f ? f->layers.n : 0;
}

det_module *det_freezer_layer(const det_freezer *f, int index)
{
    return f && index >= 0 && index < f->layers.n ? f->layers.item[index] : NULL;
}

// The index-th parameter that requires a gradient, or (index < 0) their number in *n.
static det_tensor *trainable(const det_freezer *f, int index, int *n)
{
    *n = 0;
    for (int i = 0; f && i < det_module_n_params(f->model); i++) {
        det_tensor *p = det_module_param(f->model, i);
        if (det_has_requires_grad(p) && (*n)++ == index) return p;
    }
    return NULL;
}

int det_freezer_n_trainable(const det_freezer *f)
{
    int n;
    trainable(f, -1, &n);
    return n;
}

det_tensor *det_freezer_trainable(const det_freezer *f, int index)
{
    int n;
    return index < 0 ? NULL : trainable(f, index, &n);
}

// Negative numbers count from the end, and the smaller one comes first.
static bool normalize(const det_freezer *f, int *from, int *to)
{
    int n = det_freezer_n_groups(f), a = *from < 0 ? *from + n : *from, b = *to < 0 ? *to + n : *to;
    if (a < 0 || a >= n || b < 0 || b >= n) {
        det_raise(DET_EINVAL, "freezer: groups %d to %d of %d", *from, *to, n);
        return false;
    }
    *from = a < b ? a : b;
    *to = a < b ? b : a;
    return true;
}

static bool is_left_alone(const det_freezer *f, const det_module *layer)
{
    return !f->freeze_batch_norms && str_starts(str_from(det_module_type(layer)), STR("BatchNorm"));
}

// Layers below m, itself if it has none.
static void freeze_below(const det_freezer *f, det_module *m, bool set_as_eval)
{
    for (int i = 0; i < det_module_n_children(m); i++)
        freeze_below(f, det_module_child(m, i), set_as_eval);
    if (det_module_n_children(m) || is_left_alone(f, m)) return;
    det_module_requires_grad(m, false);
    if (set_as_eval) det_module_train(m, false);
}

void det_freezer_freeze(det_freezer *f, int from, int to, bool set_modules_as_eval)
{
    if (!f || !normalize(f, &from, &to)) return;
    for (int i = from; i <= to; i++)
        freeze_below(f, det_freezer_group(f, i), set_modules_as_eval);
}

static det_value *frozen_params(const det_module *m)
{
    det_value *list = det_value_list();
    for (int i = 0; i < det_module_n_params(m); i++)
        if (!det_has_requires_grad(det_module_param(m, i)))
            det_value_push(list, det_value_tensor(det_module_param(m, i)));
    return list;
}

det_value *det_freezer_unfreeze(det_freezer *f, int from, int to, bool set_modules_as_training)
{
    if (!f || !normalize(f, &from, &to)) return NULL;
    det_value *changed = det_value_dict();
    for (int i = from; i <= to; i++) {
        det_module *group = det_freezer_group(f, i);
        det_value *params = frozen_params(group);
        if (det_value_len(params))
            det_value_set(det_value_set_int(changed, i, det_value_dict()), "params", params);
        else
            det_value_free(params);
        det_module_requires_grad(group, true);
        if (set_modules_as_training) det_module_train(group, true);
    }
    return changed;
}
