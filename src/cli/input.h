// cli/input.h: files that commands about configurations read, and words they share; "-" is standard
// input. Private to the layer.
#pragma once

#include "config/config.h"

int input_read(const char *path, struct buf *out, det_err *err);
const char *input_name(const char *path); // for messages

// An experiment whose search is of interest, whatever it runs. Says what is wrong and returns an
// exit status other than EXIT_OK. text must be empty and live as long as *out.
int input_read_search(const char *path, struct arena *arena, struct buf *text,
                      struct exp_config *out);

// "3 trials", "1 trial": units are given as plurals.
void add_amount(struct buf *out, double amount, const char *units);
