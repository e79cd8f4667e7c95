// Transforms, seen through datasets of one image.
#include "support/images.h"

#include "support/files.h"
#include "support/loading.h"
#include <sys/stat.h>

enum { H = 4, W = 6, N_PIXELS = H * W };

// Pixel (y, x) of channel c.
static uint8_t pixel(int c, int y, int x)
{
    return (uint8_t)(100 * c + 10 * y + x);
}

static uint8_t planar_pixel(int i)
{
    return pixel(i / N_PIXELS, i / W % H, i % W);
}

// One channel: an idx file.
static void write_grey_image(void)
{
    char images[16 + N_PIXELS] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, H, 0, 0, 0, W};
    for (int i = 0; i < N_PIXELS; i++)
        images[16 + i] = (char)planar_pixel(i);
    write_bytes(temp_path("t10k-images-idx3-ubyte"), images, sizeof images);
    write_bytes(temp_path("t10k-labels-idx1-ubyte"), "\0\0\10\1\0\0\0\1\7", 9);
}

// Three channels: a PNG file.
static void write_colour_image(void)
{
    uint8_t pixels[N_PIXELS][3], bytes[4096];
    for (int i = 0; i < N_PIXELS; i++)
        for (int c = 0; c < 3; c++)
            pixels[i][c] = pixel(c, i / W, i % W);
    size_t n = make_png(pixels, W, H, PNG_FORMAT_RGB, bytes, sizeof bytes);
    mkdir(temp_path("images"), 0777);
    mkdir(temp_path("images/class"), 0777);
    write_bytes(temp_path("images/class/x.png"), bytes, n);
}

// The image through t, kept by the scope of the test; NULL and the sticky error set on failure.
static det_tensor *through(int channels, det_transform *t, det_draw draw)
{
    det_err err;
    det_dataset *d = channels == 1 ? det_dataset_mnist(temp_folder, .transform = t)
                                   : det_dataset_image_folder(temp_path("images"), .transform = t);
    if (!d) return NULL;
    det_value *v = det_dataset_item(d, 0, &draw, &err);
    det_dataset_free(d);
    if (!v) {
        det_raise(err.code, "%s", err.msg);
        return NULL;
    }
    det_tensor *copy = det_add_scalar(det_to(det_batch_at(v, 0), DET_F32), 0);
    det_value_free(v);
    return copy;
}

static const det_draw no_draw;

static void test_to_tensor__gives_planes_of_0_to_1(void **state)
{
    (void)state;
    det_tensor *image = through(3, det_transform_to_tensor(), no_draw);
    assert_int_equal(det_size(image, 0), 3);
    assert_int_equal(det_size(image, 1), H);
    assert_int_equal(det_size(image, 2), W);
    const float *x = det_data_f32(image);
    for (int i = 0; i < 3 * N_PIXELS; i++)
        assert_near(x[i], planar_pixel(i) / 255.0, 1e-7);
}

static void test_normalize__works_by_channel(void **state)
{
    (void)state;
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    for (int apart = 0; apart < 2; apart++) { // right behind to_tensor, and not
        det_transform *to = det_transform_to_tensor(),
                      *flip = det_transform_random_horizontal_flip(0);
        det_transform *norm = det_transform_normalize(mean, 3, std, 3);
        det_transform *t =
            apart ? det_transform_compose(to, flip, norm) : det_transform_compose(flip, to, norm);
        const float *x = det_data_f32(through(3, t, no_draw));
        for (int i = 0; i < 3 * N_PIXELS; i++) {
            int c = i / N_PIXELS;
            assert_near(x[i], (planar_pixel(i) / 255.0 - mean[c]) / std[c], 2e-6);
        }
    }
}

static void test_normalize__twice_is_both(void **state)
{
    (void)state;
    det_transform *t = det_transform_compose(
        det_transform_to_tensor(), det_transform_normalize(DET_REALS(0.5), DET_REALS(0.5)),
        det_transform_normalize(DET_REALS(0, 1, 2), DET_REALS(1, 2, 4)));
    const float *x = det_data_f32(through(3, t, no_draw));
    for (int i = 0; i < 3 * N_PIXELS; i++) {
        int c = i / N_PIXELS;
        assert_near(x[i], ((planar_pixel(i) / 255.0 - 0.5) / 0.5 - c) / (1 << c), 2e-6);
    }
}

