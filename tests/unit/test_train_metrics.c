// Metrics: averages, reductions, custom reducers; what is best; hosts that hear of them.
#include "support/files.h"
#include "support/onevar.h"
#include "support/training.h"
#include "train/context.h"
#include "train/train.h"

static struct training_log training;
static const char *const by_4 = "{learning_rate: 0.001, global_batch_size: 4}";

static int reset(void **state)
{
    memset(&training, 0, sizeof training);
    return lab_setup(state);
}

#define METRIC_TEST(function) cmocka_unit_test_setup_teardown(function, reset, lab_teardown)

// --- reducing numbers

static void test_reduce__knows_four_kinds(void **state)
{
    (void)state;
    const double v[] = {0.25, 0.5, 0.75, 1, 25.5, 1.9}, w[] = {1, 2, 5, 4, 5, 6};
    assert_near(reduce_values(DET_COMBINE_AVG, v, NULL, 6, 1), 4.98, 0.005);
    assert_near(reduce_values(DET_COMBINE_AVG, v, w, 6, 1), 6.43, 0.005);
    assert_near(reduce_values(DET_COMBINE_SUM, v, NULL, 6, 1), 29.9, 1e-12);
    assert_near(reduce_values(DET_COMBINE_MIN, v, NULL, 6, 1), 0.25, 0);
    assert_near(reduce_values(DET_COMBINE_MAX, v, NULL, 6, 1), 25.5, 0);
    const double with_nan[] = {1, NAN, 3};
    assert_true(isnan(reduce_values(DET_COMBINE_MIN, with_nan, NULL, 3, 1)));
    assert_true(isnan(reduce_values(DET_COMBINE_MAX, with_nan, NULL, 3, 1)));
    // Ranks that have trained nothing do not count.
    assert_near(reduce_values(DET_COMBINE_AVG, (double[]){2, 99}, (double[]){3, 0}, 2, 1), 2, 0);
}

// Batches of 2 of 47 numbers, dealt out to ranks and put together again.
static void test_reducer__restores_the_order_of_the_dataset(void **state)
{
    (void)state;
    const int sizes[] = {1, 3, 9};
    for (size_t k = 0; k < N_OF(sizes); k++) {
        det_value *ranks = det_value_list();
        for (int r = 0; r < sizes[k]; r++)
            det_value_push(ranks, det_value_list());
        for (int batch = 0; batch < 24; batch++) {
            det_value *of_rank = det_value_at(ranks, batch % sizes[k]);
            det_value *list = det_value_push(of_rank, det_value_list());
            for (int i = 2 * batch; i < 47 && i < 2 * batch + 2; i++)
                det_value_push(list, det_value_float(i));
        }
        double out[47];
        int64_t n;
        assert_int_equal(reducer_interleave(ranks, out, &n, NULL), 0);
        assert_int_equal(n, 47);
        for (int i = 0; i < 47; i++)
            assert_near(out[i], i, 0);
        det_value_free(ranks);
    }
}

// --- custom reducers

struct reduced {
    struct onevar base; // first
    det_reducer *by_function;
    double sum; // of the reducer with operations
};

static double sum_all(const double *values, int64_t n, void *user)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    *(int64_t *)user += n;
    return sum;
}

static void sum_reset(void *self)
{
    ((struct reduced *)self)->sum = 0;
}

static det_value *sum_per_slot(void *self, det_err *err)
{
    (void)err;
    return det_value_float(((struct reduced *)self)->sum);
}

static int sum_cross_slot(void *self, const det_value *per_slot, det_metrics *out, det_err *err)
{
    (void)self;
    double sum = 0;
    for (int i = 0; i < det_value_len(per_slot); i++) {
        double v;
        if (det_value_as_float(det_value_at(per_slot, i), &v, err)) return err->code;
        sum += v;
    }
    det_metric(out, "by_ops", sum);
    return 0;
}

static const det_reducer_ops sum_ops = {sum_reset, sum_per_slot, sum_cross_slot};
static int64_t n_values;
static const char *ops_name;

static int reduced_init(void *self, det_context *ctx, det_err *err)
{
    struct reduced *m = self;
    m->by_function = det_wrap_reducer_fn(ctx, "by_function", sum_all, &n_values);
    det_wrap_reducer(ctx, ops_name, &sum_ops, self, .for_validation = false);
    return onevar_init(self, ctx, err);
}

static int reduced_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    struct reduced *m = self;
    double value = lab_batch_sum(step->batch) * (double)step->batch_idx;
    det_reducer_update(m->by_function, value);
    m->sum += value;
    det_metric(out, "loss", 0);
    return det_check(err);
}

