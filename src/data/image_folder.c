// Unit image_folder.c: one folder per class, JPEG and PNG files anywhere below it. Files are read
// when their sample is asked for.
#include "data/data.h"

#include "base/mem.h"
#include "data/dataset.h"
#include "data/transform.h"
#include "sys/dir.h"
#include "sys/fs.h"
#include <strings.h>
#include <unistd.h>

enum { FILE_MAX = 256 << 20 };

struct image_path {
    const char *path;
    int64_t label;
};

struct image_folder {
    det_dataset base;
    struct arena arena; // names and paths
    const char **classes;
    int64_t n_classes, n_room;
    struct image_path *images; // base.length of them
    det_transform *transform;
};

// --- samples

static det_tensor *load(const struct image_folder *f, int64_t index, det_err *err)
{
    const char *path = f->images[index].path;
    struct buf bytes = BUF_INIT(FILE_MAX);
    int rc = fs_read(path, &bytes, err);
    det_tensor *image = rc ? NULL : image_decode(buf_str(&bytes), IMAGE_MAX_PIXELS, err);
    if (!rc && !image) det_wrap(err, "'%s'", path);
    buf_done(&bytes);
    return image;
}

static det_value *folder_item(const det_dataset *d, int64_t index, const det_draw *draw,
                              det_err *err)
{
    const struct image_folder *f = (const struct image_folder *)d;
    det_tensor *image = load(f, index, err);
    if (!image) return NULL;
    image = transform_apply(f->transform, image, draw);
    det_tensor *label = det_from(DET_I64, DET_SCALAR, &f->images[index].label);
    if (!image || !label) {
        det_check(err);
        det_wrap(err, "'%s'", f->images[index].path);
        return NULL;
    }
    det_value *sample = det_value_tuple();
    det_value_push(sample, det_value_tensor(image));
    det_value_push(sample, det_value_tensor(label));
    return sample;
}

static const char *folder_class_name(const det_dataset *d, int64_t label)
{
    const struct image_folder *f = (const struct image_folder *)d;
    return label >= 0 && label < f->n_classes ? f->classes[label] : NULL;
}

static void folder_free(det_dataset *d)
{
    struct image_folder *f = (struct image_folder *)d;
    det_transform_free(f->transform);
    arena_done(&f->arena);
    free(f->classes);
    free(f->images);
    free(f);
}

// --- finding them

static bool is_image_name(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(dot, endings[i])) return true;
    return false;
}

static void add_image(struct image_folder *f, const char *path)
{
    if (f->base.length == f->n_room) {
        f->n_room = f->n_room ? 2 * f->n_room : 256;
        f->images = xrealloc(f->images, (size_t)f->n_room * sizeof *f->images);
    }
    f->images[f->base.length++] = (struct image_path){path, f->n_classes - 1};
}

static int list(const char *path, struct arena *arena, struct dir_entries *out, det_err *err)
{
    int dir = -1, rc = dir_open(path, 0, &dir, err);
    if (!rc) rc = dir_list(dir, path, arena, out, err);
    if (dir >= 0) close(dir);
    return rc;
}

// All images below a folder. Links to files count, links to folders could lead in circles.
static int add_images(struct image_folder *f, const char *path, det_err *err)
{
    struct dir_entries entries = {0};
    int rc = list(path, &f->arena, &entries, err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        const struct dir_entry *e = &entries.items[i];
        if (e->kind == DIR_FOLDER)
            rc = add_images(f, arena_printf(&f->arena, "%s/%s", path, e->name), err);
        else if (is_image_name(e->name))
            add_image(f, arena_printf(&f->arena, "%s/%s", path, e->name));
    }
    return rc;
}

static int add_class(struct image_folder *f, const char *path, const char *name, det_err *err)
{
    int64_t before = f->base.length;
    f->classes = xrealloc(f->classes, (size_t)(f->n_classes + 1) * sizeof *f->classes);
    f->classes[f->n_classes++] = name;
    int rc = add_images(f, path, err);
    if (!rc && f->base.length == before)
        rc = det_fail(err, DET_ENOTFOUND, "there is no .jpg, .jpeg or .png file in the class '%s'",
                      path);
    return rc;
}

static int find_images(struct image_folder *f, const char *root, det_err *err)
{
    struct dir_entries entries = {0};
    int rc = list(root, &f->arena, &entries, err);
    for (size_t i = 0; !rc && i < entries.n; i++) {
        const struct dir_entry *e = &entries.items[i];
        const char *path = arena_printf(&f->arena, "%s/%s", root, e->name);
        int dir = -1;
        if (e->kind == DIR_FILE || e->name[0] == '.') continue;
        if (e->kind == DIR_OTHER && dir_open(path, 0, &dir, NULL)) continue; // no link to a folder
        if (dir >= 0) close(dir);
        rc = add_class(f, path, e->name, err);
    }
    if (!rc && !f->n_classes)
        rc =
            det_fail(err, DET_ENOTFOUND, "'%s' has no folders: one for each class is needed", root);
    return rc;
}

det_dataset *det_dataset_image_folder_with(const char *dir, det_dataset_opts opts)
{
    static const struct dataset_ops ops = {
        .item = folder_item, .class_name = folder_class_name, .free = folder_free};
    det_err err;
    struct image_folder *f = xcalloc(1, sizeof *f);
    f->base.ops = &ops;
    f->arena = ARENA_INIT;
    f->transform = opts.transform ? opts.transform : det_transform_to_tensor();
    int rc = dir ? find_images(f, dir, &err) : det_fail(&err, DET_EINVAL, "the folder is NULL");
    if (!rc) return &f->base;
    det_raise(rc, "det_dataset_image_folder: %s", err.msg);
    folder_free(&f->base);
    return NULL;
}
