// Datasets in memory: tensors, subsets and rows of datasets; those of the user.
#include "support/loading.h"

static struct heard a;

static void hear_all(det_dataset *d)
{
    det_loader *l = det_loader_new(d, .batch_size = 4);
    det_iter *it = det_loader_iter(l);
    hear(&a, it, 100);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_tensors__give_their_rows(void **state)
{
    (void)state;
    det_err err;
    det_tensor *x = det_view(det_arange(DET_F32, 0, 12, 1), DET_DIMS(3, 2, 2));
    det_tensor *y = det_arange(DET_U8, 0, 3, 1);
    det_dataset *d = det_dataset_tensors((det_tensor *const[]){x, y}, 2);
    assert_int_equal(det_dataset_length(d), 3);
    det_value *v = det_dataset_item(d, 2, NULL, &err);
    assert_int_equal(det_value_kind(v), DET_KIND_TUPLE);
    assert_values(det_batch_at(v, 0), 8, 9, 10, 11);
    assert_int_equal(det_ndim(det_batch_at(v, 0)), 2);
    assert_int_equal(det_ndim(det_batch_at(v, 1)), 0);
    assert_int_equal(det_dtype_of(det_batch_at(v, 1)), DET_U8);
    assert_near(det_item(det_batch_at(v, 1)), 2, 0);
    det_value_free(v);
    assert_null(det_dataset_item(d, 3, NULL, &err));
    assert_err(err, DET_EINVAL, "sample 3 of a dataset of 3");
    assert_null(det_dataset_item(d, -1, NULL, &err));
    assert_null(det_dataset_class_name(d, 0));
    det_dataset_free(d);
}

static void test_tensors__may_have_any_strides_and_outlive_their_scope(void **state)
{
    (void)state;
    det_scope_begin();
    det_tensor *x = det_transpose(det_view(det_arange(DET_F32, 0, 6, 1), DET_DIMS(2, 3)), 0, 1);
    det_dataset *d = det_dataset_tensors(&x, 1);
    det_scope_end();
    assert_int_equal(det_dataset_length(d), 3);
    det_value *v = det_dataset_item(d, 1, NULL, NULL);
    assert_values(det_batch_at(v, 0), 1, 4);
    det_value_free(v);
    det_dataset_free(d);
}

static void test_tensors__must_have_as_many_rows(void **state)
{
    (void)state;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(3, 2)), *y = det_ones(DET_F32, DET_DIMS(2)),
               *scalar = det_scalar(1);
    assert_null(det_dataset_tensors((det_tensor *const[]){x, y}, 2));
    assert_raised(DET_ESHAPE, "tensor 1 is (2,) f32, but tensor 0 has 3 rows");
    assert_null(det_dataset_tensors(&scalar, 1));
    assert_raised(DET_ESHAPE, "tensor 0 is a single number");
    assert_null(det_dataset_tensors((det_tensor *const[]){x, NULL}, 2));
    assert_raised(DET_ESHAPE, "tensor 1 is NULL");
    assert_null(det_dataset_tensors(NULL, 0));
    assert_raised(DET_EINVAL, "0 tensors");
}

static void test_subset__gives_what_it_was_told(void **state)
{
    (void)state;
    static const int64_t index[] = {5, 0, 5, 9, 1};
    for (int user = 0; user < 2; user++) {
        det_dataset *d = user ? counting_dataset(10, -1) : counting_tensors(10);
        hear_all(det_dataset_subset(d, index, 5));
        assert_heard(&a, 5, 0, 5, 9, 1);
    }
    hear_all(det_dataset_subset(counting_tensors(10), NULL, 0));
    assert_int_equal(a.n, 0);
}

