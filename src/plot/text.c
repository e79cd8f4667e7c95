// Unit text.c: pictures of characters. A character holds several dots, which have one colour: that
// of the line that was drawn last.
#include "plot/frame.h"

#include "base/assert.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_WIDTH = 24, MIN_HEIGHT = 3, MAX_SIDE = 1000, LABEL_GAP = 2, MAX_LABEL = 200 };

// How many dots a character has, and what draws the axes.
static const struct style {
    int across, down;
    const char *side, *side_tick, *corner, *floor, *floor_tick, *swatch;
} styles[] = {
    [PLOT_BRAILLE] = {2, 4, "│", "┤", "└", "─", "┬", "━━"},
    [PLOT_BLOCKS] = {2, 2, "│", "┤", "└", "─", "┬", "▄▄"},
    [PLOT_LETTERS] = {1, 1, "|", "+", "+", "-", "+", ""},
};

// Shades that can be told apart on dark and on light terminals, and by colour-blind people.
static const int ink_codes[PLOT_INKS] = {33, 208, 36, 169, 178, 245, 75, 137};

struct cell {
    uint8_t dots; // of letters: 1
    int ink;
};

struct sheet {
    const struct plot_text_opts *opts;
    const struct style *style;
    struct cell *cells;
    int columns, rows; // of the picture
    int ink;           // of the pen
    int x, y;          // the dot where it is; y grows downwards
    struct buf *out;
};

// --- dots

static void put_dot(struct sheet *s, int x, int y)
{
    static const uint8_t braille[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    const struct style *st = s->style;
    if (x < 0 || y < 0 || x >= s->columns * st->across || y >= s->rows * st->down) return;
    struct cell *c = &s->cells[y / st->down * s->columns + x / st->across];
    const int dx = x % st->across, dy = y % st->down;
    c->dots |= st->down == 4 ? braille[dy][dx] : (uint8_t)(1 << (dy * st->across + dx));
    c->ink = s->ink;
}

static int dot_at(double place, int n)
{
    return (int)lround(fmin(1, fmax(0, place)) * (n - 1));
}

static int dot_x(const struct sheet *s, double place)
{
    return dot_at(place, s->columns * s->style->across);
}

static int dot_y(const struct sheet *s, double place)
{
    return dot_at(1 - place, s->rows * s->style->down);
}

static void pen_move(void *ctx, double x, double y)
{
    struct sheet *s = ctx;
    s->x = dot_x(s, x);
    s->y = dot_y(s, y);
    put_dot(s, s->x, s->y);
}

static void pen_line(void *ctx, double x, double y)
{
    struct sheet *s = ctx;
    const int to_x = dot_x(s, x), to_y = dot_y(s, y), from_x = s->x, from_y = s->y;
    const int n = MAX(abs(to_x - from_x), abs(to_y - from_y));
    for (int i = 1; i <= n; i++)
        put_dot(s, from_x + (int)lround((double)(to_x - from_x) * i / n),
                from_y + (int)lround((double)(to_y - from_y) * i / n));
    s->x = to_x;
    s->y = to_y;
}

static void pen_span(void *ctx, double x, double low, double high)
{
    struct sheet *s = ctx;
    for (int y = dot_y(s, high), end = dot_y(s, low); y <= end; y++)
        put_dot(s, dot_x(s, x), y);
}

// --- characters

static void add_times(struct buf *out, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        buf_addz(out, text);
}

static void add_ink(struct sheet *s, int ink)
{
    if (s->opts->colours) buf_printf(s->out, "\x1b[38;5;%dm", ink_codes[ink % PLOT_INKS]);
}

static void end_ink(struct sheet *s)
{
    if (s->opts->colours) buf_addz(s->out, "\x1b[0m");
}

static char letter_of(int ink)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return letters[(size_t)ink % (sizeof letters - 1)];
}

static void add_cell(struct sheet *s, const struct cell *c)
{
    static const char *const blocks[16] = {" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛",
                                           "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"};
    if (!c->dots)
        buf_addc(s->out, ' ');
    else if (s->opts->style == PLOT_BLOCKS)
        buf_addz(s->out, blocks[c->dots]);
    else if (s->opts->style == PLOT_LETTERS)
        buf_addc(s->out, letter_of(c->ink));
    else // U+2800 and its dots
        buf_printf(s->out, "\xe2%c%c", 0xa0 + (c->dots >> 6), 0x80 + (c->dots & 63));
}

static void add_row(struct sheet *s, int row)
{
    const struct cell *cells = s->cells + (size_t)row * (size_t)s->columns;
    int last = s->columns, ink = -1;
    while (last && !cells[last - 1].dots)
        last--;
    for (int i = 0; i < last; i++) {
        if (cells[i].dots && cells[i].ink != ink) add_ink(s, ink = cells[i].ink);
        add_cell(s, &cells[i]);
    }
    if (ink >= 0) end_ink(s);
    buf_addc(s->out, '\n');
}

// --- the whole picture

static const struct frame_tick *tick_in_row(const struct sheet *s, const struct frame *f, int row)
{
    for (int i = 0; i < f->y.n_ticks; i++)
        if (dot_at(1 - f->y.ticks[i].place, s->rows) == row) return &f->y.ticks[i];
    return NULL;
}

