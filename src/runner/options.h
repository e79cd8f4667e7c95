// runner/options.h: what det-run was told. Private to the layer.
#pragma once

#include "args/args.h"
#include "config/config.h"
#include "det/trainer.h"

struct run_options {
    const char *module, *trial;      // "model_def", "MNistTrial"; trial NULL: the only one
    const char *code_dir;            // where the module is
    const struct exp_config *config; // NULL: none
    const struct doc *hparams;       // NULL: none
    det_length length;               // DET_UNIT_UNSET: that of the configuration
    bool resume, test_mode;
    int64_t limit_batches; // 0: all
    int64_t seed;          // negative: not given
    int slots;             // ranks to start; 1: this process trains
    const char *checkpoint_dir;
    const char *metrics_file, *tensorboard_dir, *trace_file; // NULL: none
};

// Reads the call and the files it names; what is wrong with a configuration is printed as well.
// Everything lives in the arena.
int options_read(const struct call *call, struct arena *arena, struct run_options *out,
                 det_err *err);
