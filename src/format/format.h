// format/format.h: the readers of det/format.h on bytes that are already in memory. Messages say
// where in the bytes something is wrong; the caller adds the name of the file.
#pragma once

#include "base/str.h"
#include "det/format.h"

det_value *pth_parse(struct str bytes, det_err *err);
det_value *safetensors_parse(struct str bytes, det_value **metadata, det_err *err);
det_tensor *npy_parse(struct str bytes, det_err *err);
