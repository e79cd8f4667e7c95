// nn/module.h: the inside of modules, and what writing one takes. Private to the layer.
//
// A constructor of this layer reads:
//
//     if (!arg_at_least("Linear", "in_features", in, 1)) return NULL;
//     det_module *m = det_module_new("Linear", sizeof(struct ...), linear_forward);
//     module_add_f32(m, "weight", DET_DIMS(out, in));      // becomes param(m, 0)
//     return module_ready(m, linear_reset);
#pragma once

#include "base/assert.h"
#include "base/mem.h"
#include "det/nn.h"
#include "tensor/tensor.h"

// A name with nothing behind it (a Linear without bias) has a NULL tensor: positions stay the same,
// and nobody outside sees it.
struct tensor_slot {
    char *name;
    det_tensor *tensor; // a reference
};

struct slot_list {
    struct tensor_slot *slot;
    int n;
};

// Parameters of a tree, each once. Remade when something below was registered since.
struct param_list {
    bool valid;
    det_tensor **tensor; // not references
    int n, cap;
};

struct det_module {
    struct origin
        origin; // name in the parent (owned) and the parent's origin: the path in messages
    det_module *parent;
    char *type;
    det_forward_fn forward; // NULL: none of its own
    void (*reset)(det_module *m);
    void (*done)(det_module *m);
    bool training, autocast;
    struct slot_list params, buffers;
    det_module **child;
    int n_child;
    struct param_list *all;
    _Alignas(16) char self[];
};

static inline det_tensor *param(const det_module *m, int i)
{
    return m->params.slot[i].tensor;
}

static inline det_tensor *buffer(const det_module *m, int i)
{
    return m->buffers.slot[i].tensor;
}

// Registers a new f32 parameter; or the name only, for a parameter that is left out.
void module_add_f32(det_module *m, const char *name, const int64_t *shape, int ndim);
void module_add_none(det_module *m, const char *name);

// The last line of a constructor: draws the initial values of m itself (its children have theirs).
// If anything failed since it was begun, frees m and returns NULL.
det_module *module_ready(det_module *m, void (*reset)(det_module *m));

// Around what a module computes for somebody outside: names it in messages, and switches mixed
// precision on where it begins. Results go out through module_result, which makes them f32 again.
struct module_call {
    const struct origin *caller;
    bool casts, autocast; // begins here; what it was before
};
struct module_call module_enter(det_module *m);
void module_leave(const struct module_call *call);
det_tensor *module_result(const struct module_call *call, det_tensor *y);

// Puts a failure into the sticky error: "BatchNorm2d 'encoder.bn': <message>". Returns NULL.
det_tensor *module_fail(const det_module *m, int code, const char *fmt, ...) DET_PRINTF(3, 4);

// False, and the sticky error is set, if value < min: "Linear: in_features must be >= 1, got 0".
bool arg_at_least(const char *type, const char *name, int64_t value, int64_t min);
bool arg_is_probability(const char *type, const char *name, double value);

// The reset of Linear and the convolutions: parameters 0 and 1 are weight and bias (or none).
void reset_weight_and_bias(det_module *m);
