// What becomes of the trees of samples: batches of any nesting, collate functions, and access to
// them.
#include "support/loading.h"

typedef det_value *(*make_fn)(int64_t index);

static int64_t make_length(void *self)
{
    (void)self;
    return 4;
}

static make_fn make_of_test;

static det_value *make_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    (void)self, (void)draw, (void)err;
    return make_of_test(index);
}

static det_loader *loader_of(make_fn make, int workers)
{
    static const det_dataset_ops ops = {.length = make_length, .item = make_item};
    make_of_test = make;
    return det_loader_new(det_dataset_new(&ops, NULL), .batch_size = 2, .num_workers = workers);
}

static det_value *vector(int64_t index)
{
    return det_value_tensor(det_full(DET_F32, DET_DIMS(2), (double)index));
}

static det_value *nested(int64_t index)
{
    det_value *inner = det_value_dict();
    det_value_set(inner, "x", vector(index));
    det_value_set(inner, "n", det_value_int(10 * index));
    det_value_set_int(inner, 7, det_value_bool(index % 2));
    det_value *list = det_value_list();
    det_value_push(list, inner);
    det_value_push(list, det_value_float(index / 2.0));
    det_value_push(list, det_value_str(index % 2 ? "odd" : "even"));
    det_value *dict = det_value_dict();
    det_value_set(dict, "list", list);
    det_value_set(dict, "none", det_value_none());
    det_value_set(dict, "empty", det_value_tuple());
    return dict;
}

static void test_batch__has_the_tree_of_its_samples(void **state)
{
    (void)state;
    for (int workers = 0; workers < 2; workers++) {
        det_loader *l = loader_of(nested, workers);
        det_iter *it = det_loader_iter(l);
        for (int64_t i = 0; i < 4; i += 2) {
            const det_value *batch = det_iter_next(it, NULL);
            const det_value *list = det_value_get(batch, "list"), *inner = det_value_at(list, 0);
            float f = (float)i;
            assert_int_equal(det_value_kind(batch), DET_KIND_DICT);
            assert_int_equal(det_value_len(batch), 3);
            assert_int_equal(det_value_kind(list), DET_KIND_LIST);
            assert_values(det_batch_get(inner, "x"), f, f, f + 1, f + 1);
            assert_int_equal(det_data_i64(det_batch_get(inner, "n"))[1], 10 * i + 10);
            det_tensor *flags = det_value_as_tensor(det_value_get_int(inner, 7));
            assert_int_equal(det_dtype_of(flags), DET_BOOL);
            assert_memory_equal(det_data(flags), "\0\1", 2);
            assert_values(det_batch_at(list, 1), f / 2, f / 2 + 0.5f);
            const char *text = NULL;
            assert_int_equal(det_value_len(det_value_at(list, 2)), 2);
            assert_int_equal(det_value_as_str(det_value_at(det_value_at(list, 2), 1), &text, NULL),
                             0);
            assert_string_equal(text, "odd");
            assert_int_equal(det_value_kind(det_value_get(batch, "none")), DET_KIND_NONE);
            assert_int_equal(det_value_kind(det_value_get(batch, "empty")), DET_KIND_TUPLE);
            assert_int_equal(det_batch_length(batch, NULL), 2);
        }
        det_iter_free(it);
        det_loader_free(l);
    }
}

static void test_batch__of_plain_tensors_is_a_tensor(void **state)
{
    (void)state;
    det_loader *l = loader_of(vector, 0);
    det_iter *it = det_loader_iter(l);
    const det_value *batch = det_iter_next(it, NULL);
    assert_int_equal(det_value_kind(batch), DET_KIND_TENSOR);
    assert_values(det_batch_at(batch, 0), 0, 0, 1, 1);
    det_iter_free(it);
    det_loader_free(l);
}

static det_value *transposed(int64_t index)
{
    (void)index;
    det_tensor *x = det_view(det_arange(DET_F32, 0, 6, 1), DET_DIMS(2, 3));
    return det_value_tensor(det_transpose(x, 0, 1));
}

static void test_batch__takes_tensors_of_any_strides(void **state)
{
    (void)state;
    det_loader *l = loader_of(transposed, 0);
    det_iter *it = det_loader_iter(l);
    assert_values(det_batch_at(det_iter_next(it, NULL), 0), 0, 3, 1, 4, 2, 5, 0, 3, 1, 4, 2, 5);
    det_iter_free(it);
    det_loader_free(l);
}

