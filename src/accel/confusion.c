// Unit confusion.c: counts of (prediction, target), and what is said about them. Called by users.
#include "accel/accel.h"

#include "base/mem.h"
#include <math.h>

struct det_confusion {
    int64_t n_classes;
    int64_t *count; // (prediction, target)
};

det_confusion *det_confusion_new(int64_t n_classes)
{
    enum { MAX_CLASSES = 1 << 14 };
    if (n_classes < 1 || n_classes > MAX_CLASSES) {
        det_raise(DET_EINVAL, "confusion: n_classes must be in 1 .. %d, got %lld", MAX_CLASSES,
                  (long long)n_classes);
        return NULL;
    }
    det_confusion *c = xcalloc(1, sizeof *c);
    c->n_classes = n_classes;
    c->count = xcalloc((size_t)(n_classes * n_classes), sizeof *c->count);
    return c;
}

void det_confusion_free(det_confusion *c)
{
    if (!c) return;
    free(c->count);
    free(c);
}

void det_confusion_reset(det_confusion *c)
{
    if (c) memset(c->count, 0, (size_t)(c->n_classes * c->n_classes) * sizeof *c->count);
}

void det_confusion_update(det_confusion *c, det_tensor *predictions, det_tensor *targets)
{
    const int64_t *p = det_data_i64(predictions), *y = det_data_i64(targets);
    if (!c || !p || !y) return;
    int64_t n = det_numel(targets);
    if (det_numel(predictions) != n) {
        det_raise(DET_ESHAPE, "confusion: %lld predictions for %lld targets",
                  (long long)det_numel(predictions), (long long)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (p[i] < 0 || p[i] >= c->n_classes || y[i] < 0 || y[i] >= c->n_classes) {
            det_raise(DET_EINVAL, "confusion: prediction %lld, target %lld are not in 0 .. %lld",
                      (long long)p[i], (long long)y[i], (long long)c->n_classes - 1);
            return;
        }
        c->count[p[i] * c->n_classes + y[i]]++;
    }
}

int64_t det_confusion_count(const det_confusion *c, int64_t prediction, int64_t target)
{
    bool known =
        c && prediction >= 0 && prediction < c->n_classes && target >= 0 && target < c->n_classes;
    return known ? c->count[prediction * c->n_classes + target] : 0;
}

static int64_t predicted_as(const det_confusion *c, int64_t class)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_classes; i++)
        n += det_confusion_count(c, class, i);
    return n;
}

static int64_t present_as(const det_confusion *c, int64_t class)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_classes; i++)
        n += det_confusion_count(c, i, class);
    return n;
}

double det_confusion_accuracy(const det_confusion *c)
{
    if (!c) return NAN;
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < c->n_classes; i++) {
        right += det_confusion_count(c, i, i);
        all += present_as(c, i);
    }
    return all ? (double)right / (double)all : NAN;
}

// The mean of right / out_of over the classes that occur; 0 where out_of is 0.
static double macro_mean(const det_confusion *c,
                         int64_t (*out_of)(const det_confusion *c, int64_t class))
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_classes; i++) {
        int64_t total = out_of(c, i);
        if (!predicted_as(c, i) && !present_as(c, i)) continue;
        if (total) sum += (double)det_confusion_count(c, i, i) / (double)total;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

double det_confusion_precision(const det_confusion *c, det_average average)
{
    if (!c || average == DET_AVERAGE_MICRO) return det_confusion_accuracy(c);
    return macro_mean(c, predicted_as);
}

double det_confusion_recall(const det_confusion *c, det_average average)
{
    if (!c || average == DET_AVERAGE_MICRO) return det_confusion_accuracy(c);
    return macro_mean(c, present_as);
}
