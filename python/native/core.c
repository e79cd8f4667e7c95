// Unit core.c: the Core type: init and close, what was configured, reports, pause.
#include "core.h"

#include "base/mem.h"
#include "storage/storage.h"

static PyTypeObject *core_type;

// --- entering

bool core_enter(PyObject *self, struct core_visit *out)
{
    struct core *c = (struct core *)self;
    *out = (struct core_visit){.core = c, .state = wait_begin()};
    pthread_mutex_lock(&c->lock);
    if (c->core) return true;
    core_leave(out);
    const det_err err = {DET_ESTATE, "the context was closed already"};
    raise_err(&err);
    return false;
}

void core_leave(struct core_visit *visit)
{
    pthread_mutex_unlock(&visit->core->lock);
    wait_end(visit->state);
}

// --- life

// An optional argument that is written as JSON; *out is NULL for None. False with an exception.
static bool json_argument(PyObject *object, const char *what, struct buf *text, const char **out)
{
    *out = NULL;
    if (!object || object == Py_None) return true;
    if (json_from_object(object, what, text)) return false;
    *out = buf_str(text).ptr;
    return true;
}

static PyObject *core_open(PyTypeObject *type, const det_core_opts *opts)
{
    det_err err = {0};
    det_core *core;
    NATIVE_WAIT(core = det_core_init_with(opts, &err));
    if (!core) return raise_err(&err);
    struct core *self = new_object(type);
    if (!self) {
        det_core_close(core, NULL);
        return NULL;
    }
    self->core = core;
    pthread_mutex_init(&self->lock, NULL);
    return (PyObject *)self;
}

static PyObject *core_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"hparams", "config",  "folder",   "trial_seed", "epochs",
                            "batches", "records", "patience", NULL};
    det_core_opts opts = {0};
    PyObject *hparams = NULL, *config = NULL;
    struct buf texts[2] = {BUF_INIT(16 << 20), BUF_INIT(16 << 20)};
    long long seed = 0, epochs = 0, batches = 0, records = 0;
    double patience_s = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOzLLLLd:Core", names, &hparams, &config,
                                     &opts.folder, &seed, &epochs, &batches, &records, &patience_s))
        return NULL;
    opts.trial_seed = seed;
    opts.epochs = epochs;
    opts.batches = batches;
    opts.records = records;
    opts.patience_ms = (int64_t)(patience_s * 1000);
    PyObject *self = NULL;
    if (json_argument(hparams, "hparams", &texts[0], &opts.hparams) &&
        json_argument(config, "config", &texts[1], &opts.config))
        self = core_open(type, &opts);
    buf_done(&texts[0]);
    buf_done(&texts[1]);
    return self;
}

// Takes the connection out of the object: from then on it is closed for everybody. Those who only
// look (should_preempt) hold the interpreter's lock and not ours, so both are held here.
static det_core *core_take(struct core *c)
{
    PyThreadState *state = wait_begin();
    pthread_mutex_lock(&c->lock);
    wait_end(state);
    det_core *core = c->core;
    c->core = NULL;
    pthread_mutex_unlock(&c->lock);
    return core;
}

static PyObject *core_close(PyObject *self, PyObject *args)
{
    struct core *c = (struct core *)self;
    det_err err = {DET_ESTATE, "a checkpoint is being written: it must be complete before the end"};
    double patience_s = -1;
    int rc;
    if (!PyArg_ParseTuple(args, "|d:close", &patience_s)) return NULL;
    if (c->core && c->n_checkpoints) return raise_err(&err);
    det_core *core = core_take(c);
    NATIVE_WAIT(rc = client_close(core, (int64_t)(patience_s * 1e6), &err));
    return rc ? raise_err(&err) : none();
}

static void core_dealloc(PyObject *self)
{
    struct core *c = (struct core *)self;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    NATIVE_WAIT(det_core_close(c->core, NULL));
    if (PyErr_Occurred()) PyErr_WriteUnraisable(self);
    PyErr_Restore(type, value, traceback);
    pthread_mutex_destroy(&c->lock);
    free_object(self);
}

// --- what was configured

