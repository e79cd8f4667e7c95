// Unit yaml_read.c: yaml_parse(). Builds a document from libyaml's events, on a stack of open
// containers.
//
// An alias shares the nodes of its anchor, so a bomb costs no memory here; but everyone who walks
// through the document later pays for what it expands to. So each anchor knows its weight, and the
// sum is limited.
#include "doc/yaml.h"

#include "base/assert.h"
#include "doc/yaml_error.h"
#include "doc/yaml_scalar.h"

struct weight {
    size_t n_nodes, n_bytes; // after expansion
};

struct anchor {
    const char *name;
    struct doc *node;
    struct weight weight;
    int height; // levels of containers
    bool open;  // its end has not been read yet
};

// A list or map whose end has not been read yet.
struct frame {
    struct doc *node;
    struct doc *merges; // maps named by <<, in order of precedence
    struct str key;     // of the value to come
    struct doc_pos key_pos;
    bool has_key, key_merges;
    struct anchor *anchor;
    struct weight before; // everything read before it
    int height;
};

struct builder {
    struct arena *arena;
    struct diag_list *diags;
    const char *source;
    struct doc *root;
    struct frame frames[YAML_MAX_DEPTH];
    int depth;
    struct anchor *anchors;
    int n_anchors, n_aliases;
    struct weight total;
    bool failed;
};

