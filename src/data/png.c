// Unit png.c: PNG files, by libpng. Called by image_file.c.
#include "data/image_file.h"

#include "tensor/tensor.h"
#include <png.h>

// How opaque a pixel is does not count.
static int read_without_alpha(png_image *png, uint8_t *to)
{
    int64_t n = (int64_t)png->width * png->height;
    det_tensor *with = det_empty(DET_U8, DET_DIMS(n, 4));
    if (!with) return 0;
    const uint8_t *from = tensor_memory(with);
    png->format = PNG_FORMAT_RGBA;
    if (!png_image_finish_read(png, NULL, tensor_memory(with), 0, NULL)) return 0;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + 3 * i, from + 4 * i, 3);
    return 1;
}

det_tensor *png_decode(struct str bytes, int64_t max_pixels, det_err *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    det_tensor *image = NULL;
    int ok = png_image_begin_read_from_memory(&png, bytes.ptr, bytes.len);
    if (ok) {
        image = image_file_new(png.height, png.width, max_pixels, err);
        if (!image) {
            png_image_free(&png);
            return NULL;
        }
        bool alpha = png.format & PNG_FORMAT_FLAG_ALPHA;
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
        png.format = PNG_FORMAT_RGB;
        ok = alpha ? read_without_alpha(&png, tensor_memory(image))
                   : png_image_finish_read(&png, NULL, tensor_memory(image), 0, NULL);
    }
    png_image_free(&png);
    if (ok) return image;
    if (!det_check(err)) det_fail(err, DET_ECORRUPT, "PNG: %s", png.message);
    return NULL;
}
