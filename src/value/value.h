// value/value.h: trees of values with objects of any engine in them, and the sticky error. For the
// layers above.
//
// This layer knows no tensor. An object is a pointer with a type, and a tensor of this library is
// the first user (tensor/value.c); an object of another engine is saved, copied and sent to other
// ranks by that engine, and never taken apart here.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "det/sticky.h"
#include "det/value.h"
#include <stdarg.h>

// --- objects

struct object_type {
    const char *name; // for messages: "tensor"
    det_kind kind;    // DET_KIND_OBJECT, or DET_KIND_TENSOR for what det_value_as_tensor gives out
    // A reference more, a reference less. A tree is freed by the thread that has it last, which may
    // be the one that writes checkpoints: release must work on any thread.
    void (*retain)(void *object);
    void (*release)(void *object);
};

// A value that holds the object by a reference of its own; NULL gives NULL.
det_value *value_object(const struct object_type *type, void *object);
// The same by the caller's reference.
det_value *value_object_take(const struct object_type *type, void *object);
// Borrowed; NULL if v is no object of that type.
void *value_as_object(const det_value *v, const struct object_type *type);
// NULL if v is no object.
const struct object_type *value_object_type(const det_value *v);

// A copy of the tree in which each object is what map makes of it (handed over; NULL leaves the
// item out).
typedef det_value *(*value_map_fn)(const det_value *object, void *user);
det_value *value_map(const det_value *v, value_map_fn map, void *user);

// --- trees as bytes, for another process of the same program (pack.c)

// What an object is as bytes; the engine's. pack appends.
typedef int (*object_pack_fn)(const det_value *object, struct buf *out, det_err *err);
typedef det_value *(*object_unpack_fn)(struct str bytes, det_err *err);

int value_pack(const det_value *v, object_pack_fn pack, struct buf *out, det_err *err);
det_value *value_unpack(struct str bytes, object_unpack_fn unpack, det_err *err);

// --- the sticky error (sticky.c)

// The code of this thread's first failure that nobody has fetched with det_check yet; 0: none.
extern THREAD_LOCAL int sticky_code;
static inline bool sticky_failed(void)
{
    return sticky_code != 0;
}

// det_raise with a text in front of the message.
void sticky_raise(int code, const char *prefix, const char *fmt, va_list args);

// What det_check of this thread calls before it answers: an engine that puts work off does it now.
extern THREAD_LOCAL void (*sticky_finish)(void);