static void add_picture(struct sheet *s, const struct frame *f, int margin)
{
    for (int row = 0; row < s->rows; row++) {
        const struct frame_tick *t = tick_in_row(s, f, row);
        buf_printf(s->out, "%*s ", margin, t ? t->text : "");
        buf_addz(s->out, t ? s->style->side_tick : s->style->side);
        add_row(s, row);
    }
}

// The floor, and below it the texts of its marks; one that would touch its neighbour is left out.
static void add_floor(struct sheet *s, const struct frame *f, int margin)
{
    struct buf texts = BUF_INIT(MAX_SIDE * 8);
    int used = 0;
    bool *marks = xcalloc((size_t)s->columns, sizeof *marks);
    for (int i = 0; i < f->x.n_ticks; i++) {
        const struct frame_tick *t = &f->x.ticks[i];
        const int at = dot_at(t->place, s->columns), n = (int)strlen(t->text);
        int from = MAX(0, MIN(at - n / 2, s->columns - n));
        if (from < used || n > s->columns) continue;
        add_times(&texts, " ", from - (used ? used - LABEL_GAP : 0));
        buf_addz(&texts, t->text);
        used = from + n + LABEL_GAP;
        marks[at] = true;
    }
    add_times(s->out, " ", margin + 1);
    buf_addz(s->out, s->style->corner);
    for (int i = 0; i < s->columns; i++)
        buf_addz(s->out, marks[i] ? s->style->floor_tick : s->style->floor);
    buf_addc(s->out, '\n');
    add_times(s->out, " ", margin + 2);
    buf_add(s->out, texts.ptr, texts.len);
    buf_addc(s->out, '\n');
    buf_done(&texts);
    free(marks);
}

// Which line is which, as many beside each other as fit.
static void add_legend(struct sheet *s, const struct plot *p, int margin)
{
    int used = 0;
    for (size_t i = 0; i < p->n_lines; i++) {
        struct buf label = BUF_INIT(MAX_LABEL * 8);
        const int room = s->columns - 2 - LABEL_GAP;
        const int n = 3 + label_add(&label, p->lines[i].label, MIN(MAX_LABEL, MAX(room, 8)));
        if (used && used + LABEL_GAP + n > s->columns) {
            buf_addc(s->out, '\n');
            used = 0;
        }
        add_times(s->out, " ", used ? LABEL_GAP : margin + 2);
        add_ink(s, p->lines[i].ink);
        if (s->opts->style == PLOT_LETTERS) buf_printf(s->out, "%c:", letter_of(p->lines[i].ink));
        buf_addz(s->out, s->style->swatch);
        end_ink(s);
        buf_addc(s->out, ' ');
        buf_add(s->out, label.ptr, label.len);
        used += (used ? LABEL_GAP : 0) + n;
        buf_done(&label);
    }
    buf_addc(s->out, '\n');
}

static void add_title(struct sheet *s, const struct plot *p)
{
    struct buf over = BUF_INIT(4096);
    buf_printf(&over, "  (over %s%s)", p->x_title, p->log ? ", logarithmic" : "");
    if (s->opts->colours) buf_addz(s->out, "\x1b[1m");
    label_add(s->out, p->title, MAX(8, s->opts->width - (int)over.len));
    end_ink(s);
    buf_add(s->out, over.ptr, over.len);
    buf_addc(s->out, '\n');
    buf_done(&over);
}

int plot_text(const struct plot *p, const struct plot_text_opts *opts, struct buf *out,
              det_err *err)
{
    struct frame f;
    struct sheet s = {
        .opts = opts, .style = &styles[opts->style], .rows = opts->height, .out = out};
    int margin = 0;
    if (opts->width < MIN_WIDTH || opts->width > MAX_SIDE || opts->height < MIN_HEIGHT ||
        opts->height > MAX_SIDE)
        return det_fail(err, DET_EINVAL,
                        "a picture is from %d to %d characters wide and from %d to %d high, found "
                        "%d and %d",
                        MIN_WIDTH, MAX_SIDE, MIN_HEIGHT, MAX_SIDE, opts->width, opts->height);
    int rc = frame_init(&f, p, MAX(2, opts->width / 14), MAX(2, opts->height * 2 / 5), err);
    if (rc) return rc;
    for (int i = 0; i < f.y.n_ticks; i++)
        margin = MAX(margin, (int)strlen(f.y.ticks[i].text));
    s.columns = opts->width - margin - 2;
    s.cells = xcalloc((size_t)(s.columns * s.rows), sizeof *s.cells);
    const struct pen pen = {pen_move, pen_line, pen_span, &s};
    for (size_t i = p->n_lines; i-- > 0;) { // the first one lies on top
        s.ink = p->lines[i].ink;
        frame_draw_spans(&f, &p->lines[i], &pen);
        frame_draw_line(&f, &p->lines[i], &pen);
    }
    add_title(&s, p);
    add_picture(&s, &f, margin);
    add_floor(&s, &f, margin);
    add_legend(&s, p, margin);
    free(s.cells);
    return 0;
}
