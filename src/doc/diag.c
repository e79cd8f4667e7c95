// Unit diag.c: keeps and prints what is wrong with a text.
#include "doc/diag.h"

#include "base/utf8.h"

enum { TEXT_MAX = 1000, PATH_MAX_BYTES = 200 };

// Parts of it come from the text that is wrong: what could confuse a terminal becomes a question
// mark.
static char *tidy(char *text, size_t max)
{
    struct str rest = str_from(text);
    if (rest.len > max) {
        memcpy(text + max - 3, "...", 4);
        rest.len = max;
    }
    while (rest.len) {
        char *at = text + (rest.ptr - text);
        int32_t c = utf8_next(&rest);
        bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
        if (control) memset(at, '?', (size_t)(rest.ptr - at));
    }
    return text;
}

void diag_vadd(struct diag_list *list, enum diag_level level, struct doc_pos pos, const char *path,
               const char *fmt, va_list args)
{
    int *n = level == DIAG_ERROR ? &list->n_errors : &list->n_warnings;
    if ((*n)++ >= DIAG_MAX) return;
    struct diag *d = arena_alloc(list->arena, sizeof *d);
    *d = (struct diag){.level = level, .pos = pos};
    d->path = path ? tidy(arena_strdup(list->arena, path), PATH_MAX_BYTES) : NULL;
    d->text = tidy(arena_vprintf(list->arena, fmt, args), TEXT_MAX);
    if (list->last)
        list->last->next = d;
    else
        list->first = d;
    list->last = d;
}

void diag_add(struct diag_list *list, enum diag_level level, struct doc_pos pos, const char *path,
              const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_vadd(list, level, pos, path, fmt, args);
    va_end(args);
}

static void print_one(const struct diag *d, struct buf *out)
{
    if (d->pos.source) buf_printf(out, "%s:", d->pos.source);
    if (d->pos.line) buf_printf(out, "%d:%d:", d->pos.line, d->pos.column);
    if (out->len && out->ptr[out->len - 1] == ':') buf_addc(out, ' ');
    if (d->level == DIAG_WARNING) buf_addz(out, "warning: ");
    if (d->path && d->path[0]) buf_printf(out, "%s: ", d->path);
    buf_addz(out, d->text);
}

static bool is_before(struct doc_pos a, struct doc_pos b)
{
    int order = strcmp(a.source ? a.source : "", b.source ? b.source : "");
    if (order) return order < 0;
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

void diag_print(const struct diag_list *list, enum diag_level level, struct buf *out)
{
    const struct diag *sorted[DIAG_MAX];
    size_t n = 0;
    for (const struct diag *d = list->first; d; d = d->next) {
        if (d->level != level) continue;
        size_t i = n++;
        for (; i && is_before(d->pos, sorted[i - 1]->pos); i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = d;
    }
    for (size_t i = 0; i < n; i++) {
        print_one(sorted[i], out);
        buf_addc(out, '\n');
    }
    int n_all = level == DIAG_ERROR ? list->n_errors : list->n_warnings;
    if (n_all > DIAG_MAX)
        buf_printf(out, "... and %d more %s\n", n_all - DIAG_MAX,
                   level == DIAG_ERROR ? "errors" : "warnings");
}

int diag_fail(const struct diag_list *list, det_err *err)
{
    if (!list->n_errors) return det_ok(err);
    const struct diag *d = list->first;
    while (d->level != DIAG_ERROR)
        d = d->next;
    struct buf text = BUF_INIT(1 << 16);
    print_one(d, &text);
    if (list->n_errors > 1) buf_printf(&text, " (and %d more)", list->n_errors - 1);
    int rc = det_fail(err, DET_EINVAL, "%.*s", STR_ARG(buf_str(&text)));
    buf_done(&text);
    return rc;
}
