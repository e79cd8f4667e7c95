// Unit svg.c: pictures as SVG, for papers and pages.
#include "plot/frame.h"

#include "base/assert.h"
#include <math.h>
#include <string.h>

// Pixels.
enum {
    WIDTH = 720,
    LEFT = 64,
    RIGHT = 16,
    TOP = 28,
    HEIGHT = 240,
    BOTTOM = 40,
    KEY = 16,
    GAP = 20
};
enum { INNER = WIDTH - LEFT - RIGHT, KEY_WIDTH = 160, MAX_LABEL = 22, MAX_TITLE = 90 };

static const char *const colours[PLOT_INKS] = {"#0b62b0", "#c65200", "#00795f", "#a6428a",
                                               "#7a6a00", "#444b55", "#2f8fc7", "#8c4b1f"};
static const char *const dashes[] = {"", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 2\"",
                                     " stroke-dasharray=\"8 3 2 3\""};

struct sheet {
    struct buf *out;
    double top; // of the picture
};

// Text of anybody: no markup, no control characters.
static void add_text(struct buf *out, const char *text, int most)
{
    struct buf safe = BUF_INIT(1 << 20);
    label_add(&safe, text, most);
    for (const char *c = buf_str(&safe).ptr; *c; c++) {
        const char *name = *c == '<'   ? "&lt;"
                           : *c == '>' ? "&gt;"
                           : *c == '&' ? "&amp;"
                           : *c == '"' ? "&quot;"
                                       : NULL;
        if (name)
            buf_addz(out, name);
        else
            buf_addc(out, *c);
    }
    buf_done(&safe);
}

static double at_x(double place)
{
    return LEFT + place * INNER;
}

static double at_y(const struct sheet *s, double place)
{
    return s->top + (1 - place) * HEIGHT;
}

static void pen_move(void *ctx, double x, double y)
{
    const struct sheet *s = ctx;
    buf_printf(s->out, "M%.1f %.1fh0", at_x(x), at_y(s, y));
}

static void pen_line(void *ctx, double x, double y)
{
    const struct sheet *s = ctx;
    buf_printf(s->out, "L%.1f %.1f", at_x(x), at_y(s, y));
}

static void pen_span(void *ctx, double x, double low, double high)
{
    const struct sheet *s = ctx;
    buf_printf(s->out, "M%.1f %.1fV%.1f", at_x(x), at_y(s, low), at_y(s, high));
}

static void add_axes(const struct sheet *s, const struct frame *f)
{
    struct buf *out = s->out;
    buf_addz(out, "<g class=\"axes\">\n");
    for (int i = 0; i < f->y.n_ticks; i++) {
        const double y = at_y(s, f->y.ticks[i].place);
        buf_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                   y + 4, f->y.ticks[i].text);
    }
    for (int i = 0; i < f->x.n_ticks; i++)
        buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                   at_x(f->x.ticks[i].place), s->top + HEIGHT + 16, f->x.ticks[i].text);
    buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", WIDTH - RIGHT,
               s->top + HEIGHT + 32);
    add_text(out, f->plot->x_title, MAX_TITLE);
    buf_addz(out, "</text>\n</g>\n");
}

static void add_line(struct sheet *s, const struct frame *f, const struct plot_line *l)
{
    const struct pen pen = {pen_move, pen_line, pen_span, s};
    const char *colour = colours[l->ink % PLOT_INKS];
    const double width = fmax(1, (double)INNER / (double)MAX(l->n, 1));
    if (l->low && l->high) {
        buf_printf(s->out, "<path class=\"span\" stroke=\"%s\" stroke-width=\"%.1f\" d=\"", colour,
                   width);
        frame_draw_spans(f, l, &pen);
        buf_addz(s->out, "\"/>\n");
    }
    buf_printf(s->out, "<path class=\"line\" stroke=\"%s\"%s d=\"", colour,
               dashes[(size_t)(l->ink / PLOT_INKS) % STATIC_LEN(dashes)]);
    frame_draw_line(f, l, &pen);
    buf_addz(s->out, "\"><title>");
    add_text(s->out, l->label, MAX_TITLE);
    buf_addz(s->out, "</title></path>\n");
}

static void add_legend(const struct sheet *s, const struct plot *p)
{
    const double top = s->top + HEIGHT + BOTTOM;
    const int across = INNER / KEY_WIDTH;
    for (size_t i = 0; i < p->n_lines; i++) {
        const struct plot_line *l = &p->lines[i];
        const double x = LEFT + (double)((int)i % across) * KEY_WIDTH;
        const double y = top + (double)((int)i / across) * KEY;
        buf_printf(s->out, "<path class=\"line\" stroke=\"%s\"%s d=\"M%.1f %.1fh18\"/>",
                   colours[l->ink % PLOT_INKS],
                   dashes[(size_t)(l->ink / PLOT_INKS) % STATIC_LEN(dashes)], x, y - 4);
        buf_printf(s->out, "<text x=\"%.1f\" y=\"%.1f\">", x + 24, y);
        add_text(s->out, l->label, MAX_LABEL);
        buf_addz(s->out, "</text>\n");
    }
}

static double height_of(const struct plot *p)
{
    const int across = INNER / KEY_WIDTH;
    return TOP + HEIGHT + BOTTOM + (double)divide_up((int64_t)p->n_lines, across) * KEY;
}

static int add_plot(struct sheet *s, const struct plot *p, det_err *err)
{
    struct frame f;
    int rc = frame_init(&f, p, INNER / 90, HEIGHT / 48, err);
    if (rc) return rc;
    buf_printf(s->out, "<text class=\"title\" x=\"%d\" y=\"%.1f\">", LEFT, s->top - 10);
    add_text(s->out, p->title, MAX_TITLE);
    buf_addz(s->out, "</text>\n");
    add_axes(s, &f);
    for (size_t i = p->n_lines; i-- > 0;)
        add_line(s, &f, &p->lines[i]);
    add_legend(s, p);
    return 0;
}

int plot_svg(const struct plot *plots, size_t n, struct buf *out, det_err *err)
{
    struct sheet s = {.out = out};
    double height = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        height += height_of(&plots[i]) + (i ? GAP : 0);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
               "viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"",
               WIDTH, height, WIDTH, height);
    for (size_t i = 0; i < n; i++) {
        if (i) buf_addz(out, ", ");
        add_text(out, plots[i].title, MAX_TITLE);
    }
    buf_addz(out, "\">\n<style>text{font:11px system-ui,sans-serif;fill:#1a1e24}.title{font-weight:"
                  "600;font-size:13px}.grid{stroke:#dfe3e8}.line{fill:none;stroke-width:1.5;"
                  "stroke-linejoin:round;stroke-linecap:round}.span{opacity:.2}</style>\n"
                  "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    double top = 0;
    for (size_t i = 0; !rc && i < n; i++) {
        s.top = top + TOP;
        rc = add_plot(&s, &plots[i], err);
        top += height_of(&plots[i]) + GAP;
    }
    buf_addz(out, "</svg>\n");
    return rc;
}
