// tests/support/accel.h: a small problem for trainers: which of two numbers is larger?
#pragma once

#include "support/tensors.h"

#include "det/accelerated.h"

// n samples ((2) f32, class i64), always the same.
static inline det_dataset *pairs(int64_t n)
{
    float x[256][2];
    int64_t y[256];
    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++) {
        x[i][0] = (float)((i * 37) % 101) / 50 - 1;
        x[i][1] = (float)((i * 53) % 97) / 48 - 1;
        y[i] = x[i][0] < x[i][1];
    }
    det_scope_begin();
    det_tensor *t[] = {det_from(DET_F32, DET_DIMS(n, 2), x), det_from(DET_I64, DET_DIMS(n), y)};
    det_dataset *d = det_dataset_tensors(t, 2);
    det_scope_end();
    return d;
}

static inline det_module *small_net(void)
{
    det_manual_seed(7);
    return det_nn_sequential(det_nn_linear(2, 8), det_nn_relu(), det_nn_linear(8, 2));
}

// A trainer that is silent unless .out or .callbacks say otherwise.
#define small_trainer(...) small_trainer_of(DET_ACCEL_OPTS(__VA_ARGS__))

static inline det_accel *small_trainer_of(det_accel_opts opts)
{
    static det_accel_callback *const none[1];
    if (!opts.callbacks.items) opts.callbacks.items = none;
    det_module *net = small_net();
    det_accel *t =
        det_accel_new_with(net, det_cross_entropy_with, det_optim_sgd(net, .lr = 0.1), opts);
    assert_fine();
    return t;
}

// One whose every part has a state that matters: random numbers, running averages, moments.
static inline det_accel *dropout_trainer(det_accel_opts opts)
{
    det_manual_seed(7);
    det_module *net = det_nn_sequential(det_nn_linear(2, 16), det_nn_batch_norm1d(16),
                                        det_nn_relu(), det_nn_dropout(0.3), det_nn_linear(16, 2));
    det_accel *t =
        det_accel_new_with(net, det_cross_entropy_with, det_optim_adam(net, .lr = 0.01), opts);
    assert_fine();
    return t;
}

// The sticky error of what is tried: err gets it, its code is the result.
#define try_train(trainer, dataset, err, ...) \
    ((void)det_accel_train(trainer, dataset, __VA_ARGS__), det_check(err))
#define try_evaluate(trainer, dataset, err, ...) \
    ((void)det_accel_evaluate(trainer, dataset, __VA_ARGS__), det_check(err))
#define try_save_checkpoint(trainer, path, err, ...) \
    ((void)det_accel_save_checkpoint(trainer, path, __VA_ARGS__), det_check(err))
#define try_load_checkpoint(trainer, path, err, ...) \
    ((void)det_accel_load_checkpoint(trainer, path, __VA_ARGS__), det_check(err))
#define try_save_training_state(trainer, path, err) \
    ((void)det_accel_save_training_state(trainer, path), det_check(err))

#define assert_trains(trainer, dataset, ...)                       \
    do {                                                           \
        det_err trains_err;                                        \
        if (try_train(trainer, dataset, &trains_err, __VA_ARGS__)) \
            fail_msg("train: %s", trains_err.msg);                 \
    } while (0)

static inline double latest(det_accel *t, const char *metric)
{
    return det_accel_history_latest(det_accel_run_history(t), metric);
}

static inline int n_values(det_accel *t, const char *metric)
{
    int n;
    det_accel_history_values(det_accel_run_history(t), metric, &n);
    return n;
}

// All parameters are the same to the last bit.
static inline bool same_weights(det_accel *a, det_accel *b)
{
    det_module *m = det_accel_model(a), *n = det_accel_model(b);
    bool same = det_module_n_params(m) == det_module_n_params(n);
    for (int i = 0; same && i < det_module_n_params(m); i++) {
        det_tensor *p = det_module_param(m, i), *q = det_module_param(n, i);
        same = !memcmp(det_data(p), det_data(q), (size_t)det_numel(p) * sizeof(float));
    }
    return same;
}

static inline void assert_same_history(det_accel *a, det_accel *b)
{
    det_accel_history *h = det_accel_run_history(a), *k = det_accel_run_history(b);
    assert_int_equal(det_accel_history_n_metrics(h), det_accel_history_n_metrics(k));
    for (int i = 0; i < det_accel_history_n_metrics(h); i++) {
        const char *name = det_accel_history_name(h, i);
        int n, m;
        const double *v = det_accel_history_values(h, name, &n),
                     *w = det_accel_history_values(k, name, &m);
        assert_int_equal(n, m);
        assert_memory_equal(v, w, (size_t)n * sizeof *v);
    }
    assert_int_equal(det_accel_history_current_epoch(h), det_accel_history_current_epoch(k));
}

// The largest difference of a parameter.
static inline double weight_distance(det_accel *a, det_accel *b)
{
    double max = 0;
    for (int i = 0; i < det_module_n_params(det_accel_model(a)); i++) {
        det_tensor *p = det_module_param(det_accel_model(a), i);
        const float *v = det_data_f32(p),
                    *w = det_data_f32(det_module_param(det_accel_model(b), i));
        for (int64_t k = 0; k < det_numel(p); k++)
            max = fmax(max, fabs((double)v[k] - (double)w[k]));
    }
    return max;
}
