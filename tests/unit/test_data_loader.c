#include "support/loading.h"

static struct heard a, b;

static void assert_everything_once(const struct heard *h, int64_t n)
{
    char seen[LOADING_MAX] = {0};
    assert_int_equal(h->n, n);
    for (int i = 0; i < h->n; i++)
        assert_false(seen[h->index[i]]++);
}

// --- batches

static void test_loader__cuts_an_epoch_into_batches(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(10), .batch_size = 4);
    assert_int_equal(det_loader_length(l), 3);
    assert_int_equal(det_loader_samples(l), 10);
    assert_int_equal(det_loader_batch_size(l), 4);
    assert_int_equal(det_dataset_length(det_loader_dataset(l)), 10);
    det_iter *it = det_loader_iter(l);
    assert_int_equal(det_iter_length(it), 3);
    hear(&a, it, 100);
    assert_heard(&a, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    assert_int_equal(a.n_batches, 3);
    assert_int_equal(a.size[2], 2);
    assert_int_equal(det_iter_position(it), 3);
    det_err err;
    assert_null(det_iter_next(it, &err));
    assert_int_equal(err.code, 0);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_loader__leaves_the_short_batch_out(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_dataset(10, -1), .batch_size = 4, .drop_last = true);
    assert_int_equal(det_loader_length(l), 2);
    det_iter *it = det_loader_iter(l);
    hear(&a, it, 100);
    assert_heard(&a, 0, 1, 2, 3, 4, 5, 6, 7);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_loader__may_borrow_its_dataset(void **state)
{
    (void)state;
    det_dataset *d = counting_tensors(3);
    det_loader_free(det_loader_new(d, .borrow_dataset = true));
    assert_null(det_loader_new(d, .batch_size = -1, .borrow_dataset = true));
    assert_raised(DET_EINVAL, "batch_size is negative");
    assert_int_equal(det_dataset_length(d), 3);
    det_dataset_free(d);
}

static void test_loader__takes_one_sample_a_batch_by_default(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(3));
    det_iter *it = det_loader_iter(l);
    hear(&a, it, 100);
    assert_int_equal(a.n_batches, 3);
    assert_heard(&a, 0, 1, 2);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_loader__of_nothing_has_no_batches(void **state)
{
    (void)state;
    det_loader *l =
        det_loader_new(counting_dataset(0, -1), .batch_size = 4, .shuffle = true, .num_workers = 2);
    det_err err;
    det_iter *it = det_loader_iter(l);
    assert_int_equal(det_loader_length(l), 0);
    assert_null(det_iter_next(it, &err));
    assert_int_equal(err.code, 0);
    assert_null(det_loader_iter(l, .repeat = true));
    assert_raised(DET_EINVAL, "nothing to repeat: 0 samples are no batch of 4");
    det_iter_free(it);
    det_loader_free(l);
}

// --- order

struct order_case {
    bool user, shuffle;
    int workers, prefetch;
};

static void hear_case(struct heard *h, struct order_case c)
{
    det_loader *l = det_loader_new(c.user ? counting_dataset(103, -1) : counting_tensors(103),
                                   .batch_size = 8, .shuffle = c.shuffle, .num_workers = c.workers,
                                   .prefetch = c.prefetch, .seed = 5);
    det_iter *it = det_loader_iter(l, .repeat = true);
    hear(h, it, 40); // three epochs of 13 batches, and one batch
    assert_int_equal(h->n, 3 * 103 + 8);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_order__is_the_same_for_any_workers_prefetch_and_kind_of_dataset(void **state)
{
    (void)state;
    static const struct order_case cases[] = {{false, true, 1, 1}, {false, true, 2, 0},
                                              {false, true, 5, 3}, {true, true, 0, 0},
                                              {true, true, 1, 7},  {true, true, 4, 1}};
    hear_case(&a, (struct order_case){.shuffle = true});
    for (size_t i = 0; i < N_OF(cases); i++) {
        hear_case(&b, cases[i]);
        assert_same(&a, &b);
    }
}

static void test_order__differs_between_epochs_and_seeds(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(64), .batch_size = 64, .shuffle = true);
    det_iter *it = det_loader_iter(l, .repeat = true);
    hear(&a, it, 1);
    hear(&b, it, 1);
    det_iter_free(it);
    assert_everything_once(&a, 64);
    assert_everything_once(&b, 64);
    assert_memory_not_equal(a.index, b.index, sizeof(int64_t) * 64);
    it = det_loader_iter(l, .epoch = 1);
    hear(&a, it, 1);
    assert_same(&a, &b);
    det_iter_free(it);
    det_loader_set_seed(l, 9);
    assert_int_equal(det_loader_seed(l), 9);
    it = det_loader_iter(l, .epoch = 1);
    hear(&a, it, 1);
    assert_memory_not_equal(a.index, b.index, sizeof(int64_t) * 64);
    det_iter_free(it);
    det_loader_free(l);
}

// --- repeat, shard, skip

static void hear_rank(struct heard *h, det_dataset *d, int batch, int replicas, int rank)
{
    det_loader *l = det_loader_new(d, .batch_size = batch);
    det_iter *it = det_loader_iter(l, .replicas = replicas, .rank = rank);
    hear(h, it, 100);
    assert_int_equal(det_iter_length(it), h->n_batches);
    det_iter_free(it);
    det_loader_free(l);
}

// Vectors of the original platform's DistributedSampler and DistributedBatchSampler.
static void test_shards__of_19_samples_over_4_ranks(void **state)
{
    (void)state;
    hear_rank(&a, counting_tensors(19), 1, 4, 0);
    assert_heard(&a, 0, 4, 8, 12, 16);
    hear_rank(&a, counting_tensors(19), 1, 4, 1);
    assert_heard(&a, 1, 5, 9, 13, 17);
    hear_rank(&a, counting_tensors(19), 1, 4, 2);
    assert_heard(&a, 2, 6, 10, 14, 18);
    hear_rank(&a, counting_tensors(19), 1, 4, 3);
    assert_heard(&a, 3, 7, 11, 15);
}

static void test_shards__of_batches_of_2_of_19_over_4_ranks(void **state)
{
    (void)state;
    hear_rank(&a, counting_tensors(19), 2, 4, 0);
    assert_heard(&a, 0, 1, 8, 9, 16, 17);
    hear_rank(&a, counting_tensors(19), 2, 4, 1);
    assert_heard(&a, 2, 3, 10, 11, 18);
    hear_rank(&a, counting_tensors(19), 2, 4, 2);
    assert_heard(&a, 4, 5, 12, 13);
    hear_rank(&a, counting_tensors(19), 2, 4, 3);
    assert_heard(&a, 6, 7, 14, 15);
}

// The reproducible shuffle of five batches of two shuffles batches as it shuffles five samples.
static void test_batches_of_pairs__follow_the_numpy_shuffle(void **state)
{
    (void)state;
    det_tensor *x = det_view(det_arange(DET_F32, 0, 10, 1), DET_DIMS(5, 2));
    det_dataset *pairs = det_dataset_tensors(&x, 1);
    det_loader *l = det_loader_new(pairs, .sampler = det_sampler_numpy_shuffle(5, 777));
    det_iter *it = det_loader_iter(l, .repeat = true);
    static const float expected[] = {0, 8, 2, 4, 6, 4, 0, 2, 6, 8};
    for (size_t i = 0; i < N_OF(expected); i++) {
        det_tensor *pair = det_batch_at(det_iter_next(it, NULL), 0);
        assert_values(pair, expected[i], expected[i] + 1);
    }
    det_iter_free(it);
    det_loader_free(l);
}

static void test_skip__leaves_batches_out_and_keeps_the_length(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(15));
    det_iter *it = det_loader_iter(l, .skip = 2);
    assert_int_equal(det_iter_length(it), 15);
    assert_int_equal(det_iter_position(it), 2);
    hear(&a, it, 100);
    assert_heard(&a, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
    det_iter_free(it);
    it = det_loader_iter(l, .skip = 16);
    assert_null(det_iter_next(it, NULL));
    det_iter_free(it);
    det_loader_free(l);

    l = det_loader_new(counting_tensors(15), .batch_size = 2, .num_workers = 2);
    it = det_loader_iter(l, .skip = 2);
    assert_int_equal(det_iter_length(it), 8);
    hear(&a, it, 100);
    assert_int_equal(a.index[0], 4);
    assert_int_equal(a.n, 11);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_skip__resumes_in_any_epoch_of_any_rank(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++)
        for (int64_t position = 0; position < 25; position++) {
            det_loader *l = det_loader_new(counting_tensors(50), .batch_size = 4, .shuffle = true,
                                           .num_workers = rank);
            det_iter_opts opts = {.repeat = true, .replicas = 3, .rank = rank, .epoch = 7};
            det_iter *it = det_loader_iter_with(l, opts);
            hear(&a, it, (int)position);
            opts.skip = det_iter_position(it);
            assert_int_equal(opts.skip, position);
            det_iter *resumed = det_loader_iter_with(l, opts);
            hear(&a, it, 5);
            hear(&b, resumed, 5);
            assert_same(&a, &b);
            det_iter_free(it);
            det_iter_free(resumed);
            det_loader_free(l);
        }
}

static void test_limit__takes_the_first_batches_of_each_epoch(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        det_loader *l = det_loader_new(counting_tensors(50), .batch_size = 4, .shuffle = true,
                                       .num_workers = rank);
        det_iter_opts all = {.replicas = 2, .rank = rank}, some = all;
        some.limit = 3;
        some.repeat = true;
        det_iter *it = det_loader_iter_with(l, some);
        assert_int_equal(det_iter_length(it), 3);
        for (all.epoch = 0; all.epoch < 3; all.epoch++) {
            det_iter *whole = det_loader_iter_with(l, all);
            hear(&a, whole, 3);
            hear(&b, it, 3);
            assert_same(&a, &b);
            det_iter_free(whole);
        }
        det_iter_free(it);
        it = det_loader_iter(l, .limit = 100);
        assert_int_equal(det_iter_length(it), 13);
        det_iter_free(it);
        assert_null(det_loader_iter(l, .limit = -1));
        assert_raised(DET_EINVAL, "limit is -1");
        det_loader_free(l);
    }
}

