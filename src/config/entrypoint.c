// Unit entrypoint.c: what to run: a trial class, a shell command or a list of words.
#include "config/tables.h"

#include "base/assert.h"
#include <ctype.h>

static bool is_word(struct str s, const char *besides)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.ptr[i]) && !strchr(besides, s.ptr[i])) return false;
    return s.len > 0;
}

// package.module:Class
static bool is_class(struct str class)
{
    struct str module = str_cut(&class, ':');
    return is_word(module, "_.") && is_word(class, "_");
}

static void read_argv(struct field_ctx *ctx, const struct doc *list, struct entrypoint *out)
{
    out->argv.items = arena_array(ctx->arena, list->n, sizeof *out->argv.items);
    for (const struct doc *e = list->first; e; e = e->next) {
        if (e->kind != DOC_STR) {
            field_error(ctx, e, "must be a list of strings, found %s in it", field_show(ctx, e));
            return;
        }
        out->argv.items[out->argv.n++] = e->text.ptr;
    }
    out->kind = ENTRYPOINT_EXEC;
}

static void read_entrypoint(struct field_ctx *ctx, const struct field *f, const struct doc *value,
                            void *member)
{
    (void)f;
    struct entrypoint *out = member;
    bool list = value->kind == DOC_LIST, text = value->kind == DOC_STR;
    if (!list && !text) {
        field_error(ctx, value, "must be a string or a list of strings, found %s",
                    field_show(ctx, value));
    } else if (list ? !value->n : !value->text.len) {
        field_error(ctx, value, "must not be empty");
    } else if (list) {
        read_argv(ctx, value, out);
    } else {
        out->kind = is_class(value->text) ? ENTRYPOINT_CLASS : ENTRYPOINT_SHELL;
        out->text = value->text.ptr;
    }
}

static struct doc *write_entrypoint(struct arena *arena, const void *member)
{
    const struct entrypoint *e = member;
    if (e->kind != ENTRYPOINT_EXEC) return doc_new_str(arena, e->text);
    struct doc *list = doc_new(arena, DOC_LIST);
    for (size_t i = 0; i < e->argv.n; i++)
        doc_append(list, doc_new_str(arena, e->argv.items[i]));
    return list;
}

const struct field_codec entrypoint_codec = {
    .size = sizeof(struct entrypoint),
    .syntax = "a string or a list of strings",
    .read = read_entrypoint,
    .write = write_entrypoint,
};
