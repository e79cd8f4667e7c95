// Unit config.c: configurations of experiments and jobs, and YAML, for programs in Python.
#include "native.h"

#include "base/mem.h"
#include "config/config.h"
#include "doc/yaml.h"

static PyObject *raise_diags(const struct diag_list *diags)
{
    struct buf text = BUF_INIT(64 << 10);
    det_err err = {.code = DET_EINVAL};
    diag_print(diags, DIAG_ERROR, &text);
    while (text.len && text.ptr[text.len - 1] == '\n')
        text.ptr[--text.len] = 0;
    if (text.len < sizeof err.msg)
        snprintf(err.msg, sizeof err.msg, "%s", buf_str(&text).ptr);
    else
        diag_fail(diags, &err); // the first of them, and how many there are
    buf_done(&text);
    return raise_err(&err);
}

static PyObject *warnings_of(const struct diag_list *diags)
{
    struct buf text = BUF_INIT(64 << 10);
    diag_print(diags, DIAG_WARNING, &text);
    PyObject *all = PyUnicode_FromStringAndSize(buf_str(&text).ptr, (Py_ssize_t)text.len);
    PyObject *lines = all ? PyObject_CallMethod(all, "splitlines", NULL) : NULL;
    Py_XDECREF(all);
    buf_done(&text);
    return lines;
}

// Constants by their values; what is to be searched for is a null.
static struct doc *constants_of(const struct hparam *space, struct arena *arena)
{
    const struct hparam **leaf;
    size_t n = hparam_leaves(space, arena, &leaf);
    const struct doc **values = arena_array(arena, n + 1, sizeof *values);
    for (size_t i = 0; i < n; i++)
        if (leaf[i]->kind != HP_CONST) values[i] = doc_new(arena, DOC_NULL);
    return hparam_assemble(space, values, arena);
}

static PyObject *searched_of(const struct hparam *space, struct arena *arena)
{
    const struct hparam **leaf;
    size_t n = hparam_leaves(space, arena, &leaf);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < n && list; i++) {
        if (leaf[i]->kind == HP_CONST) continue;
        PyObject *path = PyUnicode_FromString(hparam_path(leaf[i], arena));
        if (!path || PyList_Append(list, path)) Py_CLEAR(list);
        Py_XDECREF(path);
    }
    return list;
}

static PyObject *read_experiment(struct arena *arena, struct str text,
                                 const struct config_opts *opts)
{
    struct diag_list diags = DIAG_INIT(arena);
    struct exp_config cfg;
    if (exp_config_read(arena, text, opts, &cfg, &diags)) return raise_diags(&diags);
    return Py_BuildValue("(NNNN)", object_from_doc(exp_config_write(arena, &cfg, CONFIG_WHOLE)),
                         object_from_doc(constants_of(&cfg.hyperparameters, arena)),
                         searched_of(&cfg.hyperparameters, arena), warnings_of(&diags));
}

static PyObject *read_job(struct arena *arena, struct str text, const struct config_opts *opts)
{
    struct diag_list diags = DIAG_INIT(arena);
    struct job_config cfg;
    if (job_config_read(arena, text, opts, &cfg, &diags)) return raise_diags(&diags);
    return Py_BuildValue("(N{}[]N)", object_from_doc(job_config_write(arena, &cfg, CONFIG_WHOLE)),
                         warnings_of(&diags));
}

static PyObject *read_config(PyObject *module, PyObject *args)
{
    const char *text, *source;
    long long seed;
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssL:read_config", &text, &source, &seed)) return NULL;
    const struct config_opts opts = {
        .source = source, .default_seed = seed, .entrypoint_optional = true};
    const struct doc *doc = yaml_parse(&arena, str_from(text), source, &diags);
    if (!doc)
        raise_diags(&diags);
    else if (doc->kind != DOC_MAP)
        raise_value("%s: expected a map, found %s", source, doc_kind_name(doc->kind));
    else if (doc_find(doc, "searcher") || doc_find(doc, "hyperparameters"))
        result = read_experiment(&arena, str_from(text), &opts);
    else
        result = read_job(&arena, str_from(text), &opts);
    arena_done(&arena);
    return result;
}

static PyObject *parse_yaml(PyObject *module, PyObject *args)
{
    const char *text, *source = "text";
    struct arena arena = ARENA_INIT;
    struct diag_list diags = DIAG_INIT(&arena);
    (void)module;
    if (!PyArg_ParseTuple(args, "s|s:parse_yaml", &text, &source)) return NULL;
    const struct doc *doc = yaml_parse(&arena, str_from(text), source, &diags);
    PyObject *value = doc ? object_from_doc(doc) : raise_diags(&diags);
    arena_done(&arena);
    return value;
}

static PyObject *to_json(PyObject *module, PyObject *args)
{
    PyObject *object;
    const char *what = "value";
    struct buf text = BUF_INIT(64 << 20);
    (void)module;
    if (!PyArg_ParseTuple(args, "O|s:to_json", &object, &what)) return NULL;
    PyObject *json = NULL;
    if (!json_from_object(object, what, &text))
        json = PyUnicode_FromStringAndSize(buf_str(&text).ptr, (Py_ssize_t)text.len);
    buf_done(&text);
    return json;
}

static PyMethodDef functions[] = {
    {"read_config", read_config, METH_VARARGS,
     "read_config(text, source, seed)\n--\n\n"
     "(complete configuration, constant hyperparameters, names of searched ones, warnings)"},
    {"parse_yaml", parse_yaml, METH_VARARGS, "parse_yaml(text, source='text')\n--\n\n"},
    {"to_json", to_json, METH_VARARGS, "to_json(object, what='value')\n--\n\n"},
    {NULL, NULL, 0, NULL},
};

int add_config(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
