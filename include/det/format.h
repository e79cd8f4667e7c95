// det/format.h: tensor files. torch's .pth, safetensors and .npy, read and written without Python.
//
// Reading never executes anything: a .pth is interpreted by a small machine that knows the opcodes
// and the few names that state dicts are made of; everything else is an error that names its
// offset. Writing is atomic: the file appears complete under its name or not at all.
#pragma once

#include "det/value.h"

#ifdef __cplusplus
extern "C" {
#endif

// torch.save / torch.load: nested dicts, lists and tuples of plain values and tensors.
DET_API int det_pth_save(const char *path, const det_value *value, det_err *err);
DET_API det_value *det_pth_load(const char *path, det_err *err);

// safetensors: a dict of tensors; metadata (may be NULL) is a dict of strings.
DET_API int det_safetensors_save(const char *path, const det_value *tensors,
                                 const det_value *metadata, det_err *err);
// Dict of tensors; the file's __metadata__ goes to *metadata if that is not NULL.
DET_API det_value *det_safetensors_load(const char *path, det_value **metadata, det_err *err);

// NumPy: one array. The loaded tensor has one reference, the caller's (det_unref).
DET_API int det_npy_save(const char *path, det_tensor *t, det_err *err);
DET_API det_tensor *det_npy_load(const char *path, det_err *err);

#ifdef __cplusplus
}
#endif
