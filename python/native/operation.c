// Unit operation.c: the Operation type: how long to train, and that it is done.
#include "core.h"

struct operation {
    PyObject_HEAD PyObject *core;
    det_search_op *op;
    int64_t number;
    bool is_done;
};

static PyTypeObject *operation_type;

PyObject *operation_new(PyObject *core, det_search_op *op, int64_t number)
{
    struct operation *self = new_object(operation_type);
    if (!self) return NULL;
    Py_INCREF(core);
    self->core = core;
    self->op = op;
    self->number = number;
    return (PyObject *)self;
}

static void operation_dealloc(PyObject *self)
{
    Py_XDECREF(((struct operation *)self)->core);
    free_object(self);
}

// The C side keeps one operation: an older object must not speak for it.
static bool operation_enter(struct operation *o, struct core_visit *v)
{
    if (!core_enter(o->core, v)) return false;
    if (o->number == v->core->n_ops) return true;
    core_leave(v);
    const det_err err = {DET_ESTATE, "this operation is over: the searcher has given another one"};
    raise_err(&err);
    return false;
}

typedef int (*length_fn)(const det_search_op *op, int64_t *out, det_err *err);

static PyObject *length_in(PyObject *self, length_fn length)
{
    struct operation *o = (struct operation *)self;
    struct core_visit v;
    int64_t n = 0;
    det_err err = {0};
    if (!operation_enter(o, &v)) return NULL;
    int rc = length(o->op, &n, &err);
    core_leave(&v);
    return rc ? raise_err(&err) : PyLong_FromLongLong(n);
}

static PyObject *operation_epochs(PyObject *self, void *closure)
{
    (void)closure;
    return length_in(self, det_search_op_epochs);
}

static PyObject *operation_batches(PyObject *self, void *closure)
{
    (void)closure;
    return length_in(self, det_search_op_batches);
}

static PyObject *operation_records(PyObject *self, void *closure)
{
    (void)closure;
    return length_in(self, det_search_op_records);
}

static int any_length(const det_search_op *op, int64_t *out, det_err *err)
{
    *out = det_search_op_length(op);
    return det_ok(err);
}

static PyObject *operation_length(PyObject *self, void *closure)
{
    (void)closure;
    return length_in(self, any_length);
}

static PyObject *operation_unit(PyObject *self, void *closure)
{
    struct operation *o = (struct operation *)self;
    struct core_visit v;
    (void)closure;
    if (!operation_enter(o, &v)) return NULL;
    const char *unit = det_search_op_unit(o->op);
    core_leave(&v);
    return text_or_none(unit);
}

static PyObject *operation_is_complete(PyObject *self, void *closure)
{
    (void)closure;
    return boolean(((struct operation *)self)->is_done);
}

typedef int (*report_fn)(det_search_op *op, double value, det_err *err);

static int report(struct operation *o, PyObject *value, report_fn send)
{
    struct core_visit v;
    det_err err = {0};
    double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (!operation_enter(o, &v)) return -1;
    int rc = send(o->op, number, &err);
    core_leave(&v);
    if (rc) raise_err(&err);
    return rc;
}

static PyObject *operation_report_progress(PyObject *self, PyObject *units)
{
    return report((struct operation *)self, units, det_search_op_report_progress) ? NULL : none();
}

static PyObject *operation_complete(PyObject *self, PyObject *metric)
{
    struct operation *o = (struct operation *)self;
    if (report(o, metric, det_search_op_complete)) return NULL;
    o->is_done = true;
    return none();
}

static PyMethodDef operation_methods[] = {
    {"report_progress", operation_report_progress, METH_O, "How much was trained so far."},
    {"complete", operation_complete, METH_O, "The length is reached, with this metric. Once."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef operation_attributes[] = {
    {"epochs", operation_epochs, NULL, "The length, if it was configured in epochs.", NULL},
    {"batches", operation_batches, NULL, "The length, if it was configured in batches.", NULL},
    {"records", operation_records, NULL, "The length, if it was configured in records.", NULL},
    {"length", operation_length, NULL, "The length, whatever the unit is.", NULL},
    {"unit", operation_unit, NULL, "'epochs', 'batches', 'records' or 'units'.", NULL},
    {"is_complete", operation_is_complete, NULL, "Whether complete() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot operation_slots[] = {
    {Py_tp_dealloc, operation_dealloc},
    {Py_tp_methods, operation_methods},
    {Py_tp_getset, operation_attributes},
    {0, NULL},
};

static PyType_Spec operation_spec = {
    .name = "determined._det.Operation",
    .basicsize = sizeof(struct operation),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = operation_slots,
};

int add_operation(PyObject *module)
{
    operation_type = add_type(module, &operation_spec);
    return operation_type ? 0 : -1;
}