static void test_skip__is_immediate(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(3), .batch_size = 2, .shuffle = true);
    det_iter *it = det_loader_iter(l, .repeat = true, .skip = (int64_t)1 << 60);
    hear(&a, it, 2); // 2^60 is even: a first and a second batch of some epoch
    assert_everything_once(&a, 3);
    det_iter_free(it);
    det_loader_free(l);
}

// Ranks that share a global batch of 12 see at each step the samples that one rank would see.
static void test_ranks__share_the_global_batch(void **state)
{
    (void)state;
    det_loader *whole = det_loader_new(counting_tensors(120), .batch_size = 12, .shuffle = true);
    det_iter *it = det_loader_iter(whole, .repeat = true);
    hear(&a, it, 30);
    det_iter_free(it);
    det_loader_free(whole);
    for (int replicas = 2; replicas <= 4; replicas++)
        for (int rank = 0; rank < replicas; rank++) {
            int share = 12 / replicas;
            det_loader *l = det_loader_new(counting_tensors(120), .batch_size = share,
                                           .shuffle = true, .num_workers = rank);
            it = det_loader_iter(l, .repeat = true, .replicas = replicas, .rank = rank);
            hear(&b, it, 30);
            for (int step = 0; step < 30; step++)
                assert_memory_equal(b.index + step * share, a.index + step * 12 + rank * share,
                                    (size_t)share * sizeof(int64_t));
            det_iter_free(it);
            det_loader_free(l);
        }
}

