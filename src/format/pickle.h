// format/pickle.h: what a pickle of a state dict says, as a graph of objects. Nothing is imported
// or executed: the few functions that such pickles name are known here and build objects of these
// kinds.
//
// Objects refer to each other by number, and one may be part of many (Python's memo), also of
// itself; turning the graph into a tree is the caller's task.
#pragma once

#include "tensor/tensor.h"
#include "base/str.h"

enum object_kind {
    OBJECT_NONE,
    OBJECT_BOOL,
    OBJECT_INT,
    OBJECT_FLOAT,
    OBJECT_STR,
    OBJECT_LIST,
    OBJECT_TUPLE,
    OBJECT_DICT,
    OBJECT_GLOBAL,  // the name of a class or function; gone once it was called
    OBJECT_STORAGE, // what a tensor lies in
    OBJECT_TENSOR,
};

struct object {
    uint8_t kind;
    bool ordered; // dict: it is an OrderedDict, which may have attributes
    union {
        bool b;
        int64_t i;
        double f;
        struct str s; // UTF-8, inside the pickle, no NUL
        struct {
            uint32_t *items; // dict: key, value, key, value ...; keys are strings or integers
            uint32_t n, cap;
        } list;
        uint32_t index; // of globals, storages or tensors
    };
};

struct pickle_storage {
    det_dtype dtype;
    struct str key; // the name of its entry: data/<key>
    int64_t numel;
};

struct pickle_tensor {
    uint32_t storage;
    struct tensor_layout layout; // lies inside the storage
};

struct pickle {
    struct object *objects;
    struct pickle_storage *storages;
    struct pickle_tensor *tensors;
    uint32_t n_objects, cap_objects, n_storages, cap_storages, n_tensors, cap_tensors;
    uint32_t root;
};

// For reading and writing alike.
enum {
    PICKLE_MAX_BYTES = 64 << 20,
    PICKLE_MAX_OBJECTS = 8 << 20,
    PICKLE_MAX_TENSORS = 1 << 20,
    PICKLE_MAX_VALUES = 4 << 20, // of the tree
    PICKLE_MAX_DEPTH = 256,      // of lists in lists
};

// Fills p, which refers to bytes. Errors name the byte and the opcode. p is empty after a failure.
int pickle_read(struct pickle *p, struct str bytes, det_err *err);
void pickle_done(struct pickle *p);

const char *object_kind_name(uint8_t kind);

// --- shared by unpickle.c, which runs opcodes, and pickle_globals.c, which knows what torch's
// names mean

// Makes room for one more element behind the n that an array has.
void *pickle_grow(void *array, uint32_t n, uint32_t *cap, size_t size);

uint32_t pickle_add(struct pickle *p, struct object object); // returns its number

// Row of the table of names, or -1 with err saying why this one has no place in a state dict.
int global_find(struct str module, struct str name, det_err *err);

const char *global_storage_class(det_dtype dtype); // "FloatStorage"

// What calling a global with a tuple of arguments gives.
int global_call(struct pickle *p, uint32_t global, struct object args, uint32_t *out, det_err *err);

// The storage that a persistent id, ('storage', class, key, location, numel), stands for.
int global_storage(struct pickle *p, struct object id, uint32_t *out, det_err *err);
