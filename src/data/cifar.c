// Unit cifar.c: CIFAR-10 in its binary version (A. Krizhevsky): records of a label and three
// planes.
#include "data/data.h"

#include "data/image_set.h"
#include "sys/fs.h"
#include "tensor/tensor.h"

enum { SIDE = 32, CHANNELS = 3, CLASSES = 10, RECORD = 1 + CHANNELS * SIDE * SIDE, MAX_FILES = 5 };

int cifar_parse(struct str bytes, int64_t *n, det_err *err)
{
    if (bytes.len % RECORD)
        return det_fail(err, DET_ECORRUPT, "%zu bytes are not a whole number of records of %d",
                        bytes.len, RECORD);
    for (size_t at = 0; at < bytes.len; at += RECORD)
        if ((uint8_t)bytes.ptr[at] >= CLASSES)
            return det_fail(err, DET_ECORRUPT, "record %zu has label %d; there are %d classes",
                            at / RECORD, (uint8_t)bytes.ptr[at], CLASSES);
    *n = (int64_t)(bytes.len / RECORD);
    return 0;
}

// Maps the files and counts their images.
static int map_files(const char *dir, const char *const *names, int n_files, struct str *map,
                     int64_t *n_images, det_err *err)
{
    for (int i = 0; i < n_files; i++) {
        struct buf path = BUF_INIT(1 << 16);
        int64_t n = 0;
        buf_printf(&path, "%s/%s", dir, names[i]);
        int rc = fs_map(path.ptr, &map[i], err);
        if (!rc && (rc = cifar_parse(map[i], &n, err))) det_wrap(err, "'%s'", path.ptr);
        buf_done(&path);
        if (rc) return rc;
        *n_images += n;
    }
    return 0;
}

static int load(const char *dir, bool train, struct image_set_layout *at, det_err *err)
{
    static const char *const training[MAX_FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                                    "data_batch_3.bin", "data_batch_4.bin",
                                                    "data_batch_5.bin"};
    static const char *const test[] = {"test_batch.bin"};
    struct str map[MAX_FILES] = {{0}};
    int n_files = train ? MAX_FILES : 1;
    int rc = map_files(dir, train ? training : test, n_files, map, &at->n, err);
    if (!rc) at->block[0] = storage_new((size_t)at->n * RECORD);
    if (!rc && !at->block[0])
        rc = det_fail(err, DET_ENOMEM, "no memory for %lld images", (long long)at->n);
    size_t used = 0;
    for (int i = 0; i < n_files; i++) {
        if (!rc) memcpy((char *)storage_data(at->block[0]) + used, map[i].ptr, map[i].len);
        used += map[i].len;
        fs_unmap(map[i]);
    }
    return rc;
}

det_dataset *det_dataset_cifar10_with(const char *dir, det_dataset_opts opts)
{
    det_err err;
    struct image_set_layout at = {.channels = CHANNELS,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .pixel_stride = RECORD,
                                  .label_stride = RECORD};
    int rc =
        dir ? load(dir, opts.train, &at, &err) : det_fail(&err, DET_EINVAL, "the folder is NULL");
    if (!rc) {
        at.labels = storage_data(at.block[0]);
        at.pixels = at.labels + 1;
        return image_set_new(&at, opts.transform);
    }
    det_raise(rc, "CIFAR-10 in '%s': %s", dir ? dir : "", err.msg);
    det_transform_free(opts.transform);
    return NULL;
}
