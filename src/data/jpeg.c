// Unit jpeg.c: JPEG files, by libjpeg. Called by image_file.c.
#include <stdio.h> // jpeglib.h needs it, and jerror.h mentions a function that base/banned.h forbids
#include <jpeglib.h>
#include <jerror.h>

#include "data/image_file.h"

#include "base/mem.h"
#include "tensor/tensor.h"
#include <setjmp.h>

enum { SCANS_MAX = 100 }; // a progressive file may ask for work without end

struct decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    det_err *err;
    int64_t max_pixels;
    uint8_t *line; // CMYK
    det_tensor *image;
};

static void give_up(j_common_ptr info)
{
    struct decoder *d = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    det_fail(d->err, DET_ECORRUPT, "JPEG: %s", text);
    longjmp(d->escape, 1);
}

// Warnings are about files that can be shown to a person all the same. One that is cut off would be
// grey from there on: nothing to learn from.
static void hear_message(j_common_ptr info, int level)
{
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) give_up(info);
}

static void limit_scans(j_common_ptr info)
{
    struct decoder *d = info->client_data;
    if (d->info.input_scan_number <= SCANS_MAX) return;
    det_fail(d->err, DET_ELIMIT, "JPEG: more than %d scans", SCANS_MAX);
    longjmp(d->escape, 1);
}

static void start(struct decoder *d, struct str bytes)
{
    struct jpeg_decompress_struct *info = &d->info;
    jpeg_create_decompress(info);
    info->progress = &d->progress;
    jpeg_mem_src(info, (const unsigned char *)bytes.ptr, bytes.len);
    jpeg_read_header(info, TRUE);
    d->image = image_file_new(info->image_height, info->image_width, d->max_pixels, d->err);
    if (!d->image) longjmp(d->escape, 1);
    bool inks = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    if (inks) d->line = xmalloc(4 * (size_t)info->image_width);
    jpeg_start_decompress(info);
}

// Adobe's programs, and so nearly all, store how much of each ink is missing.
static void inks_to_rgb(const struct decoder *d, uint8_t *out)
{
    uint8_t flip = d->info.saw_Adobe_marker ? 0 : 255;
    for (size_t x = 0; x < d->info.output_width; x++)
        for (size_t c = 0; c < 3; c++)
            out[3 * x + c] =
                (uint8_t)((d->line[4 * x + c] ^ flip) * (d->line[4 * x + 3] ^ flip) / 255);
}

static void read_lines(struct decoder *d)
{
    uint8_t *pixels = tensor_memory(d->image);
    while (d->info.output_scanline < d->info.output_height) {
        uint8_t *row = pixels + 3 * (size_t)d->info.output_width * d->info.output_scanline;
        JSAMPROW to = d->line ? d->line : row;
        if (!jpeg_read_scanlines(&d->info, &to, 1)) continue;
        if (d->line) inks_to_rgb(d, row);
    }
    jpeg_finish_decompress(&d->info);
}

det_tensor *jpeg_decode(struct str bytes, int64_t max_pixels, det_err *err)
{
    struct decoder *d =
        xcalloc(1, sizeof *d); // not on the stack: longjmp forgets what is in registers
    d->err = err;
    d->max_pixels = max_pixels;
    d->info.err = jpeg_std_error(&d->errors);
    d->info.client_data = d;
    d->errors.error_exit = give_up;
    d->errors.emit_message = hear_message;
    d->progress.progress_monitor = limit_scans;
    det_tensor *image = NULL;
    if (!setjmp(d->escape)) {
        start(d, bytes);
        read_lines(d);
        image = d->image;
    }
    jpeg_destroy_decompress(&d->info);
    free(d->line);
    free(d);
    return image;
}
