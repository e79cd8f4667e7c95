// Unit hidden.c: puts hidden values back. Called by api_create.c.
#include "master/hidden.h"

#include "base/buf.h"
#include "config/config.h"
#include "doc/field.h"
#include "doc/json.h"
#include "doc/yaml.h"

struct filler {
    struct arena *arena;
    const char *missing; // where a value is not known; NULL: nowhere
};

static bool is_hidden(const struct doc *d)
{
    return d->kind == DOC_STR && str_eqz(d->text, FIELD_MASK);
}

// The length of "NAME=" if the value of this variable is hidden; else 0.
static size_t hidden_variable(const struct doc *d)
{
    static const struct str end = STR("=" FIELD_MASK);
    if (d->kind != DOC_STR || d->text.len <= end.len || !str_ends(d->text, end)) return 0;
    return d->text.len - strlen(FIELD_MASK);
}

static const struct doc *find_variable(const struct doc *list, struct str name)
{
    const struct doc *e = list && list->kind == DOC_LIST ? list->first : NULL;
    while (e && (e->kind != DOC_STR || !str_starts(e->text, name)))
        e = e->next;
    return e;
}

// An item with an address whose user and password are hidden: the one that looks like that.
static const struct doc *find_address(struct arena *arena, const struct doc *list,
                                      struct str hidden)
{
    const struct doc *e = list && list->kind == DOC_LIST ? list->first : NULL;
    while (e && (e->kind != DOC_STR || !str_eqz(hidden, config_mask_address(arena, e->text.ptr))))
        e = e->next;
    return e;
}

static bool has_hidden_address(const struct doc *d)
{
    static const char hidden[] = "://" FIELD_MASK "@";
    return d->kind == DOC_STR && memmem(d->text.ptr, d->text.len, hidden, strlen(hidden));
}

// An item of a list that hides something. known: NULL, it cannot be said what.
static bool is_hidden_item(struct filler *f, const struct doc *e, const struct doc *from,
                           const struct doc **known)
{
    size_t n_name = hidden_variable(e);
    if (!n_name && !has_hidden_address(e)) return false;
    *known = n_name ? find_variable(from, (struct str){e->text.ptr, n_name})
                    : find_address(f->arena, from, e->text);
    return true;
}

// d with what it hides taken from `from`, which is at the same place of the stored configuration.
static struct doc *fill(struct filler *f, const struct doc *d, const struct doc *from,
                        const char *where)
{
    if (is_hidden(d)) {
        if (from && from->kind == DOC_STR) return doc_share(f->arena, from);
        f->missing = where;
    }
    if (d->kind != DOC_MAP && d->kind != DOC_LIST) return doc_share(f->arena, d);
    struct doc *out = doc_new(f->arena, d->kind);
    for (const struct doc *e = d->first; e; e = e->next) {
        const struct doc *known;
        if (d->kind == DOC_LIST && is_hidden_item(f, e, from, &known)) {
            if (!known) f->missing = arena_printf(f->arena, "%s %.*s", where, STR_ARG(e->text));
            doc_append(out, doc_share(f->arena, known ? known : e));
        } else if (d->kind == DOC_LIST) {
            doc_append(out, fill(f, e, NULL, where));
        } else {
            const char *key = arena_strndup(f->arena, e->key.ptr, e->key.len);
            const char *at = arena_printf(f->arena, "%s%s%s", where, *where ? "." : "", key);
            const struct doc *same = from ? doc_find(from, key) : NULL;
            doc_set(out, str_from(key), fill(f, e, same, at));
        }
    }
    return out;
}

int hidden_fill(struct arena *arena, const struct str *stored, struct str *text, det_err *err)
{
    struct diag_list diags = DIAG_INIT(arena);
    const struct json_opts whole = {.max_bytes = YAML_MAX_BYTES};
    struct filler f = {.arena = arena};
    if (!memmem(text->ptr, text->len, FIELD_MASK, strlen(FIELD_MASK))) return 0;
    const struct doc *given = yaml_parse(arena, *text, "config", &diags);
    const struct doc *known = stored ? json_parse(arena, *stored, &whole, &diags) : NULL;
    if (!given) return 0; // whoever reads it next says what is wrong with it
    const struct doc *complete = fill(&f, given, known, "");
    if (f.missing)
        return det_fail(
            err, DET_EINVAL,
            "%s: asterisks stand for a value that you may not see; give one of your own",
            f.missing);
    struct buf out = BUF_INIT(YAML_MAX_BYTES);
    yaml_write(complete, &out);
    *text = (struct str){arena_strndup(arena, buf_str(&out).ptr, out.len), out.len};
    buf_done(&out);
    return 0;
}
