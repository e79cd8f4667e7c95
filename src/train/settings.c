// Unit settings.c: typed reading of hyperparameters and other settings, by name.
#include "train/settings.h"

#include "base/nearest.h"
#include "base/number.h"

struct det_config settings_hparams(const struct doc *doc)
{
    return (struct det_config){doc, "hyperparameter", "hyperparameters"};
}

struct det_config settings_data(const struct doc *doc)
{
    return (struct det_config){doc, "data setting", "data"};
}

struct det_config settings_experiment(const struct doc *doc)
{
    return (struct det_config){doc, "setting", NULL};
}

static const struct doc *member(const struct doc *node, struct str key)
{
    int64_t index;
    if (node->kind == DOC_LIST)
        return number_to_int(key, 10, &index) && index >= 0 ? doc_at(node, (size_t)index) : NULL;
    if (node->kind != DOC_MAP) return NULL;
    for (const struct doc *e = node->first; e; e = e->next)
        if (str_eq(e->key, key)) return e;
    return NULL;
}

// A key as it is written comes first: names may have dots.
const struct doc *settings_find(const struct doc *doc, const char *key)
{
    const struct doc *node = doc_find(doc, key);
    if (node) return node;
    node = doc;
    for (struct str rest = str_from(key); node && rest.ptr;)
        node = member(node, str_cut(&rest, '.'));
    return node;
}

static const struct doc *find(const det_config *c, const char *key)
{
    return c && c->doc && key ? settings_find(c->doc, key) : NULL;
}

static void raise_missing(const det_config *c, const char *key)
{
    struct nearest near = NEAREST_INIT(str_from(key));
    for (const struct doc *e = c->doc ? c->doc->first : NULL; e; e = e->next)
        nearest_offer(&near, e->key.ptr);
    char hint[128] = "";
    if (near.best) snprintf(hint, sizeof hint, " (did you mean '%s'?)", near.best);
    det_raise(DET_ENOTFOUND, "%s '%s' is not defined%s; define it %s%s%s", c->noun, key, hint,
              c->section ? "under '" : "at the top",
              c->section ? c->section : " of the experiment configuration",
              c->section ? ":' of the experiment configuration" : "");
}

static const struct doc *need(const det_config *c, const char *key)
{
    static const det_config none = {NULL, "setting", NULL};
    const struct doc *node = find(c, key);
    if (!node) raise_missing(c ? c : &none, key ? key : "");
    return node;
}

static void raise_type(const det_config *c, const char *key, const struct doc *node,
                       const char *wanted)
{
    char place[160] = "";
    if (node->pos.source && node->pos.line)
        snprintf(place, sizeof place, "%s:%d:%d: ", node->pos.source, node->pos.line,
                 node->pos.column);
    char text[64] = "";
    if (node->kind == DOC_STR) snprintf(text, sizeof text, " ('%.50s')", node->text.ptr);
    if (node->kind == DOC_DOUBLE) snprintf(text, sizeof text, " (%g)", node->number);
    det_raise(DET_EINVAL, "%s%s '%s' is %s%s, expected %s", place, c->noun, key,
              doc_kind_name(node->kind), text, wanted);
}

bool det_config_has(const det_config *c, const char *key)
{
    return find(c, key) != NULL;
}

int64_t det_config_int(const det_config *c, const char *key)
{
    int64_t value = 0;
    const struct doc *node = need(c, key);
    if (node && !doc_integer(node, &value)) raise_type(c, key, node, "an integer");
    return value;
}

double det_config_double(const det_config *c, const char *key)
{
    double value = 0;
    const struct doc *node = need(c, key);
    if (node && !doc_number(node, &value)) raise_type(c, key, node, "a number");
    return value;
}

bool det_config_bool(const det_config *c, const char *key)
{
    const struct doc *node = need(c, key);
    if (node && node->kind != DOC_BOOL) raise_type(c, key, node, "true or false");
    return node && node->kind == DOC_BOOL && node->boolean;
}

const char *det_config_str(const det_config *c, const char *key)
{
    const struct doc *node = need(c, key);
    if (node && node->kind != DOC_STR) raise_type(c, key, node, "text");
    return node && node->kind == DOC_STR ? node->text.ptr : "";
}

int64_t det_config_len(const det_config *c, const char *key)
{
    const struct doc *node = need(c, key);
    bool counts = node && (node->kind == DOC_LIST || node->kind == DOC_MAP);
    if (node && !counts) raise_type(c, key, node, "a list or a map");
    return counts ? (int64_t)node->n : 0;
}
