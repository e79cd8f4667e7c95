// plot/plot.h: curves as a picture, in a terminal or as SVG. One code draws both, each with a pen of
// its own; so both have the same axes, marks and lines.
//   plot_text  plot_svg
//
//     const double x[] = {1, 2, 3}, y[] = {0.9, 0.5, 0.4};
//     const struct plot_line line = {.label = "trial 1", .n = 3, .x = x, .y = y};
//     const struct plot p = {.title = "error", .x_title = "batches", .lines = &line, .n_lines = 1};
//     plot_text(&p, &(struct plot_text_opts){.width = 80, .height = 12}, &out, &err);
#pragma once

#include "base/buf.h"
#include "det/err.h"

enum { PLOT_INKS = 8 }; // colours; further lines are dashed

struct plot_line {
    const char *label; // anybody's text
    int ink;           // from 0: its colour and dash, the same wherever it is drawn
    size_t n;
    const double *x, *y;      // x grows; a y that is not finite is a gap
    const double *low, *high; // of what a point stands for; NULL: for itself
};

enum plot_axis {
    PLOT_NUMBERS,
    PLOT_SECONDS, // shown as durations
};

struct plot {
    const char *title, *x_title;
    const struct plot_line *lines;
    size_t n_lines;
    enum plot_axis x_axis;
    bool log; // y; values that are not above 0 are gaps
};

enum plot_style {
    PLOT_BRAILLE, // 2 x 4 dots in a character
    PLOT_BLOCKS,  // 2 x 2
    PLOT_LETTERS, // ASCII: every line has a letter
};

struct plot_text_opts {
    int width, height; // characters: of everything, and of the picture itself
    enum plot_style style;
    bool colours; // those of terminals
};

// Appends the picture, its axes and the list of its lines. DET_EINVAL if there is nothing to see, or
// no room.
int plot_text(const struct plot *p, const struct plot_text_opts *opts, struct buf *out,
              det_err *err);

// A document with the pictures below each other.
int plot_svg(const struct plot *plots, size_t n, struct buf *out, det_err *err);
