// Unit ranks.c: values of several ranks brought together. Called by the loop.
#include "train/ranks.h"

#include "base/mem.h"

static const size_t TREE_MAX = SIZE_MAX / 4;

// --- trees

static det_value *unpack_all(const struct context_setup *setup, const struct dist_parts *parts,
                             det_err *err)
{
    det_value *all = det_value_list();
    for (int i = 0; i < parts->n; i++) {
        det_value *tree = setup->engine->unpack(parts->part[i], err);
        if (!tree) {
            det_wrap(err, "what rank %d has sent", i);
            det_value_free(all);
            return NULL;
        }
        det_value_push(all, tree);
    }
    return all;
}

det_value *ranks_gather(const struct context_setup *setup, const char *what, det_value *mine,
                        det_err *err)
{
    if (!mine) mine = det_value_none();
    if (!setup->ranks) {
        det_value *all = det_value_list();
        det_value_push(all, mine);
        return all;
    }
    struct buf bytes = BUF_INIT(TREE_MAX);
    struct dist_parts parts = {0};
    det_value *all = NULL;
    int rc = setup->engine->pack(mine, &bytes, err);
    if (!rc) rc = dist_all_gather(setup->ranks, what, buf_str(&bytes), &parts, err);
    if (!rc) all = unpack_all(setup, &parts, err);
    dist_parts_done(&parts);
    buf_done(&bytes);
    det_value_free(mine);
    return all;
}

// --- metrics

// (number of rows, {name: [value, ...]})
static det_value *table_tree(const det_metrics *m)
{
    det_value *columns = det_value_dict();
    for (int i = 0; i < det_metrics_len(m); i++) {
        det_value *list = det_value_set(columns, det_metrics_name(m, i), det_value_list());
        for (int64_t row = 0; row < det_metrics_rows(m); row++)
            det_value_push(list, det_value_float(det_metrics_at(m, row, i)));
    }
    det_value *tree = det_value_tuple();
    det_value_push(tree, det_value_int(det_metrics_rows(m)));
    det_value_push(tree, columns);
    return tree;
}

struct table {
    int64_t n_rows;
    const det_value *columns;
};

static struct table table_of(const det_value *all, int rank)
{
    struct table t = {0};
    const det_value *tree = det_value_at(all, rank);
    det_value_as_int(det_value_at(tree, 0), &t.n_rows, NULL);
    t.columns = det_value_at(tree, 1);
    return t;
}

static double table_at(struct table t, int64_t row, const char *name)
{
    double value = 0;
    det_value_as_float(det_value_at(det_value_get(t.columns, name), (int)row), &value, NULL);
    return value;
}

static int fail_names(int a, int b, const char *name, det_err *err)
{
    return det_fail(err, DET_EINVAL,
                    "rank %d reports the metric '%s', rank %d does not: all ranks must report the "
                    "same metrics",
                    a, name, b);
}

// Ranks without rows have nothing to say about names.
static int check_names(const det_value *all, int first, det_err *err)
{
    struct table a = table_of(all, first);
    for (int rank = 0; rank < det_value_len(all); rank++) {
        struct table b = table_of(all, rank);
        if (!b.n_rows) continue;
        for (int i = 0; i < det_value_len(a.columns); i++) {
            const char *name = det_value_key(a.columns, i, NULL);
            if (!det_value_get(b.columns, name)) return fail_names(first, rank, name, err);
        }
        for (int i = 0; i < det_value_len(b.columns); i++) {
            const char *name = det_value_key(b.columns, i, NULL);
            if (!det_value_get(a.columns, name)) return fail_names(rank, first, name, err);
        }
    }
    return 0;
}

// One row: of rank `only`, or the mean of all ranks (-1).
static int add_row(det_metrics *out, const det_value *all, struct table names, int64_t row,
                   int only, det_err *err)
{
    metrics_begin_row(out);
    for (int i = 0; i < det_value_len(names.columns); i++) {
        const char *name = det_value_key(names.columns, i, NULL);
        double sum = 0;
        int n = det_value_len(all);
        for (int rank = 0; only < 0 && rank < n; rank++)
            sum += table_at(table_of(all, rank), row, name);
        det_metric_number(out, name, only < 0 ? sum / n : table_at(table_of(all, only), row, name));
    }
    return metrics_end_row(out, row, err);
}

