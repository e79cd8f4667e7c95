// CIFAR-10 and CSV, good and damaged.
#include "data/data.h"
#include "support/files.h"
#include "support/loading.h"

// --- CIFAR-10

enum { RECORD = 3073, PLANE = 1024 };

static void write_cifar(const char *name, int n, int first_label)
{
    uint8_t *bytes = malloc((size_t)n * RECORD);
    for (int i = 0; i < n; i++) {
        bytes[i * RECORD] = (uint8_t)((first_label + i) % 10);
        for (int k = 0; k < RECORD - 1; k++)
            bytes[i * RECORD + 1 + k] = (uint8_t)(k / PLANE * 50 + k % 7 + first_label + i);
    }
    write_bytes(temp_path(name), bytes, (size_t)n * RECORD);
    free(bytes);
}

static void write_training(void)
{
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_cifar(name, i, 2 * i);
    }
}

static void test_cifar__reads_five_files_in_order(void **state)
{
    (void)state;
    write_training();
    det_dataset *d = det_dataset_cifar10(temp_folder, .train = true);
    assert_int_equal(det_dataset_length(d), 15);
    det_value *v = det_dataset_item(d, 4, NULL, NULL); // the second of the third file
    assert_int_equal(det_data_i64(det_batch_at(v, 1))[0], 7);
    const float *x = det_data_f32(det_batch_at(v, 0));
    assert_int_equal(det_size(det_batch_at(v, 0), 0), 3);
    for (int c = 0; c < 3; c++)
        assert_near(x[c * PLANE + 9], (c * 50 + (c * PLANE + 9) % 7 + 7) / 255.0, 1e-6);
    det_value_free(v);
    det_dataset_free(d);
    write_cifar("test_batch.bin", 2, 9);
    d = det_dataset_cifar10(temp_folder);
    assert_int_equal(det_dataset_length(d), 2);
    det_dataset_free(d);
}

static void test_cifar__is_normalised_by_channel_in_all_ways(void **state)
{
    (void)state;
    write_training();
    det_value *v[2];
    for (int slow = 0; slow < 2; slow++) {
        det_transform *flip = det_transform_random_horizontal_flip(0);
        det_transform *norm =
            det_transform_normalize(DET_REALS(0.1, 0.2, 0.3), DET_REALS(0.5, 0.25, 0.125));
        det_transform *t = det_transform_compose(det_transform_to_tensor(), norm);
        if (slow)
            t = det_transform_compose(flip, t);
        else
            det_transform_free(flip);
        det_dataset *d = det_dataset_cifar10(temp_folder, .train = true, .transform = t);
        v[slow] = det_dataset_item(d, 3, NULL, NULL);
        det_dataset_free(d);
    }
    const float *fast = det_data_f32(det_batch_at(v[0], 0)),
                *slow = det_data_f32(det_batch_at(v[1], 0));
    assert_memory_equal(fast, slow, 3 * PLANE * sizeof *fast);
    static const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.25, 0.125};
    for (int c = 0; c < 3; c++)
        assert_near(fast[c * PLANE], ((c * 50 + c * PLANE % 7 + 6) / 255.0 - mean[c]) / std[c],
                    1e-5);
    det_value_free(v[0]);
    det_value_free(v[1]);
}

static void test_cifar__names_the_damaged_or_missing_file(void **state)
{
    (void)state;
    write_training();
    write_bytes(temp_path("data_batch_4.bin"), "x", 1);
    assert_null(det_dataset_cifar10(temp_folder, .train = true));
    assert_raised(DET_ECORRUPT, "data_batch_4.bin': 1 bytes are not a whole number of records");
    write_cifar("data_batch_4.bin", 3, 0);
    FILE *f = fopen(temp_path("data_batch_4.bin"), "r+b");
    fseek(f, 2 * RECORD, SEEK_SET);
    fputc(10, f);
    fclose(f);
    assert_null(
        det_dataset_cifar10(temp_folder, .train = true, .transform = det_transform_to_tensor()));
    assert_raised(DET_ECORRUPT, "data_batch_4.bin': record 2 has label 10; there are 10 classes");
    unlink(temp_path("data_batch_5.bin"));
    write_cifar("data_batch_4.bin", 3, 0);
    assert_null(det_dataset_cifar10(temp_folder, .train = true));
    assert_raised(DET_ENOTFOUND, "data_batch_5.bin': No such file");
    assert_null(det_dataset_cifar10(NULL));
    assert_raised(DET_EINVAL, "the folder is NULL");
}

// --- CSV

static struct csv parse(const char *text, det_csv_opts opts)
{
    det_err err;
    struct csv csv = {0};
    if (csv_parse(str_from(text), &opts, &csv, &err)) fail_msg("%s", err.msg);
    return csv;
}

static void done(struct csv csv)
{
    det_unref(csv.features);
    det_unref(csv.target);
}

static void test_csv__gives_features_and_target(void **state)
{
    (void)state;
    struct csv csv = parse("a,class,b\n1,7,2.5\n-3e1,-8,.5\n", (det_csv_opts){.target = "class"});
    assert_values(csv.features, 1, 2.5f, -30, 0.5f);
    assert_int_equal(det_size(csv.features, 1), 2);
    assert_int_equal(det_data_i64(csv.target)[0], 7);
    assert_int_equal(det_data_i64(csv.target)[1], -8);
    done(csv);
}

static void test_csv__target_is_real_if_one_value_is(void **state)
{
    (void)state;
    struct csv csv = parse("1,2\n3,4.0\n", (det_csv_opts){.no_header = true, .target = "1"});
    assert_values(csv.features, 1, 3);
    assert_values(csv.target, 2, 4);
    done(csv);
}

