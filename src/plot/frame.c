// Unit frame.c: finds what is to be seen of the lines, and hands it to a pen. Called by text.c and
// svg.c.
#include "plot/frame.h"

#include <math.h>

static const double largest = 1e300; // the distance between two values is a number, too

static bool is_shown(const struct plot *p, double y)
{
    return fabs(y) <= largest && (!p->log || y > 0);
}

static void stretch(struct frame_axis *a, double value)
{
    a->low = fmin(a->low, value);
    a->high = fmax(a->high, value);
}

static double scaled(const struct frame_axis *a, double value)
{
    return a->log ? log10(value) : value;
}

static double place_of(const struct frame_axis *a, double value)
{
    return (scaled(a, value) - a->low) / (a->high - a->low);
}

static void measure(struct frame *f, const struct plot_line *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const double values[] = {l->y[i], l->low ? l->low[i] : NAN, l->high ? l->high[i] : NAN};
        if (!(fabs(l->x[i]) <= largest)) continue;
        for (int k = 0; k < 3; k++) {
            if (!is_shown(f->plot, values[k])) continue;
            stretch(&f->x, l->x[i]);
            stretch(&f->y, scaled(&f->y, values[k]));
        }
    }
}

// A single value gets room around it; a curve does not lie on the border.
static void widen(struct frame_axis *a, double part)
{
    const double size = a->high - a->low;
    const double room = size > 0 ? size * part : fabs(a->high) > 0 ? fabs(a->high) * 0.1 : 0.5;
    a->low -= room;
    a->high += room;
}

int frame_init(struct frame *f, const struct plot *p, int x_ticks, int y_ticks, det_err *err)
{
    *f = (struct frame){.plot = p,
                        .x = {.low = INFINITY, .high = -INFINITY},
                        .y = {.low = INFINITY, .high = -INFINITY, .log = p->log}};
    for (size_t i = 0; i < p->n_lines; i++)
        measure(f, &p->lines[i]);
    if (!(f->x.low <= f->x.high))
        return det_fail(err, DET_EINVAL, "%s: there is no value%s to draw", p->title,
                        p->log ? " above 0" : "");
    if (!(f->x.low < f->x.high)) widen(&f->x, 0);
    widen(&f->y, 0.03);
    (p->x_axis == PLOT_SECONDS ? axis_mark_seconds : axis_mark_numbers)(&f->x, x_ticks);
    (p->log ? axis_mark_powers : axis_mark_numbers)(&f->y, y_ticks);
    return 0;
}

void frame_draw_spans(const struct frame *f, const struct plot_line *l, const struct pen *pen)
{
    for (size_t i = 0; l->low && l->high && i < l->n; i++) {
        if (!(fabs(l->x[i]) <= largest) || !is_shown(f->plot, l->low[i]) ||
            !is_shown(f->plot, l->high[i]))
            continue;
        pen->span(pen->ctx, place_of(&f->x, l->x[i]), place_of(&f->y, l->low[i]),
                  place_of(&f->y, l->high[i]));
    }
}

void frame_draw_line(const struct frame *f, const struct plot_line *l, const struct pen *pen)
{
    bool goes_on = false;
    for (size_t i = 0; i < l->n; i++) {
        const bool shown = fabs(l->x[i]) <= largest && is_shown(f->plot, l->y[i]);
        if (shown)
            (goes_on ? pen->line : pen->move)(pen->ctx, place_of(&f->x, l->x[i]),
                                              place_of(&f->y, l->y[i]));
        goes_on = shown;
    }
}
