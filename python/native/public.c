// Unit public.c: public(), the decorator of functions that users call.
//
// An error of ours should point at the line of the user who made it, not at our innards. Python
// shows a traceback entry for each frame, so the cut is made here, where there is none: when a
// call fails, entries of this package at the end of its traceback are taken off. Frames of the
// user's own functions that we called stay, and so does everything that leads to them.
// DET_FULL_TRACEBACK=1 leaves all as it is.
#include "native.h"

#include <stdlib.h>
#include <structmember.h>

struct method {
    PyObject_HEAD PyObject *function;
    PyObject *dict; // __name__, __doc__, __wrapped__, ...: what functools.wraps() copies
};

static PyTypeObject *method_type;
static PyObject *our_files; // tuple of prefixes of file names

// --- tracebacks

// 1: the frame of this traceback entry runs code of this package; 0: it does not; -1: exception.
static int is_ours(PyObject *traceback)
{
    PyObject *frame = PyObject_GetAttrString(traceback, "tb_frame");
    PyObject *code = frame ? PyObject_GetAttrString(frame, "f_code") : NULL;
    PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
    PyObject *answer = file ? PyObject_CallMethod(file, "startswith", "(O)", our_files) : NULL;
    int ours = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    Py_XDECREF(file);
    Py_XDECREF(code);
    Py_XDECREF(frame);
    return ours;
}

static PyObject *next_entry(PyObject *traceback)
{
    PyObject *next = PyObject_GetAttrString(traceback, "tb_next");
    if (next == Py_None) Py_CLEAR(next);
    return next;
}

// The last entry that is the user's, borrowed from the list; NULL: there is none.
static PyObject *last_of_user(PyObject *traceback)
{
    PyObject *last = NULL;
    Py_INCREF(traceback);
    for (PyObject *at = traceback, *next; at; at = next) {
        if (is_ours(at) == 0) last = at;
        next = next_entry(at);
        Py_DECREF(at); // the list has it
    }
    PyErr_Clear();
    return last;
}

static void cut_traceback(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *last = traceback ? last_of_user(traceback) : NULL;
    if (last && PyObject_SetAttrString(last, "tb_next", Py_None)) PyErr_Clear();
    if (!last) {
        Py_CLEAR(traceback);
        if (value) PyException_SetTraceback(value, Py_None);
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *set_own_files(PyObject *module, PyObject *prefixes)
{
    (void)module;
    Py_INCREF(prefixes);
    Py_DECREF(our_files);
    our_files = prefixes;
    Py_RETURN_NONE;
}

// --- the type

static PyObject *method_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *result = PyObject_Call(((struct method *)self)->function, args, kwargs);
    if (!result && !getenv("DET_FULL_TRACEBACK")) cut_traceback();
    return result;
}

// A function that is found in a class becomes a bound method, of this one.
static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type)
{
    static PyObject *bind; // types.MethodType
    (void)type;
    if (!object || object == Py_None) return Py_INCREF(self), self;
    if (!bind) {
        PyObject *types = PyImport_ImportModule("types");
        bind = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
        Py_XDECREF(types);
        if (!bind) return NULL;
    }
    return PyObject_CallFunctionObjArgs(bind, self, object, NULL);
}

static PyObject *method_repr(PyObject *self)
{
    return PyObject_Repr(((struct method *)self)->function);
}

static int method_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct method *m = (struct method *)self;
    Py_VISIT(m->function);
    Py_VISIT(m->dict);
    return 0;
}

static int method_clear(PyObject *self)
{
    struct method *m = (struct method *)self;
    Py_CLEAR(m->function);
    Py_CLEAR(m->dict);
    return 0;
}

static void method_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    method_clear(self);
    free_object(self);
}

static PyMemberDef method_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(struct method, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *method_dict(PyObject *self, void *closure)
{
    struct method *m = (struct method *)self;
    (void)closure;
    if (!m->dict) m->dict = PyDict_New();
    Py_XINCREF(m->dict);
    return m->dict;
}

static PyGetSetDef method_attributes[] = {
    {"__dict__", method_dict, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot method_slots[] = {
    {Py_tp_call, method_call},
    {Py_tp_descr_get, method_get},
    {Py_tp_repr, method_repr},
    {Py_tp_traverse, method_traverse},
    {Py_tp_clear, method_clear},
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_members, method_members},
    {Py_tp_getset, method_attributes},
    {Py_tp_getattro, PyObject_GenericGetAttr},
    {Py_tp_setattro, PyObject_GenericSetAttr},
    {0, NULL},
};

static PyType_Spec method_spec = {
    .name = "determined._det.Method",
    .basicsize = sizeof(struct method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = method_slots,
};

// --- the decorator

static PyObject *public_(PyObject *module, PyObject *function)
{
    (void)module;
    if (!PyCallable_Check(function)) return raise_type("public() decorates functions");
    struct method *m = new_object(method_type);
    if (!m) return NULL;
    Py_INCREF(function);
    m->function = function;
    PyObject *tools = PyImport_ImportModule("functools");
    PyObject *done =
        tools ? PyObject_CallMethod(tools, "update_wrapper", "OO", (PyObject *)m, function) : NULL;
    Py_XDECREF(tools);
    if (!done) Py_DECREF((PyObject *)m);
    return done;
}

// --- setting up

static PyMethodDef functions[] = {
    {"public", public_, METH_O,
     "public(function)\n--\n\nDecorates a function that users call: its errors end at their line."},
    {"set_own_files", set_own_files, METH_VARARGS,
     "set_own_files(*prefixes)\n--\n\nFolders whose frames public() leaves out of tracebacks."},
    {NULL, NULL, 0, NULL},
};

int add_public(PyObject *module)
{
    our_files = PyTuple_New(0);
    method_type = add_type(module, &method_spec);
    return our_files && method_type ? PyModule_AddFunctions(module, functions) : -1;
}
