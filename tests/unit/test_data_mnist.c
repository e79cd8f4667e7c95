#include "data/data.h"
#include "support/files.h"
#include "support/loading.h"
#include "tensor/tensor.h"
#include <sys/stat.h>
#include <zlib.h>

enum { N = 5, H = 2, W = 3 };

// An idx file of such dims with the bytes 0, 7, 14, ...; returns its size.
static size_t make_idx(char *out, int ndim, const uint32_t *shape)
{
    size_t n = 1, at = 4;
    memcpy(out, "\0\0\10", 3);
    out[3] = (char)ndim;
    for (int i = 0; i < ndim; i++) {
        n *= shape[i];
        for (int shift = 24; shift >= 0; shift -= 8)
            out[at++] = (char)(shape[i] >> shift);
    }
    for (size_t i = 0; i < n; i++)
        out[at++] = (char)(7 * i);
    return at;
}

static size_t pack(const char *bytes, size_t n, char *out, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
                  .avail_in = (uInt)n,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)room};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void write_idx(const char *name, bool packed, int ndim, const uint32_t *shape)
{
    char bytes[1000], small[1000], file[128];
    size_t n = make_idx(bytes, ndim, shape);
    snprintf(file, sizeof file, "%s%s", name, packed ? ".gz" : "");
    unlink(temp_path(file));
    if (packed)
        write_bytes(temp_path(file), small, pack(bytes, n, small, sizeof small));
    else
        write_bytes(temp_path(file), bytes, n);
}

static void write_set(const char *prefix, bool packed, uint32_t n_images, uint32_t n_labels)
{
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    write_idx(name, packed, 3, (const uint32_t[]){n_images, H, W});
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    write_idx(name, packed, 1, &n_labels);
}

