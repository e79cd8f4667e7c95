// Unit pickle_globals.c: the names that a pickle of a state dict may mention, and what they stand
// for. Called by unpickle.c. To read more of what torch writes: a row and a function.
#include "format/pickle.h"

#include "base/assert.h"

typedef int (*call_fn)(struct pickle *p, struct object args, uint32_t *out, det_err *err);

static int call_tensor(struct pickle *p, struct object args, uint32_t *out, det_err *err);
static int call_parameter(struct pickle *p, struct object args, uint32_t *out, det_err *err);
static int call_ordered_dict(struct pickle *p, struct object args, uint32_t *out, det_err *err);
static int call_size(struct pickle *p, struct object args, uint32_t *out, det_err *err);

static const struct global {
    const char *module, *name;
    call_fn call;    // NULL: the class of a storage
    det_dtype dtype; // of that storage
} globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", call_tensor, 0},
    {"torch._utils", "_rebuild_parameter", call_parameter, 0},
    {"collections", "OrderedDict", call_ordered_dict, 0},
    {"torch", "Size", call_size, 0},
    {"torch", "FloatStorage", NULL, DET_F32},
    {"torch", "DoubleStorage", NULL, DET_F64},
    {"torch", "BFloat16Storage", NULL, DET_BF16},
    {"torch", "LongStorage", NULL, DET_I64},
    {"torch", "IntStorage", NULL, DET_I32},
    {"torch", "ByteStorage", NULL, DET_U8},
    {"torch", "BoolStorage", NULL, DET_BOOL},
    {"torch", "HalfStorage", NULL, DET_F16},
    {"torch", "ShortStorage", NULL, DET_I16},
    {"torch", "CharStorage", NULL, DET_I8},
};

int global_find(struct str module, struct str name, det_err *err)
{
    for (size_t i = 0; i < STATIC_LEN(globals); i++)
        if (str_eqz(module, globals[i].module) && str_eqz(name, globals[i].name)) return (int)i;
    int m = (int)MIN(module.len, 100u), n = (int)MIN(name.len, 100u);
    if (str_eqz(module, "torch") && str_ends(name, STR("Storage")))
        det_fail(err, DET_EUNSUPPORTED,
                 "tensors of type torch.%.*s; det has f64, f32, f16, bf16, i64, i32, i16, i8, u8 "
                 "and bool",
                 n, name.ptr);
    else
        det_fail(err, DET_EUNSUPPORTED,
                 "%.*s.%.*s is not plain data; nothing was imported or executed", m, module.ptr, n,
                 name.ptr);
    return -1;
}

const char *global_storage_class(det_dtype dtype)
{
    for (size_t i = 0; i < STATIC_LEN(globals); i++)
        if (!globals[i].call && globals[i].dtype == dtype) return globals[i].name;
    ASSERT(!"every type has a row");
    return NULL;
}

int global_call(struct pickle *p, uint32_t global, struct object args, uint32_t *out, det_err *err)
{
    const struct global *g = &globals[global];
    if (!g->call)
        return det_fail(err, DET_EUNSUPPORTED, "calls %s.%s outside of a tensor", g->module,
                        g->name);
    int rc = g->call(p, args, out, err);
    return rc ? det_wrap(err, "%s.%s", g->module, g->name) : 0;
}

// Item i of a tuple if it is of that kind, or NULL with an error that says what was found.
static const struct object *item(const struct pickle *p, struct object tuple, uint32_t i,
                                 uint8_t kind, det_err *err)
{
    if (i >= tuple.list.n) {
        det_fail(err, DET_ECORRUPT, "%u items, item %u should be a %s", tuple.list.n, i,
                 object_kind_name(kind));
        return NULL;
    }
    const struct object *o = &p->objects[tuple.list.items[i]];
    if (o->kind == kind) return o;
    det_fail(err, DET_ECORRUPT, "item %u is a %s, not a %s", i, object_kind_name(o->kind),
             object_kind_name(kind));
    return NULL;
}

// A tuple of at most DET_MAX_DIMS integers.
static int read_dims(const struct pickle *p, struct object args, uint32_t i, int64_t *dims, int *n,
                     det_err *err)
{
    const struct object *tuple = item(p, args, i, OBJECT_TUPLE, err);
    if (!tuple) return DET_ECORRUPT;
    if (tuple->list.n > DET_MAX_DIMS)
        return det_fail(err, DET_EUNSUPPORTED, "a tensor of %u dims; det has up to %d",
                        tuple->list.n, DET_MAX_DIMS);
    for (uint32_t d = 0; d < tuple->list.n; d++) {
        const struct object *size = item(p, *tuple, d, OBJECT_INT, err);
        if (!size) return DET_ECORRUPT;
        dims[d] = size->i;
    }
    *n = (int)tuple->list.n;
    return 0;
}

// Strides that are never used can be any number in a file; arithmetic on them must not overflow
// later.
static void tidy_strides(struct tensor_layout *l, bool empty)
{
    int64_t below = 1;
    for (int i = l->ndim; i-- > 0;) {
        if (empty || l->shape[i] == 1) l->stride[i] = below;
        below = l->stride[i] * MAX(l->shape[i], 1);
    }
}