static PyObject *core_info(PyObject *self, void *closure)
{
    struct core_visit v;
    (void)closure;
    if (!core_enter(self, &v)) return NULL;
    const det_core_info i = *det_core_get_info(v.core->core);
    core_leave(&v);
    return Py_BuildValue("{s:O,s:L,s:L,s:L,s:L,s:i,s:i,s:s}", "is_local",
                         i.is_local ? Py_True : Py_False, "trial_id", (long long)i.trial_id,
                         "experiment_id", (long long)i.experiment_id, "run_id", (long long)i.run_id,
                         "trial_seed", (long long)i.trial_seed, "rank", i.rank, "size", i.size,
                         "folder", i.folder);
}

static PyObject *core_value(PyObject *self, PyObject *path)
{
    struct core_visit v;
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    const struct json_opts opts = {.max_bytes = 16 << 20};
    const char *name = text_of(path, "path");
    if (!name || !core_enter(self, &v)) return NULL;
    const char *json = det_core_get_json(v.core->core, name);
    core_leave(&v);
    PyObject *value = NULL;
    if (json)
        value = object_from_doc(json_parse(&arena, str_from(json), &opts, &diags));
    else
        PyErr_SetObject(PyExc_KeyError, path);
    arena_done(&arena);
    return value;
}

static PyObject *core_rendezvous(PyObject *self, PyObject *args)
{
    struct core_visit v;
    const det_rendezvous *r = NULL;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_rendezvous(v.core->core, &r, &err);
    core_leave(&v);
    if (rc) return raise_err(&err);
    PyObject *machines = PyList_New(0);
    for (int i = 0; i < r->size && machines; i++) {
        PyObject *machine = Py_BuildValue("(si)", r->addresses[i], r->slots[i]);
        if (!machine || PyList_Append(machines, machine)) Py_CLEAR(machines);
        Py_XDECREF(machine);
    }
    return machines ? Py_BuildValue("(iN)", r->rank, machines) : NULL;
}

// --- reports

static PyObject *core_report_metrics(PyObject *self, PyObject *args)
{
    const char *group;
    long long batches;
    PyObject *metrics;
    struct core_visit v;
    det_err err = {0};
    struct buf json = BUF_INIT(16 << 20);
    if (!PyArg_ParseTuple(args, "sLO:report_metrics", &group, &batches, &metrics)) return NULL;
    if (json_from_object(metrics, "metrics", &json) || !core_enter(self, &v)) {
        buf_done(&json);
        return NULL;
    }
    int rc = det_core_report_metrics(v.core->core, group, batches, buf_str(&json).ptr, &err);
    core_leave(&v);
    buf_done(&json);
    return rc ? raise_err(&err) : none();
}

static PyObject *core_set_status(PyObject *self, PyObject *text)
{
    struct core_visit v;
    det_err err = {0};
    const char *status = text_of(text, "the status");
    if (!status || !core_enter(self, &v)) return NULL;
    int rc = det_core_set_status(v.core->core, status, &err);
    core_leave(&v);
    return rc ? raise_err(&err) : none();
}

static PyObject *core_report_invalid_hparams(PyObject *self, PyObject *args)
{
    struct core_visit v;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_report_invalid_hparams(v.core->core, &err);
    core_leave(&v);
    return rc ? raise_err(&err) : none();
}

static PyObject *core_best_validation(PyObject *self, PyObject *args)
{
    struct core_visit v;
    double best = 0;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_best_validation(v.core->core, &best, &err);
    core_leave(&v);
    if (rc < 0) return raise_err(&err);
    return rc ? PyFloat_FromDouble(best) : none();
}

// --- search and pause

static PyObject *core_next_operation(PyObject *self, PyObject *args)
{
    struct core_visit v;
    det_search_op *op = NULL;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_next_search_op(v.core->core, &op, &err);
    int64_t number = rc == 1 ? ++v.core->n_ops : 0;
    core_leave(&v);
    if (rc < 0) return raise_err(&err);
    return rc ? operation_new(self, op, number) : none();
}