static void test_ranks__repeat_before_they_share(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(3));
    det_iter *it = det_loader_iter(l, .repeat = true, .replicas = 2, .rank = 1);
    hear(&a, it, 6);
    assert_heard(&a, 1, 0, 2, 1, 0, 2);
    assert_int_equal(det_iter_length(it), 1);
    det_iter_free(it);
    det_loader_free(l);
}

// --- options that contradict each other

static void test_loader__refuses_contradictions(void **state)
{
    (void)state;
    assert_null(det_loader_new(NULL));
    assert_raised(DET_EINVAL, "det_loader_new: the dataset is NULL");
    assert_null(det_loader_new(counting_tensors(3), .batch_size = -1));
    assert_raised(DET_EINVAL, "batch_size is negative");
    assert_null(det_loader_new(counting_tensors(3), .num_workers = -1));
    assert_raised(DET_EINVAL, "num_workers is negative");
    assert_null(det_loader_new(counting_tensors(3), .prefetch = 2));
    assert_raised(DET_EINVAL, "prefetch needs workers, but num_workers is 0");
    assert_null(
        det_loader_new(counting_tensors(3), .shuffle = true, .sampler = det_sampler_sequential(3)));
    assert_raised(DET_EINVAL, "shuffle and sampler exclude each other");
}

