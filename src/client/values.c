// Unit values.c: hyperparameters, data and configuration by their path.
#include "client/core.h"

#include "doc/json.h"

enum { TEXT_MAX_BYTES = 16 << 20 };

static const struct doc *find(const det_core *core, const char *path)
{
    const struct doc *at = core->settings.values;
    struct str rest = str_from(path);
    while (rest.ptr && at) {
        struct str step = str_cut(&rest, '.');
        const struct doc *entry = at->kind == DOC_MAP ? at->first : NULL;
        while (entry && !str_eq(entry->key, step))
            entry = entry->next;
        at = entry;
    }
    return at;
}

static int wrong(const struct doc *found, const char *path, const char *wanted, det_err *err)
{
    if (!found || found->kind == DOC_NULL)
        return det_fail(err, DET_ENOTFOUND, "there is no '%s'", path);
    return det_fail(err, DET_EINVAL, "'%s' must be %s, found %s", path, wanted,
                    doc_kind_name(found->kind));
}

int det_core_get_int(const det_core *core, const char *path, int64_t *out, det_err *err)
{
    const struct doc *found = find(core, path);
    if (!found || !doc_integer(found, out)) return wrong(found, path, "an integer", err);
    return det_ok(err);
}

int det_core_get_double(const det_core *core, const char *path, double *out, det_err *err)
{
    const struct doc *found = find(core, path);
    if (!found || !doc_number(found, out)) return wrong(found, path, "a number", err);
    return det_ok(err);
}

int det_core_get_bool(const det_core *core, const char *path, bool *out, det_err *err)
{
    const struct doc *found = find(core, path);
    if (!found || found->kind != DOC_BOOL) return wrong(found, path, "true or false", err);
    *out = found->boolean;
    return det_ok(err);
}

int det_core_get_str(const det_core *core, const char *path, const char **out, det_err *err)
{
    const struct doc *found = find(core, path);
    if (!found || found->kind != DOC_STR) return wrong(found, path, "a text", err);
    *out = found->text.ptr;
    return det_ok(err);
}

const char *det_core_get_json(det_core *core, const char *path)
{
    const struct doc *found = find(core, path);
    if (!found) return NULL;
    struct buf text = BUF_INIT(TEXT_MAX_BYTES);
    struct json_writer w;
    json_init(&w, &text, 0);
    json_put_doc(&w, found);
    const char *out = buf_ok(&text) ? arena_strdup(&core->arena, buf_str(&text).ptr) : NULL;
    buf_done(&text);
    return out;
}
