// runner/trace.h: a timeline of a run, for chrome://tracing or https://ui.perfetto.dev. Private to the
// layer.
#pragma once

#include "det/trainer.h"

struct trace;

struct trace *trace_open(const char *path, det_err *err);
void trace_report(struct trace *t, const det_report *report);
int trace_close(struct trace *t, det_err *err); // tells whether anything was lost