static PyObject *core_should_preempt(PyObject *self, PyObject *args)
{
    int waits = 0;
    bool preempt = false;
    det_err err = {0};
    struct core *c = (struct core *)self;
    struct core_visit v;
    if (!PyArg_ParseTuple(args, "|p:should_preempt", &waits)) return NULL;
    if (!waits && c->core) return boolean(det_core_should_preempt(c->core)); // an atomic load
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_wait_preempt(v.core->core, &preempt, &err);
    core_leave(&v);
    return rc ? raise_err(&err) : boolean(preempt);
}

// --- checkpoints

static PyObject *core_begin_checkpoint(PyObject *self, PyObject *args)
{
    struct core_visit v;
    det_checkpoint *checkpoint = NULL;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    const char *path = det_checkpoint_begin(v.core->core, &checkpoint, &err);
    core_leave(&v);
    return path ? checkpoint_new(self, checkpoint, path) : raise_err(&err);
}

static PyObject *core_latest_checkpoint(PyObject *self, PyObject *args)
{
    struct core_visit v;
    const char *path = NULL;
    det_err err = {0};
    (void)args;
    if (!core_enter(self, &v)) return NULL;
    int rc = det_core_latest_checkpoint(v.core->core, &path, &err);
    core_leave(&v);
    return rc < 0 ? raise_err(&err) : text_or_none(path);
}

static PyObject *core_fetch_checkpoint(PyObject *self, PyObject *args)
{
    long long trial_id = 0;
    const char *uuid = NULL, *path = NULL;
    struct core_visit v;
    det_err err = {0};
    if (!PyArg_ParseTuple(args, "Lz:fetch_checkpoint", &trial_id, &uuid)) return NULL;
    if (!core_enter(self, &v)) return NULL;
    int rc = client_fetch_checkpoint(v.core->core, trial_id, uuid, &path, &err);
    core_leave(&v);
    return rc ? raise_err(&err) : text_or_none(path);
}

static PyObject *core_storage(PyObject *self, void *closure)
{
    struct core_visit v;
    (void)closure;
    if (!core_enter(self, &v)) return NULL;
    const char *path = client_storage(v.core->core);
    core_leave(&v);
    return text_or_none(path);
}

// --- the type

static PyMethodDef core_methods[] = {
    {"close", core_close, METH_VARARGS,
     "close(patience=-1)\n--\n\nDelivers what was reported; waits for that, as long as init said."},
    {"value", core_value, METH_O, "What was configured, by its path: 'hparams.learning_rate'."},
    {"rendezvous", core_rendezvous, METH_NOARGS, "(rank of this machine, [(address, slots), ...])"},
    {"report_metrics", core_report_metrics, METH_VARARGS,
     "report_metrics(group, batches, metrics)"},
    {"set_status", core_set_status, METH_O, "What the trial is doing, for people."},
    {"report_invalid_hparams", core_report_invalid_hparams, METH_NOARGS,
     "These hyperparameters cannot work."},
    {"best_validation", core_best_validation, METH_NOARGS, "Of the experiment; None: none yet."},
    {"next_operation", core_next_operation, METH_NOARGS, "What to do now; None: nothing more."},
    {"should_preempt", core_should_preempt, METH_VARARGS, "should_preempt(wait=False)"},
    {"begin_checkpoint", core_begin_checkpoint, METH_NOARGS, "A new, empty Checkpoint."},
    {"latest_checkpoint", core_latest_checkpoint, METH_NOARGS, "Its folder; None: first run."},
    {"fetch_checkpoint", core_fetch_checkpoint, METH_VARARGS, "fetch_checkpoint(trial_id, uuid)"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef core_attributes[] = {
    {"info", core_info, NULL, "Who and where this is, as a dict.", NULL},
    {"storage", core_storage, NULL, "The folder that checkpoints are kept in.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot core_slots[] = {
    {Py_tp_new, core_new},
    {Py_tp_dealloc, core_dealloc},
    {Py_tp_methods, core_methods},
    {Py_tp_getset, core_attributes},
    {0, NULL},
};

static PyType_Spec core_spec = {
    .name = "determined._det.Core",
    .basicsize = sizeof(struct core),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = core_slots,
};

int add_core(PyObject *module)
{
    core_type = add_type(module, &core_spec);
    return core_type ? 0 : -1;
}
