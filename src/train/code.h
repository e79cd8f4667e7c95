// train/code.h: the code of a trial: a copy of the files of a folder, for checkpoints.
#pragma once

#include "base/buf.h"
#include "det/err.h"

struct code;
struct ckpt;

// Reads the files in dir and below. Left out are hidden ones, what .detignore names, links, files
// that are too large to be code, checkpoints, and the folder `except` (may be NULL).
struct code *code_read(const char *dir, const char *except, det_err *err);
void code_free(struct code *c);

// "1 file of '.' is data or too large, and not in checkpoints: 'a.bin'", naming the first few.
// False: none is left out.
bool code_left_out(const struct code *c, struct buf *out);

// As CKPT_CODE of a checkpoint.
int code_write(const struct code *c, struct ckpt *ckpt, det_err *err);
