// engine/engine.h: the engine of this library, for the layers above.
//
// The training loop (src/train/) knows no tensor; this layer tells it how ours are used. It is the
// default of det_init in every program that has it.
#pragma once

#include "train/train.h"

extern const det_engine engine_det;
