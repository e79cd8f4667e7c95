// data/data.h: readers of the file formats, for tests and fuzzers; what users need is in
// det/data.h.
//   idx_parse  gunzip  cifar_parse  csv_parse  image_decode
#pragma once

#include "base/str.h"
#include "det/data.h"
#include <stdint.h>

struct storage;

// An idx file of bytes, the format of MNIST: its dims, and its elements behind them.
enum { IDX_MAX_DIMS = 3 };
struct idx {
    int ndim;
    int64_t shape[IDX_MAX_DIMS];
    const uint8_t *data; // in bytes
};
int idx_parse(struct str bytes, struct idx *out, det_err *err);

// Unpacks a .gz of one member into *block (storage_unref), of which *out is the content.
int gunzip(struct str packed, struct storage **block, struct str *out, det_err *err);

// The number of images in a file of CIFAR-10, all of whose records are good.
int cifar_parse(struct str bytes, int64_t *n, det_err *err);

// A table of numbers as tensors with one reference each: (rows, columns) and, unless no target was
// asked for, (rows,).
struct csv {
    det_tensor *features, *target;
};
int csv_parse(struct str text, const det_csv_opts *opts, struct csv *out, det_err *err);

// A JPEG or PNG file as (H, W, 3) bytes, in the current scope. NULL and err on failure; DET_ELIMIT
// if there are more pixels than that.
enum { IMAGE_MAX_PIXELS = 1 << 27 };
det_tensor *image_decode(struct str bytes, int64_t max_pixels, det_err *err);
