// engine/predict.h: predictions, batch by batch, and all of them. Private to the layer.
#pragma once

#include "engine/engine.h"

det_tensor *predict_forward(det_module *model, const det_value *batch);
det_value *predict_keep(det_tensor *prediction);
det_tensor *predict_join(const det_value *parts);
