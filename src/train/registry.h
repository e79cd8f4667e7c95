// train/registry.h: the trials that DET_TRIAL made known, in programs and in modules loaded later.
#pragma once

#include "det/trial.h"

// "MNistTrial"; "(no name)" for operations that no DET_TRIAL has.
const char *registry_name(const det_trial_ops *ops);