static void test_normalize__refuses_what_it_cannot_do(void **state)
{
    (void)state;
    assert_null(det_transform_normalize(DET_REALS(1, 2), DET_REALS(1)));
    assert_raised(DET_EINVAL, "2 means and 1 standard deviations");
    assert_null(det_transform_normalize(DET_REALS(1), DET_REALS(0)));
    assert_raised(DET_EINVAL, "channel 0 has mean 1 and deviation 0");
    assert_null(det_transform_normalize(DET_REALS(NAN), DET_REALS(1)));
    assert_raised(DET_EINVAL, "channel 0 has mean nan");
    assert_null(through(1, det_transform_normalize(DET_REALS(0), DET_REALS(1)), no_draw));
    assert_raised(DET_EINVAL, "det_transform_to_tensor must come before it");
    det_transform *twice =
        det_transform_compose(det_transform_to_tensor(), det_transform_to_tensor());
    assert_null(through(1, twice, no_draw));
    assert_raised(DET_EINVAL, "it was applied before");
}

// --- geometry; each on images of both orders

// Element (y, x) of channel c, whatever the order.
static double at(det_tensor *image, bool planar, int64_t c, int64_t y, int64_t x)
{
    const int64_t *s = det_shape(image);
    int64_t i = planar ? (c * s[1] + y) * s[2] + x : (y * s[1] + x) * s[2] + c;
    return (double)det_data_f32(image)[i] * (planar ? 255 : 1);
}

static det_transform *in_order(det_transform *t, bool planar)
{
    return planar ? det_transform_compose(det_transform_to_tensor(), t) : t;
}

static void test_flip__mirrors_with_its_probability(void **state)
{
    (void)state;
    for (int planar = 0; planar < 2; planar++) {
        det_tensor *same =
            through(3, in_order(det_transform_random_horizontal_flip(0), planar), no_draw);
        det_tensor *mirrored =
            through(3, in_order(det_transform_random_horizontal_flip(1), planar), no_draw);
        for (int c = 0; c < 3; c++)
            for (int x = 0; x < W; x++) {
                assert_near(at(same, planar, c, 2, x), 100 * c + 20 + x, 1e-3);
                assert_near(at(mirrored, planar, c, 2, W - 1 - x), 100 * c + 20 + x, 1e-3);
            }
    }
    int n_mirrored = 0;
    for (int64_t i = 0; i < 1000; i++) {
        det_tensor *image = through(1, det_transform_random_horizontal_flip(0.25),
                                    (det_draw){.seed = 1, .index = i});
        n_mirrored += at(image, false, 0, 0, 0) > 0;
    }
    assert_in_range(n_mirrored, 200, 300);
}

static void test_center_crop__takes_the_middle_and_pads_with_zeros(void **state)
{
    (void)state;
    for (int planar = 0; planar < 2; planar++) {
        det_tensor *small = through(3, in_order(det_transform_center_crop(2), planar), no_draw);
        assert_int_equal(det_numel(small), 3 * 2 * 2);
        assert_near(at(small, planar, 2, 0, 0), 212, 1e-3);
        assert_near(at(small, planar, 1, 1, 1), 123, 1e-3);
        det_tensor *large = through(3, in_order(det_transform_center_crop(7), planar), no_draw);
        assert_near(at(large, planar, 1, 0, 3), 0, 0);      // three rows are missing: one above
        assert_near(at(large, planar, 1, 1, 0), 100, 1e-3); // and one column: to the right
        assert_near(at(large, planar, 1, 4, 5), 135, 1e-3);
        assert_near(at(large, planar, 1, 1, 6), 0, 0);
        assert_near(at(large, planar, 1, 5, 0), 0, 0);
    }
}

static void test_random_crop__reaches_every_place_equally(void **state)
{
    (void)state;
    enum { N = 3000, SIZE = 3, PAD = 1 };
    int count[H + 2 * PAD - SIZE + 1][W + 2 * PAD - SIZE + 1] = {{0}};
    for (int64_t i = 0; i < N; i++) {
        det_scope_begin();
        det_tensor *image = through(1, det_transform_random_crop(SIZE, PAD),
                                    (det_draw){.seed = 3, .epoch = 1, .index = i});
        int value = (int)at(image, false, 0, 1, 1); // the middle is never outside
        count[value / 10][value % 10]++;
        det_scope_end();
    }
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 6; x++)
            assert_in_range(count[y][x], N / 24 - 50, N / 24 + 50);
}