static void test_iter__refuses_ranks_that_do_not_exist(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(3));
    assert_null(det_loader_iter(l, .replicas = 2, .rank = 2));
    assert_raised(DET_EINVAL, "rank 2 of 2");
    assert_null(det_loader_iter(l, .replicas = 2, .rank = -1));
    assert_raised(DET_EINVAL, "rank -1 of 2");
    assert_null(det_loader_iter(l, .replicas = -1));
    assert_raised(DET_EINVAL, "rank 0 of -1");
    assert_null(det_loader_iter(l, .skip = -1));
    assert_raised(DET_EINVAL, "skip is -1");
    assert_null(det_loader_iter(NULL));
    assert_raised(DET_EINVAL, "the loader is NULL");
    det_loader_free(l);
}

// --- failures

static void assert_fails_at(int workers, int64_t broken)
{
    det_err err;
    det_loader *l =
        det_loader_new(counting_dataset(20, broken), .batch_size = 3, .num_workers = workers);
    det_iter *it = det_loader_iter(l);
    for (int64_t i = 0; i < broken / 3; i++)
        assert_non_null(det_iter_next(it, &err));
    for (int again = 0; again < 2; again++) {
        assert_null(det_iter_next(it, &err));
        char text[64];
        snprintf(text, sizeof text, "sample %d: 'file-%d.jpg' is broken", (int)broken, (int)broken);
        assert_err(err, DET_EIO, text);
        assert_int_equal(det_iter_position(it), broken / 3);
    }
    det_iter_free(it);
    det_loader_free(l);
}

static void test_failure__reaches_the_consumer_in_its_place(void **state)
{
    (void)state;
    for (int workers = 0; workers < 4; workers++)
        for (int64_t broken = 0; broken < 20; broken += 4)
            assert_fails_at(workers, broken);
}

static void test_failure__of_a_sampler_names_the_index(void **state)
{
    (void)state;
    det_err err;
    det_loader *l =
        det_loader_new(counting_tensors(3), .sampler = det_sampler_sequential(5), .batch_size = 2);
    det_iter *it = det_loader_iter(l);
    assert_non_null(det_iter_next(it, &err));
    assert_null(det_iter_next(it, &err));
    assert_err(err, DET_EINVAL,
               "the sampler gave index 3 at place 3 of epoch 0; the dataset has 3");
    det_iter_free(it);
    det_loader_free(l);
}

static det_value *raising_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    (void)self, (void)draw, (void)err;
    det_tensor *x = det_ones(DET_F32, DET_DIMS(2, 2));
    if (index == 1) x = det_matmul(x, det_ones(DET_F32, DET_DIMS(3, 3)));
    return x ? det_value_tensor(x) : NULL;
}

static int64_t two(void *self)
{
    (void)self;
    return 2;
}

static void test_failure__may_be_a_sticky_error_of_the_dataset(void **state)
{
    (void)state;
    det_err err;
    det_dataset_ops ops = {.length = two, .item = raising_item};
    for (int workers = 0; workers < 2; workers++) {
        det_loader *l = det_loader_new(det_dataset_new(&ops, NULL), .num_workers = workers);
        det_iter *it = det_loader_iter(l);
        assert_non_null(det_iter_next(it, &err));
        assert_null(det_iter_next(it, &err));
        assert_err(err, DET_ESHAPE, "sample 1: matmul");
        det_iter_free(it);
        det_loader_free(l);
    }
}

static det_value *silent_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    (void)self, (void)index, (void)draw, (void)err;
    return NULL;
}

