// plot/frame.h: what a picture shows of its lines, and how it is drawn with any pen. Private to the
// layer.
#pragma once

#include "plot/plot.h"

enum { FRAME_MAX_TICKS = 64, FRAME_TICK_BYTES = 32 };

struct frame_tick {
    double place; // 0 to 1
    char text[FRAME_TICK_BYTES];
};

struct frame_axis {
    double low, high; // with log: the logarithms
    bool log;
    struct frame_tick ticks[FRAME_MAX_TICKS];
    int n_ticks;
};

struct frame {
    const struct plot *plot;
    struct frame_axis x, y;
};

// Looks at all lines, and marks each axis about so many times. DET_EINVAL: there is nothing to see.
int frame_init(struct frame *f, const struct plot *p, int x_ticks, int y_ticks, det_err *err);

// Draws in a square from 0 to 1; y grows upwards.
struct pen {
    void (*move)(void *ctx, double x, double y); // there is a point, and a line may begin
    void (*line)(void *ctx, double x, double y);
    void (*span)(void *ctx, double x, double low, double high); // values that a point stands for
    void *ctx;
};

void frame_draw_spans(const struct frame *f, const struct plot_line *line, const struct pen *pen);
void frame_draw_line(const struct frame *f, const struct plot_line *line, const struct pen *pen);

// Round values between low and high (of an axis that is not logarithmic: the values themselves).
void axis_mark_numbers(struct frame_axis *a, int count);
void axis_mark_powers(struct frame_axis *a, int count);
void axis_mark_seconds(struct frame_axis *a, int count);

// Appends a text of anybody, made harmless, as much of it as fits; returns how wide that is.
int label_add(struct buf *out, const char *text, int most);
