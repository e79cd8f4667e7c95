// data/resample.h: images of another size. Private to the layer.
#pragma once

#include "data/transform.h"

struct box {
    int64_t top, left, height, width;
};

// Sizes of an image of either order.
int64_t image_height(struct image in);
int64_t image_width(struct image in);
int64_t image_channels(struct image in);

// The same number of channels, type and order as like, undefined content. pixels is NULL after a
// failure.
struct image image_new_like(struct image like, int64_t height, int64_t width);

// The part of an image inside of box, in another size: bilinear, and where it becomes smaller each
// pixel is a weighted mean of all that it covers (what PIL's BILINEAR does).
struct image image_resample(struct image in, struct box box, int64_t height, int64_t width);
