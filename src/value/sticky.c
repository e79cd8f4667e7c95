// Unit sticky.c: the first failure of a thread, kept until somebody asks.
#include "value/value.h"

THREAD_LOCAL int sticky_code;
THREAD_LOCAL void (*sticky_finish)(void);
static _Thread_local char message[DET_ERR_MSG_MAX]; // if sticky_failed()

void sticky_raise(int code, const char *prefix, const char *fmt, va_list args)
{
    if (sticky_failed()) return; // the first one is the cause
    int n = snprintf(message, sizeof message, "%s", prefix);
    vsnprintf(message + n, sizeof message - (size_t)n, fmt, args);
    sticky_code = code ? code : DET_EINVAL;
}

void det_raise(int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sticky_raise(code, "", fmt, args);
    va_end(args);
}

static void finish(void)
{
    if (sticky_finish) sticky_finish();
}

int det_check(det_err *err)
{
    finish();
    int code = sticky_code;
    if (!code) return det_ok(err);
    if (err) {
        err->code = code;
        memcpy(err->msg, message, sizeof message);
    }
    do { // what was put off before the failure is wanted as much as what was not
        sticky_code = 0;
        finish();
    } while (sticky_code);
    return code;
}
