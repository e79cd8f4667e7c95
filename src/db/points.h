// db/points.h: points of one metric, packed. Private to the layer.
//
// The steps, then the times, each as the distance from the one before; then the values as they are
// in memory. A chart of a thousand points is some such pieces, where reading as many reports would
// mean to parse as many documents.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "det/err.h"
#include <stdint.h>

enum { POINTS_MAX = 1 << 20 }; // in a piece; anything more is damaged

struct points {
    size_t n, cap;
    struct point {
        int64_t steps, time_us;
        double value; // not finite: as it was reported
    } * items;        // by step
};

void points_add(struct points *p, const struct point *one, struct arena *a); // at the end
void points_insert(struct points *p, const struct point *one, struct arena *a);

void points_pack(const struct points *p, struct buf *out);
// They live in the arena. DET_ECORRUPT if these are no packed points.
int points_unpack(struct str packed, struct arena *a, struct points *out, det_err *err);

// What a chart needs of them; counts and values are those of finite ones.
struct points_summary {
    int64_t count;
    double sum, min, max, last;
    struct point first_point, last_point; // of all
};
struct points_summary points_summarize(const struct points *p); // at least one