static int average_rows(det_metrics *out, const det_value *all, det_err *err)
{
    struct table first = table_of(all, 0);
    for (int rank = 1; rank < det_value_len(all); rank++)
        if (table_of(all, rank).n_rows != first.n_rows)
            return det_fail(err, DET_ESTATE, "rank 0 has trained %lld batches, rank %d %lld",
                            (long long)first.n_rows, rank, (long long)table_of(all, rank).n_rows);
    int rc = 0;
    for (int64_t row = 0; !rc && row < first.n_rows; row++)
        rc = add_row(out, all, first, row, -1, err);
    return rc;
}

static int rows_in_turn(det_metrics *out, const det_value *all, int n_ranks, struct table names,
                        det_err *err)
{
    int rc = 0, left = 1;
    for (int64_t row = 0; !rc && left; row++) {
        left = 0;
        for (int rank = 0; !rc && rank < n_ranks; rank++) {
            if (row >= table_of(all, rank).n_rows) continue;
            rc = add_row(out, all, names, row, rank, err);
            left++;
        }
    }
    return rc;
}

static int merge(det_metrics *rows, const det_value *all, enum rows_merge how, det_err *err)
{
    int first = 0, n = how == ROWS_OF_CHIEF ? 1 : det_value_len(all);
    while (first < n - 1 && !table_of(all, first).n_rows)
        first++;
    int rc = how == ROWS_OF_CHIEF ? 0 : check_names(all, first, err);
    if (rc) return rc;
    metrics_clear(rows);
    if (how == ROWS_AVERAGE) return average_rows(rows, all, err);
    return rows_in_turn(rows, all, n, table_of(all, first), err);
}

int ranks_merge_rows(const struct context_setup *setup, det_metrics *rows, enum rows_merge how,
                     det_err *err)
{
    if (!setup->ranks) return 0;
    det_value *all = ranks_gather(setup, "metrics", table_tree(rows), err);
    int rc = all ? merge(rows, all, how, err) : err->code;
    det_value_free(all);
    return rc;
}

// --- numbers, texts and models

int ranks_sum(const struct context_setup *setup, const char *what, int64_t *number, det_err *err)
{
    double sum = (double)*number;
    int rc = dist_all_reduce(setup->ranks, what, &sum, 1, DIST_F64, DIST_SUM, err);
    if (!rc) *number = (int64_t)sum;
    return rc;
}

int ranks_any(const struct context_setup *setup, const char *what, bool *flag, det_err *err)
{
    int64_t n = *flag;
    int rc = ranks_sum(setup, what, &n, err);
    if (!rc) *flag = n > 0;
    return rc;
}

int ranks_share_int(const struct context_setup *setup, const char *what, int64_t *number,
                    det_err *err)
{
    return dist_broadcast(setup->ranks, what, 0, number, sizeof *number, err);
}

int ranks_share_text(const struct context_setup *setup, const char *what, char **text, det_err *err)
{
    if (!setup->ranks) return 0;
    int64_t n = *text ? (int64_t)strlen(*text) : -1;
    int rc = ranks_share_int(setup, what, &n, err);
    if (rc) return rc;
    if (setup->rank) {
        free(*text);
        *text = n < 0 ? NULL : xcalloc((size_t)n + 1, 1);
    }
    return n > 0 ? dist_broadcast(setup->ranks, what, 0, *text, (size_t)n, err) : 0;
}

int ranks_share_models(const det_context *ctx, bool buffers_only, det_err *err)
{
    int rc = 0;
    for (int i = 0; ctx->setup.ranks && !rc && i < ctx->n_models; i++) {
        rc = ctx->setup.engine->share_model(ctx->models[i], buffers_only, ctx->setup.ranks, err);
        if (rc) det_wrap(err, "model %d", i);
    }
    return rc;
}
