// Unit set.c: a sorted array of numbered objects.
#include "master/set.h"

#include "base/assert.h"
#include "base/mem.h"

// The first place whose key is not less.
static size_t place_of(const struct set *s, int64_t key)
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
    size_t i = place_of(s, key);
    return i < s->n && s->items[i].key == key ? s->items[i].value : NULL;
}

void set_add(struct set *s, int64_t key, void *value)
{
    size_t i = place_of(s, key);
    ASSERT(i == s->n || s->items[i].key != key);
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->items = xrealloc(s->items, s->cap * sizeof *s->items);
    }
    memmove(&s->items[i + 1], &s->items[i], (s->n - i) * sizeof *s->items);
    s->items[i] = (struct set_item){key, value};
    s->n++;
}

void set_remove(struct set *s, int64_t key)
{
    size_t i = place_of(s, key);
    if (i == s->n || s->items[i].key != key) return;
    s->n--;
    memmove(&s->items[i], &s->items[i + 1], (s->n - i) * sizeof *s->items);
}

void set_done(struct set *s)
{
    free(s->items);
    *s = (struct set){NULL, 0, 0};
}
