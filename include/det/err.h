// det/err.h: how anything in det reports that it failed.
//
// A function that can fail returns 0 or a negative DET_E* code (or NULL), takes a det_err * as its
// last parameter and fills it. NULL is allowed where nobody wants to know. det_err is a fixed
// struct: reporting a failure never allocates, so it works when memory is what is missing.
#pragma once

#if defined(__GNUC__)
#define DET_API __attribute__((visibility("default")))
#define DET_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define DET_API
#define DET_PRINTF(fmt, args)
#endif

// A struct of options: the defaults of a macro, then what its caller names, which overrides them.
//
//     #define det_f(x, ...) det_f_with(x, DET_OPTS(det_f_opts, .eps = 1e-5, __VA_ARGS__))
//
// So an option that is left out has its default, and one that is given means what it says, 0
// included. It may point to an unnamed array, as (int64_t[]){1, 2}, which lives as long as the block
// around the call. Compilers warn of initialisers that override others; here that is what they are
// for, so files that include this are not warned of it.
#define DET_OPTS(type, ...) ((type){__VA_ARGS__})
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

// code, value, text, HTTP status that the master answers with
// clang-format off
#define DET_ERRORS(E)                                                                              \
    E(EINVAL, -1, "invalid argument", 400)                                                         \
    E(ESHAPE, -2, "shapes do not fit", 400)                                                        \
    E(EDTYPE, -3, "wrong data type", 400)                                                          \
    E(ENOTFOUND, -4, "not found", 404)                                                             \
    E(ESTATE, -5, "not possible in this state", 409)                                               \
    E(ENOMEM, -6, "out of memory", 507)                                                            \
    E(EIO, -7, "input/output error", 500)                                                          \
    E(ENOSPC, -8, "no space left", 507)                                                            \
    E(ECORRUPT, -9, "damaged data", 422)                                                           \
    E(ELIMIT, -10, "limit exceeded", 413)                                                          \
    E(EUNSUPPORTED, -11, "not supported", 501)                                                     \
    E(EAUTH, -12, "not authenticated", 401)                                                        \
    E(EDENIED, -13, "not allowed", 403)                                                            \
    E(EBUSY, -14, "too many requests", 429)                                                        \
    E(EUNREACHABLE, -15, "not reachable", 503)                                                     \
    E(ETIMEOUT, -16, "took too long", 504)                                                         \
    E(ECANCELED, -17, "canceled", 499)                                                             \
    E(EHPARAM, -18, "hyperparameters cannot work", 400)
// clang-format on

enum {
    DET_OK = 0,
#define DET_ERRORS_ENUM(name, value, text, http) DET_##name = (value),
    DET_ERRORS(DET_ERRORS_ENUM)
#undef DET_ERRORS_ENUM
};

enum { DET_ERR_MSG_MAX = 768 };

typedef struct det_err {
    int code;                  // 0 = no error
    char msg[DET_ERR_MSG_MAX]; // complete sentence for a person, no trailing newline
} det_err;

// Fills err (if not NULL) and returns code, so that `return det_fail(err, DET_EINVAL, ...)` reads
// well.
DET_API int det_fail(det_err *err, int code, const char *fmt, ...) DET_PRINTF(3, 4);

// Puts context in front of a message already there: "checkpoint 1f3a: write 'm.json': disk full".
// Returns err's code (DET_EINVAL when err is NULL or empty: the caller knows that it failed).
DET_API int det_wrap(det_err *err, const char *fmt, ...) DET_PRINTF(2, 3);

// Clears err and returns 0: the last line of a function that succeeded.
DET_API int det_ok(det_err *err);

// "DET_ESHAPE", "shapes do not fit", 400. Unknown codes give "DET_EUNKNOWN", "unknown error", 500.
DET_API const char *det_err_name(int code);
DET_API const char *det_err_text(int code);
DET_API int det_err_http(int code);
