// data/image_set.h: a dataset of images of one size whose bytes lie in memory: MNIST, CIFAR-10.
// Private to the layer.
#pragma once

#include "data/dataset.h"
#include "data/transform.h"

struct storage;

enum { IMAGE_SET_MAX_BLOCKS = 2 };

// Where images and labels are. Images are planar.
struct image_set_layout {
    int64_t n, channels, height, width;
    const uint8_t *pixels, *labels;              // of the first sample
    size_t pixel_stride, label_stride;           // bytes from one sample to the next
    struct storage *block[IMAGE_SET_MAX_BLOCKS]; // the memory, handed over; may be NULL
};

// Takes the transform (NULL: to_tensor) and the blocks, also on failure.
det_dataset *image_set_new(const struct image_set_layout *layout, det_transform *transform);
