// Unit hparam.c: walks through hyperparameter trees.
#include "entity/entity.h"

#include "base/assert.h"

const char *hparam_path(const struct hparam *hp, struct arena *arena)
{
    if (!hp->parent) return hp->name;
    return arena_printf(arena, "%s.%s", hparam_path(hp->parent, arena), hp->name);
}

static size_t count_leaves(const struct hparam *hp)
{
    if (hp->kind != HP_GROUP) return 1;
    size_t n = 0;
    for (size_t i = 0; i < hp->group.n; i++)
        n += count_leaves(&hp->group.items[i]);
    return n;
}

static size_t gather_leaves(const struct hparam *hp, const struct hparam **out)
{
    if (hp->kind != HP_GROUP) {
        *out = hp;
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < hp->group.n; i++)
        n += gather_leaves(&hp->group.items[i], out + n);
    return n;
}

size_t hparam_leaves(const struct hparam *root, struct arena *arena, const struct hparam ***out)
{
    *out = arena_array(arena, count_leaves(root), sizeof **out);
    return gather_leaves(root, *out);
}

// Takes the next values from *values.
static struct doc *assemble(const struct hparam *hp, const struct doc *const **values,
                            struct arena *arena)
{
    if (hp->kind != HP_GROUP) {
        const struct doc *value = *(*values)++;
        ASSERT(value || hp->kind == HP_CONST);
        return doc_share(arena, value ? value : hp->constant);
    }
    struct doc *out = doc_new(arena, DOC_MAP);
    for (size_t i = 0; i < hp->group.n; i++)
        doc_set(out, str_from(hp->group.items[i].name),
                assemble(&hp->group.items[i], values, arena));
    return out;
}

struct doc *hparam_assemble(const struct hparam *root, const struct doc *const *values,
                            struct arena *arena)
{
    return assemble(root, &values, arena);
}

int64_t hparam_grid_count(const struct hparam *leaf)
{
    switch (leaf->kind) {
    case HP_CONST:
        return 1;
    case HP_CATEGORICAL:
        return (int64_t)leaf->categorical.n;
    case HP_INT: {
        int64_t span = leaf->integer.max - leaf->integer.min;
        return leaf->count.value > span ? span + 1 : leaf->count.value;
    }
    case HP_DOUBLE:
    case HP_LOG:
        return leaf->count.value;
    case HP_GROUP:
        break;
    }
    ASSERT(!"a group is no leaf");
    return 0;
}
