// Unit tx.c: building and submitting transactions.
#include "db/tx.h"

#include "base/assert.h"
#include "base/mem.h"
#include <sys/eventfd.h>
#include <unistd.h>

void queue_add(struct tx_queue *q, struct db_tx *tx)
{
    tx->next = NULL;
    if (q->last)
        q->last->next = tx;
    else
        q->first = tx;
    q->last = tx;
}

struct db_tx *queue_take(struct tx_queue *q)
{
    struct db_tx *tx = q->first;
    if (!tx) return NULL;
    q->first = tx->next;
    if (!q->first) q->last = NULL;
    return tx;
}

void queue_join(struct tx_queue *q, struct tx_queue *other)
{
    if (!other->first) return;
    if (q->last)
        q->last->next = other->first;
    else
        q->first = other->first;
    q->last = other->last;
    *other = (struct tx_queue){NULL, NULL};
}

struct db_tx *db_tx_new(struct db *db)
{
    struct db_tx *tx = xcalloc(1, sizeof *tx);
    tx->db = db;
    return tx;
}

void db_tx_free(struct db_tx *tx)
{
    if (!tx) return;
    arena_done(&tx->arena);
    free(tx);
}

static void submit(struct db_tx *tx, bool must, db_done_fn done, void *ctx)
{
    struct db *db = tx->db;
    tx->must = must;
    tx->done = done;
    tx->ctx = ctx;
    pthread_mutex_lock(&db->lock);
    queue_add(&db->waiting, tx);
    db->n_submitted++;
    pthread_cond_signal(&db->wake);
    pthread_mutex_unlock(&db->lock);
}

void db_tx_submit(struct db_tx *tx, db_done_fn done, void *ctx)
{
    submit(tx, false, done, ctx);
}

void db_tx_submit_must(struct db_tx *tx, db_done_fn done, void *ctx)
{
    submit(tx, true, done, ctx);
}

int db_fd(const struct db *db)
{
    return db->event_fd;
}

void db_dispatch(struct db *db)
{
    struct tx_queue finished = {NULL, NULL};
    eventfd_t count;
    eventfd_read(db->event_fd, &count); // empty is fine
    pthread_mutex_lock(&db->lock);
    queue_join(&finished, &db->finished);
    pthread_mutex_unlock(&db->lock);
    for (struct db_tx *tx; (tx = queue_take(&finished));) {
        if (tx->done) tx->done(tx->ctx, tx->err.code, &tx->err);
        db_tx_free(tx);
    }
}

void db_wait(struct db *db)
{
    pthread_mutex_lock(&db->lock);
    for (uint64_t n = db->n_submitted; db->n_tried < n && db->state != DB_AWAY;)
        pthread_cond_wait(&db->idle, &db->lock);
    pthread_mutex_unlock(&db->lock);
    db_dispatch(db);
}

static int state_of(const struct db *db)
{
    struct db *changing = (struct db *)(uintptr_t)db;
    pthread_mutex_lock(&changing->lock);
    int state = db->state;
    pthread_mutex_unlock(&changing->lock);
    return state;
}

bool db_is_full(const struct db *db)
{
    return state_of(db) == DET_ENOSPC;
}

bool db_is_broken(const struct db *db)
{
    return state_of(db) == DB_BROKEN;
}

struct op *tx_add(struct db_tx *tx, enum statement statement, int n_values)
{
    struct op *op = arena_alloc(&tx->arena, sizeof *op);
    *op = (struct op){.statement = statement, .max = n_values};
    op->values = arena_array(&tx->arena, (size_t)n_values + 1, sizeof *op->values);
    if (tx->last)
        tx->last->next = op;
    else
        tx->first = op;
    tx->last = op;
    return op;
}

static struct value *next_value(struct op *op, enum value_kind kind)
{
    ASSERT(op->n < op->max);
    struct value *v = &op->values[op->n++];
    v->kind = kind;
    return v;
}

void op_int(struct op *op, int64_t x)
{
    next_value(op, VALUE_INT)->integer = x;
}

void op_real(struct op *op, double x)
{
    next_value(op, VALUE_REAL)->real = x;
}

void op_bytes(struct db_tx *tx, struct op *op, enum value_kind kind, struct str bytes)
{
    struct value *v = next_value(op, bytes.ptr ? kind : VALUE_NULL);
    if (bytes.ptr)
        v->bytes = (struct str){arena_strndup(&tx->arena, bytes.ptr, bytes.len), bytes.len};
}

void op_text(struct db_tx *tx, struct op *op, const char *text)
{
    op_bytes(tx, op, VALUE_TEXT, str_from(text));
}

void op_record(struct db_tx *tx, struct op *op, enum noun noun, const void *record,
               size_t first_field)
{
    const struct field_table *fields = tables[noun].fields;
    for (size_t i = first_field; i < fields->n; i++) {
        struct value v = value_of(&fields->fields[i], record, &tx->arena);
        *next_value(op, v.kind) = v;
    }
}
