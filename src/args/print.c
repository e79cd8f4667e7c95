// Unit print.c: stdout and stderr, with colours where a person sees them.
#include "args/args.h"

#include <errno.h>
#include <unistd.h>

#define RED "\033[31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

// https://no-color.org; FORCE_COLOR is the opposite.
static bool has_colours(int fd)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("FORCE_COLOR"), *term = getenv("TERM");
    if (no && *no) return false;
    if (force && *force) return true;
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool print_has_colours(void)
{
    return has_colours(STDOUT_FILENO);
}

static void write_out(FILE *file, struct buf *text)
{
    fwrite(buf_str(text).ptr, 1, text->len, file);
    buf_done(text);
}

static void print_coloured(const char *colour, struct str text)
{
    struct buf out = BUF_INIT(SIZE_MAX);
    if (!text.len) return;
    if (text.ptr[text.len - 1] == '\n') text.len--;
    bool colours = has_colours(STDERR_FILENO);
    if (colours) buf_addz(&out, colour);
    safe_add(&out, text, SAFE_LINES);
    buf_addz(&out, colours ? PLAIN "\n" : "\n");
    write_out(stderr, &out);
}

void print_data(struct str text)
{
    struct buf out = BUF_INIT(SIZE_MAX);
    safe_add(&out, text, SAFE_LINES);
    write_out(stdout, &out);
}

void print_log(struct str text)
{
    struct buf out = BUF_INIT(SIZE_MAX);
    safe_add(&out, text, SAFE_COLOURS);
    write_out(stdout, &out);
}

// "det: disk full". The program's name is that of its file.
static void print_message(const char *colour, const char *fmt, va_list args)
{
    struct buf text = BUF_INIT(1 << 16);
    buf_printf(&text, "%s: ", program_invocation_short_name);
    buf_vprintf(&text, fmt, args);
    print_coloured(colour, buf_str(&text));
    buf_done(&text);
}

void print_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_message(RED, fmt, args);
    va_end(args);
}

void print_warning(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_message(YELLOW, fmt, args);
    va_end(args);
}

void print_diags(const struct diag_list *diags)
{
    struct buf out = BUF_INIT(1 << 20);
    diag_print(diags, DIAG_WARNING, &out);
    print_coloured(YELLOW, buf_str(&out));
    buf_clear(&out);
    diag_print(diags, DIAG_ERROR, &out);
    print_coloured(RED, buf_str(&out));
    buf_done(&out);
}

bool print_finish(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    print_error("cannot write the output: %s", strerror(errno));
    return false;
}