static void test_random_crop__pads_with_zeros(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 50; i++) {
        det_draw draw = {.index = i};
        det_tensor *image = through(1, det_transform_random_crop(8, 3), draw);
        int n_zero = 0;
        for (int k = 0; k < 64; k++)
            n_zero += det_data_f32(image)[k] == 0;
        assert_in_range(n_zero, 64 - N_PIXELS + 1, 64); // pixel (0, 0) is 0 too
    }
    assert_null(through(1, det_transform_random_crop(7, 1), no_draw));
    assert_raised(DET_ESHAPE, "7 x 7 pixels of an image of 4 x 6 with a padding of 1");
}

// Numbers of torch.nn.functional.interpolate(mode='bilinear', antialias=True).
static const struct {
    int64_t h, w;
    float expected[15];
} resized[] = {
    {2, 3, {6.0f, 9.78571f, 9.02041f, 7.73469f, 9.58929f, 4.55102f}},
    {3,
     5,
     {1.58571f, 5.73571f, 8.45f, 13.73571f, 8.23571f, 7.25f, 13.89286f, 9.75f, 8.17857f, 2.5f,
      4.06428f, 8.1f, 10.7f, 8.22143f, 2.36429f}},
    {1, 1, {7.97222f}},
    {3, 2, {5.05f, 10.825f, 10.875f, 6.75f, 7.425f, 6.7875f}},
};

static det_tensor *squares(det_tensor *image, const det_draw *draw, void *user)
{
    (void)draw;
    float x[N_PIXELS];
    uint8_t bytes[N_PIXELS];
    for (int i = 0; i < N_PIXELS; i++)
        bytes[i] = (uint8_t)(x[i] = (float)(i * i % 17));
    const int64_t *shape = det_shape(image);
    return *(bool *)user ? det_from(DET_F32, shape, 3, x) : det_from(DET_U8, shape, 3, bytes);
}

static void test_resize__is_that_of_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(resized); i++)
        for (int planar = 0; planar < 2; planar++)
            for (int real = planar; real < 2; real++) {
                bool is_real = real;
                det_transform *fn = det_transform_fn(squares, &is_real);
                det_transform *resize = det_transform_resize(resized[i].h, resized[i].w);
                det_transform *t =
                    planar ? det_transform_compose(fn, det_transform_to_tensor(), resize)
                           : det_transform_compose(fn, resize);
                det_tensor *image = through(1, t, no_draw);
                assert_int_equal(det_numel(image), resized[i].h * resized[i].w);
                for (int64_t k = 0; k < det_numel(image); k++) // bytes are rounded
                    assert_near(det_data_f32(image)[k], resized[i].expected[k],
                                real ? 2e-5 : 0.50001);
            }
}

static void test_resize__keeps_an_image_of_that_size(void **state)
{
    (void)state;
    det_tensor *image = through(3, det_transform_resize(H, W), no_draw);
    for (int c = 0; c < 3; c++)
        assert_near(at(image, false, c, 3, 5), 100 * c + 35, 0);
}

static void test_random_resized_crop__shows_parts_of_the_image(void **state)
{
    (void)state;
    double least = 1000, most = 0;
    for (int64_t i = 0; i < 300; i++) {
        det_scope_begin();
        det_draw draw = {.seed = 1, .index = i};
        det_tensor *image = through(3, det_transform_random_resized_crop(5), draw);
        assert_int_equal(det_numel(image), 75);
        double first = at(image, false, 1, 0, 0), last = at(image, false, 1, 4, 4);
        assert_true(first >= 100 && last <= 135 && last >= first);
        least = first < least ? first : least;
        most = last > most ? last : most;
        det_tensor *again = through(3, det_transform_random_resized_crop(5), draw);
        assert_memory_equal(det_data(image), det_data(again), 75 * sizeof(float));
        det_scope_end();
    }
    assert_true(least < 103 && most > 132);
}

