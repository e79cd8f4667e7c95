// Unit share.c: cuts rows of work into pieces large enough to be worth a thread.
#include "tensor/share.h"

#include "base/assert.h"
#include "sys/pool.h"

enum { PIECE = 16 << 10, MAX_PIECES = 1 << 16 };

struct share {
    share_fn fn;
    void *ctx;
    int64_t n_rows, rows_per_piece;
};

static void share_piece(void *ctx, int piece)
{
    const struct share *s = ctx;
    int64_t from = piece * s->rows_per_piece;
    s->fn(s->ctx, from, MIN(from + s->rows_per_piece, s->n_rows));
}

void share_rows(int64_t n_rows, int64_t row_work, share_fn fn, void *ctx)
{
    if (n_rows * row_work < 2 * PIECE) {
        if (n_rows > 0) fn(ctx, 0, n_rows);
        return;
    }
    int64_t rows = MAX((int64_t)1, PIECE / row_work);
    rows = MAX(rows, divide_up(n_rows, MAX_PIECES));
    struct share s = {fn, ctx, n_rows, rows};
    pool_run((int)divide_up(n_rows, rows), share_piece, &s);
}
