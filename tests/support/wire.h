// tests/support/wire.h: det_values over a pipe, for the comparisons with torch. One line for each
// value, raw bytes behind strings and tensors; the other end is wire.py in tests/parity.
#pragma once

#include "det/tensor.h"
#include <stdio.h>

void wire_write(FILE *out, const det_value *v);
// NULL at the end of the input. Tensors belong to the value. Aborts on garbage.
det_value *wire_read(FILE *in);
