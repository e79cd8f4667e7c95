// Unit join.c: datasets made of datasets: a subset of one, several behind each other. If what they
// are made of lies in memory, so do they.
#include "data/dataset.h"

#include "base/assert.h"
#include "base/mem.h"

static void copy_columns(det_dataset *to, const det_dataset *from)
{
    to->n_columns = from->n_columns;
    memcpy(to->columns, from->columns, sizeof to->columns);
}

// --- subset

struct subset {
    det_dataset base;
    det_dataset *of;
    int64_t *index;
};

static det_value *subset_item(const det_dataset *d, int64_t index, const det_draw *draw,
                              det_err *err)
{
    const struct subset *s = (const struct subset *)d;
    return dataset_item(s->of, s->index[index], draw, err);
}

static void subset_gather(const det_dataset *d, const int64_t *index, int64_t n,
                          char *const *columns, int64_t row)
{
    enum { PIECE = 256 };
    const struct subset *s = (const struct subset *)d;
    int64_t piece[PIECE];
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t m = MIN((int64_t)PIECE, n - done);
        for (int64_t i = 0; i < m; i++)
            piece[i] = s->index[index[done + i]];
        s->of->ops->gather(s->of, piece, m, columns, row + done);
    }
}

static const char *subset_class_name(const det_dataset *d, int64_t label)
{
    return det_dataset_class_name(((const struct subset *)d)->of, label);
}

static void subset_free(det_dataset *d)
{
    struct subset *s = (struct subset *)d;
    det_dataset_free(s->of);
    free(s->index);
    free(s);
}

static bool check_subset(const det_dataset *d, const int64_t *index, int64_t n)
{
    if (!d || n < 0 || (n && !index)) {
        det_raise(DET_EINVAL, "det_dataset_subset: %s",
                  d ? "there are no indices" : "the dataset is NULL");
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= d->length) {
            det_raise(DET_EINVAL,
                      "det_dataset_subset: index[%lld] is %lld; the dataset has %lld samples",
                      (long long)i, (long long)index[i], (long long)d->length);
            return false;
        }
    return true;
}

det_dataset *det_dataset_subset(det_dataset *d, const int64_t *index, int64_t n)
{
    static const struct dataset_ops ops = {.item = subset_item,
                                           .gather = subset_gather,
                                           .class_name = subset_class_name,
                                           .free = subset_free};
    if (!check_subset(d, index, n)) {
        det_dataset_free(d);
        return NULL;
    }
    struct subset *s = xcalloc(1, sizeof *s);
    s->base = (det_dataset){.ops = &ops, .length = n};
    copy_columns(&s->base, d);
    s->of = d;
    s->index = xcalloc((size_t)n + 1, sizeof *index);
    if (n) memcpy(s->index, index, (size_t)n * sizeof *index);
    return &s->base;
}

// --- concat

struct concat {
    det_dataset base;
    int n;
    det_dataset **parts;
};

// The part that has a sample; *index becomes its index in there.
static const det_dataset *part_of(const struct concat *s, int64_t *index)
{
    int i = 0;
    while (*index >= s->parts[i]->length)
        *index -= s->parts[i++]->length;
    return s->parts[i];
}

static det_value *concat_item(const det_dataset *d, int64_t index, const det_draw *draw,
                              det_err *err)
{
    const det_dataset *part = part_of((const struct concat *)d, &index);
    return dataset_item(part, index, draw, err);
}

static void concat_gather(const det_dataset *d, const int64_t *index, int64_t n,
                          char *const *columns, int64_t row)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index[i];
        const det_dataset *part = part_of((const struct concat *)d, &at);
        part->ops->gather(part, &at, 1, columns, row + i);
    }
}

static void concat_free(det_dataset *d)
{
    struct concat *s = (struct concat *)d;
    for (int i = 0; i < s->n; i++)
        det_dataset_free(s->parts[i]);
    free(s->parts);
    free(s);
}

static bool same_columns(const det_dataset *a, const det_dataset *b)
{
    return a->n_columns == b->n_columns && !memcmp(a->columns, b->columns, sizeof a->columns);
}

det_dataset *det_dataset_concat(det_dataset *const *d, int n)
{
    static const struct dataset_ops ops = {
        .item = concat_item, .gather = concat_gather, .free = concat_free};
    bool complete = n > 0, alike = true;
    for (int i = 0; i < n; i++)
        complete = complete && d[i];
    if (!complete) {
        det_raise(DET_EINVAL, "det_dataset_concat: a dataset is NULL, or there is none");
        for (int i = 0; i < n; i++)
            det_dataset_free(d[i]);
        return NULL;
    }
    struct concat *s = xcalloc(1, sizeof *s);
    s->base.ops = &ops;
    s->n = n;
    s->parts = xcalloc((size_t)n, sizeof *s->parts);
    for (int i = 0; i < n; i++) {
        s->parts[i] = d[i];
        s->base.length += d[i]->length;
        alike = alike && same_columns(d[0], d[i]);
    }
    if (alike) copy_columns(&s->base, d[0]);
    return &s->base;
}
