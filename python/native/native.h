// native/native.h: what the files of the extension module share: how errors, values and types pass
// between C and Python.
//
// The module is built against the limited API of CPython 3.9, so one file serves all later ones.
// A method has this shape:
//
//     static PyObject *core_set_status(PyObject *self, PyObject *args)
//     {
//         struct core *c = core_enter(self);           // NULL: closed; the exception is set
//         ...
//         NATIVE_WAIT(rc = det_core_set_status(c->core, text, &err));
//         return rc ? raise_err(&err) : none();
//     }
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include "base/arena.h"
#include "base/buf.h"
#include "det/err.h"
#include "doc/doc.h"
#include "doc/json.h"

// --- errors (errors.c)

// Raises what err says as an exception of determined.errors, unless Python has one under way
// already (then that one caused the failure). Returns NULL.
PyObject *raise_err(const det_err *err);

// Raises TypeError or ValueError. Returns NULL.
PyObject *raise_type(const char *fmt, ...);
PyObject *raise_value(const char *fmt, ...);

// --- waiting (wait.c)

// Runs a statement without the lock of the interpreter. Meanwhile Ctrl-C is looked for by whatever
// waits in it (sys/interrupt.h), which then fails with DET_ECANCELED; raise_err() leaves the
// KeyboardInterrupt as it is.
#define NATIVE_WAIT(statement)                      \
    do {                                            \
        PyThreadState *native_state = wait_begin(); \
        statement;                                  \
        wait_end(native_state);                     \
    } while (0)
PyThreadState *wait_begin(void);
void wait_end(PyThreadState *state);

// --- values (objects.c)

static inline PyObject *none(void)
{
    Py_RETURN_NONE;
}

static inline PyObject *boolean(bool b)
{
    return PyBool_FromLong(b);
}

// str, or None for NULL.
PyObject *text_or_none(const char *text);

// Borrowed from a str; NULL with TypeError naming what, or with ValueError if there is a NUL in it.
const char *text_of(PyObject *object, const char *what);

// A document as dicts, lists, str, int, float, bool and None.
PyObject *object_from_doc(const struct doc *doc);

// Appends the JSON of an object: dicts with keys of str, lists, tuples, str, numbers, bool, None,
// enum members by name, and whatever has tolist() or item() (tensors and arrays of any framework).
// 0, or -1 with an exception that names where: "metrics['loss'] ...".
int json_from_object(PyObject *object, const char *what, struct buf *out);

// The same as a document in an arena.
struct doc *doc_from_object(PyObject *object, const char *what, struct arena *arena);

// --- types (module.c)

// Makes a type of a spec and adds it to the module by the last part of its name. NULL on failure;
// the reference is the module's.
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);
// A new object of the type, zeroed behind its head.
void *new_object(PyTypeObject *type);
// tp_dealloc's last step.
void free_object(PyObject *self);

#define METHOD(name, function, doc)                                                      \
    {                                                                                    \
        name, (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS, doc \
    }

// Each file adds its types and functions: 0, or -1 with an exception.
int add_public(PyObject *module);
int add_core(PyObject *module);
int add_checkpoint(PyObject *module);
int add_operation(PyObject *module);
int add_ranks(PyObject *module);
int add_http(PyObject *module);
int add_config(PyObject *module);
