// A warm loop asks for no memory: a workload costs a few allocations, however long it is.
//
// The allocator of the C library is counted, which sanitizers do not allow: there, nothing is
// tested.
#include "support/tensors.h"
#include "support/training.h"

#include "det/det.h"

static long n_allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    n_allocations++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    n_allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    n_allocations++;
    return __libc_realloc(p, n);
}
#endif

struct net {
    det_context *ctx;
    det_module *model;
    det_optimizer *opt;
};

static int net_init(void *self, det_context *ctx, det_err *err)
{
    struct net *n = self;
    n->ctx = ctx;
    n->model = det_wrap_model(ctx, det_nn_sequential(det_nn_linear(8, 16), det_nn_relu(),
                                                     det_nn_dropout(0.5), det_nn_linear(16, 1)));
    n->opt = det_wrap_optimizer(ctx, det_optim_adam(n->model));
    det_wrap_lr_scheduler(ctx, det_lr_exponential(n->opt, 0.99), DET_STEP_EVERY_EPOCH, 1);
    return det_check(err);
}

static int net_train_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_tensor *y = det_forward(n->model, det_batch_at(step->batch, 0));
    det_tensor *loss = det_mse_loss(y, det_batch_at(step->batch, 1));
    det_backward_loss(n->ctx, loss);
    det_step_optimizer(n->ctx, n->opt, .clip_norm = 1);
    det_metric(out, "loss", loss);
    det_metric(out, "mean", det_mean(y));
    return det_check(err);
}

static int net_evaluate_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct net *n = self;
    det_metric(out, "mean", det_mean(det_forward(n->model, det_batch_at(step->batch, 0))));
    return det_check(err);
}

static det_loader *net_data(void *self)
{
    (void)self;
    det_tensor *x = det_randn(DET_F32, DET_DIMS(200, 8)), *y = det_randn(DET_F32, DET_DIMS(200, 1));
    return det_loader_new(det_dataset_tensors((det_tensor *const[]){x, y}, 2), .batch_size = 8,
                          .shuffle = true);
}

static const det_trial_ops net = {
    .size = sizeof(struct net),
    .init = net_init,
    .train_batch = net_train_batch,
    .evaluate_batch = net_evaluate_batch,
    .build_training_data_loader = net_data,
    .build_validation_data_loader = net_data,
};

static long at_report[8];
static int n_reports;

static void note(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_TRAINING) at_report[n_reports++] = n_allocations;
}

static void test_loop__asks_for_no_memory_when_warm(void **state)
{
    (void)state;
    det_trainer *t = det_init(.seed = 1);
    train_ok(t, det_build_trial(t, &net), .max_length = det_batches(800),
             .reporting_period = det_batches(200), .on_report = note);
    assert_int_equal(n_reports, 4);
    assert_in_range(at_report[2] - at_report[1], 0, 10); // 200 batches
    assert_in_range(at_report[3] - at_report[2], 0, 10);
    det_trainer_free(t);
}

RUN_TESTS(TEST(test_loop__asks_for_no_memory_when_warm))
