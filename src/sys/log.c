// Unit log.c: log lines, written whole.
#include "sys/log.h"

#include "base/safe.h"
#include "sys/clock.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

static _Atomic int least_severity = LOG_INFO;

void log_set_level(enum log_severity least)
{
    least_severity = (int)least;
}

static void add_time(struct buf *line)
{
    int64_t us = clock_unix_us();
    time_t s = (time_t)(us / 1000000);
    char text[32];
    struct tm tm;
    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(line, "%s.%03dZ", text, (int)(us % 1000000 / 1000));
}

void log_write(enum log_severity severity, const char *fmt, ...)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    if ((int)severity < least_severity) return;
    struct buf line = BUF_INIT(8 * LINE_MAX_BYTES);
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_time(&line);
    buf_printf(&line, " %s ", names[severity]);
    safe_add(&line, str_from(text), SAFE_LINE); // it cannot look like a line of its own
    buf_addc(&line, '\n');
    // There is nowhere to report that a report did not get through.
    ssize_t n = write(STDERR_FILENO, buf_str(&line).ptr, line.len);
    (void)n;
    buf_done(&line);
}
