// tests/support/models.h: the networks that are compared with torch, for numbers (tests/parity) and
// for speed (bench). Parameters have the names and order of the torch side.
#pragma once

#include "det/nn.h"

det_module *model_mnist(double dropout); // the tutorial's: two convolutions, two linear layers
det_module *model_mlp(void);             // 784-512-512-10
det_module *model_vgg(void); // 3 x (2 convolutions with batch norm, pool), 32 x 32 images
det_module *model_resnet(int64_t width); // 8 basic blocks, 32 x 32 images
det_module *model_lstm(int64_t in, int64_t hidden,
                       int64_t classes); // (T, B, in) -> last step's classes
det_module *model_gpt(int64_t vocab, int64_t dim, int64_t heads, int64_t layers, int64_t context);
