// Unit image_file.c: image files of any kind, by their first bytes.
#include "data/image_file.h"

#include "data/data.h"
#include "tensor/tensor.h"

det_tensor *image_file_new(int64_t height, int64_t width, int64_t max_pixels, det_err *err)
{
    if (height <= 0 || width <= 0 || width > max_pixels / height) {
        det_fail(err, DET_ELIMIT, "an image of %lld x %lld pixels; det reads up to %lld pixels",
                 (long long)width, (long long)height, (long long)max_pixels);
        return NULL;
    }
    det_tensor *t = det_empty(DET_U8, DET_DIMS(height, width, 3));
    if (!t) det_check(err);
    return t;
}

det_tensor *image_decode(struct str bytes, int64_t max_pixels, det_err *err)
{
    det_err own;
    if (!err) err = &own;
    if (str_starts(bytes, STR("\xff\xd8\xff"))) return jpeg_decode(bytes, max_pixels, err);
    if (str_starts(bytes, STR("\x89PNG\r\n\x1a\n"))) return png_decode(bytes, max_pixels, err);
    det_fail(err, DET_EUNSUPPORTED, "neither a JPEG nor a PNG file");
    return NULL;
}
