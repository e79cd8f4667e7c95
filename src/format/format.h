// format/format.h: det/format.h without files. Messages of readers say where in the bytes something
// is wrong; the caller adds the name of the file.
#pragma once

#include "base/buf.h"
#include "det/format.h"

// Appends to out, which is empty, the bytes that det_pth_save would write.
int pth_write(const det_value *value, struct buf *out, det_err *err);

det_value *pth_parse(struct str bytes, det_err *err);
det_value *safetensors_parse(struct str bytes, det_value **metadata, det_err *err);
det_tensor *npy_parse(struct str bytes, det_err *err);
