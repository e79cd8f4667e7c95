// Unit pickle.c: the graph of objects of format/pickle.h: adding to it and freeing it.
#include "format/pickle.h"

#include "base/mem.h"

const char *object_kind_name(uint8_t kind)
{
    static const char *const names[] = {"None",  "bool", "int",    "float",   "str",   "list",
                                        "tuple", "dict", "global", "storage", "tensor"};
    return names[kind];
}

void *pickle_grow(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return array;
    *cap = *cap ? 2 * *cap : 4;
    return xrealloc(array, *cap * size);
}

uint32_t pickle_add(struct pickle *p, struct object object)
{
    p->objects = pickle_grow(p->objects, p->n_objects, &p->cap_objects, sizeof *p->objects);
    p->objects[p->n_objects] = object;
    return p->n_objects++;
}

void pickle_done(struct pickle *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n_objects; i++) {
        struct object *o = &p->objects[i];
        if (o->kind >= OBJECT_LIST && o->kind <= OBJECT_DICT) free(o->list.items);
    }
    free(p->objects);
    free(p->storages);
    free(p->tensors);
    *p = (struct pickle){0};
}
