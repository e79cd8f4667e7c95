// det/tensor.h: n-dimensional arrays that remember how they were made.
//
// What a program looks like:
//
//     det_scope_begin();
//     det_tensor *loss = det_mse_loss(det_forward(model, x), y);
//     det_backward(loss);
//     det_optim_step(opt);
//     if (det_check(&err)) return 1; // one question for the whole expression
//     det_scope_end();                  // all intermediates are gone, their memory is reused
//
// Ownership: a tensor belongs to the scope it was made in. det_ref keeps it alive beyond that (it
// then stands alone, without history); det_unref gives it back.
//
// Errors are sticky: the first failure of a thread is kept (operation, module, shapes), every later
// operation does nothing and returns NULL, and NULL is accepted as an argument everywhere. Ask once
// per step with det_check.
//
// Laziness: a few operations (convolution, linear, pooling, normalisation) wait until their result
// is used, so that the operation that uses it can be merged with them. Nobody can see this except
// by the clock, with one exception: a result that was merged, like that of det_linear in
// det_relu(det_linear(...)), is gone once the parameters that it was made from have changed.
// Reading it later is an error; read it before the optimizer's step.
//
// Threads: scopes, errors and switches belong to the calling thread. A tensor may be read by many
// threads, but used in operations by one at a time.
#pragma once

#include "det/handles.h"
#include "det/sticky.h"
#include "det/value.h"

// name, C type, bytes, "is floating point". The last three are for storage: they are made, saved,
// loaded, seen (reshape, slice, ...), joined, picked by index, written and converted (det_to);
// whatever computes refuses them.
// clang-format off
#define DET_DTYPES(D)                                                                              \
    D(F32, float, 4, 1)                                                                            \
    D(F64, double, 8, 1)                                                                           \
    D(BF16, uint16_t, 2, 1)                                                                        \
    D(I64, int64_t, 8, 0)                                                                          \
    D(I32, int32_t, 4, 0)                                                                          \
    D(U8, uint8_t, 1, 0)                                                                           \
    D(BOOL, uint8_t, 1, 0)                                                                         \
    D(F16, uint16_t, 2, 1)                                                                         \
    D(I16, int16_t, 2, 0)                                                                          \
    D(I8, int8_t, 1, 0)
// clang-format on

typedef enum det_dtype {
#define DET_DTYPES_ENUM(name, ctype, bytes, is_float) DET_##name,
    DET_DTYPES(DET_DTYPES_ENUM)
#undef DET_DTYPES_ENUM
        DET_N_DTYPES
} det_dtype;

enum { DET_MAX_DIMS = 8 };