static void test_failure__without_a_reason_is_one_too(void **state)
{
    (void)state;
    det_err err;
    det_dataset_ops ops = {.length = two, .item = silent_item};
    det_loader *l = det_loader_new(det_dataset_new(&ops, NULL));
    det_iter *it = det_loader_iter(l);
    assert_null(det_iter_next(it, &err));
    assert_err(err, DET_EINVAL, "sample 0: the dataset gave no sample and no reason");
    det_iter_free(it);
    det_loader_free(l);
}

// --- batches that the consumer keeps

static void test_batch__kept_by_the_consumer_stays_as_it_was(void **state)
{
    (void)state;
    for (int workers = 0; workers < 3; workers++) {
        det_loader *l =
            det_loader_new(counting_tensors(40), .batch_size = 2, .num_workers = workers);
        det_iter *it = det_loader_iter(l);
        det_tensor *kept[20], *view[20];
        for (int i = 0; i < 20; i++) {
            det_tensor *x = det_batch_at(det_iter_next(it, NULL), 0);
            kept[i] = i % 2 ? det_ref(x) : NULL;
            view[i] = i % 2 ? NULL : det_ref(det_view(x, DET_DIMS(2, 1)));
        }
        for (int i = 0; i < 20; i++)
            assert_values(i % 2 ? kept[i] : view[i], 2.0f * (float)i, 2.0f * (float)i + 1);
        for (int i = 0; i < 20; i++) {
            det_unref(kept[i]);
            det_unref(view[i]);
        }
        det_iter_free(it);
        det_loader_free(l);
    }
}

static void test_batch__may_be_differentiated(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_tensors(4), .batch_size = 2);
    det_iter *it = det_loader_iter(l);
    for (int i = 0; i < 2; i++) {
        det_scope_begin();
        det_tensor *x = det_batch_at(det_iter_next(it, NULL), 0);
        assert_false(det_has_requires_grad(x));
        assert_null(det_grad(x));
        det_backward(det_sum(det_mul(det_requires_grad(x, true), x)));
        assert_values(det_grad(x), 4.0f * (float)i, 4.0f * (float)i + 2);
        det_scope_end();
    }
    det_iter_free(it);
    det_loader_free(l);
}

static void test_batch__memory_is_used_again(void **state)
{
    (void)state;
    for (int workers = 0; workers < 2; workers++) {
        det_loader *l = det_loader_new(counting_tensors(400), .batch_size = 4, .shuffle = true,
                                       .num_workers = workers, .prefetch = workers);
        det_iter *it = det_loader_iter(l, .repeat = true);
        const void *seen[3] = {0};
        int n_seen = 0;
        for (int i = 0; i < 300; i++) {
            const void *at = det_data(det_batch_at(det_iter_next(it, NULL), 0));
            bool known = false;
            for (int k = 0; k < n_seen; k++)
                known = known || seen[k] == at;
            if (known) continue;
            assert_in_range(n_seen, 0, workers);
            seen[n_seen++] = at;
        }
        det_iter_free(it);
        det_loader_free(l);
    }
}

static void test_iterators__of_one_loader_are_independent(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_dataset(30, -1), .batch_size = 3, .shuffle = true,
                                   .num_workers = 1);
    det_iter *first = det_loader_iter(l), *second = det_loader_iter(l);
    struct heard *h = calloc(2, sizeof *h);
    for (int i = 0; i < 10; i++) {
        hear_batch(&h[0], det_iter_next(first, NULL));
        hear_batch(&h[1], det_iter_next(second, NULL));
    }
    assert_same(&h[0], &h[1]);
    assert_everything_once(&h[0], 30);
    free(h);
    det_iter_free(first);
    det_iter_free(second);
    det_loader_free(l);
}

static void test_iter__may_be_left_at_any_time(void **state)
{
    (void)state;
    det_loader *l = det_loader_new(counting_dataset(100, -1), .batch_size = 3, .num_workers = 3);
    for (int n = 0; n < 20; n++) {
        det_iter *it = det_loader_iter(l, .repeat = true);
        hear(&a, it, n);
        det_iter_free(it);
    }
    det_iter_free(NULL);
    det_loader_free(l);
    det_loader_free(NULL);
}

// --- randomness

