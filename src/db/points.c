// Unit points.c: packs and unpacks points of a metric. Called by series_write.c and series.c.
#include "db/points.h"

#include "base/assert.h"
#include "db/varint.h"
#include <math.h>
#include <string.h>

enum { VERSION = 1 };

void points_add(struct points *p, const struct point *one, struct arena *a)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 8;
        struct point *items = arena_array(a, p->cap, sizeof *items);
        if (p->n) memcpy(items, p->items, p->n * sizeof *items);
        p->items = items;
    }
    p->items[p->n++] = *one;
}

void points_insert(struct points *p, const struct point *one, struct arena *a)
{
    points_add(p, one, a);
    size_t i = p->n - 1;
    for (; i > 0 && p->items[i - 1].steps > one->steps; i--)
        p->items[i] = p->items[i - 1];
    p->items[i] = *one;
}

void points_pack(const struct points *p, struct buf *out)
{
    buf_addc(out, VERSION);
    varint_put(out, p->n);
    for (size_t i = 0; i < p->n; i++)
        varint_put_distance(out, p->items[i].steps - (i ? p->items[i - 1].steps : 0));
    for (size_t i = 0; i < p->n; i++)
        varint_put_distance(out, p->items[i].time_us - (i ? p->items[i - 1].time_us : 0));
    for (size_t i = 0; i < p->n; i++)
        buf_add(out, &p->items[i].value, sizeof p->items[i].value);
}

int points_unpack(struct str packed, struct arena *a, struct points *out, det_err *err)
{
    struct varint_input in = {packed.ptr, packed.ptr + packed.len, !packed.len};
    if (!in.bad && *in.at++ != VERSION) in.bad = true;
    uint64_t n = in.bad ? 0 : varint_take(&in);
    // Each takes ten bytes at least.
    if (in.bad || !n || n > POINTS_MAX || n > packed.len / (2 + sizeof(double)))
        return det_fail(err, DET_ECORRUPT, "points of a metric are damaged");
    struct point *items = arena_array(a, n, sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i].steps = varint_add(i ? items[i - 1].steps : 0, varint_take_distance(&in));
    for (size_t i = 0; i < n; i++)
        items[i].time_us = varint_add(i ? items[i - 1].time_us : 0, varint_take_distance(&in));
    if (in.bad || (size_t)(in.end - in.at) != n * sizeof(double))
        return det_fail(err, DET_ECORRUPT, "points of a metric are damaged");
    for (size_t i = 0; i < n; i++, in.at += sizeof(double))
        memcpy(&items[i].value, in.at, sizeof(double));
    *out = (struct points){.n = n, .cap = n, .items = items};
    return 0;
}

struct points_summary points_summarize(const struct points *p)
{
    ASSERT(p->n > 0);
    struct points_summary s = {.first_point = p->items[0], .last_point = p->items[p->n - 1]};
    for (size_t i = 0; i < p->n; i++) {
        double x = p->items[i].value;
        if (!isfinite(x)) continue;
        s.min = s.count ? MIN(s.min, x) : x;
        s.max = s.count ? MAX(s.max, x) : x;
        s.sum += x;
        s.last = x;
        s.count++;
    }
    return s;
}