// A list of sizes or dimensions, as two arguments: det_zeros(DET_F32, DET_DIMS(64, 10)).
#define DET_DIMS(...) \
    (const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define DET_SCALAR NULL, 0 // the shape of a single number

DET_API size_t det_dtype_size(det_dtype dtype);
DET_API const char *det_dtype_name(det_dtype dtype); // "f32"
DET_API bool det_dtype_is_float(det_dtype dtype);

// --- scopes, warnings

DET_API void det_scope_begin(void);
DET_API void det_scope_end(void);
DET_API det_tensor *det_ref(det_tensor *t); // returns t
DET_API void det_unref(det_tensor *t);

// What is allowed and rarely meant, such as a loss whose target only broadcasts to its input, is
// said once per place: the file and line of the call. It is a line on stderr, unless this thread
// has a handler.
DET_API det_warning_handler
det_set_warning_handler(det_warning_handler handler); // gives the old one

// "model.c:12", for a macro that passes on where it is used.
#define DET_PLACE __FILE__ ":" DET_PLACE_LINE(__LINE__)
#define DET_PLACE_LINE(line) DET_PLACE_TEXT(line)
#define DET_PLACE_TEXT(text) #text

// --- making tensors

DET_API det_tensor *det_empty(det_dtype dtype, const int64_t *shape, int ndim); // undefined content
DET_API det_tensor *det_zeros(det_dtype dtype, const int64_t *shape, int ndim);
DET_API det_tensor *det_ones(det_dtype dtype, const int64_t *shape, int ndim);
DET_API det_tensor *det_full(det_dtype dtype, const int64_t *shape, int ndim, double value);
DET_API det_tensor *det_scalar(double value); // f32, shape ()
DET_API det_tensor *det_arange(det_dtype dtype, double start, double end, double step);
DET_API det_tensor *det_linspace(det_dtype dtype, double start, double end, int64_t steps);
DET_API det_tensor *det_eye(det_dtype dtype, int64_t n);
DET_API det_tensor *det_rand(det_dtype dtype, const int64_t *shape, int ndim); // uniform [0, 1)
DET_API det_tensor *det_randn(det_dtype dtype, const int64_t *shape, int ndim);
DET_API det_tensor *det_randint(int64_t low, int64_t high, const int64_t *shape, int ndim); // i64
DET_API det_tensor *det_randperm(int64_t n);                                                // i64

// Copies row-major data of the given type.
DET_API det_tensor *det_from(det_dtype dtype, const int64_t *shape, int ndim, const void *data);

// Uses the caller's row-major memory without copying; it must outlive the tensor and is not freed.
// Operations read it when they are called, so the caller may change it at any time, except between
// an operation and the backward that needs its input: nothing notices that. det_write does, and
// backward then refuses.
DET_API det_tensor *det_borrow(det_dtype dtype, const int64_t *shape, int ndim, void *data);

// --- looking at tensors

DET_API det_dtype det_dtype_of(const det_tensor *t);
DET_API int det_ndim(const det_tensor *t);
DET_API const int64_t *det_shape(const det_tensor *t);  // ndim sizes
DET_API const int64_t *det_stride(const det_tensor *t); // in elements
DET_API int64_t det_size(const det_tensor *t, int dim); // negative dim counts from the end
DET_API int64_t det_numel(const det_tensor *t);
DET_API bool det_is_contiguous(const det_tensor *t);

// The number in a one-element tensor. NaN (and a sticky error) if there is none.
DET_API double det_item(det_tensor *t);

// Row-major content, valid until the scope ends; NULL after an error. Elements of a non-contiguous
// tensor are copied.
DET_API const void *det_data(det_tensor *t);
DET_API const float *det_data_f32(det_tensor *t); // as det_data; an error if t is not f32
DET_API const int64_t *det_data_i64(det_tensor *t);

// "(64, 10) f32" into buf; returns buf.
DET_API const char *det_describe(const det_tensor *t, char *buf, size_t size);

// --- in trees (det/value.h)

DET_API det_value *det_value_tensor(det_tensor *t); // takes a reference of its own; NULL gives NULL
DET_API det_tensor *det_value_as_tensor(const det_value *v); // borrowed; NULL if v is not a tensor

// --- writing in place
// As in torch, with the gradient. A tensor that is written from one with a history, or that has a
// history itself, gets a new history, and so do its views and the tensor that it is a view of: the
// gradient flows to the source, and to the old content as far as that is still in the new one.
// What was computed before keeps the old history.
//
// Refused (sticky error, nothing is written):
//   - a leaf that requires a gradient, and a view of one, while gradients are on;
//   - a view that was made with gradients off, if the write has a history; such a view cannot be
//     read with gradients on either once something with a history was written into its base;
//   - elements that share memory (det_expand), except by det_fill_;
//   - a result that does not fit the type, such as a float into an integer, except by det_copy_.
// Not refused, but noticed by det_backward: a write over something that backward needs, such as a
// factor of a product. Write into a det_clone instead.
//
// With gradients off the first two are allowed and nothing is recorded; det_backward still notices.
// det_detach gives a tensor with the same memory whose history is its own. A source that shares
// memory with the target is read before anything is written.
//
// A history ends with the scope that it was recorded in. A tensor of an outer scope, or one kept
// with det_ref, that was written with a history of an inner one keeps the content and becomes a
// constant when the inner scope ends. Views that outlive their scope no longer count as views.

DET_API void det_fill_(det_tensor *t, double value);
DET_API void det_copy_(det_tensor *t, det_tensor *from); // broadcasts and converts
DET_API void det_add_(det_tensor *t, det_tensor *other, double alpha);
DET_API void det_mul_(det_tensor *t, double factor);
DET_API void det_write(det_tensor *t, const void *data); // row-major, all elements, same dtype

// --- gradients

// Marks a leaf (a tensor that no operation made) as something to differentiate by, for operations
// from now on; off, it gets no gradient from those before either. Returns t.
DET_API det_tensor *det_requires_grad(det_tensor *t, bool on);
DET_API bool det_has_requires_grad(const det_tensor *t);

// The accumulated gradient of a leaf, or NULL before the first backward and after det_zero_grad.
DET_API det_tensor *det_grad(det_tensor *t);
DET_API void det_zero_grad(det_tensor *t);

// Adds d(loss)/d(leaf) to the gradient of every leaf that loss depends on; loss may be one itself.
#define det_backward(loss, ...) det_backward_with(loss, (det_backward_opts){__VA_ARGS__})
DET_API void det_backward_with(det_tensor *loss, det_backward_opts opts);

// Gradients of result by the given tensors, leaves or not, into out; those of leaves that det_grad
// gives stay as they are. Returns 0 or a code (and a sticky error).
typedef struct det_grad_opts {
    bool retain_graph; // as for det_backward
    bool allow_unused; // NULL for a tensor that result does not depend on, instead of an error
    det_tensor *grad;  // as for det_backward
} det_grad_opts;
#define det_grad_of(result, inputs, n, out, ...) \
    det_grad_of_with(result, inputs, n, out, (det_grad_opts){__VA_ARGS__})
DET_API int det_grad_of_with(det_tensor *result, det_tensor *const *inputs, int n, det_tensor **out,
                             det_grad_opts opts);

// A hook is called with the gradient of t, a leaf or not, in every backward that has one for it; what
// it returns replaces that gradient, NULL leaves it alone. For a leaf it is the sum of one backward,
// before that is added to det_grad. Returns a number for det_remove_hook, or a negative code. Hooks
// end with their tensor.
typedef det_tensor *(*det_hook_fn)(det_tensor *grad, void *user);
DET_API int det_add_hook(det_tensor *t, det_hook_fn fn, void *user);
DET_API void det_remove_hook(det_tensor *t, int hook);

DET_API det_tensor *det_detach(det_tensor *t); // same memory, no history, and no view of t

// Operations recorded from now on by this thread (default: on). Returns the previous setting.
DET_API bool det_set_grad_enabled(bool on);
DET_API bool det_grad_enabled(void);

// Mixed precision: while on, matrix products and convolutions compute in bf16 and give bf16, losses
// and normalisations compute in f32. Saves memory everywhere and time where the processor has
// instructions for bf16; where it has none, the first call says so on stderr. Returns the previous
// setting.
DET_API bool det_set_autocast(bool on);
DET_API bool det_autocast(void);

// --- functions of one's own
//
//     static det_tensor *reverse_forward(det_call *c)
//     {
//         return det_call_input(c, 0);
//     }
//
//     static void reverse_backward(det_call *c, det_tensor *grad, det_tensor **grad_in)
//     {
//         grad_in[0] = det_mul_scalar(grad, -*(double *)det_call_user(c));
//     }
//
//     static const det_function reverse = {"reverse", reverse_forward, reverse_backward};
//
//     det_tensor *y = det_apply(&reverse, &x, 1, &strength);
//
// forward and backward run with gradients off. backward writes the gradient of each input that it has
// one for (det_call_wants_grad) into grad_in, which is full of NULLs. backward NULL: the result is a
// constant. What backward reads was not changed in place since forward, or it gets NULL and an error.

typedef struct det_call det_call;
typedef struct det_function {
    const char *name; // for messages
    det_tensor *(*forward)(det_call *c);
    void (*backward)(det_call *c, det_tensor *grad, det_tensor **grad_in);
} det_function;

// f and user must live as long as the scope.
DET_API det_tensor *det_apply(const det_function *f, det_tensor *const *in, int n_in, void *user);
DET_API int det_call_n_inputs(const det_call *c);
DET_API det_tensor *det_call_input(const det_call *c, int i);
DET_API det_tensor *det_call_output(const det_call *c);        // backward
DET_API void det_call_save(det_call *c, int i, det_tensor *t); // forward; i: 0 to 3
DET_API det_tensor *det_call_saved(const det_call *c, int i);  // backward
DET_API void *det_call_user(const det_call *c);
DET_API bool det_call_wants_grad(const det_call *c, int i); // backward

// --- randomness
// Random numbers are a function of (seed, step, n-th random operation of the step, element), so
// three integers are the whole state of the generator of a thread.

typedef struct det_rng_state {
    uint64_t seed, step, op;
} det_rng_state;

DET_API void det_manual_seed(uint64_t seed); // step = op = 0
DET_API det_rng_state det_get_rng_state(void);
DET_API void det_set_rng_state(det_rng_state state);
DET_API void det_rng_set_step(uint64_t step); // op = 0

// --- machine

DET_API void det_set_threads(int n); // threads that compute, the caller included
DET_API int det_threads(void);
// The kernels in use: "avx512+amx", "avx512+bf16", "avx512", "avx2" or "plain".
DET_API const char *det_isa(void);

typedef struct det_memory {
    size_t mapped_bytes; // taken from the system for tensors, by the whole process
    size_t peak_bytes;   // the largest that ever was
} det_memory;

DET_API det_memory det_memory_stats(void);
DET_API void det_memory_trim(void); // gives cached, unused blocks of this thread back to the system

#include "det/ops.h"
