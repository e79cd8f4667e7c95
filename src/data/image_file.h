// data/image_file.h: what the two readers of image files have in common. Private to the layer.
#pragma once

#include "base/str.h"
#include "det/tensor.h"

// (H, W, 3) bytes in the current scope. NULL and err on failure, or if there are too many pixels.
det_tensor *image_file_new(int64_t height, int64_t width, int64_t max_pixels, det_err *err);

// err is needed.
det_tensor *jpeg_decode(struct str bytes, int64_t max_pixels, det_err *err);
det_tensor *png_decode(struct str bytes, int64_t max_pixels, det_err *err);