static void test_subset__of_many_is_complete(void **state)
{
    (void)state;
    enum { N = 1000 };
    int64_t index[N];
    for (int i = 0; i < N; i++)
        index[i] = (i * 7) % N;
    det_loader *l =
        det_loader_new(det_dataset_subset(counting_tensors(N), index, N), .batch_size = N);
    det_iter *it = det_loader_iter(l);
    hear(&a, it, 1);
    assert_int_equal(a.n, N);
    assert_memory_equal(a.index, index, sizeof index);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_subset__refuses_other_indices(void **state)
{
    (void)state;
    static const int64_t index[] = {0, 10};
    assert_null(det_dataset_subset(counting_dataset(10, -1), index, 2));
    assert_raised(DET_EINVAL, "index[1] is 10; the dataset has 10 samples");
    assert_null(det_dataset_subset(NULL, index, 1));
    assert_raised(DET_EINVAL, "the dataset is NULL");
}

static void test_concat__puts_datasets_behind_each_other(void **state)
{
    (void)state;
    static const int64_t swapped[] = {1, 0};
    for (int user = 0; user < 2; user++) {
        det_dataset *parts[] = {counting_tensors(3), counting_tensors(0),
                                user ? counting_dataset(2, -1) : counting_tensors(2),
                                det_dataset_subset(counting_tensors(9), swapped, 2)};
        if (user) { // (f32, i64 tensor) and (f32, int) do not mix in one batch
            det_dataset *d = det_dataset_concat(parts, 4);
            assert_int_equal(det_dataset_length(d), 7);
            det_value *v = det_dataset_item(d, 4, NULL, NULL);
            int64_t label = 0;
            assert_int_equal(det_value_as_int(det_value_at(v, 1), &label, NULL), 0);
            assert_int_equal(label, 1);
            det_value_free(v);
            det_dataset_free(d);
        } else {
            hear_all(det_dataset_concat(parts, 4));
            assert_heard(&a, 0, 1, 2, 0, 1, 1, 0);
        }
    }
}

static void test_concat__refuses_nothing(void **state)
{
    (void)state;
    assert_null(det_dataset_concat((det_dataset *const[]){counting_tensors(1), NULL}, 2));
    assert_raised(DET_EINVAL, "a dataset is NULL");
    assert_null(det_dataset_concat(NULL, 0));
    assert_raised(DET_EINVAL, "or there is none");
}

static int64_t minus_one(void *self)
{
    (void)self;
    return -1;
}

static int n_freed;
static void count_free(void *self)
{
    (void)self;
    n_freed++;
}

static void test_user_dataset__must_be_complete(void **state)
{
    (void)state;
    det_dataset_ops ops = {.length = minus_one, .item = counting_item, .free = count_free};
    n_freed = 0;
    assert_null(det_dataset_new(&ops, NULL));
    assert_raised(DET_EINVAL, "the length is -1");
    ops.item = NULL;
    assert_null(det_dataset_new(&ops, NULL));
    assert_raised(DET_EINVAL, "needs the functions length and item");
    assert_int_equal(n_freed, 2);
    assert_null(det_dataset_new(NULL, NULL));
    assert_raised(DET_EINVAL, "needs the functions length and item");
    det_dataset_free(NULL);
    assert_int_equal(det_dataset_length(NULL), 0);
}

static void test_failed_dataset__makes_everything_above_it_fail_with_its_reason(void **state)
{
    (void)state;
    det_err err;
    det_loader *l =
        det_loader_new(det_dataset_subset(det_dataset_mnist("/nowhere"), (const int64_t[]){0}, 1),
                       .batch_size = 2);
    det_iter *it = det_loader_iter(l);
    assert_null(it);
    assert_null(det_iter_next(it, &err));
    assert_raised(DET_ENOTFOUND, "/nowhere");
}

RUN_TESTS(TEST(test_tensors__give_their_rows),
          TEST(test_tensors__may_have_any_strides_and_outlive_their_scope),
          TEST(test_tensors__must_have_as_many_rows), TEST(test_subset__gives_what_it_was_told),
          TEST(test_subset__of_many_is_complete), TEST(test_subset__refuses_other_indices),
          TEST(test_concat__puts_datasets_behind_each_other), TEST(test_concat__refuses_nothing),
          TEST(test_user_dataset__must_be_complete),
          TEST(test_failed_dataset__makes_everything_above_it_fail_with_its_reason))
