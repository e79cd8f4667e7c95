// Unit objects.c: values of Python as documents of det, and back.
#include "native.h"

#include <math.h>

enum { JSON_MAX = 64 << 20 };

PyObject *text_or_none(const char *text)
{
    if (!text) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

const char *text_of(PyObject *object, const char *what)
{
    const char *text;
    if (PyUnicode_Check(object)) // refuses a NUL inside by itself
        return PyArg_Parse(object, "s", &text) ? text : NULL;
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
    if (type) PyErr_Format(PyExc_TypeError, "%s must be a str, found %U", what, type);
    Py_XDECREF(type);
    return NULL;
}

// --- documents as objects

static PyObject *list_from_doc(const struct doc *doc)
{
    PyObject *list = PyList_New(0);
    for (const struct doc *e = doc->first; e && list; e = e->next) {
        PyObject *item = object_from_doc(e);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *dict_from_doc(const struct doc *doc)
{
    PyObject *dict = PyDict_New();
    for (const struct doc *e = doc->first; e && dict; e = e->next) {
        PyObject *key = PyUnicode_FromStringAndSize(e->key.ptr, (Py_ssize_t)e->key.len);
        PyObject *item = key ? object_from_doc(e) : NULL;
        if (!item || PyDict_SetItem(dict, key, item)) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    return dict;
}

PyObject *object_from_doc(const struct doc *doc)
{
    switch (doc ? doc->kind : DOC_NULL) {
    case DOC_NULL:
        Py_RETURN_NONE;
    case DOC_BOOL:
        return PyBool_FromLong(doc->boolean);
    case DOC_INT:
        return PyLong_FromLongLong(doc->integer);
    case DOC_DOUBLE:
        return PyFloat_FromDouble(doc->number);
    case DOC_STR:
        return PyUnicode_FromStringAndSize(doc->text.ptr, (Py_ssize_t)doc->text.len);
    case DOC_LIST:
        return list_from_doc(doc);
    case DOC_MAP:
        return dict_from_doc(doc);
    }
    Py_RETURN_NONE;
}

// --- objects as JSON

// Where a value is, for messages: what, then "['loss'][3]".
struct place {
    const struct place *above;
    PyObject *key; // NULL: what
    const char *what;
    int depth;
};

struct encoder {
    struct json_writer *out;
    const char *what;
};

static int put(struct encoder *e, PyObject *object, const struct place *place);

// "metrics['loss'][3]", a new str.
static PyObject *name_of(const struct place *place)
{
    if (!place->key) return PyUnicode_FromString(place->what);
    PyObject *above = name_of(place->above);
    PyObject *name = above ? PyUnicode_FromFormat("%U[%R]", above, place->key) : NULL;
    Py_XDECREF(above);
    return name;
}

static int refuse(const struct place *place, PyObject *object, const char *why)
{
    PyObject *name = name_of(place);
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__qualname__");
    if (name && type) PyErr_Format(PyExc_TypeError, "%U is a %U, %s", name, type, why);
    Py_XDECREF(name);
    Py_XDECREF(type);
    return -1;
}

static int put_int(struct encoder *e, PyObject *object, const struct place *place)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return refuse(place, object, "that has more than 64 bits");
    if (value == -1 && PyErr_Occurred()) return -1;
    json_put_int(e->out, value);
    return 0;
}

static int put_text(struct encoder *e, PyObject *object)
{
    Py_ssize_t n;
    PyObject *bytes = PyUnicode_AsEncodedString(object, "utf-8", "replace");
    char *text;
    if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &n)) {
        Py_XDECREF(bytes);
        return -1;
    }
    json_put_strn(e->out, (struct str){text, (size_t)n});
    Py_DECREF(bytes);
    return 0;
}

static int put_key(struct encoder *e, PyObject *key, const struct place *place)
{
    if (!PyUnicode_Check(key)) return refuse(place, key, "but names must be str");
    Py_ssize_t n;
    const char *text;
    if (!PyArg_Parse(key, "s#", &text, &n)) return -1;
    json_keyn(e->out, (struct str){text, (size_t)n});
    return 0;
}

static int put_dict(struct encoder *e, PyObject *dict, const struct place *place)
{
    PyObject *items = PyMapping_Items(dict);
    int rc = items ? 0 : -1;
    json_open_map(e->out);
    for (Py_ssize_t i = 0; !rc && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        PyObject *key = PyTuple_GetItem(pair, 0);
        const struct place inner = {place, key, NULL, place->depth + 1};
        rc = put_key(e, key, place);
        if (!rc) rc = put(e, PyTuple_GetItem(pair, 1), &inner);
    }
    if (!rc) json_close(e->out); // after a failure the text is of no use
    Py_XDECREF(items);
    return rc;
}

static int put_sequence(struct encoder *e, PyObject *sequence, const struct place *place)
{
    int rc = 0;
    json_open_list(e->out);
    for (Py_ssize_t i = 0; !rc && i < PySequence_Size(sequence); i++) {
        PyObject *item = PySequence_GetItem(sequence, i), *index = PyLong_FromSsize_t(i);
        const struct place inner = {place, index, NULL, place->depth + 1};
        rc = item && index ? put(e, item, &inner) : -1;
        Py_XDECREF(item);
        Py_XDECREF(index);
    }
    if (!rc) json_close(e->out);
    return rc;
}

// What an object of somebody's framework says it is: a tensor, an array, a scalar of NumPy.
static int put_converted(struct encoder *e, PyObject *object, const char *method,
                         const struct place *place)
{
    PyObject *plain = PyObject_CallMethod(object, method, NULL);
    if (!plain) return -1;
    const struct place inner = {place->above, place->key, place->what, place->depth + 1};
    int rc = put(e, plain, &inner);
    Py_DECREF(plain);
    return rc;
}

static int put_foreign(struct encoder *e, PyObject *object, const struct place *place)
{
    if (PyObject_HasAttrString(object, "tolist")) return put_converted(e, object, "tolist", place);
    if (PyObject_HasAttrString(object, "item")) return put_converted(e, object, "item", place);
    if (PyMapping_Check(object) && PyObject_HasAttrString(object, "items"))
        return put_dict(e, object, place);
    return refuse(place, object,
                  "which cannot be written as JSON; use numbers, texts, lists and dicts of them");
}

static bool is_enum(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    return PyObject_HasAttrString(type, "__members__") && PyObject_HasAttrString(object, "name");
}

static int put_enum(struct encoder *e, PyObject *object, const struct place *place)
{
    PyObject *name = PyObject_GetAttrString(object, "name");
    if (!name) return -1;
    int rc = PyUnicode_Check(name) ? put_text(e, name) : refuse(place, object, "without a name");
    Py_DECREF(name);
    return rc;
}

static int put(struct encoder *e, PyObject *object, const struct place *place)
{
    if (place->depth >= JSON_MAX_DEPTH) return refuse(place, object, "nested too deeply");
    if (object == Py_None) return json_put_null(e->out), 0;
    if (PyBool_Check(object)) return json_put_bool(e->out, object == Py_True), 0;
    if (is_enum(object)) return put_enum(e, object, place);
    if (PyLong_Check(object)) return put_int(e, object, place);
    if (PyFloat_Check(object)) return json_put_double(e->out, PyFloat_AsDouble(object)), 0;
    if (PyUnicode_Check(object)) return put_text(e, object);
    if (PyDict_Check(object)) return put_dict(e, object, place);
    if (PyList_Check(object) || PyTuple_Check(object)) return put_sequence(e, object, place);
    return put_foreign(e, object, place);
}

int json_from_object(PyObject *object, const char *what, struct buf *out)
{
    struct json_writer w;
    struct encoder e = {&w, what};
    const struct place root = {NULL, NULL, what, 0};
    json_init(&w, out, 0);
    if (put(&e, object, &root)) return -1;
    if (buf_ok(out)) return 0;
    PyErr_Format(PyExc_ValueError, "%s is too large", what);
    return -1;
}

struct doc *doc_from_object(PyObject *object, const char *what, struct arena *arena)
{
    struct buf text = BUF_INIT(JSON_MAX);
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts opts = {.source = what, .max_bytes = JSON_MAX};
    det_err err = {0};
    struct doc *doc = NULL;
    if (!json_from_object(object, what, &text)) {
        doc = json_parse(arena, buf_str(&text), &opts, &diags);
        if (!doc && diag_fail(&diags, &err)) raise_err(&err);
    }
    buf_done(&text);
    return doc;
}
