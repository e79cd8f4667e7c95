// Unit transform.c: transforms as such: chains of them, those of the user, and the random numbers
// they draw.
#include "data/transform.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/tensor.h"

static uint64_t draw_seed(const det_draw *d)
{
    return rng_u64(d->seed, d->epoch, (uint64_t)d->index);
}

double det_draw_unit(const det_draw *d, int n)
{
    return rng_unit(draw_seed(d), 0, (uint64_t)n);
}

double det_draw_normal(const det_draw *d, int n)
{
    return rng_normal(draw_seed(d), 1, (uint64_t)n);
}

void det_transform_free(det_transform *t)
{
    if (t) t->ops->free(t);
}

void transform_free_memory(det_transform *t)
{
    free(t);
}

det_tensor *transform_apply(const det_transform *t, det_tensor *image, const det_draw *draw)
{
    if (!image) return NULL;
    return t->ops->apply(t, (struct image){.pixels = image}, draw).pixels;
}

// --- chains

struct compose {
    det_transform base;
    int n;
    det_transform *steps[];
};

static bool is_image(const det_tensor *t)
{
    return det_ndim(t) == 3 && (det_dtype_of(t) == DET_U8 || det_dtype_of(t) == DET_F32);
}

static struct image compose_apply(const det_transform *t, struct image image, const det_draw *draw)
{
    const struct compose *c = (const struct compose *)t;
    for (int i = 0; i < c->n && image.pixels; i++) {
        char text[192];
        if (!c->steps[i]->ops->takes_any && !is_image(image.pixels)) {
            det_raise(DET_ESHAPE, "det_transform_compose: step %d cannot follow one that gave %s",
                      i, det_describe(image.pixels, text, sizeof text));
            return (struct image){0};
        }
        det_draw own = *draw; // each step has numbers of its own
        own.seed = rng_u64(draw->seed, (uint64_t)i, 0);
        image = c->steps[i]->ops->apply(c->steps[i], image, &own);
    }
    return image;
}

static void compose_free(det_transform *t)
{
    struct compose *c = (struct compose *)t;
    for (int i = 0; i < c->n; i++)
        det_transform_free(c->steps[i]);
    free(c);
}

static void compose_add(struct compose *c, det_transform *step)
{
    det_transform *last = c->n ? c->steps[c->n - 1] : NULL;
    bool absorbed = last && transform_as_affine(last) && affine_absorb((struct affine *)last, step);
    if (!absorbed) c->steps[c->n++] = step;
}

det_transform *det_transform_compose_of(det_transform *const *t, int n)
{
    static const struct transform_ops ops = {.apply = compose_apply, .free = compose_free};
    bool complete = n > 0;
    for (int i = 0; i < n; i++)
        complete = complete && t[i];
    if (!complete) {
        det_raise(DET_EINVAL, "det_transform_compose: a transform is NULL, or there is none");
        for (int i = 0; i < n; i++)
            det_transform_free(t[i]);
        return NULL;
    }
    struct compose *c = xmalloc(sizeof *c + (size_t)n * sizeof *c->steps);
    *c = (struct compose){.base = {&ops}};
    for (int i = 0; i < n; i++)
        compose_add(c, t[i]);
    if (c->n > 1) return &c->base;
    det_transform *only = c->steps[0];
    free(c);
    return only;
}

// --- the user's

struct user_transform {
    det_transform base;
    det_tensor *(*apply)(det_tensor *image, const det_draw *draw, void *user);
    void *user;
};

static struct image user_apply(const det_transform *t, struct image in, const det_draw *draw)
{
    const struct user_transform *u = (const struct user_transform *)t;
    struct image out = {.pixels = u->apply(in.pixels, draw, u->user), .planar = in.planar};
    if (!out.pixels) det_raise(DET_EINVAL, "det_transform_fn: the function gave no image");
    return out;
}

det_transform *det_transform_fn(det_tensor *(*apply)(det_tensor *image, const det_draw *draw,
                                                     void *user),
                                void *user)
{
    static const struct transform_ops ops = {
        .apply = user_apply, .free = transform_free_memory, .takes_any = true};
    if (!apply) {
        det_raise(DET_EINVAL, "det_transform_fn: the function is NULL");
        return NULL;
    }
    struct user_transform *u = xmalloc(sizeof *u);
    *u = (struct user_transform){.base = {&ops}, .apply = apply, .user = user};
    return &u->base;
}
