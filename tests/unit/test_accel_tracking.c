// What is remembered of a run: metrics, mean losses, right and wrong answers.
#include "accel/accel.h"
#include "support/tensors.h"

static void test_history__keeps_values_in_order(void **state)
{
    (void)state;
    det_accel_history *h = det_accel_history_new();
    assert_int_equal(det_accel_history_current_epoch(h), 1);
    for (int i = 0; i < 40; i++)
        det_accel_history_update(h, "loss", i);
    det_accel_history_update(h, "accuracy", 0.5);
    int n;
    const double *v = det_accel_history_values(h, "loss", &n);
    assert_int_equal(n, 40);
    assert_near(v[17], 17, 0);
    assert_near(det_accel_history_latest(h, "loss"), 39, 0);
    assert_int_equal(det_accel_history_n_metrics(h), 2);
    assert_string_equal(det_accel_history_name(h, 1), "accuracy");
    assert_null(det_accel_history_name(h, 2));
    det_accel_history_delete(h, "loss");
    assert_string_equal(det_accel_history_name(h, 0), "accuracy");
    assert_null(det_accel_history_values(h, "loss", &n));
    assert_int_equal(n, 0);
    det_accel_history_free(h);
}

static void test_history__names_what_there_is(void **state)
{
    (void)state;
    det_accel_history *h = det_accel_history_new();
    assert_true(isnan(det_accel_history_latest(h, "loss")));
    assert_raised(DET_ENOTFOUND, "no metric 'loss'; there are: none yet");
    det_accel_history_update(h, "a", 1);
    det_accel_history_update(h, "b", 1);
    det_accel_history_latest(h, "loss");
    assert_raised(DET_ENOTFOUND, "there are: a, b");
    det_accel_history_free(h);
}

static void test_history__counts_epochs_and_forgets(void **state)
{
    (void)state;
    det_accel_history *h = det_accel_history_new();
    det_accel_history_update(h, "a", 1);
    det_accel_history_set_epoch(h, 5); // resumed
    det_accel_history_set_epoch(h, det_accel_history_current_epoch(h) + 1);
    assert_int_equal(det_accel_history_current_epoch(h), 6);
    det_accel_history_reset(h);
    assert_int_equal(det_accel_history_current_epoch(h), 1);
    assert_int_equal(det_accel_history_n_metrics(h), 0);
    det_accel_history_free(h);
    det_accel_history_free(NULL);
    assert_int_equal(det_accel_history_n_metrics(NULL), 0);
}

static void test_history__puts_a_prefix_before_names(void **state)
{
    (void)state;
    det_accel_history *h = det_accel_history_new();
    assert_null(det_accel_history_set_prefix(h, "ema_"));
    det_accel_history_update(h, "loss", 3);
    assert_string_equal(det_accel_history_set_prefix(h, NULL), "ema_");
    det_accel_history_update(h, "loss", 4);
    assert_near(det_accel_history_latest(h, "ema_loss"), 3, 0);
    assert_near(det_accel_history_latest(h, "loss"), 4, 0);
    det_accel_history_free(h);
}

static void test_loss_tracker__weighs_by_samples(void **state)
{
    (void)state;
    static const double losses[] = {105.5, 94.7, 98.0, 55.2, 32.5};
    static const int64_t sizes[] = {64, 32, 16, 8, 4};
    struct loss_tracker plain = {0}, weighted = {0};
    assert_true(isnan(loss_tracker_average(&plain)));
    for (int i = 0; i < 5; i++) {
        loss_tracker_update(&plain, losses[i], 1);
        loss_tracker_update(&weighted, losses[i], sizes[i]);
    }
    assert_near(loss_tracker_average(&plain), 77.18, 1e-12);
    assert_near(loss_tracker_average(&weighted), 96.14516129, 1e-8);
}

static det_tensor *labels(const int64_t *values, int64_t n)
{
    return det_from(DET_I64, DET_DIMS(n), values);
}

#define LABELS(...) \
    labels((const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// Class 3 never occurs and does not count; class 2 is predicted but not there.
static void test_confusion__averages_over_classes(void **state)
{
    (void)state;
    det_confusion *c = det_confusion_new(4);
    assert_true(isnan(det_confusion_accuracy(c)));
    det_confusion_update(c, LABELS(0, 0, 1), LABELS(0, 1, 1));
    det_confusion_update(c, LABELS(2, 0), LABELS(1, 0));
    assert_int_equal(det_confusion_count(c, 0, 1), 1);
    assert_int_equal(det_confusion_count(c, 0, 0), 2);
    assert_near(det_confusion_accuracy(c), 3.0 / 5, 1e-15);
    assert_near(det_confusion_precision(c, DET_AVERAGE_MICRO), 3.0 / 5, 1e-15);
    assert_near(det_confusion_recall(c, DET_AVERAGE_MICRO), 3.0 / 5, 1e-15);
    assert_near(det_confusion_precision(c, DET_AVERAGE_MACRO), (2.0 / 3 + 1 + 0) / 3, 1e-15);
    assert_near(det_confusion_recall(c, DET_AVERAGE_MACRO), (1 + 1.0 / 3 + 0) / 3, 1e-15);
    det_confusion_reset(c);
    assert_int_equal(det_confusion_count(c, 0, 0), 0);
    det_confusion_free(c);
}

static void test_confusion__refuses_what_does_not_fit(void **state)
{
    (void)state;
    assert_null(det_confusion_new(0));
    assert_raised(DET_EINVAL, "n_classes");
    det_confusion *c = det_confusion_new(2);
    det_confusion_update(c, LABELS(0, 1), LABELS(0));
    assert_raised(DET_ESHAPE, "2 predictions for 1 targets");
    det_confusion_update(c, LABELS(0), LABELS(2));
    assert_raised(DET_EINVAL, "target 2");
    det_confusion_update(NULL, NULL, NULL);
    assert_true(isnan(det_confusion_recall(NULL, DET_AVERAGE_MACRO)));
    det_check(NULL);
    det_confusion_free(c);
}

RUN_TESTS(TEST(test_history__keeps_values_in_order), TEST(test_history__names_what_there_is),
          TEST(test_history__counts_epochs_and_forgets),
          TEST(test_history__puts_a_prefix_before_names),
          TEST(test_loss_tracker__weighs_by_samples), TEST(test_confusion__averages_over_classes),
          TEST(test_confusion__refuses_what_does_not_fit))
