// master/hidden.h: values of a configuration that were shown as asterisks, in a configuration that
// comes back: a fork. Private to the layer.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "det/err.h"

// *text (YAML or JSON) with the values of the stored configuration in place of asterisks. stored is
// NULL if the caller may not see them, or there is none: then asterisks are an error that names
// where. What has none stays as it is, byte by byte.
int hidden_fill(struct arena *arena, const struct str *stored, struct str *text, det_err *err);
