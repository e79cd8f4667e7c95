// Unit rung.c: two heaps. Called by halving.c.
#include "search/rung.h"

#include "base/assert.h"
#include "base/mem.h"

void rung_init(struct rung *r, bool newest_first)
{
    *r = (struct rung){.newest_first = newest_first, .leaders.leads = true};
}

void rung_done(struct rung *r)
{
    free(r->entries);
    free(r->leaders.items);
    free(r->rest.items);
}

size_t rung_n(const struct rung *r)
{
    return r->n - r->n_out;
}

static bool is_better(const struct rung *r, size_t a, size_t b)
{
    double x = r->entries[a].loss, y = r->entries[b].loss;
    if (x != y) return x < y;
    return r->newest_first ? a > b : a < b;
}

// Whether a belongs above b in the heap.
static bool is_above(const struct rung *r, const struct rung_heap *h, size_t a, size_t b)
{
    return h->leads ? is_better(r, b, a) : is_better(r, a, b);
}

static void place(struct rung *r, struct rung_heap *h, size_t at, size_t entry)
{
    h->items[at] = entry;
    r->entries[entry].at = at;
    r->entries[entry].leads = h->leads;
}

static void sift_up(struct rung *r, struct rung_heap *h, size_t at)
{
    size_t entry = h->items[at];
    while (at > 0 && is_above(r, h, entry, h->items[(at - 1) / 2])) {
        place(r, h, at, h->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(r, h, at, entry);
}

static void sift_down(struct rung *r, struct rung_heap *h, size_t at)
{
    size_t entry = h->items[at];
    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && is_above(r, h, h->items[child + 1], h->items[child])) child++;
        if (!is_above(r, h, h->items[child], entry)) break;
        place(r, h, at, h->items[child]);
    }
    place(r, h, at, entry);
}

static void push(struct rung *r, struct rung_heap *h, size_t entry)
{
    place(r, h, h->n++, entry);
    sift_up(r, h, h->n - 1);
}

static void take(struct rung *r, struct rung_heap *h, size_t at)
{
    size_t last = h->items[--h->n];
    if (at == h->n) return;
    place(r, h, at, last);
    sift_up(r, h, at);
    sift_down(r, h, r->entries[last].at);
}

static void move_top(struct rung *r, struct rung_heap *from, struct rung_heap *to)
{
    size_t entry = from->items[0];
    take(r, from, 0);
    push(r, to, entry);
}

// Returns who rose; 0: nobody.
static int64_t balance(struct rung *r, size_t n_leaders)
{
    int64_t risen = 0;
    while (r->leaders.n > n_leaders)
        move_top(r, &r->leaders, &r->rest);
    while (r->leaders.n < n_leaders && r->rest.n) {
        risen = r->entries[r->rest.items[0]].trial;
        move_top(r, &r->rest, &r->leaders);
    }
    return risen;
}

static void reserve(struct rung *r)
{
    if (r->n < r->cap) return;
    r->cap = MAX(16, 2 * r->cap);
    r->entries = xrealloc(r->entries, r->cap * sizeof *r->entries);
    r->leaders.items = xrealloc(r->leaders.items, r->cap * sizeof *r->leaders.items);
    r->rest.items = xrealloc(r->rest.items, r->cap * sizeof *r->rest.items);
}

int64_t rung_add(struct rung *r, int64_t trial, double loss, size_t n_leaders)
{
    reserve(r);
    size_t entry = r->n++;
    r->entries[entry] = (struct rung_entry){.trial = trial, .loss = loss};
    push(r, &r->leaders, entry);
    move_top(r, &r->leaders, &r->rest);
    int64_t risen = balance(r, n_leaders);
    return r->entries[entry].leads ? trial : risen;
}

void rung_remove(struct rung *r, int64_t trial, size_t n_leaders)
{
    for (size_t i = 0; i < r->n; i++) {
        struct rung_entry *e = &r->entries[i];
        if (e->trial != trial) continue;
        take(r, e->leads ? &r->leaders : &r->rest, e->at);
        e->trial = 0;
        r->n_out++;
        balance(r, n_leaders);
        return;
    }
}