static det_value *growing(int64_t index)
{
    return det_value_tensor(det_ones(DET_F32, DET_DIMS(1 + index / 2)));
}

static void test_batch__may_have_another_shape_than_the_one_before(void **state)
{
    (void)state;
    det_loader *l = loader_of(growing, 0);
    det_iter *it = det_loader_iter(l);
    assert_values(det_batch_at(det_iter_next(it, NULL), 0), 1, 1);
    assert_values(det_batch_at(det_iter_next(it, NULL), 0), 1, 1, 1, 1);
    det_iter_free(it);
    det_loader_free(l);
}

// --- samples that do not fit together

static det_value *pair(det_value *a, det_value *b)
{
    det_value *v = det_value_tuple();
    det_value_push(v, a);
    det_value_push(v, b);
    return v;
}

static det_value *other_shape(int64_t index)
{
    return pair(vector(index), det_value_tensor(det_ones(DET_F32, DET_DIMS(2 + index))));
}

static det_value *other_type(int64_t index)
{
    return det_value_tensor(det_ones(index ? DET_F32 : DET_F64, DET_DIMS(2)));
}

static det_value *other_kind(int64_t index)
{
    det_value *v = det_value_dict();
    return det_value_set(v, "x", index ? det_value_int(1) : det_value_float(1)), v;
}

static det_value *other_key(int64_t index)
{
    det_value *v = det_value_dict();
    return det_value_set(v, index ? "a" : "b", det_value_int(1)), v;
}

static det_value *other_length(int64_t index)
{
    return index ? pair(det_value_int(1), det_value_int(2)) : pair(det_value_int(1), NULL);
}

static det_value *too_many_dims(int64_t index)
{
    (void)index;
    return det_value_tensor(det_ones(DET_F32, DET_DIMS(1, 1, 1, 1, 1, 1, 1, 1)));
}

static void test_samples__that_differ_are_an_error_that_says_where(void **state)
{
    (void)state;
    static const struct {
        make_fn make;
        const char *text;
    } rows[] = {
        {other_shape,
         "sample 1: [1]: a tensor (3,) f32 where the first sample of the batch has one "
         "(2,) f32"},
        {other_type, "sample 1: a tensor (2,) f32 where the first sample of the batch has one (2,) "
                     "f64"},
        {other_kind, "sample 1: ['x']: a int of 0 items where the first sample of the batch has a "
                     "float"},
        {other_key, "sample 1: ['b']: a None"},
        {other_length,
         "sample 1: a tuple of 2 items where the first sample of the batch has a tuple "
         "of 1"},
        {too_many_dims, "sample 0: a sample of 8 dims cannot be stacked"},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        det_err err;
        det_loader *l = loader_of(rows[i].make, 0);
        det_iter *it = det_loader_iter(l);
        assert_null(det_iter_next(it, &err));
        assert_err(err, DET_ESHAPE, rows[i].text);
        det_iter_free(it);
        det_loader_free(l);
    }
}

// --- collate functions

static det_value *longest(det_value *const *samples, int n, void *user, det_err *err)
{
    int64_t width = 0;
    if (*(int *)user < 0) {
        det_fail(err, DET_ELIMIT, "nothing fits");
        return NULL;
    }
    for (int i = 0; i < n; i++)
        if (det_size(det_batch_at(samples[i], 0), 0) > width)
            width = det_size(det_batch_at(samples[i], 0), 0);
    det_value *v = det_value_list();
    det_value_push(v, det_value_tensor(det_zeros(DET_F32, DET_DIMS(n, width + *(int *)user))));
    return v;
}

static det_value *ragged(int64_t index)
{
    return det_value_tensor(det_ones(DET_F32, DET_DIMS(1 + index)));
}

static det_loader *collating(int *user, int workers, det_collate_fn collate)
{
    static const det_dataset_ops ops = {.length = make_length, .item = make_item};
    make_of_test = ragged;
    return det_loader_new(det_dataset_new(&ops, NULL), .batch_size = 2, .num_workers = workers,
                          .collate = collate, .collate_user = user);
}

