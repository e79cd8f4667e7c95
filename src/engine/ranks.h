// engine/ranks.h: what engine_det does on several ranks. Private to the layer.
#pragma once

#include "engine/engine.h"

int ranks_mean_grads(det_optimizer *opt, struct dist *ranks, det_err *err);
int ranks_share_model(det_module *model, bool buffers_only, struct dist *ranks, det_err *err);
