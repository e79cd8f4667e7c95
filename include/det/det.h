// det/det.h: everything.
#pragma once

#include "det/accelerated.h"
#include "det/callbacks.h"
#include "det/client.h"
#include "det/data.h"
#include "det/err.h"
#include "det/format.h"
#include "det/handles.h"
#include "det/nn.h"
#include "det/optim.h"
#include "det/sticky.h"
#include "det/tensor.h"
#include "det/trainer.h"
#include "det/trial.h"
#include "det/value.h"
#include "det/version.h"
