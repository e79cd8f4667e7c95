// Unit err.c: fills and wraps det_err. Used by every layer; allocates nothing.
#include "det/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int det_fail(det_err *err, int code, const char *fmt, ...)
{
    if (!err) return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    err->code = code;
    return code;
}

int det_wrap(det_err *err, const char *fmt, ...)
{
    if (!err || !err->code) return DET_EINVAL;
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", old);
    return err->code;
}

int det_ok(det_err *err)
{
    if (err) {
        err->code = DET_OK;
        err->msg[0] = 0;
    }
    return DET_OK;
}

static const struct {
    int code, http;
    const char *name, *text;
} err_rows[] = {
#define ERR_ROW(name, value, text, http) {value, http, "DET_" #name, text},
    DET_ERRORS(ERR_ROW)
#undef ERR_ROW
};

enum { N_ERR_ROWS = sizeof err_rows / sizeof *err_rows };

static int err_row(int code)
{
    for (int i = 0; i < N_ERR_ROWS; i++)
        if (err_rows[i].code == code) return i;
    return -1;
}

const char *det_err_name(int code)
{
    if (!code) return "DET_OK";
    int i = err_row(code);
    return i < 0 ? "DET_EUNKNOWN" : err_rows[i].name;
}

const char *det_err_text(int code)
{
    if (!code) return "no error";
    int i = err_row(code);
    return i < 0 ? "unknown error" : err_rows[i].text;
}

int det_err_http(int code)
{
    if (!code) return 200;
    int i = err_row(code);
    return i < 0 ? 500 : err_rows[i].http;
}