static double seen[2][LOG_MAX]; // training: by function, by operations
static double seen_validation;
static int n_seen;

static void see(const det_report *r, void *user)
{
    (void)user;
    if (r->kind == DET_REPORT_VALIDATION) {
        seen_validation = det_metrics_get(r->metrics, "by_function");
        assert_true(isnan(det_metrics_get(r->metrics, "by_ops")));
    }
    if (r->kind != DET_REPORT_TRAINING) return;
    seen[0][n_seen] = det_metrics_get(r->metrics, "by_function");
    seen[1][n_seen++] = det_metrics_get(r->metrics, "by_ops");
}

static det_trial_ops reduced_ops(void)
{
    det_trial_ops ops = OneVarTrial;
    ops.size = sizeof(struct reduced);
    ops.init = reduced_init;
    ops.train_batch = ops.evaluate_batch = reduced_batch;
    return ops;
}

static void test_reducer__sees_each_workload_by_itself(void **state)
{
    (void)state;
    const double expected[] = {180, 580, 980};
    const char *names[] = {"by_ops", NULL};
    for (int k = 0; k < 2; k++) {
        n_seen = 0;
        ops_name = names[k];
        det_trial_ops ops = reduced_ops();
        det_trainer *t = lab_init(.hparams = by_4);
        train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(30),
                 .reporting_period = det_batches(10), .on_report = see);
        assert_int_equal(n_seen, 3);
        for (int i = 0; i < 3; i++) {
            assert_near(seen[0][i], expected[i], 0);
            assert_near(seen[1][i], expected[i], 0);
        }
        assert_near(seen_validation, 480, 0);
        det_trainer_free(t);
    }
}

static void test_reducer__must_report_its_name(void **state)
{
    (void)state;
    ops_name = "another";
    det_trial_ops ops = reduced_ops();
    det_trainer *t = lab_init(.hparams = by_4);
    assert_null(det_train(t, det_build_trial(t, &ops), .max_length = det_batches(3)));
    assert_raised(DET_EINVAL, "reducer 'another', cross_slot_reduce: it has a name");
    ops_name = "by_function";
    assert_null(det_build_trial(t, &ops));
    assert_raised(DET_ESTATE, "by_function is wrapped already");
    det_trainer_free(t);
}

// --- validation

static int index_batch(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self;
    const char *const names[] = {"avg", "sum", "max", "min"};
    for (int i = 0; i < 4; i++)
        det_metric(out, names[i], (double)(step->batch_idx + 1));
    return det_check(err);
}

static det_combine by_name(void *self, const char *metric)
{
    (void)self;
    switch (metric[1]) {
    case 'u':
        return DET_COMBINE_SUM;
    case 'a':
        return DET_COMBINE_MAX;
    case 'i':
        return DET_COMBINE_MIN;
    default:
        return DET_COMBINE_AVG;
    }
}

static void test_validation__reduces_as_the_trial_says(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = index_batch;
    ops.evaluation_reducer = by_name;
    det_trainer *t = lab_init(.hparams = by_4);
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(1));
    assert_near(det_metrics_get(r->validation, "avg"), 8.5, 0);
    assert_near(det_metrics_get(r->validation, "sum"), 136, 0);
    assert_near(det_metrics_get(r->validation, "max"), 16, 0);
    assert_near(det_metrics_get(r->validation, "min"), 1, 0);
    det_trainer_free(t);
}

static bool grads_were_on, was_training;

static int all_at_once(void *self, det_loader *loader, det_metrics *out, det_err *err)
{
    struct onevar *m = self;
    grads_were_on = lab_grad_enabled();
    was_training = lab_is_training(m->model);
    det_metric(out, "batches", (double)lab_engine->loader_length(loader));
    return det_check(err);
}

static void test_validation__can_be_of_the_whole_dataset(void **state)
{
    (void)state;
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = NULL;
    ops.evaluate_full_dataset = all_at_once;
    grads_were_on = was_training = true;
    det_trainer *t = lab_init(.hparams = by_4);
    const det_result *r = train_ok(t, det_build_trial(t, &ops), .max_length = det_batches(2));
    assert_near(det_metrics_get(r->validation, "batches"), 16, 0);
    assert_false(grads_were_on);
    assert_false(was_training);
    det_trainer_free(t);
}

// --- what is best

static double script[16];
static int script_at;

static int scripted(void *self, det_loader *loader, det_metrics *out, det_err *err)
{
    (void)self, (void)loader;
    det_metric(out, "score", script[script_at++]);
    return det_check(err);
}