static void fail(struct builder *b, struct doc_pos pos, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// The first failure is the one that is reported.
static void fail(struct builder *b, struct doc_pos pos, const char *fmt, ...)
{
    if (b->failed) return;
    va_list args;
    va_start(args, fmt);
    diag_vadd(b->diags, DIAG_ERROR, pos, NULL, fmt, args);
    va_end(args);
    b->failed = true;
}

static struct doc_pos pos_of(const struct builder *b, yaml_mark_t mark)
{
    return (struct doc_pos){b->source, (int)mark.line + 1, (int)mark.column + 1};
}

static void charge(struct builder *b, struct doc_pos pos, struct weight w)
{
    b->total.n_nodes += w.n_nodes;
    b->total.n_bytes += w.n_bytes;
    if (b->total.n_nodes > YAML_MAX_NODES)
        fail(b, pos, "more than %d values, aliases expanded", YAML_MAX_NODES);
    else if (b->total.n_bytes > YAML_MAX_TEXT_BYTES)
        fail(b, pos, "more than %d bytes of text, aliases expanded", YAML_MAX_TEXT_BYTES);
}

static struct anchor *new_anchor(struct builder *b, const yaml_char_t *name, struct doc *node)
{
    if (!name || b->failed) return NULL;
    if (b->n_anchors == YAML_MAX_ANCHORS) {
        fail(b, node->pos, "more than %d anchors", YAML_MAX_ANCHORS);
        return NULL;
    }
    if (!b->anchors) b->anchors = arena_array(b->arena, YAML_MAX_ANCHORS, sizeof *b->anchors);
    struct anchor *a = &b->anchors[b->n_anchors++];
    *a = (struct anchor){.name = arena_strdup(b->arena, (const char *)name), .node = node};
    return a;
}

static struct anchor *find_anchor(const struct builder *b, const char *name)
{
    for (int i = b->n_anchors - 1; i >= 0; i--) // a later one hides an earlier one of the same name
        if (!strcmp(b->anchors[i].name, name)) return &b->anchors[i];
    return NULL;
}

static void add_merge(struct builder *b, struct frame *f, struct doc *value)
{
    if (!f->merges) f->merges = doc_new(b->arena, DOC_LIST);
    if (value->kind == DOC_MAP) {
        doc_append(f->merges, value);
        return;
    }
    bool good = value->kind == DOC_LIST;
    for (const struct doc *e = good ? value->first : NULL; e; e = e->next) {
        good = good && e->kind == DOC_MAP;
        doc_append(f->merges, doc_share(b->arena, e));
    }
    if (!good) fail(b, value->pos, "'<<' must be followed by a map or a list of maps");
}

// Puts a complete value where it belongs.
static void place(struct builder *b, struct doc *value, int height)
{
    if (b->failed) return;
    if (!b->depth) {
        b->root = value;
        return;
    }
    struct frame *f = &b->frames[b->depth - 1];
    f->height = MAX(f->height, height + 1);
    if (f->node->kind == DOC_LIST) {
        doc_append(f->node, value);
        return;
    }
    ASSERT(f->has_key);
    f->has_key = false;
    if (f->key_merges) {
        add_merge(b, f, value);
        return;
    }
    value->key_pos = f->key_pos;
    doc_set(f->node, f->key, value);
}

static bool wants_key(const struct builder *b)
{
    const struct frame *f = b->depth ? &b->frames[b->depth - 1] : NULL;
    return f && f->node->kind == DOC_MAP && !f->has_key;
}

static void take_key(struct builder *b, struct doc_pos pos, struct str text, bool plain)
{
    struct frame *f = &b->frames[b->depth - 1];
    f->key = text;
    f->key_pos = pos;
    f->has_key = true;
    f->key_merges = plain && str_eqz(text, "<<");
    if (plain && !text.len) fail(b, pos, "there is no key in front of this ':'");
    if (f->key_merges && f->merges)
        fail(b, pos, "duplicate key '<<'; give it a list of maps instead");
}

static const char core_tags[] = "tag:yaml.org,2002:";

static bool has_tag(const char *tag, const char *name)
{
    size_t n = sizeof core_tags - 1;
    return !strncmp(tag, core_tags, n) && !strcmp(tag + n, name);
}

// Gives a scalar the type that its tag demands.
static bool obey_tag(const char *tag, struct str text, struct doc *out)
{
    static const struct {
        const char *name;
        enum doc_kind kind;
    } types[] = {{"null", DOC_NULL}, {"bool", DOC_BOOL}, {"int", DOC_INT}, {"float", DOC_DOUBLE}};
    if (!strcmp(tag, "!") || has_tag(tag, "str")) {
        out->kind = DOC_STR;
        out->text = text;
        return true;
    }
    for (size_t i = 0; i < STATIC_LEN(types); i++) {
        if (!has_tag(tag, types[i].name)) continue;
        if (!yaml_resolve(text, out)) return false;
        if (out->kind == DOC_INT && types[i].kind == DOC_DOUBLE) {
            out->number = (double)out->integer;
            out->kind = DOC_DOUBLE;
        }
        return out->kind == types[i].kind;
    }
    return false;
}

static void resolve(struct builder *b, const yaml_event_t *e, struct str text, struct doc *out)
{
    const char *tag = (const char *)e->data.scalar.tag;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (tag) {
        if (!obey_tag(tag, text, out))
            fail(b, out->pos, "'%.*s' with the tag '%.60s' is not supported",
                 (int)MIN(text.len, 40), text.ptr, tag);
        return;
    }
    out->kind = DOC_STR;
    out->text = text;
    if (!plain) return;
    if (!yaml_resolve(text, out))
        fail(b, out->pos, "the number %.*s%s is too large; if it is text, put it in quotes",
             (int)MIN(text.len, 40), text.ptr, text.len > 40 ? "..." : "");
    const char *meaning = yaml_1_1_meaning(text);
    if (meaning)
        diag_add(b->diags, DIAG_WARNING, out->pos, NULL,
                 "%.*s is %s here, but %s for readers of YAML 1.1", STR_ARG(text),
                 doc_kind_name(out->kind), meaning);
}

static void on_scalar(struct builder *b, const yaml_event_t *e)
{
    struct doc_pos pos = pos_of(b, e->start_mark);
    size_t n = e->data.scalar.length;
    if (memchr(e->data.scalar.value, 0, n)) {
        fail(b, pos, "NUL characters are not allowed");
        return;
    }
    struct weight w = {1, n};
    charge(b, pos, w);
    struct str text = {arena_strndup(b->arena, (const char *)e->data.scalar.value, n), n};
    if (wants_key(b)) {
        take_key(b, pos, text, e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE);
        return;
    }
    struct doc *d = doc_new(b->arena, DOC_NULL);
    d->pos = pos;
    resolve(b, e, text, d);
    struct anchor *a = new_anchor(b, e->data.scalar.anchor, d);
    if (a) a->weight = w;
    place(b, d, 0);
}

static void on_alias(struct builder *b, const yaml_event_t *e)
{
    struct doc_pos pos = pos_of(b, e->start_mark);
    const char *name = (const char *)e->data.alias.anchor;
    const struct anchor *a = find_anchor(b, name);
    if (!a) {
        fail(b, pos, "the alias *%.60s has no anchor &%.60s before it", name, name);
        return;
    }
    if (a->open)
        fail(b, pos, "the alias *%.60s is inside of what it stands for", name);
    else if (++b->n_aliases > YAML_MAX_ALIASES)
        fail(b, pos, "more than %d aliases", YAML_MAX_ALIASES);
    else if (b->depth + a->height > YAML_MAX_DEPTH)
        fail(b, pos, "nested more than %d levels deep", YAML_MAX_DEPTH);
    else if (wants_key(b))
        fail(b, pos, "an alias cannot be a key");
    if (b->failed) return;
    charge(b, pos, a->weight);
    place(b, doc_share(b->arena, a->node), a->height);
}

static void on_start(struct builder *b, const yaml_event_t *e)
{
    bool map = e->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *tag = map ? e->data.mapping_start.tag : e->data.sequence_start.tag;
    const yaml_char_t *name = map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
    struct doc *d = doc_new(b->arena, map ? DOC_MAP : DOC_LIST);
    d->pos = pos_of(b, e->start_mark);
    if (tag && strcmp((const char *)tag, "!") != 0 &&
        !has_tag((const char *)tag, map ? "map" : "seq"))
        fail(b, d->pos, "%s with the tag '%.60s' is not supported", doc_kind_name(d->kind), tag);
    if (b->depth == YAML_MAX_DEPTH)
        fail(b, d->pos, "nested more than %d levels deep", YAML_MAX_DEPTH);
    if (wants_key(b))
        fail(b, d->pos, "a key must be a single value, not %s", doc_kind_name(d->kind));
    if (b->failed) return;
    struct frame *f = &b->frames[b->depth++];
    *f = (struct frame){.node = d, .before = b->total, .height = 1};
    charge(b, d->pos, (struct weight){1, 0});
    f->anchor = new_anchor(b, name, d);
    if (f->anchor) f->anchor->open = true;
}

struct entry {
    struct doc *node;
    size_t rank; // in the text; what << brings comes last
};

static int by_key_and_rank(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    struct str p = x->node->key, q = y->node->key;
    int order = memcmp(p.ptr, q.ptr, MIN(p.len, q.len));
    if (!order && p.len != q.len) order = p.len < q.len ? -1 : 1;
    return order ? order : x->rank < y->rank ? -1 : 1;
}

// Copies of the entries of all merged maps, in order of precedence, behind those of the map itself.
static size_t gather_entries(struct builder *b, const struct frame *f, struct entry **out)
{
    size_t n = f->node->n, i = 0;
    for (const struct doc *m = f->merges ? f->merges->first : NULL; m; m = m->next)
        n += m->n;
    struct entry *entries = arena_array(b->arena, n, sizeof *entries);
    for (struct doc *e = f->node->first; e; e = e->next, i++)
        entries[i] = (struct entry){e, i};
    for (const struct doc *m = f->merges ? f->merges->first : NULL; m; m = m->next) {
        for (const struct doc *e = m->first; e; e = e->next, i++) {
            entries[i] = (struct entry){doc_share(b->arena, e), i};
            entries[i].node->key = e->key;
        }
    }
    *out = entries;
    return n;
}

// Refuses keys that are there twice, and adds those of merged maps that are not there yet. Sorting
// keeps this fast for wide maps.
static void finish_map(struct builder *b, const struct frame *f)
{
    struct entry *entries;
    size_t n_own = f->node->n, n = gather_entries(b, f, &entries);
    qsort(entries, n, sizeof *entries, by_key_and_rank);
    struct doc **merged = arena_array(b->arena, n - n_own, sizeof *merged);
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = &entries[i];
        bool again = i && str_eq(e->node->key, entries[i - 1].node->key);
        if (again && e->rank < n_own) {
            fail(b, e->node->key_pos, "duplicate key '%.60s'; it is in line %d already",
                 e->node->key.ptr, entries[i - 1].node->key_pos.line);
            return;
        }
        if (!again && e->rank >= n_own) merged[e->rank - n_own] = e->node;
    }
    for (size_t i = 0; i < n - n_own; i++)
        if (merged[i]) doc_append(f->node, merged[i]);
}

