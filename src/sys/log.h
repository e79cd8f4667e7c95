// sys/log.h: what a program that runs for long tells whoever watches over it, on stderr, one line
// each: "2026-01-31T10:20:30.123Z INFO trial 7: started". Only programs log; layers below return
// errors.
#pragma once

enum log_severity { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_severity least); // LOG_INFO unless told otherwise

void log_write(enum log_severity severity, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
