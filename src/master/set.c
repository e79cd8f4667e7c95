// Unit set.c: a sorted array of numbered objects.
#include "master/set.h"

#include "base/assert.h"
#include "base/mem.h"

size_t set_place(const struct set *s, int64_t key)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->items[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void *set_find(const struct set *s, int64_t key)
{
    size_t i = set_place(s, key);
    return i < s->n && s->items[i].key == key ? s->items[i].value : NULL;
}

static struct set_item *memory_of(const struct set *s)
{
    return s->items ? s->items - s->n_gap : NULL;
}

// Room behind the last: from the gap in front if that is large, so that it is not moved often.
static void make_room(struct set *s)
{
    struct set_item *all = memory_of(s);
    if (s->n_gap > s->n) {
        memmove(all, s->items, s->n * sizeof *all);
        s->n_gap = 0;
    } else {
        s->cap = s->cap ? 2 * s->cap : 16;
        all = xrealloc(all, s->cap * sizeof *all);
    }
    s->items = all + s->n_gap;
}

void set_add(struct set *s, int64_t key, void *value)
{
    size_t i = set_place(s, key);
    ASSERT(i == s->n || s->items[i].key != key);
    if (s->n_gap + s->n == s->cap) make_room(s);
    memmove(&s->items[i + 1], &s->items[i], (s->n - i) * sizeof *s->items);
    s->items[i] = (struct set_item){key, value};
    s->n++;
}

void set_remove(struct set *s, int64_t key)
{
    size_t i = set_place(s, key);
    if (i == s->n || s->items[i].key != key) return;
    s->n--;
    if (i < s->n - i) { // the shorter side moves
        memmove(&s->items[1], &s->items[0], i * sizeof *s->items);
        s->items++;
        s->n_gap++;
    } else {
        memmove(&s->items[i], &s->items[i + 1], (s->n - i) * sizeof *s->items);
    }
}

void set_done(struct set *s)
{
    free(memory_of(s));
    *s = (struct set){0};
}
