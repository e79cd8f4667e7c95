// Unit module.c: the module determined._det: its files add what they have.
#include "native.h"

#include "base/mem.h"
#include "det/version.h"

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type) return NULL;
    Py_INCREF(type); // ours, for as long as the program runs
    if (PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type)) {
        Py_DECREF(type);
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

void *new_object(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

static int add_all(PyObject *module)
{
    static int (*const parts[])(PyObject *) = {add_public, add_core, add_checkpoint, add_operation,
                                               add_ranks,  add_http, add_config};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module)) return -1;
    return PyModule_AddStringConstant(module, "VERSION", DET_VERSION);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_all}, {0, NULL}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "determined._det",
    .m_doc = "The C of det: what a task says to its master, checkpoints, ranks, the training loop.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__det(void);
PyMODINIT_FUNC PyInit__det(void)
{
    return PyModuleDef_Init(&definition);
}