static void remove_set(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -f '%s'/*", temp_folder);
    assert_int_equal(system(command), 0);
}

static void assert_samples(det_dataset *d)
{
    assert_int_equal(det_dataset_length(d), N);
    for (int i = 0; i < N; i++) {
        det_value *v = det_dataset_item(d, i, NULL, NULL);
        det_tensor *image = det_batch_at(v, 0);
        assert_int_equal(det_ndim(image), 3);
        assert_int_equal(det_size(image, 0), 1);
        assert_int_equal(det_size(image, 1), H);
        assert_int_equal(det_size(image, 2), W);
        for (int k = 0; k < H * W; k++)
            assert_near(det_data_f32(image)[k], (uint8_t)(7 * (i * H * W + k)) / 255.0, 1e-7);
        assert_int_equal(det_data_i64(det_batch_at(v, 1))[0], 7 * i);
        det_value_free(v);
    }
    det_dataset_free(d);
}

static void test_mnist__is_read_plain_and_packed(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    write_set("t10k", true, N, N);
    assert_samples(det_dataset_mnist(temp_folder, .train = true));
    assert_samples(det_dataset_mnist(temp_folder));
    remove_set();
}

static void test_mnist__white_is_exactly_one(void **state)
{
    (void)state;
    write_bytes(temp_path("t10k-images-idx3-ubyte"), "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1\xff", 17);
    write_bytes(temp_path("t10k-labels-idx1-ubyte"), "\0\0\10\1\0\0\0\1\xff", 9);
    det_dataset *d = det_dataset_mnist(temp_folder);
    det_value *v = det_dataset_item(d, 0, NULL, NULL);
    assert_true(det_item(det_batch_at(v, 0)) == 1);
    assert_true(det_item(det_batch_at(v, 1)) == 255);
    det_value_free(v);
    det_dataset_free(d);
    remove_set();
}

static void test_mnist__names_what_is_missing(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    assert_null(det_dataset_mnist(temp_folder));
    assert_raised(DET_ENOTFOUND, "t10k-images-idx3-ubyte': No such file");
    unlink(temp_path("train-labels-idx1-ubyte"));
    assert_null(det_dataset_mnist(temp_folder, .train = true));
    assert_raised(DET_ENOTFOUND, "train-labels-idx1-ubyte': No such file");
    assert_null(det_dataset_mnist(NULL));
    assert_raised(DET_EINVAL, "the folder is NULL");
    remove_set();
}

static void test_mnist__wants_a_label_for_each_image(void **state)
{
    (void)state;
    write_set("train", false, N, N + 1);
    assert_null(
        det_dataset_mnist(temp_folder, .train = true, .transform = det_transform_to_tensor()));
    assert_raised(DET_ECORRUPT, "images of 3 dims, 5 of them, and labels of 1 dims, 6 of them");
    remove_set();
}

static void test_mnist__is_normalised_alike_in_batches_and_alone(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    det_transform *t = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.5), DET_REALS(0.25)));
    det_dataset *d = det_dataset_mnist(temp_folder, .train = true, .transform = t);
    det_value *alone[N];
    for (int i = 0; i < N; i++)
        alone[i] = det_dataset_item(d, i, NULL, NULL);
    det_loader *l = det_loader_new(d, .batch_size = N);
    det_iter *it = det_loader_iter(l);
    const det_value *batch = det_iter_next(it, NULL);
    const float *x = det_data_f32(det_batch_at(batch, 0));
    for (int i = 0; i < N * H * W; i++)
        assert_near(x[i], ((uint8_t)(7 * i) / 255.0 - 0.5) / 0.25, 1e-6);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(det_data(det_batch_at(alone[i], 0)), x + i * H * W, H * W * sizeof *x);
        assert_int_equal(det_data_i64(det_batch_at(batch, 1))[i], 7 * i);
        det_value_free(alone[i]);
    }
    det_iter_free(it);
    det_loader_free(l);
    remove_set();
}

// The samples of a transform that is more than an affine one, and of one that is not.
static det_tensor *do_nothing(det_tensor *image, const det_draw *draw, void *user)
{
    (void)draw, (void)user;
    return image;
}

static void test_mnist__through_any_transform_has_the_same_bits(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    for (int i = 0; i < N; i++) {
        det_dataset *d[2];
        for (int k = 0; k < 2; k++) {
            det_transform *norm = det_transform_normalize(DET_REALS(0.1307), DET_REALS(0.3081));
            det_transform *t = det_transform_compose(det_transform_to_tensor(), norm);
            if (k) t = det_transform_compose(det_transform_fn(do_nothing, NULL), t);
            d[k] = det_dataset_mnist(temp_folder, .train = true, .transform = t);
        }
        det_value *fast = det_dataset_item(d[0], i, NULL, NULL),
                  *slow = det_dataset_item(d[1], i, NULL, NULL);
        assert_memory_equal(det_data(det_batch_at(fast, 0)), det_data(det_batch_at(slow, 0)),
                            H * W * sizeof(float));
        det_value_free(fast);
        det_value_free(slow);
        det_dataset_free(d[0]);
        det_dataset_free(d[1]);
    }
    remove_set();
}

static void test_mnist__refuses_transforms_for_other_channels(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    det_transform *t = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(1, 2, 3), DET_REALS(1, 2, 3)));
    assert_null(det_dataset_mnist(temp_folder, .train = true, .transform = t));
    assert_raised(DET_ESHAPE, "was given 3 channels, the images have 1");
    remove_set();
}

// --- damaged files

static void test_idx__refuses_damaged_files(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        int code;
        const char *text;
    } rows[] = {
        {STR(""), DET_ECORRUPT, "not an idx file"},
        {STR("\1\0\10\1"), DET_ECORRUPT, "not an idx file"},
        {STR("\0\0\10\1\0\0"), DET_ECORRUPT, "header is cut off"},
        {STR("\0\0\15\1\0\0\0\0"), DET_EUNSUPPORTED, "elements of type 13"},
        {STR("\0\0\10\0"), DET_EUNSUPPORTED, "of 0 dims"},
        {STR("\0\0\10\4"), DET_EUNSUPPORTED, "of 4 dims"},
        {STR("\0\0\10\1\0\0\0\3ab"), DET_ECORRUPT, "stands for 3 bytes, 2 follow"},
        {STR("\0\0\10\1\0\0\0\1ab"), DET_ECORRUPT, "stands for 1 bytes, 2 follow"},
        {STR("\0\0\10\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), DET_ECORRUPT,
         "0 follow"},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        det_err err = {0};
        struct idx idx;
        if (!idx_parse(rows[i].bytes, &idx, &err)) fail_msg("case %zu was accepted", i);
        assert_failed_with(&err, rows[i].code, rows[i].text);
    }
}

static void test_gunzip__refuses_damaged_files(void **state)
{
    (void)state;
    char bytes[1000], packed[1000];
    size_t n = make_idx(bytes, 1, (const uint32_t[]){900});
    size_t n_packed = pack(bytes, n, packed, sizeof packed);
    struct storage *block;
    struct str out;
    for (size_t len = 0; len < n_packed; len++)
        assert_true(gunzip((struct str){packed, len}, &block, &out, NULL) < 0);
    for (size_t at = 10; at < n_packed; at++) { // behind the header, whose time stamp is free
        packed[at] ^= 0x10;
        assert_true(gunzip((struct str){packed, n_packed}, &block, &out, NULL) < 0);
        packed[at] ^= 0x10;
    }
    det_err err;
    assert_ok(gunzip((struct str){packed, n_packed}, &block, &out, &err), &err);
    assert_int_equal(out.len, n);
    assert_memory_equal(out.ptr, bytes, n);
    storage_unref(block);
    memcpy(packed + n_packed - 4, "\xff\xff\xff\xff", 4);
    assert_int_equal(gunzip((struct str){packed, n_packed}, &block, &out, &err), DET_ECORRUPT);
    assert_failed_with(&err, DET_ECORRUPT, "cannot be 4294967295 bytes");
}

static void test_mnist__names_the_damaged_file(void **state)
{
    (void)state;
    write_set("train", false, N, N);
    write_bytes(temp_path("train-labels-idx1-ubyte"), "\0\0\10\1\0\0\0\3ab", 10);
    assert_null(det_dataset_mnist(temp_folder, .train = true));
    assert_raised(DET_ECORRUPT, "train-labels-idx1-ubyte': the idx header stands for 3 bytes, 2");
    write_set("t10k", true, N, N);
    write_bytes(temp_path("t10k-images-idx3-ubyte.gz"), "no gzip file at all, but long", 29);
    assert_null(det_dataset_mnist(temp_folder));
    assert_raised(DET_ECORRUPT, "t10k-images-idx3-ubyte.gz': ");
    remove_set();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_mnist__is_read_plain_and_packed),
        TEST(test_mnist__white_is_exactly_one),
        TEST(test_mnist__names_what_is_missing),
        TEST(test_mnist__wants_a_label_for_each_image),
        TEST(test_mnist__is_normalised_alike_in_batches_and_alone),
        TEST(test_mnist__through_any_transform_has_the_same_bits),
        TEST(test_mnist__refuses_transforms_for_other_channels),
        TEST(test_idx__refuses_damaged_files),
        TEST(test_gunzip__refuses_damaged_files),
        TEST(test_mnist__names_the_damaged_file),
    };
    temp_path("");
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