static void on_end(struct builder *b)
{
    ASSERT(b->depth > 0);
    struct frame *f = &b->frames[b->depth - 1];
    ASSERT(f->node);
    if (f->node->kind == DOC_MAP) finish_map(b, f);
    if (f->anchor) {
        f->anchor->open = false;
        f->anchor->height = f->height;
        f->anchor->weight.n_nodes = b->total.n_nodes - f->before.n_nodes;
        f->anchor->weight.n_bytes = b->total.n_bytes - f->before.n_bytes;
    }
    b->depth--;
    place(b, f->node, f->height);
}

static void on_event(struct builder *b, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->root)
            fail(b, pos_of(b, e->start_mark), "a second document starts here; one is expected");
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(b, e);
        break;
    case YAML_ALIAS_EVENT:
        on_alias(b, e);
        break;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        on_start(b, e);
        break;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        on_end(b);
        break;
    default:
        break;
    }
}

struct doc *yaml_parse(struct arena *arena, struct str text, const char *source,
                       struct diag_list *diags)
{
    struct builder b = {.arena = arena, .diags = diags, .source = source};
    if (text.len > YAML_MAX_BYTES) {
        fail(&b, (struct doc_pos){.source = source}, "%zu bytes of YAML; the limit is %d", text.len,
             YAML_MAX_BYTES);
        return NULL;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        fail(&b, (struct doc_pos){.source = source}, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.len ? text.ptr : ""),
                                 text.len);
    for (bool done = false; !done && !b.failed;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            yaml_explain(&parser, text, source, diags);
            b.failed = true;
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        on_event(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (b.failed) return NULL;
    return b.root ? b.root : doc_new(arena, DOC_NULL);
}
