// det/value.h: a tree of plain values and tensors: a state dict, what is inside a .pth file, a
// batch.
//
// Kinds are those of Python: None, bool, int, float, str, list, tuple, dict (in order of insertion,
// keys are strings or integers), and tensor (det_value_tensor in det/tensor.h). A value has one
// owner; putting it into a container hands it over. Tensors are held by reference. An object is
// something of another engine than that of this library, held by reference, too.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "det/err.h"

typedef struct det_value det_value;

typedef enum det_kind {
    DET_KIND_NONE,
    DET_KIND_BOOL,
    DET_KIND_INT,
    DET_KIND_FLOAT,
    DET_KIND_STR,
    DET_KIND_TENSOR,
    DET_KIND_OBJECT,
    DET_KIND_LIST,
    DET_KIND_TUPLE,
    DET_KIND_DICT,
} det_kind;

DET_API det_value *det_value_none(void);
DET_API det_value *det_value_bool(bool b);
DET_API det_value *det_value_int(int64_t i);
DET_API det_value *det_value_float(double f);
DET_API det_value *det_value_str(const char *s); // copied
DET_API det_value *det_value_strn(const char *s, size_t n);
DET_API det_value *det_value_list(void);
DET_API det_value *det_value_tuple(void);
DET_API det_value *det_value_dict(void);
DET_API void det_value_free(det_value *v);
DET_API det_value *det_value_copy(
    const det_value *v); // of the tree; tensors and objects are shared

// Appends to a list or tuple; sets a key of a dict (replacing an old value). item is handed over,
// also on failure; a NULL item is ignored. Returns item.
DET_API det_value *det_value_push(det_value *list, det_value *item);
DET_API det_value *det_value_set(det_value *dict, const char *key, det_value *item);
DET_API det_value *det_value_set_int(det_value *dict, int64_t key, det_value *item);

DET_API det_kind det_value_kind(const det_value *v); // NULL: DET_KIND_NONE
DET_API const char *det_kind_name(det_kind kind);    // "dict"

// Number of items of a list, tuple or dict; 0 for anything else.
DET_API int det_value_len(const det_value *v);

// Borrowed; NULL if there is no such item. v may be NULL.
DET_API det_value *det_value_at(const det_value *v, int index); // dict: in order of insertion
DET_API det_value *det_value_get(const det_value *dict, const char *key);
DET_API det_value *det_value_get_int(const det_value *dict, int64_t key);

// The key of the index-th item of a dict: a string, or NULL with the integer in *number.
DET_API const char *det_value_key(const det_value *dict, int index, int64_t *number);

// Content; 0 and out filled, or DET_EINVAL naming what was found instead. int counts as float.
DET_API int det_value_as_bool(const det_value *v, bool *out, det_err *err);
DET_API int det_value_as_int(const det_value *v, int64_t *out, det_err *err);
DET_API int det_value_as_float(const det_value *v, double *out, det_err *err);
DET_API int det_value_as_str(const det_value *v, const char **out, det_err *err);