static int read_layout(const struct pickle *p, struct object args, const struct pickle_storage *s,
                       struct tensor_layout *l, det_err *err)
{
    const struct object *offset = item(p, args, 1, OBJECT_INT, err);
    if (!offset) return DET_ECORRUPT;
    int n_strides = 0;
    int rc = read_dims(p, args, 2, l->shape, &l->ndim, err);
    if (!rc) rc = read_dims(p, args, 3, l->stride, &n_strides, err);
    if (rc) return rc;
    if (l->ndim != n_strides)
        return det_fail(err, DET_ECORRUPT, "%d sizes but %d strides", l->ndim, n_strides);
    int64_t extent = tensor_extent(l->shape, l->stride, l->ndim);
    if (extent < 0)
        return det_fail(err, DET_ECORRUPT, "sizes or strides are negative or too large");
    bool inside = extent == 0 || (extent <= s->numel && offset->i <= s->numel - extent);
    if (offset->i < 0 || !inside)
        return det_fail(err, DET_ECORRUPT,
                        "a view over %lld elements from element %lld of a storage that has %lld",
                        (long long)extent, (long long)offset->i, (long long)s->numel);
    l->dtype = s->dtype;
    l->offset = extent ? offset->i : 0; // torch slices empty tensors beyond their end
    tidy_strides(l, extent == 0);
    return 0;
}

// (storage, offset, size, stride, requires_grad, backward_hooks[, metadata]). A state dict is data:
// whether a gradient was wanted is not kept. Metadata says that values are yet to be negated or
// conjugated.
static int call_tensor(struct pickle *p, struct object args, uint32_t *out, det_err *err)
{
    const struct object *storage = item(p, args, 0, OBJECT_STORAGE, err);
    if (!storage || !item(p, args, 4, OBJECT_BOOL, err) || !item(p, args, 5, OBJECT_DICT, err))
        return DET_ECORRUPT;
    if (args.list.n > 6)
        return det_fail(err, DET_EUNSUPPORTED, "%u arguments; det knows 6", args.list.n);
    if (p->n_tensors >= PICKLE_MAX_TENSORS)
        return det_fail(err, DET_ELIMIT, "more than %d tensors", PICKLE_MAX_TENSORS);
    struct pickle_tensor t = {.storage = storage->index};
    int rc = read_layout(p, args, &p->storages[t.storage], &t.layout, err);
    if (rc) return rc;
    p->tensors = pickle_grow(p->tensors, p->n_tensors, &p->cap_tensors, sizeof *p->tensors);
    p->tensors[p->n_tensors] = t;
    *out = pickle_add(p, (struct object){.kind = OBJECT_TENSOR, .index = p->n_tensors++});
    return 0;
}

// (data, requires_grad, backward_hooks): a tensor like any other.
static int call_parameter(struct pickle *p, struct object args, uint32_t *out, det_err *err)
{
    if (!item(p, args, 0, OBJECT_TENSOR, err)) return DET_ECORRUPT;
    *out = args.list.items[0];
    return 0;
}

static int call_ordered_dict(struct pickle *p, struct object args, uint32_t *out, det_err *err)
{
    if (args.list.n)
        return det_fail(err, DET_EUNSUPPORTED, "made from %u arguments; det knows none",
                        args.list.n);
    *out = pickle_add(p, (struct object){.kind = OBJECT_DICT, .ordered = true});
    return 0;
}

static int call_size(struct pickle *p, struct object args, uint32_t *out, det_err *err)
{
    if (!item(p, args, 0, OBJECT_TUPLE, err)) return DET_ECORRUPT;
    *out = args.list.items[0];
    return 0;
}

// ('storage', class, key, location, numel). The location does not matter: all is loaded to memory.
int global_storage(struct pickle *p, struct object id, uint32_t *out, det_err *err)
{
    const struct object *tag = item(p, id, 0, OBJECT_STR, err);
    const struct object *type = tag ? item(p, id, 1, OBJECT_GLOBAL, err) : NULL;
    const struct object *key = type ? item(p, id, 2, OBJECT_STR, err) : NULL;
    const struct object *numel = key ? item(p, id, 4, OBJECT_INT, err) : NULL;
    if (!numel) return det_wrap(err, "persistent id");
    const struct global *g = &globals[type->index];
    if (!str_eqz(tag->s, "storage") || g->call)
        return det_fail(err, DET_ECORRUPT, "persistent id: a '%.*s' of class %s.%s, not a storage",
                        (int)MIN(tag->s.len, 100u), tag->s.ptr, g->module, g->name);
    if (numel->i < 0 || numel->i > INT64_MAX / 16)
        return det_fail(err, DET_ECORRUPT, "persistent id: a storage of %lld elements",
                        (long long)numel->i);
    p->storages = pickle_grow(p->storages, p->n_storages, &p->cap_storages, sizeof *p->storages);
    p->storages[p->n_storages] =
        (struct pickle_storage){.dtype = g->dtype, .key = key->s, .numel = numel->i};
    *out = pickle_add(p, (struct object){.kind = OBJECT_STORAGE, .index = p->n_storages++});
    return 0;
}
