// runner/events.h: scalars for TensorBoard: an event file in a log directory. Private to the layer.
#pragma once

#include "det/err.h"
#include <stdint.h>

struct events;

// Makes the directory if need be, and a new file in it.
struct events *events_open(const char *dir, det_err *err);

// One value of a curve. What is written is seen by others after events_flush().
void events_scalar(struct events *e, const char *tag, int64_t step, double value);
int events_flush(struct events *e, det_err *err); // tells whether anything was lost
void events_close(struct events *e);
