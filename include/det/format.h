// det/format.h: tensor files. torch's .pth, safetensors and .npy, read and written without Python.
//
// Reading never executes anything: a .pth is interpreted by a small machine that knows the opcodes
// and the few names that state dicts are made of; everything else is an error that names its
// offset. What a file claims is checked before it is believed, so a damaged or hostile one is an
// error too (DET_ECORRUPT, DET_EUNSUPPORTED, DET_ELIMIT).
// Writing is atomic: the file appears complete under its name or not at all. The same content gives
// the same bytes.
#pragma once

#include "det/tensor.h"

// torch.save / torch.load: nested dicts, lists and tuples of plain values and tensors.
//
// Tensors that share memory share it after loading as well. All are loaded into memory, whatever
// device they were saved from, and none requires a gradient. An OrderedDict comes back as a dict
// without its attributes, a Parameter as a tensor; dicts are written as plain dicts.
// Strings are UTF-8 without NUL, integers have 64 bits. At most 4 million values, 256 levels deep.
DET_API int det_pth_save(const char *path, const det_value *value, det_err *err);
DET_API det_value *det_pth_load(const char *path, det_err *err);

// safetensors: a dict of tensors; metadata (may be NULL) is a dict of strings. The header has the
// order of the dict; the data starts on a multiple of 64 bytes, largest elements first.
DET_API int det_safetensors_save(const char *path, const det_value *tensors,
                                 const det_value *metadata, det_err *err);
// Dict of tensors in the order of the header. *metadata (if not NULL) gets the file's
// __metadata__ as a dict, empty if there is none, for the caller to free.
DET_API det_value *det_safetensors_load(const char *path, det_value **metadata, det_err *err);

// NumPy: one array of f32, f64, i64, i32, u8 or bool; bf16 is DET_EDTYPE. The loaded tensor has one
// reference, the caller's (det_unref).
DET_API int det_npy_save(const char *path, det_tensor *t, det_err *err);
DET_API det_tensor *det_npy_load(const char *path, det_err *err);
