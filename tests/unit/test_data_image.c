#include "support/images.h"

#include "data/data.h"
#include "support/files.h"
#include "support/loading.h"
#include <sys/stat.h>

enum { W = 24, H = 16, ROOM = 1 << 16 };

// A smooth picture, so that JPEG changes little.
static void paint(uint8_t *pixels, int channels)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < channels; c++)
                pixels[(y * W + x) * channels + c] = (uint8_t)(c == 0   ? 40 + 8 * x
                                                               : c == 1 ? 30 + 12 * y
                                                               : c == 2 ? 200 - 4 * x
                                                                        : 255);
}

static void assert_pixels(det_tensor *image, const uint8_t *expected, int channels, int tolerance)
{
    assert_non_null(image);
    assert_int_equal(det_dtype_of(image), DET_U8);
    assert_int_equal(det_ndim(image), 3);
    assert_int_equal(det_size(image, 0), H);
    assert_int_equal(det_size(image, 1), W);
    assert_int_equal(det_size(image, 2), 3);
    const uint8_t *got = det_data(image);
    for (int i = 0; i < H * W; i++)
        for (int c = 0; c < 3; c++) {
            int want = expected[i * channels + (channels < 3 ? 0 : c)];
            if (abs(got[3 * i + c] - want) > tolerance)
                fail_msg("pixel %d, channel %d is %d, expected %d", i, c, got[3 * i + c], want);
        }
}

static void test_jpeg__is_read_in_all_colour_spaces(void **state)
{
    (void)state;
    for (int channels = 1; channels <= 4; channels++)
        for (int progressive = 0; progressive < 2; progressive++) {
            if (channels == 2) continue;
            uint8_t pixels[W * H * 4];
            unsigned long n;
            det_err err;
            paint(pixels, channels);
            unsigned char *bytes = make_jpeg(pixels, W, H, channels, progressive, &n);
            det_tensor *image = image_decode((struct str){(char *)bytes, n}, W * H, &err);
            if (!image) fail_msg("%d channels: %s", channels, err.msg);
            assert_pixels(image, pixels, channels, 12); // colours have half the resolution
            free(bytes);
        }
}

static void test_png__is_read_in_all_formats(void **state)
{
    (void)state;
    static const struct {
        unsigned format;
        int channels;
    } rows[] = {{PNG_FORMAT_GRAY, 1}, {PNG_FORMAT_RGB, 3}, {PNG_FORMAT_RGBA, 4}};
    for (size_t i = 0; i < N_OF(rows); i++) {
        uint8_t pixels[W * H * 4], bytes[ROOM];
        det_err err;
        paint(pixels, rows[i].channels);
        size_t n = make_png(pixels, W, H, rows[i].format, bytes, sizeof bytes);
        det_tensor *image = image_decode((struct str){(char *)bytes, n}, W * H, &err);
        if (!image) fail_msg("case %zu: %s", i, err.msg);
        assert_pixels(image, pixels, rows[i].channels, 0);
    }
}

static void test_png__keeps_the_colours_of_transparent_pixels(void **state)
{
    (void)state;
    static const uint8_t pixel[] = {10, 200, 30, 128};
    uint8_t bytes[ROOM];
    size_t n = make_png(pixel, 1, 1, PNG_FORMAT_RGBA, bytes, sizeof bytes);
    det_tensor *image = image_decode((struct str){(char *)bytes, n}, 10, NULL);
    assert_memory_equal(det_data(image), pixel, 3);
}

// --- damaged files

static void assert_refused(const void *bytes, size_t n, int code, const char *text)
{
    det_err err = {0};
    assert_null(image_decode((struct str){bytes, n}, W * H, &err));
    assert_failed_with(&err, code, text);
}

static void test_decode__refuses_other_files(void **state)
{
    (void)state;
    assert_refused("", 0, DET_EUNSUPPORTED, "neither a JPEG nor a PNG file");
    assert_refused("GIF89a", 6, DET_EUNSUPPORTED, "neither a JPEG nor a PNG file");
    assert_refused("\xff\xd8\xff", 3, DET_ECORRUPT, "JPEG: ");
    assert_refused("\x89PNG\r\n\x1a\n", 8, DET_ECORRUPT, "PNG: ");
}

static void test_decode__refuses_too_many_pixels(void **state)
{
    (void)state;
    uint8_t pixels[W * H * 3], png[ROOM];
    unsigned long n;
    det_err err;
    paint(pixels, 3);
    unsigned char *jpeg = make_jpeg(pixels, W, H, 3, false, &n);
    assert_null(image_decode((struct str){(char *)jpeg, n}, W * H - 1, &err));
    assert_failed_with(&err, DET_ELIMIT, "an image of 24 x 16 pixels; det reads up to 383 pixels");
    n = make_png(pixels, W, H, PNG_FORMAT_RGB, png, sizeof png);
    assert_null(image_decode((struct str){(char *)png, n}, W * H - 1, &err));
    assert_failed_with(&err, DET_ELIMIT, "an image of 24 x 16 pixels; det reads up to 383 pixels");
    free(jpeg);
}