// One validation per batch gives these scores; the result has the best, and checkpoints were made
// after these batches.
static void expect_checkpoints(det_train_opts opts, const int *batches)
{
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = NULL;
    ops.evaluate_full_dataset = scripted;
    memset(&training, 0, sizeof training);
    script_at = 0;
    opts.max_length = det_batches(6);
    opts.min_validation_period = det_batches(1);
    opts.checkpoint_dir = temp_path("best");
    opts.on_report = training_logged;
    opts.report_user = &training;
    det_trainer *t = lab_init(.hparams = by_4);
    const det_result *r = train_ok_with(t, det_build_trial(t, &ops), opts);
    int n = 0;
    for (; batches[n]; n++)
        assert_int_equal(training.checkpoint_batches[n], batches[n]);
    assert_int_equal(training.n_checkpoint, n);
    if (opts.metric) {
        assert_near(det_metrics_get(r->best_validation, "score"), opts.larger_is_better ? 9 : 1, 0);
        assert_int_equal(r->best_batches, opts.larger_is_better ? 5 : 3);
    } else {
        assert_null(r->best_validation);
    }
    det_trainer_free(t);
}

#define BATCHES(...) ((const int[]){__VA_ARGS__, 0})

static void test_policy__decides_which_validations_make_checkpoints(void **state)
{
    (void)state;
    memcpy(script, (double[]){3, 5, 1, 1, 9, 2}, 6 * sizeof *script);
    // There is always one at the end.
    expect_checkpoints((det_train_opts){.metric = "score"}, BATCHES(1, 3, 6));
    expect_checkpoints((det_train_opts){.metric = "score", .larger_is_better = true},
                       BATCHES(1, 2, 5, 6));
    expect_checkpoints((det_train_opts){.metric = "score", .checkpoint_policy = DET_CHECKPOINT_ALL},
                       BATCHES(1, 2, 3, 4, 5, 6));
    expect_checkpoints(
        (det_train_opts){.metric = "score", .checkpoint_policy = DET_CHECKPOINT_NONE}, BATCHES(6));
    expect_checkpoints((det_train_opts){0}, BATCHES(1, 2, 3, 4, 5, 6)); // nobody knows what is best
}

static void test_policy__nan_is_never_better(void **state)
{
    (void)state;
    memcpy(script, (double[]){NAN, 5, 1, NAN, NAN, 2}, 6 * sizeof *script);
    expect_checkpoints((det_train_opts){.metric = "score"}, BATCHES(1, 2, 3, 6));
}

// --- another host

struct scripted_host {
    struct host host; // first
    const int64_t *lengths;
    int n_lengths, asked;
    char trace[1024];
};

