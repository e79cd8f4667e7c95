// Unit nearest.c: edit distance with swapped neighbours (optimal string alignment).
#include "base/nearest.h"

#include "base/assert.h"

enum { WORD_MAX = 48 }; // longer words get no suggestion

static size_t min3(size_t a, size_t b, size_t c)
{
    return MIN(a, MIN(b, c));
}

static size_t distance(struct str a, struct str b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            bool same = a.ptr[i - 1] == b.ptr[j - 1];
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + !same);
            bool swapped =
                i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1];
            if (swapped) row[j] = MIN(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b.len];
}

void nearest_offer(struct nearest *n, const char *candidate)
{
    struct str c = str_from(candidate);
    if (!c.len || n->word.len > WORD_MAX || c.len > WORD_MAX) return;
    size_t d = distance(n->word, c);
    size_t allowed = (MAX(n->word.len, c.len) + 1) / 3;
    if (d > allowed || (n->best && d >= n->distance)) return;
    n->best = candidate;
    n->distance = d;
}