static void test_decode__refuses_files_cut_off_anywhere(void **state)
{
    (void)state;
    uint8_t pixels[W * H * 3], png[ROOM];
    unsigned long n;
    paint(pixels, 3);
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned char *jpeg = make_jpeg(pixels, W, H, 3, progressive, &n);
        for (unsigned long len = 4; len < n - 2; len++) // the end mark is not needed
            assert_refused(jpeg, len, DET_ECORRUPT, "JPEG: ");
        free(jpeg);
    }
    n = make_png(pixels, W, H, PNG_FORMAT_RGB, png, sizeof png);
    for (unsigned long len = 8; len < n - 12; len++)
        assert_refused(png, len, DET_ECORRUPT, "PNG: ");
}

static void test_png__refuses_changed_bytes(void **state)
{
    (void)state;
    uint8_t pixels[W * H * 3], png[ROOM];
    paint(pixels, 3);
    size_t n = make_png(pixels, W, H, PNG_FORMAT_RGB, png, sizeof png), middle = n / 2;
    png[middle] ^= 1;
    assert_refused(png, n, DET_ECORRUPT, "PNG: ");
}

// --- folders

static void make_folder(const char *name)
{
    if (mkdir(temp_path(name), 0777)) fail_msg("cannot make %s", name);
}

// One colour, recognisable in the sample.
static void write_png(const char *name, uint8_t value, unsigned w, unsigned h)
{
    uint8_t pixels[3 * 64], bytes[ROOM];
    memset(pixels, value, sizeof pixels);
    write_bytes(temp_path(name), bytes,
                make_png(pixels, w, h, PNG_FORMAT_RGB, bytes, sizeof bytes));
}

static void write_jpeg(const char *name, uint8_t value)
{
    uint8_t pixels[3 * 64];
    unsigned long n;
    memset(pixels, value, sizeof pixels);
    unsigned char *bytes = make_jpeg(pixels, 8, 8, 3, false, &n);
    write_bytes(temp_path(name), bytes, n);
    free(bytes);
}

static void make_pets(void)
{
    make_folder("pets");
    make_folder("pets/dog");
    make_folder("pets/cat");
    make_folder("pets/cat/more");
    make_folder("pets/.hidden");
    write_jpeg("pets/cat/b.JPG", 51);
    write_png("pets/cat/a.png", 102, 8, 8);
    write_jpeg("pets/cat/more/c.jpeg", 153);
    write_bytes(temp_path("pets/cat/notes.txt"), "hello", 5);
    write_bytes(temp_path("pets/readme"), "hello", 5);
    write_png("pets/dog/z.png", 204, 8, 8);
}

static void remove_pets(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s/pets'", temp_folder);
    assert_int_equal(system(command), 0);
}

static void test_folder__gives_images_and_classes_in_order(void **state)
{
    (void)state;
    make_pets();
    det_dataset *d = det_dataset_image_folder(temp_path("pets"));
    assert_int_equal(det_dataset_length(d), 4);
    assert_string_equal(det_dataset_class_name(d, 0), "cat");
    assert_string_equal(det_dataset_class_name(d, 1), "dog");
    assert_null(det_dataset_class_name(d, 2));
    assert_null(det_dataset_class_name(d, -1));
    det_loader *l = det_loader_new(d, .batch_size = 4, .num_workers = 1);
    det_iter *it = det_loader_iter(l);
    const det_value *batch = det_iter_next(it, NULL);
    det_tensor *x = det_batch_at(batch, 0);
    assert_int_equal(det_size(x, 0), 4);
    assert_int_equal(det_size(x, 1), 3);
    const int64_t *y = det_data_i64(det_batch_at(batch, 1));
    static const float values[] = {0.4f, 0.2f, 0.6f, 0.8f}; // a.png, b.JPG, more/c.jpeg, z.png
    for (int i = 0; i < 4; i++) {
        assert_near(det_data_f32(x)[i * 3 * 64 + 70], values[i], 0.006);
        assert_int_equal(y[i], i / 3);
    }
    det_iter_free(it);
    det_loader_free(l);
    remove_pets();
}

