// train/settings.h: the inside of det_config: a document, and how to talk about it.
#pragma once

#include "doc/doc.h"
#include "det/trial.h"

struct det_config {
    const struct doc *doc; // a map, or NULL
    const char *noun;      // "hyperparameter"
    const char *section;   // where its keys are defined: "hyperparameters"; NULL: at the top
};

struct det_config settings_hparams(const struct doc *doc);
struct det_config settings_data(const struct doc *doc);
struct det_config settings_experiment(const struct doc *doc);

// The node of a key, as for det_config_int; NULL: none.
const struct doc *settings_find(const struct doc *doc, const char *key);
