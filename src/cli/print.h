// cli/print.h: what the program says: data to stdout, messages to stderr. Private to the layer.
#pragma once

#include "base/str.h"

void print_data(struct str text);

// "det: ..." and a newline, in red on a terminal.
void print_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Lines of their own, in red or yellow on a terminal.
void print_errors(struct str lines);
void print_warnings(struct str lines);

// False, after saying so, if something written to stdout did not get there.
bool print_finish(void);