static void test_folder__of_a_subset_has_its_classes(void **state)
{
    (void)state;
    make_pets();
    static const int64_t last = 3;
    det_dataset *d = det_dataset_subset(det_dataset_image_folder(temp_path("pets")), &last, 1);
    assert_string_equal(det_dataset_class_name(d, 1), "dog");
    det_value *v = det_dataset_item(d, 0, NULL, NULL);
    assert_near(det_item(det_batch_at(v, 1)), 1, 0);
    det_value_free(v);
    det_dataset_free(d);
    remove_pets();
}

static void test_folder__follows_links_to_classes(void **state)
{
    (void)state;
    make_pets();
    assert_int_equal(symlink(temp_path("pets/dog"), temp_path("pets/wolf")), 0);
    assert_int_equal(symlink("/nowhere", temp_path("pets/zebra")), 0);
    det_dataset *d = det_dataset_image_folder(temp_path("pets"));
    assert_int_equal(det_dataset_length(d), 5);
    assert_string_equal(det_dataset_class_name(d, 2), "wolf");
    assert_null(det_dataset_class_name(d, 3));
    det_dataset_free(d);
    remove_pets();
}

static void test_folder__names_the_damaged_file_and_the_sample(void **state)
{
    (void)state;
    make_pets();
    write_bytes(temp_path("pets/cat/b.JPG"), "\xff\xd8\xff\xe0 no jpeg", 12);
    for (int workers = 0; workers < 2; workers++) {
        det_err err;
        det_loader *l =
            det_loader_new(det_dataset_image_folder(temp_path("pets")), .num_workers = workers);
        det_iter *it = det_loader_iter(l);
        assert_non_null(det_iter_next(it, &err));
        assert_null(det_iter_next(it, &err));
        assert_err(err, DET_ECORRUPT, "sample 1: '/tmp/det-test-");
        assert_err(err, DET_ECORRUPT, "/pets/cat/b.JPG': JPEG: ");
        det_iter_free(it);
        det_loader_free(l);
    }
    det_dataset *d = det_dataset_image_folder(temp_path("pets"));
    unlink(temp_path("pets/dog/z.png"));
    det_err err;
    assert_null(det_dataset_item(d, 3, NULL, &err));
    assert_err(err, DET_ENOTFOUND, "pets/dog/z.png': No such file");
    det_dataset_free(d);
    remove_pets();
}

static void test_folder__names_the_image_that_does_not_fit(void **state)
{
    (void)state;
    det_err err;
    make_pets();
    write_png("pets/dog/z.png", 1, 8, 4);
    det_loader *l = det_loader_new(det_dataset_image_folder(temp_path("pets")), .batch_size = 4);
    det_iter *it = det_loader_iter(l);
    assert_null(det_iter_next(it, &err));
    assert_err(err, DET_ESHAPE, "sample 3: [0]: a tensor (3, 4, 8) f32 where the first sample");
    det_iter_free(it);
    det_loader_free(l);
    det_dataset *d =
        det_dataset_image_folder(temp_path("pets"), .transform = det_transform_random_crop(6, 0));
    assert_null(det_dataset_item(d, 3, NULL, &err));
    assert_err(err, DET_ESHAPE,
               "z.png': det_transform_random_crop: 6 x 6 pixels of an image of 4 x 8");
    det_dataset_free(d);
    remove_pets();
}

static void test_folder__wants_folders_with_images(void **state)
{
    (void)state;
    assert_null(det_dataset_image_folder(temp_path("pets")));
    assert_raised(DET_ENOTFOUND, "pets'");
    make_folder("pets");
    assert_null(det_dataset_image_folder(temp_path("pets")));
    assert_raised(DET_ENOTFOUND, "has no folders: one for each class is needed");
    make_folder("pets/cat");
    assert_null(
        det_dataset_image_folder(temp_path("pets"), .transform = det_transform_to_tensor()));
    assert_raised(DET_ENOTFOUND, "no .jpg, .jpeg or .png file in the class");
    assert_null(det_dataset_image_folder(NULL));
    assert_raised(DET_EINVAL, "the folder is NULL");
    remove_pets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_jpeg__is_read_in_all_colour_spaces),
        TEST(test_png__is_read_in_all_formats),
        TEST(test_png__keeps_the_colours_of_transparent_pixels),
        TEST(test_decode__refuses_other_files),
        TEST(test_decode__refuses_too_many_pixels),
        TEST(test_decode__refuses_files_cut_off_anywhere),
        TEST(test_png__refuses_changed_bytes),
        TEST(test_folder__gives_images_and_classes_in_order),
        TEST(test_folder__of_a_subset_has_its_classes),
        TEST(test_folder__follows_links_to_classes),
        TEST(test_folder__names_the_damaged_file_and_the_sample),
        TEST(test_folder__names_the_image_that_does_not_fit),
        TEST(test_folder__wants_folders_with_images),
    };
    temp_path("");
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
