// Several trainers that train one model together. Threads stand in for processes: scopes, errors
// and random numbers belong to a thread, so they share nothing but the sums.
#include "support/accel.h"

#include <pthread.h>

enum { N = 2 };

struct meeting {
    pthread_barrier_t barrier;
    const void *mine[N];
};

struct place {
    struct meeting *meeting;
    int rank;
    det_accel *trainer;
    det_dataset *train, *eval;
    char *text;
    size_t n_text;
    det_err err;
};

// All show their numbers, add up the others', and write once everybody has read.
static void sum(void *comm, det_tensor *t)
{
    struct place *p = comm;
    struct meeting *m = p->meeting;
    m->mine[p->rank] = det_data(t);
    pthread_barrier_wait(&m->barrier);
    bool is_f64 = det_dtype_of(t) == DET_F64;
    size_t n = (size_t)det_numel(t);
    double total[64] = {0};
    assert_true(n <= 64);
    for (int r = 0; r < N; r++) {
        const void *v = m->mine[r];
        for (size_t i = 0; i < n; i++)
            total[i] += is_f64 ? ((const double *)v)[i] : (double)((const float *)v)[i];
    }
    pthread_barrier_wait(&m->barrier);
    float total32[64];
    for (size_t i = 0; i < n; i++)
        total32[i] = (float)total[i];
    det_write(t, is_f64 ? (void *)total : (void *)total32);
}

static void *train_one(void *arg)
{
    struct place *p = arg;
    FILE *out = open_memstream(&p->text, &p->n_text);
    p->trainer = small_trainer(
            .out = out, .callbacks = DET_ACCEL_CALLBACKS(det_accel_callback_print_metrics()),
            .processes = {
                .n = N, .rank = p->rank, .local_rank = p->rank, .all_reduce = sum, .comm = p});
    det_accel_train(p->trainer, p->train, &p->err, .num_epochs = 2, .per_device_batch_size = 4,
                    .keep_order = true, .eval_dataset = p->eval, .gradient_accumulation_steps = 2);
    fclose(out);
    return NULL;
}

static void run_all(struct place *place, struct meeting *meeting, det_dataset *train,
                    det_dataset *eval)
{
    pthread_t thread[N];
    pthread_barrier_init(&meeting->barrier, NULL, N);
    for (int r = 0; r < N; r++) {
        place[r] = (struct place){.meeting = meeting, .rank = r, .train = train, .eval = eval};
        pthread_create(&thread[r], NULL, train_one, &place[r]);
    }
    for (int r = 0; r < N; r++) {
        pthread_join(thread[r], NULL);
        if (place[r].err.code) fail_msg("process %d: %s", r, place[r].err.msg);
    }
    pthread_barrier_destroy(&meeting->barrier);
}

// Two with batches of 4 are one with batches of 8; only one of them prints.
static void test_processes__train_as_one(void **state)
{
    (void)state;
    det_dataset *train = pairs(64), *eval = pairs(36);
    struct place place[N];
    struct meeting meeting;
    run_all(place, &meeting, train, eval);
    det_accel *one = small_trainer();
    assert_trains(one, train, .num_epochs = 2, .per_device_batch_size = 8, .keep_order = true,
                  .eval_dataset = eval, .gradient_accumulation_steps = 2);
    assert_true(same_weights(place[0].trainer, place[1].trainer));
    assert_near(weight_distance(one, place[0].trainer), 0, 1e-6);
    for (int r = 0; r < N; r++) {
        assert_near(latest(place[r].trainer, "train_loss_epoch"), latest(one, "train_loss_epoch"),
                    1e-6);
        assert_near(latest(place[r].trainer, "eval_loss_epoch"), latest(one, "eval_loss_epoch"),
                    1e-6);
        assert_int_equal(det_accel_updates(place[r].trainer), det_accel_updates(one));
        assert_int_equal(det_accel_get_run_config(place[r].trainer)->is_world_process_zero, r == 0);
        det_accel_free(place[r].trainer);
    }
    assert_true(strstr(place[0].text, "train_loss_epoch") && place[1].n_text == 0);
    assert_non_null(strstr(place[0].text, "warning: the last evaluation batch"));
    free(place[0].text);
    free(place[1].text);
    det_accel_free(one);
    det_dataset_free(train);
    det_dataset_free(eval);
}

static void test_processes__refuses_what_cannot_work(void **state)
{
    (void)state;
    det_module *net = small_net();
    assert_null(det_accel_new(net, det_mse_loss_with, det_optim_adam(net), .processes = {.n = 2}));
    assert_raised(DET_EINVAL, "2 processes need a function all_reduce");
    net = small_net();
    assert_null(det_accel_new(net, det_mse_loss_with, det_optim_adam(net),
                              .processes = {.n = 2, .rank = 2, .all_reduce = sum}));
    assert_raised(DET_EINVAL, "process 2 of 2");
}

RUN_TESTS(TEST(test_processes__train_as_one), TEST(test_processes__refuses_what_cannot_work))
