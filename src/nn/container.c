// Unit container.c: modules that are lists of modules.
#include "nn/module.h"

static det_tensor *sequential_forward(det_module *m, det_tensor *x)
{
    for (int i = 0; i < m->n_child; i++)
        x = det_forward(m->child[i], x);
    return x;
}

static det_module *list_new(const char *type, det_forward_fn forward, det_module *const *modules,
                            int n)
{
    det_module *m = det_module_new(type, 0, forward);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (!modules[i]) module_fail(m, DET_EINVAL, "module %d is NULL", i);
        det_module_add(m, name, modules[i]); // even after a failure: m frees what it was given
    }
    return module_ready(m, NULL);
}

det_module *det_nn_sequential_of(det_module *const *modules, int n)
{
    return list_new("Sequential", sequential_forward, modules, n);
}

det_module *det_nn_module_list(det_module *const *modules, int n)
{
    return list_new("ModuleList", NULL, modules, n);
}
