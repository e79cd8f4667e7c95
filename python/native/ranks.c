// Unit ranks.c: the Ranks type: what the processes of one trial do together.
#include "native.h"

#include "base/mem.h"
#include "dist/dist.h"
#include <pthread.h>

struct ranks {
    PyObject_HEAD struct dist *dist; // NULL: this is the only one
    pthread_mutex_t lock;            // as that of Core
};

static PyTypeObject *ranks_type;

// --- life

static PyObject *ranks_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", "rank", "size", "timeout", NULL};
    struct dist_opts opts = {0};
    struct dist *dist = NULL;
    double timeout_s = 0;
    det_err err = {0};
    int rc;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sii|d:Ranks", names, &opts.key, &opts.rank,
                                     &opts.size, &timeout_s))
        return NULL;
    opts.timeout_us = (int64_t)(timeout_s * 1e6);
    NATIVE_WAIT(rc = dist_join(&opts, &dist, &err));
    if (rc) return raise_err(&err);
    struct ranks *self = new_object(type);
    if (!self) {
        dist_leave(dist);
        return NULL;
    }
    self->dist = dist;
    pthread_mutex_init(&self->lock, NULL);
    return (PyObject *)self;
}

static void ranks_dealloc(PyObject *self)
{
    struct ranks *r = (struct ranks *)self;
    dist_leave(r->dist);
    pthread_mutex_destroy(&r->lock);
    free_object(self);
}

static PyObject *ranks_leave(PyObject *self, PyObject *args)
{
    struct ranks *r = (struct ranks *)self;
    struct dist *dist = r->dist;
    (void)args;
    r->dist = NULL;
    dist_leave(dist);
    return none();
}

// --- operations

#define RANKS_WAIT(r, statement)          \
    NATIVE_WAIT({                         \
        pthread_mutex_lock(&(r)->lock);   \
        statement;                        \
        pthread_mutex_unlock(&(r)->lock); \
    })

static PyObject *ranks_barrier(PyObject *self, PyObject *what)
{
    struct ranks *r = (struct ranks *)self;
    det_err err = {0};
    int rc;
    const char *name = text_of(what, "what");
    if (!name) return NULL;
    RANKS_WAIT(r, rc = dist_barrier(r->dist, name, &err));
    return rc ? raise_err(&err) : none();
}

static PyObject *list_of_parts(const struct dist_parts *parts)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; i < parts->n && list; i++) {
        const struct str part = parts->part[i];
        PyObject *bytes = PyBytes_FromStringAndSize(part.ptr, (Py_ssize_t)part.len);
        if (!bytes || PyList_Append(list, bytes)) Py_CLEAR(list);
        Py_XDECREF(bytes);
    }
    return list;
}

static PyObject *ranks_all_gather(PyObject *self, PyObject *args)
{
    struct ranks *r = (struct ranks *)self;
    const char *what, *bytes;
    Py_ssize_t n;
    struct dist_parts parts = {0};
    det_err err = {0};
    int rc;
    if (!PyArg_ParseTuple(args, "sy#:all_gather", &what, &bytes, &n)) return NULL;
    if (!r->dist) return Py_BuildValue("[y#]", bytes, n);
    const struct str mine = {bytes, (size_t)n};
    RANKS_WAIT(r, rc = dist_all_gather(r->dist, what, mine, &parts, &err));
    if (rc) return raise_err(&err);
    PyObject *list = list_of_parts(&parts);
    dist_parts_done(&parts);
    return list;
}

static PyObject *ranks_all_reduce(PyObject *self, PyObject *args)
{
    static const char types[] = "fdb";
    struct ranks *r = (struct ranks *)self;
    const char *what;
    unsigned long long address;
    Py_ssize_t n;
    int type, is_mean, rc;
    det_err err = {0};
    if (!PyArg_ParseTuple(args, "sKnCp:all_reduce", &what, &address, &n, &type, &is_mean))
        return NULL;
    const char *found = type && type < 128 ? strchr(types, type) : NULL;
    if (!found || n < 0) return raise_value("the type must be 'f', 'd' or 'b', n at least 0");
    void *data = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): tensor.data_ptr()
    RANKS_WAIT(r,
               rc = dist_all_reduce(r->dist, what, data, (size_t)n, (enum dist_type)(found - types),
                                    is_mean ? DIST_MEAN : DIST_SUM, &err));
    return rc ? raise_err(&err) : none();
}

static PyObject *ranks_fail(PyObject *self, PyObject *why)
{
    const char *text = text_of(why, "why");
    if (!text) return NULL;
    dist_fail(((struct ranks *)self)->dist, DET_EIO, text);
    return none();
}

static PyObject *ranks_rank(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(dist_rank(((struct ranks *)self)->dist));
}

static PyObject *ranks_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(dist_size(((struct ranks *)self)->dist));
}

static PyMethodDef ranks_methods[] = {
    {"barrier", ranks_barrier, METH_O, "barrier(what)\n--\n\nReturns when all have come here."},
    {"all_gather", ranks_all_gather, METH_VARARGS,
     "all_gather(what, bytes)\n--\n\nThe bytes of every rank, in order."},
    {"all_reduce", ranks_all_reduce, METH_VARARGS,
     "all_reduce(what, address, n, type, mean)\n--\n\n"
     "Numbers in memory ('f': f32, 'd': f64, 'b': bf16) become their sum or mean over all ranks."},
    {"fail", ranks_fail, METH_O, "fail(why)\n--\n\nLets the operations of the others fail."},
    {"leave", ranks_leave, METH_NOARGS, "leave()\n--\n\nEnds the membership."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef ranks_attributes[] = {
    {"rank", ranks_rank, NULL, "Of this process.", NULL},
    {"size", ranks_size, NULL, "How many there are.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot ranks_slots[] = {
    {Py_tp_new, ranks_new},
    {Py_tp_dealloc, ranks_dealloc},
    {Py_tp_methods, ranks_methods},
    {Py_tp_getset, ranks_attributes},
    {0, NULL},
};

static PyType_Spec ranks_spec = {
    .name = "determined._det.Ranks",
    .basicsize = sizeof(struct ranks),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = ranks_slots,
};

int add_ranks(PyObject *module)
{
    ranks_type = add_type(module, &ranks_spec);
    return ranks_type ? 0 : -1;
}