static det_value *random_item(void *self, int64_t index, const det_draw *draw, det_err *err)
{
    (void)self, (void)index, (void)err;
    det_value *v = det_value_tuple();
    det_value_push(v, det_value_tensor(det_rand(DET_F32, DET_DIMS(2))));
    det_value_push(v, det_value_float(det_draw_unit(draw, 0)));
    det_value_push(v, det_value_float(det_draw_normal(draw, 0)));
    return v;
}

static int64_t twenty(void *self)
{
    (void)self;
    return 20;
}

static void random_epoch(int workers, uint64_t seed, uint64_t epoch, float *out)
{
    det_dataset_ops ops = {.length = twenty, .item = random_item};
    det_loader *l = det_loader_new(det_dataset_new(&ops, NULL), .batch_size = 20,
                                   .num_workers = workers, .seed = seed);
    det_iter *it = det_loader_iter(l, .epoch = epoch);
    const det_value *batch = det_iter_next(it, NULL);
    memcpy(out, det_data_f32(det_batch_at(batch, 0)), 40 * sizeof *out);
    memcpy(out + 40, det_data_f32(det_batch_at(batch, 1)), 20 * sizeof *out);
    memcpy(out + 60, det_data_f32(det_batch_at(batch, 2)), 20 * sizeof *out);
    det_iter_free(it);
    det_loader_free(l);
}

static void test_randomness__depends_on_seed_epoch_and_place_alone(void **state)
{
    (void)state;
    float x[80], y[80];
    random_epoch(0, 1, 2, x);
    random_epoch(2, 1, 2, y);
    assert_memory_equal(x, y, sizeof x);
    random_epoch(0, 1, 3, y);
    for (int i = 0; i < 80; i++)
        assert_true(x[i] != y[i]);
    random_epoch(0, 2, 2, y);
    for (int i = 0; i < 80; i++)
        assert_true(x[i] != y[i]);
    for (int i = 0; i < 80; i++)
        for (int k = 0; k < i; k++)
            assert_true(x[i] != x[k]);
}

static void test_randomness__of_the_caller_is_left_alone(void **state)
{
    (void)state;
    det_manual_seed(4);
    det_rng_state before = det_get_rng_state();
    float x[80];
    random_epoch(0, 1, 1, x);
    det_rng_state after = det_get_rng_state();
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(det_grad_enabled());
}

RUN_TESTS(TEST(test_loader__cuts_an_epoch_into_batches),
          TEST(test_loader__leaves_the_short_batch_out),
          TEST(test_loader__takes_one_sample_a_batch_by_default),
          TEST(test_loader__of_nothing_has_no_batches),
          TEST(test_order__is_the_same_for_any_workers_prefetch_and_kind_of_dataset),
          TEST(test_order__differs_between_epochs_and_seeds),
          TEST(test_shards__of_19_samples_over_4_ranks),
          TEST(test_shards__of_batches_of_2_of_19_over_4_ranks),
          TEST(test_batches_of_pairs__follow_the_numpy_shuffle),
          TEST(test_skip__leaves_batches_out_and_keeps_the_length),
          TEST(test_skip__resumes_in_any_epoch_of_any_rank),
          TEST(test_limit__takes_the_first_batches_of_each_epoch), TEST(test_skip__is_immediate),
          TEST(test_ranks__share_the_global_batch), TEST(test_ranks__repeat_before_they_share),
          TEST(test_loader__may_borrow_its_dataset), TEST(test_loader__refuses_contradictions),
          TEST(test_iter__refuses_ranks_that_do_not_exist),
          TEST(test_failure__reaches_the_consumer_in_its_place),
          TEST(test_failure__of_a_sampler_names_the_index),
          TEST(test_failure__may_be_a_sticky_error_of_the_dataset),
          TEST(test_failure__without_a_reason_is_one_too),
          TEST(test_batch__kept_by_the_consumer_stays_as_it_was),
          TEST(test_batch__may_be_differentiated), TEST(test_batch__memory_is_used_again),
          TEST(test_iterators__of_one_loader_are_independent),
          TEST(test_iter__may_be_left_at_any_time),
          TEST(test_randomness__depends_on_seed_epoch_and_place_alone),
          TEST(test_randomness__of_the_caller_is_left_alone))
