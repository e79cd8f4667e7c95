// Unit http.c: the Http type: calls of a master.
#include "native.h"

#include "base/mem.h"
#include "http/http.h"
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

struct http {
    PyObject_HEAD struct http_client *client;
    pthread_mutex_t lock; // as that of Core
};

static PyTypeObject *http_type;

#define HTTP_WAIT(h, statement)           \
    NATIVE_WAIT({                         \
        pthread_mutex_lock(&(h)->lock);   \
        statement;                        \
        pthread_mutex_unlock(&(h)->lock); \
    })

// --- life

static PyObject *http_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"url", "token", "ca_file", "cert_name", NULL};
    struct http_client_opts opts = {.hint =
                                        "start a master with 'det up', or name another one with "
                                        "DET_MASTER or login(master=...)"};
    det_err err = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|zzz:Http", names, &opts.url, &opts.token,
                                     &opts.ca_file, &opts.cert_name))
        return NULL;
    struct http_client *client = http_client_new(&opts, &err);
    if (!client) return raise_err(&err);
    struct http *self = new_object(type);
    if (!self) {
        http_client_free(client);
        return NULL;
    }
    self->client = client;
    pthread_mutex_init(&self->lock, NULL);
    return (PyObject *)self;
}

static void http_dealloc(PyObject *self)
{
    struct http *h = (struct http *)self;
    http_client_free(h->client);
    pthread_mutex_destroy(&h->lock);
    free_object(self);
}

// --- calls

static int method_of(const char *name, enum http_method *out)
{
    static const enum http_method all[] = {HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!str_eqz(str_from(name), http_method_name(all[i]))) continue;
        *out = all[i];
        return 0;
    }
    raise_value("'%s' is not a method of HTTP that is used here", name);
    return -1;
}

static PyObject *http_call_(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"method", "path", "body", "content_type", "timeout", NULL};
    struct http *h = (struct http *)self;
    const char *method, *body = NULL;
    Py_ssize_t n = 0;
    double timeout_s = 0;
    struct http_call call = {0};
    struct arena arena = ARENA_INIT;
    struct doc *answer = NULL;
    det_err err = {0};
    int rc;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss|z#zd:call", names, &method, &call.path,
                                     &body, &n, &call.content_type, &timeout_s) ||
        method_of(method, &call.method))
        return NULL;
    call.body = (struct str){body, (size_t)n};
    call.timeout_us = (int64_t)(timeout_s * 1e6);
    HTTP_WAIT(h, rc = http_call_json(h->client, &call, &arena, &answer, &err));
    PyObject *result = rc ? raise_err(&err) : object_from_doc(answer);
    arena_done(&arena);
    return result;
}

struct download {
    int fd;
    int error; // of writing; 0: none
};

static bool write_piece(void *ctx, struct str piece)
{
    struct download *d = ctx;
    while (piece.len && !d->error) {
        ssize_t n = write(d->fd, piece.ptr, piece.len);
        if (n < 0 && errno != EINTR) d->error = errno;
        if (n > 0) piece = (struct str){piece.ptr + n, piece.len - (size_t)n};
    }
    return !d->error;
}

static PyObject *http_download(PyObject *self, PyObject *args)
{
    struct http *h = (struct http *)self;
    struct http_call call = {0};
    const char *file;
    det_err err = {0};
    int rc;
    if (!PyArg_ParseTuple(args, "ss:download", &call.path, &file)) return NULL;
    struct download d = {.fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (d.fd < 0) return PyErr_SetFromErrnoWithFilename(PyExc_OSError, file);
    HTTP_WAIT(h, rc = http_call_pieces(h->client, &call, write_piece, &d, &err));
    if (close(d.fd) && !d.error) d.error = errno;
    errno = d.error;
    if (d.error) return PyErr_SetFromErrnoWithFilename(PyExc_OSError, file);
    return rc ? raise_err(&err) : none();
}

// --- events

// Calls a function of Python for each; one that raises, or returns something false, ends the call.
static bool on_event(void *ctx, const struct http_event *event)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *goes_on = PyObject_CallFunction(ctx, "sss#", event->type, event->id, event->data.ptr,
                                              (Py_ssize_t)event->data.len);
    bool more = goes_on && PyObject_IsTrue(goes_on) == 1;
    Py_XDECREF(goes_on);
    PyGILState_Release(state);
    return more;
}

static PyObject *http_events(PyObject *self, PyObject *args)
{
    struct http *h = (struct http *)self;
    struct http_call call = {0};
    PyObject *function;
    det_err err = {0};
    int rc;
    if (!PyArg_ParseTuple(args, "sOz:events", &call.path, &function, &call.last_event_id))
        return NULL;
    HTTP_WAIT(h, rc = http_call_events(h->client, &call, on_event, function, &err));
    if (PyErr_Occurred()) return NULL;
    return rc ? raise_err(&err) : none();
}

// --- the type

static PyMethodDef http_methods[] = {
    METHOD("call", http_call_,
           "call(method, path, body=None, content_type=None, timeout=0)\n--\n\n"
           "The answer as Python objects."),
    {"download", http_download, METH_VARARGS, "download(path, file)\n--\n\nThe answer as a file."},
    {"events", http_events, METH_VARARGS,
     "events(path, function, last_event_id)\n--\n\n"
     "Calls function(type, id, data) for each event, until it returns something false."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot http_slots[] = {
    {Py_tp_new, http_new},
    {Py_tp_dealloc, http_dealloc},
    {Py_tp_methods, http_methods},
    {0, NULL},
};

static PyType_Spec http_spec = {
    .name = "determined._det.Http",
    .basicsize = sizeof(struct http),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = http_slots,
};

int add_http(PyObject *module)
{
    http_type = add_type(module, &http_spec);
    return http_type ? 0 : -1;
}