static void host_trace(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void host_trace(struct host *h, const char *fmt, ...)
{
    struct scripted_host *s = (struct scripted_host *)h;
    size_t n = strlen(s->trace);
    va_list args;
    va_start(args, fmt);
    if (n) s->trace[n++] = ' ';
    vsnprintf(s->trace + n, sizeof s->trace - n, fmt, args);
    va_end(args);
}

static int host_next(struct host *h, det_length *out, det_err *err)
{
    struct scripted_host *s = (struct scripted_host *)h;
    (void)err;
    if (s->asked == s->n_lengths) return 0;
    *out = det_batches(s->lengths[s->asked++]);
    return 1;
}

static int host_completed(struct host *h, double metric, det_err *err)
{
    (void)err;
    host_trace(h, "completed(%g)", metric);
    return 0;
}

static int host_report(struct host *h, const det_report *r, det_err *err)
{
    const char *const names[] = {"batch", "training", "validation", "checkpoint", "warning"};
    (void)err;
    host_trace(h, "%s(%d)", names[r->kind], (int)r->batches);
    return 0;
}

static bool host_should_stop(struct host *h, det_stop_reason *why)
{
    (void)h, (void)why;
    return false;
}

static void host_leave(struct host *h, enum host_exit why, const char *text)
{
    host_trace(h, "leave(%d%s%s)", why, text ? " " : "", text ? text : "");
}

static const struct host_ops scripted_host_ops = {
    .next_length = host_next,
    .completed = host_completed,
    .report = host_report,
    .should_stop = host_should_stop,
    .leave = host_leave,
};

static void check_result(const det_result *r, void *user)
{
    assert_int_equal(r->batches, 7);
    ++*(int *)user;
}

static void test_host__gives_one_length_after_the_other(void **state)
{
    (void)state;
    const int64_t lengths[] = {3, 3, 7};
    struct scripted_host host = {
        .host = {.ops = &scripted_host_ops, .metric = "score"}, .lengths = lengths, .n_lengths = 3};
    det_trial_ops ops = OneVarTrial;
    ops.evaluate_batch = NULL;
    ops.evaluate_full_dataset = scripted;
    memcpy(script, (double[]){0.5, 0.25}, 2 * sizeof *script);
    script_at = 0;
    struct arena arena = ARENA_INIT;
    struct doc *hparams = doc_new(&arena, DOC_MAP);
    doc_set(hparams, STR("learning_rate"), doc_new_double(&arena, 0.1));
    doc_set(hparams, STR("global_batch_size"), doc_new_int(&arena, 4));
    int n_results = 0;
    det_err err;
    const det_trial_entry entry = {.ops = &ops};
    const struct train_task task = {.trial = &entry,
                                    .engine = lab_engine,
                                    .hparams = hparams,
                                    .host = &host.host,
                                    .opts = {.max_length = det_batches(1)},
                                    .on_result = check_result,
                                    .result_user = &n_results};
    assert_ok(train_run(&task, &err), &err);
    assert_int_equal(n_results, 1);
    assert_string_equal(host.trace,
                        "training(3) completed(0.5) validation(3) completed(0.5) training(7) "
                        "completed(0.25) validation(7) leave(0)");
    arena_done(&arena);
}

static int fails(void *self, const det_step *step, det_metrics *out, det_err *err)
{
    (void)self, (void)step, (void)out;
    return det_fail(err, DET_EHPARAM, "too wide");
}

static void test_host__hears_why_a_trial_ends(void **state)
{
    (void)state;
    const int64_t length = 3;
    struct scripted_host host = {
        .host = {.ops = &scripted_host_ops}, .lengths = &length, .n_lengths = 1};
    det_trial_ops ops = OneVarTrial;
    ops.train_batch = fails;
    struct arena arena = ARENA_INIT;
    struct doc *hparams = doc_new(&arena, DOC_MAP);
    doc_set(hparams, STR("learning_rate"), doc_new_double(&arena, 0.1));
    doc_set(hparams, STR("global_batch_size"), doc_new_int(&arena, 4));
    const det_trial_entry entry = {.ops = &ops};
    const struct train_task task = {.trial = &entry,
                                    .engine = lab_engine,
                                    .hparams = hparams,
                                    .host = &host.host,
                                    .opts = {.max_length = det_batches(1)}};
    det_err err;
    assert_int_equal(train_run(&task, &err), DET_EHPARAM);
    assert_string_equal(host.trace, "leave(2 trial (no name), train_batch, batch 0: too wide)");
    arena_done(&arena);
}

static void test_host__local_one_appends_lines(void **state)
{
    (void)state;
    const char *path = temp_path("metrics.jsonl");
    det_trainer *t = lab_init(.hparams = "{learning_rate: 0.25, global_batch_size: 4}");
    for (int i = 0; i < 2; i++)
        train_ok(t, det_build_trial(t, &OneVarTrial), .max_length = det_batches(1),
                 .metrics_file = path);
    det_trainer_free(t);
    char text[1024] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    const char *once =
        "{\"kind\":\"training\",\"batches\":1,\"epochs\":0,\"metrics\":{\"loss\":1.0,\"weight\":0."
        "5}}\n"
        "{\"kind\":\"validation\",\"batches\":1,\"epochs\":0,\"metrics\":{\"loss\":0.25}}\n";
    assert_int_equal(n, 2 * strlen(once));
    assert_memory_equal(text, once, strlen(once));
    assert_memory_equal(text + strlen(once), once, strlen(once));
}

static const struct CMUnitTest tests[] = {
    METRIC_TEST(test_reduce__knows_four_kinds),
    METRIC_TEST(test_reducer__restores_the_order_of_the_dataset),
    METRIC_TEST(test_reducer__sees_each_workload_by_itself),
    METRIC_TEST(test_reducer__must_report_its_name),
    METRIC_TEST(test_validation__reduces_as_the_trial_says),
    METRIC_TEST(test_validation__can_be_of_the_whole_dataset),
    METRIC_TEST(test_policy__decides_which_validations_make_checkpoints),
    METRIC_TEST(test_policy__nan_is_never_better),
    METRIC_TEST(test_host__gives_one_length_after_the_other),
    METRIC_TEST(test_host__hears_why_a_trial_ends),
    METRIC_TEST(test_host__local_one_appends_lines),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, temp_remove);
}
