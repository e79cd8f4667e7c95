// train/code.h: the model definition: a copy of the files of a folder, for checkpoints.
#pragma once

#include "det/err.h"

struct code;
struct ckpt;

// Reads the files in dir and below. Left out are hidden ones, links, files that are too large to be
// code, checkpoints, and the folder `except` (may be NULL). *n_left_out counts those that were too
// large.
struct code *code_read(const char *dir, const char *except, int *n_left_out, det_err *err);
void code_free(struct code *c);

// As CKPT_CODE of a checkpoint.
int code_write(const struct code *c, struct ckpt *ckpt, det_err *err);
