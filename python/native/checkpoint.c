// Unit checkpoint.c: the Checkpoint type: a folder being written, until it is committed or
// aborted.
#include "core.h"

struct checkpoint {
    PyObject_HEAD PyObject *core;
    det_checkpoint *checkpoint; // NULL: committed or aborted
    PyObject *path, *uuid;
};

static PyTypeObject *checkpoint_type;

PyObject *checkpoint_new(PyObject *core, det_checkpoint *checkpoint, const char *path)
{
    struct checkpoint *self = new_object(checkpoint_type);
    if (!self) {
        det_checkpoint_abort(checkpoint);
        return NULL;
    }
    Py_INCREF(core);
    self->core = core;
    self->checkpoint = checkpoint;
    ((struct core *)core)->n_checkpoints++;
    self->path = text_or_none(path);
    self->uuid = text_or_none(det_checkpoint_uuid(checkpoint));
    if (self->path && self->uuid) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

// Who ends it first has it.
static det_checkpoint *take(struct checkpoint *c)
{
    det_checkpoint *checkpoint = c->checkpoint;
    if (checkpoint) ((struct core *)c->core)->n_checkpoints--;
    c->checkpoint = NULL;
    return checkpoint;
}

static PyObject *checkpoint_commit(PyObject *self, PyObject *metadata)
{
    struct checkpoint *c = (struct checkpoint *)self;
    struct core_visit v;
    det_err err = {DET_ESTATE, "the checkpoint was committed or aborted already"};
    struct buf json = BUF_INIT(16 << 20);
    if (!c->checkpoint) return raise_err(&err);
    if (metadata != Py_None && json_from_object(metadata, "metadata", &json)) {
        buf_done(&json);
        return NULL;
    }
    det_checkpoint *checkpoint = take(c);
    if (!core_enter(c->core, &v)) {
        buf_done(&json);
        return NULL;
    }
    int rc = det_checkpoint_commit(checkpoint, json.len ? buf_str(&json).ptr : NULL, &err);
    core_leave(&v);
    buf_done(&json);
    return rc ? raise_err(&err) : none();
}

static PyObject *checkpoint_abort(PyObject *self, PyObject *args)
{
    struct checkpoint *c = (struct checkpoint *)self;
    struct core_visit v;
    (void)args;
    if (!c->checkpoint) return none();
    det_checkpoint *checkpoint = take(c);
    if (!core_enter(c->core, &v)) return NULL;
    det_checkpoint_abort(checkpoint);
    core_leave(&v);
    return none();
}

static void checkpoint_dealloc(PyObject *self)
{
    struct checkpoint *c = (struct checkpoint *)self;
    det_checkpoint_abort(take(c));
    Py_XDECREF(c->path);
    Py_XDECREF(c->uuid);
    Py_XDECREF(c->core);
    free_object(self);
}

static PyObject *checkpoint_path(PyObject *self, void *closure)
{
    PyObject *path = ((struct checkpoint *)self)->path;
    (void)closure;
    Py_INCREF(path);
    return path;
}

static PyObject *checkpoint_uuid(PyObject *self, void *closure)
{
    PyObject *uuid = ((struct checkpoint *)self)->uuid;
    (void)closure;
    Py_INCREF(uuid);
    return uuid;
}

static PyMethodDef checkpoint_methods[] = {
    {"commit", checkpoint_commit, METH_O,
     "Makes it durable and tells the master. Metadata or None."},
    {"abort", checkpoint_abort, METH_NOARGS, "As if it had never been begun."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef checkpoint_attributes[] = {
    {"path", checkpoint_path, NULL, "The folder to write into.", NULL},
    {"uuid", checkpoint_uuid, NULL, "Its name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot checkpoint_slots[] = {
    {Py_tp_dealloc, checkpoint_dealloc},
    {Py_tp_methods, checkpoint_methods},
    {Py_tp_getset, checkpoint_attributes},
    {0, NULL},
};

static PyType_Spec checkpoint_spec = {
    .name = "determined._det.Checkpoint",
    .basicsize = sizeof(struct checkpoint),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = checkpoint_slots,
};

int add_checkpoint(PyObject *module)
{
    checkpoint_type = add_type(module, &checkpoint_spec);
    return checkpoint_type ? 0 : -1;
}
