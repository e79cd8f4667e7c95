// tests/support/images.h: makes JPEG and PNG files in memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

// Pixels of c bytes (1: grey, 3: RGB, 4: CMYK as Adobe stores it). The result is to be freed.
static inline unsigned char *make_jpeg(const unsigned char *pixels, unsigned w, unsigned h, int c,
                                       bool progressive, unsigned long *n_bytes)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    *n_bytes = 0;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, n_bytes);
    info.image_width = w;
    info.image_height = h;
    info.input_components = c;
    info.in_color_space = c == 1 ? JCS_GRAYSCALE : c == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&info);
    if (c == 4) jpeg_set_colorspace(&info, JCS_YCCK);
    jpeg_set_quality(&info, 100, TRUE);
    if (progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < h) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)info.next_scanline * w * (unsigned)c);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return out;
}

// format: PNG_FORMAT_*. Returns the size, 0 if it did not fit into room bytes.
static inline size_t make_png(const void *pixels, unsigned w, unsigned h, unsigned format,
                              void *out, size_t room)
{
    png_image png = {.version = PNG_IMAGE_VERSION, .width = w, .height = h, .format = format};
    size_t n = room;
    return png_image_write_to_memory(&png, out, &n, 0, pixels, 0, NULL) ? n : 0;
}
