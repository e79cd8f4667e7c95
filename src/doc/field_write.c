// Unit field_write.c: field_write(), the inverse of field_read.c.
#include "doc/field.h"

#include "base/assert.h"

struct writer {
    struct arena *arena;
    bool mask_secrets;
};

static struct doc *write_table(const struct writer *w, const struct field_table *table,
                               const void *self);
static struct doc *write_value(const struct writer *w, const struct field *f, const void *member);

static struct doc *write_list(const struct writer *w, const struct field *f, const void *member)
{
    struct field_list list;
    memcpy(&list, member, sizeof list);
    struct doc *out = doc_new(w->arena, DOC_LIST);
    for (size_t i = 0; i < list.n; i++)
        doc_append(out, write_value(w, f->item, (char *)list.items + i * field_size(f->item)));
    return out;
}

static struct doc *write_str(const struct writer *w, const struct field *f, const char *text)
{
    return doc_new_str(w->arena, text && f->secret && w->mask_secrets ? FIELD_MASK : text);
}

static struct doc *write_tri(const struct writer *w, enum tri value)
{
    return value == TRI_UNSET ? doc_new(w->arena, DOC_NULL)
                              : doc_new_bool(w->arena, value == TRI_TRUE);
}

static struct doc *write_opt_int(const struct writer *w, const struct opt_int *value)
{
    return value->is_set ? doc_new_int(w->arena, value->value) : doc_new(w->arena, DOC_NULL);
}

static struct doc *write_map(const struct writer *w, const struct doc *map)
{
    return map ? doc_share(w->arena, map) : doc_new(w->arena, DOC_NULL);
}

static struct doc *write_value(const struct writer *w, const struct field *f, const void *member)
{
    switch (f->type) {
    case FIELD_BOOL:
        return doc_new_bool(w->arena, *(const bool *)member);
    case FIELD_TRI:
        return write_tri(w, *(const enum tri *)member);
    case FIELD_INT:
        return doc_new_int(w->arena, *(const int64_t *)member);
    case FIELD_OPT_INT:
        return write_opt_int(w, member);
    case FIELD_DOUBLE:
        return doc_new_double(w->arena, *(const double *)member);
    case FIELD_STR:
        return write_str(w, f, *(const char *const *)member);
    case FIELD_ENUM: {
        const char *name = f->values[*(const int *)member];
        return doc_new_str(w->arena, *name ? name : NULL);
    }
    case FIELD_LIST:
        return write_list(w, f, member);
    case FIELD_MAP:
        return write_map(w, *(const struct doc *const *)member);
    case FIELD_TABLE:
        return write_table(w, f->table, member);
    case FIELD_CODEC:
        return f->codec->write(w->arena, member);
    case FIELD_OLD:
    case FIELD_IGNORED:
    case FIELD_REFUSED:
        break;
    }
    return NULL;
}

static void write_rows(const struct writer *w, const struct field *rows, size_t n, const void *self,
                       struct doc *out)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].type >= FIELD_OLD) continue;
        doc_set(out, str_from(rows[i].name),
                write_value(w, &rows[i], (const char *)self + rows[i].offset));
    }
}

static void write_variant(const struct writer *w, const struct field_variant *v, const void *self,
                          struct doc *out)
{
    write_rows(w, v->fields, v->n, self, out);
    const struct doc *rest = NULL;
    if (v->open) memcpy(&rest, (const char *)self + v->rest_offset, sizeof rest);
    for (const struct doc *e = rest ? rest->first : NULL; e; e = e->next)
        doc_set(out, e->key, doc_share(w->arena, e));
}

static struct doc *write_table(const struct writer *w, const struct field_table *table,
                               const void *self)
{
    struct doc *out = doc_new(w->arena, DOC_MAP);
    const struct field_variant *v = NULL;
    if (table->tag) {
        v = &table->variants[*(const int *)((const char *)self + table->tag_offset)];
        doc_set(out, str_from(table->tag), doc_new_str(w->arena, *v->tag ? v->tag : NULL));
    }
    write_rows(w, table->fields, table->n, self, out);
    if (v) write_variant(w, v, self, out);
    return out;
}

struct doc *field_write(struct arena *arena, const struct field_table *table, const void *self,
                        bool mask_secrets)
{
    const struct writer w = {arena, mask_secrets};
    return write_table(&w, table, self);
}
