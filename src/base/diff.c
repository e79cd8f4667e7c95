// Unit diff.c: the shortest list of lines to take out and to put in.
//
// Myers: "An O(ND) difference algorithm and its variations" (1986): D rounds, in each of which the
// paths with one more change go as far as lines are equal; the way back gives the changes. D is
// limited, so time and memory are.
#include "base/diff.h"

#include "base/assert.h"
#include "base/mem.h"
#include <stdint.h>

enum { MAX_LINES = 50000, MAX_CHANGES = 3000, CONTEXT = 3 };

struct lines {
    struct str *items; // with their ends
    size_t n;
};

static struct lines split(struct str text)
{
    struct lines l = {xcalloc(1, sizeof *l.items), 0};
    size_t cap = 1;
    while (text.len) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t n = end ? (size_t)(end - text.ptr) + 1 : text.len;
        if (l.n == cap) {
            cap *= 2;
            l.items = xrealloc(l.items, cap * sizeof *l.items);
        }
        l.items[l.n++] = (struct str){text.ptr, n};
        text = (struct str){text.ptr + n, text.len - n};
    }
    return l;
}

// What becomes of each line of both texts.
struct changes {
    bool *is_out, *is_in;
};

// How far the paths of each round have come, one array a round, for the way back.
struct rounds {
    int32_t **reached; // reached[d][k + d]: lines of `before` on diagonal k after d changes
    int n;
};

static void rounds_done(struct rounds *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->reached[i]);
    free(r->reached);
}

// Where a path on diagonal k can begin in round d, given the round before.
static int32_t begin_of(const struct rounds *r, int d, int k, bool *goes_in)
{
    if (!d) {
        *goes_in = false;
        return 0;
    }
    const int32_t *last = r->reached[d - 1] + (d - 1);
    *goes_in = k == -d || (k != d && last[k - 1] < last[k + 1]);
    return *goes_in ? last[k + 1] : last[k - 1] + 1;
}

// The number of changes; -1: too many.
static int search(const struct lines *a, const struct lines *b, struct rounds *r)
{
    int32_t n = (int32_t)a->n, m = (int32_t)b->n;
    r->reached = xcalloc(MAX_CHANGES + 1, sizeof *r->reached);
    for (int d = 0; d <= MAX_CHANGES; d++) {
        r->reached[d] = xcalloc(2 * (size_t)d + 1, sizeof **r->reached);
        r->n = d + 1;
        for (int k = -d; k <= d; k += 2) {
            bool goes_in;
            int32_t x = begin_of(r, d, k, &goes_in), y = x - k;
            while (x < n && y >= 0 && y < m && str_eq(a->items[x], b->items[y])) {
                x++;
                y++;
            }
            r->reached[d][k + d] = x;
            if (x >= n && y >= m) return d;
        }
    }
    return -1;
}

static void walk_back(const struct lines *a, const struct lines *b, const struct rounds *r, int d,
                      struct changes *c)
{
    int32_t x = (int32_t)a->n, y = (int32_t)b->n;
    for (; d > 0; d--) {
        bool goes_in;
        int k = x - y;
        int32_t from = begin_of(r, d, k, &goes_in);
        // From there on lines were equal; before it is the change of this round.
        x = goes_in ? from : from - 1;
        y = goes_in ? from - k - 1 : from - k;
        if (goes_in)
            c->is_in[y] = true;
        else
            c->is_out[x] = true;
    }
}

// --- output

static void put_line(struct buf *out, char sign, struct str line)
{
    buf_addc(out, sign);
    buf_add(out, line.ptr, line.len);
    if (!str_ends(line, STR("\n"))) buf_addz(out, "\n\\ No newline at end of file\n");
}

// A stretch of both texts: changes that are near each other, and the lines around them.
struct hunk {
    size_t a, b, n_a, n_b;
};

// The next change from a line on, in lines of both texts that are still equal up to there.
static bool find_change(const struct lines *a, const struct lines *b, const struct changes *c,
                        size_t *x, size_t *y)
{
    while (*x < a->n || *y < b->n) {
        if ((*x < a->n && c->is_out[*x]) || (*y < b->n && c->is_in[*y])) return true;
        ++*x;
        ++*y;
    }
    return false;
}

static void skip_changes(const struct lines *a, const struct lines *b, const struct changes *c,
                         size_t *x, size_t *y)
{
    while (*x < a->n && c->is_out[*x])
        ++*x;
    while (*y < b->n && c->is_in[*y])
        ++*y;
}

static bool next_hunk(const struct lines *a, const struct lines *b, const struct changes *c,
                      size_t *x, size_t *y, struct hunk *out)
{
    if (!find_change(a, b, c, x, y)) return false;
    size_t before = MIN(CONTEXT, MIN(*x, *y));
    *out = (struct hunk){.a = *x - before, .b = *y - before};
    for (;;) {
        skip_changes(a, b, c, x, y);
        size_t next_x = *x, next_y = *y;
        bool more = find_change(a, b, c, &next_x, &next_y);
        if (!more || next_x - *x > 2 * CONTEXT) break;
        *x = next_x;
        *y = next_y;
    }
    size_t behind = MIN(CONTEXT, MIN(a->n - *x, b->n - *y));
    out->n_a = *x + behind - out->a;
    out->n_b = *y + behind - out->b;
    return true;
}

static void put_hunk(struct buf *out, const struct lines *a, const struct lines *b,
                     const struct changes *c, const struct hunk *h)
{
    buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", h->a + (h->n_a > 0), h->n_a, h->b + (h->n_b > 0),
               h->n_b);
    size_t x = h->a, y = h->b;
    while (x < h->a + h->n_a || y < h->b + h->n_b) {
        if (x < a->n && c->is_out[x])
            put_line(out, '-', a->items[x++]);
        else if (y < b->n && c->is_in[y])
            put_line(out, '+', b->items[y++]);
        else {
            put_line(out, ' ', a->items[x++]);
            y++;
        }
    }
}

static void put_all(struct buf *out, const struct lines *a, const struct lines *b,
                    const struct changes *c)
{
    struct hunk h;
    for (size_t x = 0, y = 0; next_hunk(a, b, c, &x, &y, &h);)
        put_hunk(out, a, b, c, &h);
}

enum diff_result diff_unified(struct str before, struct str after, struct buf *out)
{
    if (str_eq(before, after)) return DIFF_NONE;
    struct lines a = split(before), b = split(after);
    struct changes c = {xcalloc(a.n + 1, sizeof *c.is_out), xcalloc(b.n + 1, sizeof *c.is_in)};
    struct rounds r = {0};
    int d = a.n <= MAX_LINES && b.n <= MAX_LINES ? search(&a, &b, &r) : -1;
    if (d >= 0) {
        walk_back(&a, &b, &r, d, &c);
        put_all(out, &a, &b, &c);
    }
    rounds_done(&r);
    free(a.items);
    free(b.items);
    free(c.is_out);
    free(c.is_in);
    return d >= 0 ? DIFF_MADE : DIFF_TOO_MUCH;
}
