// Unit value.c: tensors as objects of trees.
#include "tensor/tensor.h"

static void retain(void *tensor)
{
    det_ref(tensor);
}

static void release(void *tensor)
{
    det_unref(tensor);
}

static const struct object_type type = {"tensor", DET_KIND_TENSOR, retain, release};

det_value *det_value_tensor(det_tensor *t)
{
    return value_object(&type, t);
}

det_tensor *det_value_as_tensor(const det_value *v)
{
    return value_as_object(v, &type);
}

static det_value *clone(const det_value *object, void *user)
{
    (void)user;
    det_tensor *t = det_value_as_tensor(object);
    return t ? det_value_tensor(det_clone(t)) : det_value_copy(object);
}

det_value *value_clone(const det_value *v)
{
    return value_map(v, clone, NULL);
}
