// Unit ticks.c: round numbers and round durations for axes. Called by frame.c.
#include "plot/frame.h"

#include "base/assert.h"
#include <math.h>
#include <stdio.h>

static void add_tick(struct frame_axis *a, double at, const char *text)
{
    const double place = (at - a->low) / (a->high - a->low);
    if (place < -1e-9 || place > 1 + 1e-9 || a->n_ticks == FRAME_MAX_TICKS) return;
    struct frame_tick *t = &a->ticks[a->n_ticks++];
    t->place = place;
    snprintf(t->text, sizeof t->text, "%s", text);
}

// As many digits as tell neighbours apart.
static void write_number(char *out, double value, double step)
{
    const double size = fmax(fabs(value), step);
    const int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    if (fabs(value) < step / 1e6) value = 0;
    if (size >= 1e7 || decimals > 6)
        snprintf(out, FRAME_TICK_BYTES, "%.6g", value);
    else
        snprintf(out, FRAME_TICK_BYTES, "%.*f", decimals, value);
}

void axis_mark_numbers(struct frame_axis *a, int count)
{
    static const double round[] = {1, 2, 5, 10};
    const double rough = (a->high - a->low) / MAX(count, 1), base = pow(10, floor(log10(rough)));
    double step = 10 * base;
    char text[FRAME_TICK_BYTES];
    for (size_t i = STATIC_LEN(round); i-- > 0;)
        if (round[i] * base >= rough * 0.999) step = round[i] * base;
    const double first = ceil(a->low / step - 1e-9);
    for (int i = 0; i < FRAME_MAX_TICKS; i++) {
        write_number(text, (first + i) * step, step);
        add_tick(a, (first + i) * step, text);
    }
    if (a->n_ticks > 1 || count > FRAME_MAX_TICKS / 2) return;
    a->n_ticks = 0; // one alone says nothing
    axis_mark_numbers(a, 2 * count);
}

// 0.01, 0.1, 1; over a small range also what lies between them.
void axis_mark_powers(struct frame_axis *a, int count)
{
    static const double parts[][3] = {{1}, {1, 3}, {1, 2, 5}};
    const double size = a->high - a->low;
    const int every = (int)fmax(1, ceil(size / MAX(count, 1)));
    const int n_parts = size >= 3 || every > 1 ? 1 : size >= 1.5 ? 2 : 3;
    char text[FRAME_TICK_BYTES];
    const double first = floor(a->low / every) * every;
    for (int n = 0; n < FRAME_MAX_TICKS; n++)
        for (int i = 0; i < n_parts; i++) {
            const double value = parts[n_parts - 1][i] * pow(10, first + n * every);
            snprintf(text, sizeof text, "%g", value);
            add_tick(a, log10(value), text);
        }
    if (a->n_ticks > 1) return;
    a->n_ticks = 0; // less than from 1 to 2
    for (int i = 0; i <= count && i < FRAME_MAX_TICKS; i++) {
        const double at = a->low + size * i / MAX(count, 1);
        snprintf(text, sizeof text, "%.4g", pow(10, at));
        add_tick(a, at, text);
    }
}

enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

static void write_duration(char *out, double seconds, double step)
{
    if (fabs(seconds) < step / 1e6)
        snprintf(out, FRAME_TICK_BYTES, "0");
    else if (step < 1)
        snprintf(out, FRAME_TICK_BYTES, "%.1f s", seconds);
    else if (step < MINUTE && seconds < 5 * MINUTE)
        snprintf(out, FRAME_TICK_BYTES, "%.0f s", seconds);
    else if (step < MINUTE)
        snprintf(out, FRAME_TICK_BYTES, "%.0f:%02.0f min", floor(seconds / MINUTE),
                 fmod(seconds, MINUTE));
    else if (step < HOUR && seconds < 3 * HOUR)
        snprintf(out, FRAME_TICK_BYTES, "%.0f min", seconds / MINUTE);
    else if (step < DAY)
        snprintf(out, FRAME_TICK_BYTES, "%.4g h", seconds / HOUR);
    else
        snprintf(out, FRAME_TICK_BYTES, "%.0f d", seconds / DAY);
}

void axis_mark_seconds(struct frame_axis *a, int count)
{
    static const double steps[] = {0.1,        0.2,        0.5,         1,        2,
                                   5,          10,         15,          30,       MINUTE,
                                   2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 900,      30 * MINUTE,
                                   HOUR,       2 * HOUR,   3 * HOUR,    6 * HOUR, 12 * HOUR,
                                   DAY,        2 * DAY,    7 * DAY,     30 * DAY, 90 * DAY};
    const double rough = (a->high - a->low) / MAX(count, 1);
    double step = ceil(rough / (365 * DAY)) * 365 * DAY;
    char text[FRAME_TICK_BYTES];
    for (size_t i = STATIC_LEN(steps); i-- > 0;)
        if (steps[i] >= rough) step = steps[i];
    const double first = ceil(a->low / step - 1e-9);
    for (int i = 0; i < FRAME_MAX_TICKS; i++) {
        write_duration(text, (first + i) * step, step);
        add_tick(a, (first + i) * step, text);
    }
}