static void test_csv__keeps_large_integers(void **state)
{
    (void)state;
    struct csv csv = parse("id\n9007199254740993\n", (det_csv_opts){.target = "id"});
    assert_int_equal(det_data_i64(csv.target)[0], 9007199254740993);
    assert_int_equal(det_numel(csv.features), 0);
    done(csv);
}

static void test_csv__takes_what_programs_write(void **state)
{
    (void)state;
    static const char *const texts[] = {"a,b\n1,2\n3,4\n",
                                        "a,b\r\n1,2\r\n3,4\r\n",
                                        "\xef\xbb\xbf"
                                        "a,b\n1,2\n3,4",
                                        "a,b\n\n1,2\n\n3,4\n\n",
                                        "\"a\",\"b\"\n\"1\",\"2\"\n3,\"4\"",
                                        "a,b\n 1 ,\t2\n3, 4 \n",
                                        "\"a \"\"x\"\", y\",\"line\nbreak\"\n1,2\n3,4\n"};
    for (size_t i = 0; i < N_OF(texts); i++) {
        struct csv csv = parse(texts[i], (det_csv_opts){0});
        assert_null(csv.target);
        assert_int_equal(det_size(csv.features, 0), 2);
        assert_values(csv.features, 1, 2, 3, 4);
        done(csv);
    }
    struct csv csv = parse("a;b\n1;2\n", (det_csv_opts){.separator = ';'});
    assert_values(csv.features, 1, 2);
    done(csv);
    csv = parse("a,\"b \"\"x\"\"\"\n1,2\n", (det_csv_opts){.target = "b \"x\""});
    assert_int_equal(det_data_i64(csv.target)[0], 2);
    done(csv);
    csv = parse("a,b", (det_csv_opts){0});
    assert_int_equal(det_size(csv.features, 0), 0);
    done(csv);
}

static void test_csv__says_what_is_wrong_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        det_csv_opts opts;
        int code;
        const char *message;
    } rows[] = {
        {"", {0}, DET_ECORRUPT, "the file is empty"},
        {"\n\r\n", {0}, DET_ECORRUPT, "the file is empty"},
        {"a,b\n1,x\n", {0}, DET_ECORRUPT, "line 2, column 2: 'x' is no number that f32 can hold"},
        {"a,b\n1,\n", {0}, DET_ECORRUPT, "line 2, column 2: '' is no number"},
        {"a,b\n\n1,2\n1\n", {0}, DET_ECORRUPT, "line 4, column 2: the record ends before"},
        {"a,b\n1,2,3\n", {0}, DET_ECORRUPT, "line 2, column 3: one field too many"},
        {"a,b\n1,\"2\n", {0}, DET_ECORRUPT, "line 2, column 2: the quotes are not closed"},
        {"a,b\n1,\"2\"3\n", {0}, DET_ECORRUPT, "line 2, column 2: something follows the closing"},
        {"a,b\n1,nan\n", {0}, DET_ECORRUPT, "'nan' is no number"},
        {"a,b\n1,1e39\n", {0}, DET_ECORRUPT, "'1e39' is no number that f32 can hold"},
        {"\"a\nb\",c\n1,\"x\"\n", {0}, DET_ECORRUPT, "line 3, column 2: 'x'"},
        {"a,b\n1,2\n", {.target = "c"}, DET_ENOTFOUND, "no column 'c' among the 2 of line 1"},
        {"1,2\n", {.target = "2", .no_header = true}, DET_ENOTFOUND, "no column '2' among the 2"},
        {"a,b\n1,2\n", {.separator = '"'}, DET_EINVAL, "cannot be the separator"},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        det_err err = {0};
        struct csv csv;
        if (!csv_parse(str_from(rows[i].text), &rows[i].opts, &csv, &err))
            fail_msg("case %zu was accepted", i);
        assert_failed_with(&err, rows[i].code, rows[i].message);
    }
}

static void test_csv__limits_fields(void **state)
{
    (void)state;
    char text[6000] = "a\n";
    memset(text + 2, '1', 5000);
    det_err err = {0};
    struct csv csv;
    assert_int_equal(csv_parse(str_from(text), &(det_csv_opts){0}, &csv, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "line 2, column 1: a field of more than 4096 bytes");
}

static void test_csv__is_a_dataset(void **state)
{
    (void)state;
    write_bytes(temp_path("t.csv"), "x,y\n0,0\n1,1\n2,2\n", 16);
    det_loader *l = det_loader_new(det_dataset_csv(temp_path("t.csv"), .target = "y"),
                                   .batch_size = 2, .shuffle = true);
    det_iter *it = det_loader_iter(l);
    static struct heard h;
    hear(&h, it, 10);
    assert_int_equal(h.n, 3);
    det_iter_free(it);
    det_loader_free(l);
    write_bytes(temp_path("t.csv"), "x\n?\n", 4);
    assert_null(det_dataset_csv(temp_path("t.csv")));
    assert_raised(DET_ECORRUPT, "t.csv': line 2, column 1: '?' is no number");
    assert_null(det_dataset_csv(temp_path("missing.csv")));
    assert_raised(DET_ENOTFOUND, "missing.csv': No such file");
    assert_null(det_dataset_csv(NULL));
    assert_raised(DET_EINVAL, "the path is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cifar__reads_five_files_in_order),
        TEST(test_cifar__is_normalised_by_channel_in_all_ways),
        TEST(test_cifar__names_the_damaged_or_missing_file),
        TEST(test_csv__gives_features_and_target),
        TEST(test_csv__target_is_real_if_one_value_is),
        TEST(test_csv__keeps_large_integers),
        TEST(test_csv__takes_what_programs_write),
        TEST(test_csv__says_what_is_wrong_and_where),
        TEST(test_csv__limits_fields),
        TEST(test_csv__is_a_dataset),
    };
    temp_path("");
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
