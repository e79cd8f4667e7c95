// Unit errors.c: failures of det as exceptions. The classes are in determined/errors.py, so that
// they can be read, documented and caught like any others.
#include "native.h"

#include <stdarg.h>

static PyObject *exception_of(const det_err *err)
{
    PyObject *module = PyImport_ImportModule("determined.errors");
    if (!module) return NULL;
    PyObject *made =
        PyObject_CallMethod(module, "from_code", "ss", det_err_name(err->code), err->msg);
    Py_DECREF(module);
    return made;
}

PyObject *raise_err(const det_err *err)
{
    if (PyErr_Occurred()) return NULL;
    PyObject *exception = exception_of(err);
    if (exception) PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    return NULL;
}

PyObject *raise_type(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    PyErr_FormatV(PyExc_TypeError, fmt, args);
    va_end(args);
    return NULL;
}

PyObject *raise_value(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    PyErr_FormatV(PyExc_ValueError, fmt, args);
    va_end(args);
    return NULL;
}
