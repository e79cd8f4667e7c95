// Unit mnist.c: MNIST and its relatives: idx files (Y. LeCun), plain or packed by gzip.
#include "data/data.h"

#include "base/assert.h"
#include "data/image_set.h"
#include "sys/fs.h"
#include "tensor/tensor.h"
#include <inttypes.h>
#include <zlib.h>

static uint32_t big_endian(const char *p)
{
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

int idx_parse(struct str bytes, struct idx *out, det_err *err)
{
    enum { TYPE_BYTE = 8, MAGIC = 4 };
    struct idx idx = {0};
    uint64_t n = 1;
    if (bytes.len < MAGIC || bytes.ptr[0] || bytes.ptr[1])
        return det_fail(err, DET_ECORRUPT, "not an idx file: it does not start with two zeros");
    if (bytes.ptr[2] != TYPE_BYTE)
        return det_fail(err, DET_EUNSUPPORTED, "idx elements of type %d; det reads bytes (8)",
                        (uint8_t)bytes.ptr[2]);
    idx.ndim = (uint8_t)bytes.ptr[3];
    if (idx.ndim < 1 || idx.ndim > IDX_MAX_DIMS)
        return det_fail(err, DET_EUNSUPPORTED, "an idx file of %d dims; det reads 1 to %d",
                        idx.ndim, IDX_MAX_DIMS);
    size_t header = MAGIC + 4 * (size_t)idx.ndim;
    if (bytes.len < header) return det_fail(err, DET_ECORRUPT, "the idx header is cut off");
    for (int i = 0; i < idx.ndim; i++) {
        idx.shape[i] = big_endian(bytes.ptr + MAGIC + 4 * i);
        if (__builtin_mul_overflow(n, (uint64_t)idx.shape[i], &n)) n = UINT64_MAX / 2;
    }
    if (n != bytes.len - header)
        return det_fail(err, DET_ECORRUPT,
                        "the idx header stands for %" PRIu64 " bytes, %zu follow it", n,
                        bytes.len - header);
    idx.data = (const uint8_t *)bytes.ptr + header;
    *out = idx;
    return 0;
}

// --- files

int gunzip(struct str packed, struct storage **block, struct str *out, det_err *err)
{
    enum { TRAILER = 4, SMALLEST = 18, EXPANSION_MAX = 1032, GZIP_WINDOW = 15 + 16 };
    if (packed.len < SMALLEST || packed.len > UINT32_MAX)
        return det_fail(err, DET_ECORRUPT, "%zu bytes are no .gz file that det reads", packed.len);
    uint32_t size; // the last four bytes, little-endian
    memcpy(&size, packed.ptr + packed.len - TRAILER, sizeof size);
    if (size / EXPANSION_MAX > packed.len)
        return det_fail(err, DET_ECORRUPT, "%zu packed bytes cannot be %u bytes", packed.len, size);
    struct storage *s = storage_new(size);
    if (!s) return det_fail(err, DET_ENOMEM, "no memory for %u unpacked bytes", size);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed.ptr,
                  .avail_in = (uInt)packed.len,
                  .next_out = storage_data(s),
                  .avail_out = size};
    int state = inflateInit2(&z, GZIP_WINDOW);
    if (state == Z_OK) state = inflate(&z, Z_FINISH);
    bool whole = state == Z_STREAM_END && !z.avail_in && z.total_out == size;
    inflateEnd(&z);
    if (!whole) {
        storage_unref(s);
        return det_fail(err, DET_ECORRUPT, "a damaged .gz file");
    }
    *block = s;
    *out = (struct str){storage_data(s), size};
    return 0;
}

// A file that is changed while it is mapped could end the process: its bytes are copied.
static int copy(struct str bytes, struct storage **block, struct str *out, det_err *err)
{
    struct storage *s = storage_new(bytes.len);
    if (!s) return det_fail(err, DET_ENOMEM, "no memory for %zu bytes", bytes.len);
    memcpy(storage_data(s), bytes.ptr, bytes.len);
    *block = s;
    *out = (struct str){storage_data(s), bytes.len};
    return 0;
}

// dir/name, or dir/name.gz if there is no such file.
static int load_idx(const char *dir, const char *name, struct storage **block, struct idx *out,
                    det_err *err)
{
    struct buf path = BUF_INIT(1 << 16);
    struct str map = {0}, bytes = {0};
    buf_printf(&path, "%s/%s", dir, name);
    int rc = fs_map(path.ptr, &map, err);
    bool packed = rc == DET_ENOTFOUND;
    if (packed) {
        det_err of_packed;
        buf_addz(&path, ".gz");
        rc = fs_map(path.ptr, &map, &of_packed);
        if (rc && rc != DET_ENOTFOUND && err) *err = of_packed;
        if (rc) det_wrap(err, "neither plain nor packed");
    }
    if (rc) goto out;
    rc = packed ? gunzip(map, block, &bytes, err) : copy(map, block, &bytes, err);
    if (!rc) rc = idx_parse(bytes, out, err);
    if (rc) det_wrap(err, "'%s'", path.ptr);
out:
    fs_unmap(map);
    buf_done(&path);
    return rc;
}

// --- the dataset

static int load_set(const char *dir, bool train, struct image_set_layout *at, det_err *err)
{
    enum { SIDE_MAX = 1 << 15 };
    struct idx images = {0}, labels = {0};
    int rc = load_idx(dir, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte",
                      &at->block[0], &images, err);
    if (rc) return rc;
    rc = load_idx(dir, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", &at->block[1],
                  &labels, err);
    if (rc) return rc;
    if (images.ndim != 3 || labels.ndim != 1 || images.shape[0] != labels.shape[0])
        return det_fail(
            err, DET_ECORRUPT,
            "images of %d dims, %lld of them, and labels of %d dims, %lld of them, do not "
            "belong together",
            images.ndim, (long long)images.shape[0], labels.ndim, (long long)labels.shape[0]);
    if (images.shape[1] > SIDE_MAX || images.shape[2] > SIDE_MAX)
        return det_fail(err, DET_ELIMIT, "images of %lld x %lld pixels", (long long)images.shape[1],
                        (long long)images.shape[2]);
    at->n = images.shape[0];
    at->channels = 1;
    at->height = images.shape[1];
    at->width = images.shape[2];
    at->pixels = images.data;
    at->pixel_stride = (size_t)(at->height * at->width);
    at->labels = labels.data;
    at->label_stride = 1;
    return 0;
}

det_dataset *det_dataset_mnist_with(const char *dir, det_dataset_opts opts)
{
    det_err err;
    struct image_set_layout at = {0};
    int rc = dir ? load_set(dir, opts.train, &at, &err)
                 : det_fail(&err, DET_EINVAL, "the folder is NULL");
    if (!rc) return image_set_new(&at, opts.transform);
    det_raise(rc, "MNIST in '%s': %s", dir ? dir : "", err.msg);
    for (int i = 0; i < IMAGE_SET_MAX_BLOCKS; i++)
        storage_unref(at.block[i]);
    det_transform_free(opts.transform);
    return NULL;
}