static void test_collate__makes_the_batch(void **state)
{
    (void)state;
    for (int workers = 0; workers < 3; workers++) {
        int extra = 3;
        det_loader *l = collating(&extra, workers, longest);
        det_iter *it = det_loader_iter(l);
        assert_int_equal(det_size(det_batch_at(det_iter_next(it, NULL), 0), 1), 5);
        assert_int_equal(det_size(det_batch_at(det_iter_next(it, NULL), 0), 1), 7);
        assert_null(det_iter_next(it, NULL));
        det_iter_free(it);
        det_loader_free(l);
    }
}

static det_value *forgetful(det_value *const *samples, int n, void *user, det_err *err)
{
    (void)samples, (void)n, (void)user, (void)err;
    return NULL;
}

static void test_collate__may_fail(void **state)
{
    (void)state;
    int extra = -1;
    det_err err;
    det_loader *l = collating(&extra, 0, longest);
    det_iter *it = det_loader_iter(l);
    assert_null(det_iter_next(it, &err));
    assert_err(err, DET_ELIMIT, "nothing fits");
    det_iter_free(it);
    det_loader_free(l);
    l = collating(NULL, 1, forgetful);
    it = det_loader_iter(l);
    assert_null(det_iter_next(it, &err));
    assert_err(err, DET_EINVAL, "the collate function gave no batch and no reason");
    det_iter_free(it);
    det_loader_free(l);
}

static void test_collate__works_on_samples_in_memory_too(void **state)
{
    (void)state;
    int extra = 0;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(4, 6));
    det_loader *l = det_loader_new(det_dataset_tensors(&x, 1), .batch_size = 2, .collate = longest,
                                   .collate_user = &extra);
    det_iter *it = det_loader_iter(l);
    assert_int_equal(det_size(det_batch_at(det_iter_next(it, NULL), 0), 1), 6);
    det_iter_free(it);
    det_loader_free(l);
}

// --- access

static void test_batch_at__says_what_is_there_instead(void **state)
{
    (void)state;
    det_value *dict = nested(1), *tuple = pair(vector(1), det_value_int(3));
    assert_non_null(det_batch_at(tuple, 0));
    assert_null(det_batch_at(tuple, 2));
    assert_raised(DET_ENOTFOUND, "there is no item 2: the batch is a tuple of 2");
    assert_null(det_batch_at(tuple, 1));
    assert_raised(DET_EINVAL, "item 1 of the batch is a int, not a tensor");
    assert_null(det_batch_get(dict, "image"));
    assert_raised(DET_ENOTFOUND,
                  "no item 'image': the batch is a dict of: 'list', 'none', 'empty'");
    assert_null(det_batch_get(dict, "list"));
    assert_raised(DET_EINVAL, "item 'list' of the batch is a list, not a tensor");
    assert_null(det_batch_get(tuple, "image"));
    assert_raised(DET_ENOTFOUND, "the batch is a tuple of");
    assert_null(det_batch_at(NULL, 0));
    assert_raised(DET_ENOTFOUND, "the batch is a None");
    det_value_free(dict);
    det_value_free(tuple);
}

static void test_batch_length__is_found_at_any_depth(void **state)
{
    (void)state;
    det_err err;
    det_value *deep = nested(1), *numbers = pair(det_value_int(1), det_value_int(2));
    assert_int_equal(det_batch_length(deep, &err), 2);
    assert_int_equal(det_batch_length(numbers, &err), DET_EINVAL);
    assert_err(err, DET_EINVAL, "a batch without tensors (a tuple of 2 items) has no length");
    det_value *scalar = det_value_tensor(det_scalar(1));
    assert_int_equal(det_batch_length(scalar, &err), DET_ESHAPE);
    det_value_free(deep);
    det_value_free(numbers);
    det_value_free(scalar);
}

RUN_TESTS(TEST(test_batch__has_the_tree_of_its_samples),
          TEST(test_batch__of_plain_tensors_is_a_tensor),
          TEST(test_batch__takes_tensors_of_any_strides),
          TEST(test_batch__may_have_another_shape_than_the_one_before),
          TEST(test_samples__that_differ_are_an_error_that_says_where),
          TEST(test_collate__makes_the_batch), TEST(test_collate__may_fail),
          TEST(test_collate__works_on_samples_in_memory_too),
          TEST(test_batch_at__says_what_is_there_instead),
          TEST(test_batch_length__is_found_at_any_depth))
