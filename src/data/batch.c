// Unit batch.c: tensors of a batch by their place.
#include "det/data.h"

#include "base/buf.h"

// "keys 'image', 'label'": what a dict has, for messages.
static void list_keys(const det_value *dict, struct buf *out)
{
    for (int i = 0; i < det_value_len(dict); i++) {
        int64_t number;
        const char *key = det_value_key(dict, i, &number);
        if (key)
            buf_printf(out, "%s'%s'", i ? ", " : "", key);
        else
            buf_printf(out, "%s%lld", i ? ", " : "", (long long)number);
    }
}

det_tensor *det_batch_at(const det_value *batch, int index)
{
    det_value *item = det_value_at(batch, index);
    if (det_value_as_tensor(item)) return det_value_as_tensor(item);
    if (index == 0 && det_value_as_tensor(batch)) return det_value_as_tensor(batch);
    if (item)
        det_raise(DET_EINVAL, "det_batch_at: item %d of the batch is a %s, not a tensor", index,
                  det_kind_name(det_value_kind(item)));
    else
        det_raise(DET_ENOTFOUND, "det_batch_at: there is no item %d: the batch is a %s of %d",
                  index, det_kind_name(det_value_kind(batch)), det_value_len(batch));
    return NULL;
}

det_tensor *det_batch_get(const det_value *batch, const char *key)
{
    det_value *item = det_value_get(batch, key);
    if (det_value_as_tensor(item)) return det_value_as_tensor(item);
    struct buf keys = BUF_INIT(400);
    list_keys(batch, &keys);
    if (item)
        det_raise(DET_EINVAL, "det_batch_get: item '%s' of the batch is a %s, not a tensor", key,
                  det_kind_name(det_value_kind(item)));
    else
        det_raise(DET_ENOTFOUND, "det_batch_get: there is no item '%s': the batch is a %s of: %s",
                  key ? key : "", det_kind_name(det_value_kind(batch)),
                  keys.len ? keys.ptr : "nothing");
    buf_done(&keys);
    return NULL;
}

static det_tensor *first_tensor(const det_value *tree)
{
    det_tensor *t = det_value_as_tensor(tree);
    for (int i = 0; !t && i < det_value_len(tree); i++)
        t = first_tensor(det_value_at(tree, i));
    return t;
}

int64_t det_batch_length(const det_value *batch, det_err *err)
{
    det_tensor *t = first_tensor(batch);
    if (!t)
        return det_fail(err, DET_EINVAL, "a batch without tensors (a %s of %d items) has no length",
                        det_kind_name(det_value_kind(batch)), det_value_len(batch));
    if (!det_ndim(t))
        return det_fail(err, DET_ESHAPE, "the first tensor of the batch is a single number");
    return det_shape(t)[0];
}
