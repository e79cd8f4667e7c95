// Unit tensors.c: a dataset whose samples are the rows of tensors.
#include "data/dataset.h"

#include "base/assert.h"
#include "base/mem.h"
#include "tensor/tensor.h"

struct tensors {
    det_dataset base;
    det_tensor *t[DATASET_MAX_COLUMNS]; // row-major; keeps the memory below alive
    const char *rows[DATASET_MAX_COLUMNS];
};

static void tensors_gather(const det_dataset *d, const int64_t *index, int64_t n,
                           char *const *columns, int64_t row)
{
    const struct tensors *s = (const struct tensors *)d;
    for (int c = 0; c < d->n_columns; c++) {
        size_t row_bytes = d->columns[c].row_bytes;
        const char *from = s->rows[c];
        char *to = columns[c] + (size_t)row * row_bytes;
        for (int64_t i = 0; i < n; i++) {
            if (i + 1 < n) prefetch_row(from + (size_t)index[i + 1] * row_bytes, row_bytes);
            memcpy(to + (size_t)i * row_bytes, from + (size_t)index[i] * row_bytes, row_bytes);
        }
    }
}

static void tensors_free(det_dataset *d)
{
    struct tensors *s = (struct tensors *)d;
    for (int i = 0; i < d->n_columns; i++)
        det_unref(s->t[i]);
    free(s);
}

static bool check(det_tensor *const *t, int n)
{
    if (n < 1 || n > DATASET_MAX_COLUMNS) {
        det_raise(DET_EINVAL, "det_dataset_tensors: %d tensors; 1 to %d can be given", n,
                  DATASET_MAX_COLUMNS);
        return false;
    }
    for (int i = 0; i < n; i++) {
        char text[192];
        if (!t[i] || !det_ndim(t[i]))
            det_raise(DET_ESHAPE, "det_dataset_tensors: tensor %d is %s; its rows are the samples",
                      i, t[i] ? "a single number" : "NULL");
        else if (det_shape(t[i])[0] != det_shape(t[0])[0])
            det_raise(DET_ESHAPE,
                      "det_dataset_tensors: tensor %d is %s, but tensor 0 has %lld rows", i,
                      det_describe(t[i], text, sizeof text), (long long)det_shape(t[0])[0]);
        else
            continue;
        return false;
    }
    return true;
}

det_dataset *det_dataset_tensors(det_tensor *const *t, int n)
{
    static const struct dataset_ops ops = {.gather = tensors_gather, .free = tensors_free};
    if (!check(t, n)) return NULL;
    struct tensors *s = xcalloc(1, sizeof *s);
    s->base.ops = &ops;
    s->base.length = det_shape(t[0])[0];
    det_scope_begin();
    for (int i = 0; i < n; i++) {
        det_tensor *rows = det_contiguous(t[i]);
        if (!rows) break;
        s->t[i] = det_ref(rows);
        s->rows[i] = tensor_memory(rows);
        s->base.n_columns++;
        column_init(&s->base.columns[i], det_dtype_of(rows), det_shape(rows) + 1,
                    det_ndim(rows) - 1);
    }
    det_scope_end();
    if (s->base.n_columns == n) return &s->base;
    tensors_free(&s->base);
    return NULL;
}