static void test_geometry__refuses_sizes(void **state)
{
    (void)state;
    assert_null(det_transform_resize(0, 3));
    assert_raised(DET_EINVAL, "det_transform_resize: a size of 0 x 3; sides are 1 to 32768");
    assert_null(det_transform_center_crop(-1));
    assert_raised(DET_EINVAL, "det_transform_center_crop: a size of -1 x -1");
    assert_null(det_transform_random_resized_crop(40000));
    assert_raised(DET_EINVAL, "det_transform_random_resized_crop: a size of 40000");
    assert_null(det_transform_random_crop(0, 0));
    assert_raised(DET_EINVAL, "det_transform_random_crop: a size of 0");
    assert_null(det_transform_random_crop(1, -1));
    assert_raised(DET_EINVAL, "a padding of -1");
    assert_null(det_transform_random_horizontal_flip(1.5));
    assert_raised(DET_EINVAL, "a probability of 1.5");
}

// --- chains and functions

static det_tensor *add_draw(det_tensor *image, const det_draw *draw, void *user)
{
    *(double *)user = det_draw_unit(draw, 0);
    return image;
}

static void test_compose__gives_each_step_numbers_of_its_own(void **state)
{
    (void)state;
    double first, second, third;
    det_transform *t = det_transform_compose(det_transform_fn(add_draw, &first),
                                             det_transform_fn(add_draw, &second));
    through(1, t, (det_draw){.seed = 1, .epoch = 2, .index = 3});
    assert_true(first != second);
    t = det_transform_compose(det_transform_fn(add_draw, &third), det_transform_to_tensor());
    through(1, t, (det_draw){.seed = 1, .epoch = 2, .index = 3});
    assert_true(first == third);
    assert_true(first >= 0 && first < 1);
}

static det_tensor *give_vector(det_tensor *image, const det_draw *draw, void *user)
{
    (void)image, (void)draw, (void)user;
    return det_ones(DET_F32, DET_DIMS(3));
}

static det_tensor *give_nothing(det_tensor *image, const det_draw *draw, void *user)
{
    (void)image, (void)draw, (void)user;
    return NULL;
}

static void test_function__may_give_any_tensor_at_the_end(void **state)
{
    (void)state;
    det_transform *t =
        det_transform_compose(det_transform_to_tensor(), det_transform_fn(give_vector, NULL));
    assert_values(through(1, t, no_draw), 1, 1, 1);
    t = det_transform_compose(det_transform_fn(give_vector, NULL), det_transform_resize(2, 2));
    assert_null(through(1, t, no_draw));
    assert_raised(DET_ESHAPE, "step 1 cannot follow one that gave (3,) f32");
    assert_null(through(1, det_transform_fn(give_nothing, NULL), no_draw));
    assert_raised(DET_EINVAL, "sample 0: det_transform_fn: the function gave no image");
    assert_null(det_transform_fn(NULL, NULL));
    assert_raised(DET_EINVAL, "the function is NULL");
}

static void test_compose__of_a_failed_transform_fails(void **state)
{
    (void)state;
    assert_null(det_transform_compose(det_transform_to_tensor(), det_transform_resize(0, 0)));
    assert_raised(DET_EINVAL, "det_transform_resize: a size of 0 x 0"); // the cause, not the effect
    assert_null(det_transform_compose_of(NULL, 0));
    assert_raised(DET_EINVAL, "or there is none");
    det_transform_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_to_tensor__gives_planes_of_0_to_1),
        TEST(test_normalize__works_by_channel),
        TEST(test_normalize__twice_is_both),
        TEST(test_normalize__refuses_what_it_cannot_do),
        TEST(test_flip__mirrors_with_its_probability),
        TEST(test_center_crop__takes_the_middle_and_pads_with_zeros),
        TEST(test_random_crop__reaches_every_place_equally),
        TEST(test_random_crop__pads_with_zeros),
        TEST(test_resize__is_that_of_torch),
        TEST(test_resize__keeps_an_image_of_that_size),
        TEST(test_random_resized_crop__shows_parts_of_the_image),
        TEST(test_geometry__refuses_sizes),
        TEST(test_compose__gives_each_step_numbers_of_its_own),
        TEST(test_function__may_give_any_tensor_at_the_end),
        TEST(test_compose__of_a_failed_transform_fails),
    };
    write_grey_image();
    write_colour_image();
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
