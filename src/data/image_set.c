// Unit image_set.c: images of one size, in memory. With a transform that only converts and
// normalises they are written straight into the batch; with any other they are made one by one.
#include "data/image_set.h"

#include "base/assert.h"
#include "base/mem.h"
#include "tensor/tensor.h"

struct image_set {
    det_dataset base;
    struct image_set_layout at;
    det_transform *transform;
};

static void image_set_gather(const det_dataset *d, const int64_t *index, int64_t n,
                             char *const *columns, int64_t row)
{
    const struct image_set *s = (const struct image_set *)d;
    const struct image_set_layout *at = &s->at;
    const struct affine *a = transform_as_affine(s->transform);
    int64_t plane = at->height * at->width, size = plane * at->channels;
    float *image = (float *)(void *)columns[0] + row * size;
    int64_t *label = (int64_t *)(void *)columns[1] + row;
    for (int64_t i = 0; i < n; i++, image += size) {
        const uint8_t *from = at->pixels + (size_t)index[i] * at->pixel_stride;
        if (i + 1 < n)
            prefetch_row(at->pixels + (size_t)index[i + 1] * at->pixel_stride, (size_t)size);
        if (a->n_channels == 1)
            affine_bytes(a, 0, from, image, size);
        else
            for (int64_t c = 0; c < at->channels; c++)
                affine_bytes(a, c, from + c * plane, image + c * plane, plane);
        label[i] = at->labels[(size_t)index[i] * at->label_stride];
    }
}

// (H, W, C) from (C, H, W).
static det_tensor *image_of(const struct image_set_layout *at, int64_t index)
{
    const uint8_t *from = at->pixels + (size_t)index * at->pixel_stride;
    int64_t plane = at->height * at->width;
    det_tensor *t = det_empty(DET_U8, DET_DIMS(at->height, at->width, at->channels));
    uint8_t *to = t ? tensor_memory(t) : NULL;
    for (int64_t c = 0; to && c < at->channels; c++)
        for (int64_t i = 0; i < plane; i++)
            to[i * at->channels + c] = from[c * plane + i];
    return t;
}

static det_value *image_set_item(const det_dataset *d, int64_t index, const det_draw *draw,
                                 det_err *err)
{
    const struct image_set *s = (const struct image_set *)d;
    (void)err;
    det_tensor *image = transform_apply(s->transform, image_of(&s->at, index), draw);
    int64_t label = s->at.labels[(size_t)index * s->at.label_stride];
    det_tensor *target = det_from(DET_I64, DET_SCALAR, &label);
    if (!image || !target) return NULL;
    det_value *sample = det_value_tuple();
    det_value_push(sample, det_value_tensor(image));
    det_value_push(sample, det_value_tensor(target));
    return sample;
}

static void image_set_free(det_dataset *d)
{
    struct image_set *s = (struct image_set *)d;
    det_transform_free(s->transform);
    for (int i = 0; i < IMAGE_SET_MAX_BLOCKS; i++)
        storage_unref(s->at.block[i]);
    free(s);
}

det_dataset *image_set_new(const struct image_set_layout *layout, det_transform *transform)
{
    static const struct dataset_ops ops = {
        .item = image_set_item, .gather = image_set_gather, .free = image_set_free};
    struct image_set *s = xcalloc(1, sizeof *s);
    s->base = (det_dataset){.ops = &ops, .length = layout->n};
    s->at = *layout;
    s->transform = transform ? transform : det_transform_to_tensor();
    const struct affine *a = transform_as_affine(s->transform);
    if (a && !affine_fits(a, layout->channels)) {
        image_set_free(&s->base);
        return NULL;
    }
    if (a) {
        s->base.n_columns = 2;
        column_init(&s->base.columns[0], DET_F32,
                    DET_DIMS(layout->channels, layout->height, layout->width));
        column_init(&s->base.columns[1], DET_I64, DET_SCALAR);
    }
    return &s->base;
}
