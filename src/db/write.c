// Unit write.c: the changes of each noun, as statements with values.
#include "db/tx.h"

#include "base/assert.h"
#include "db/series_write.h"
#include "doc/json.h"
#include <math.h>

static struct op *add_id(struct db_tx *tx, enum statement statement, int64_t id, int n_values)
{
    struct op *op = tx_add(tx, statement, n_values);
    op_int(op, id);
    return op;
}

static void save(struct db_tx *tx, enum statement statement, enum noun noun, const void *record)
{
    struct op *op = tx_add(tx, statement, (int)tables[noun].fields->n);
    op_record(tx, op, noun, record, 0);
}

void db_experiment_save(struct db_tx *tx, const struct experiment *row)
{
    save(tx, SQL_EXPERIMENT_SAVE, NOUN_EXPERIMENT, row);
    add_id(tx, SQL_LABELS_CLEAR, row->id, 1);
    for (size_t i = 0; i < row->labels.n; i++)
        op_text(tx, add_id(tx, SQL_LABEL_ADD, row->id, 2), row->labels.items[i]);
}

void db_trial_save(struct db_tx *tx, const struct trial *row)
{
    save(tx, SQL_TRIAL_SAVE, NOUN_TRIAL, row);
    if (row->end_us) add_id(tx, SQL_DUE_ADD_TRIAL, row->id, 1)->run = series_end_trial;
}

void db_allocation_save(struct db_tx *tx, const struct allocation *row)
{
    save(tx, SQL_ALLOCATION_SAVE, NOUN_ALLOCATION, row);
}

void db_checkpoint_save(struct db_tx *tx, const struct checkpoint *row)
{
    save(tx, SQL_CHECKPOINT_SAVE, NOUN_CHECKPOINT, row);
}

void db_job_save(struct db_tx *tx, const struct job *row)
{
    save(tx, SQL_JOB_SAVE, NOUN_JOB, row);
}

void db_user_save(struct db_tx *tx, const struct user *row)
{
    save(tx, SQL_USER_SAVE, NOUN_USER, row);
    tx->last->refusal = "there is a user of that name already";
}

void db_template_save(struct db_tx *tx, const struct config_template *row)
{
    save(tx, SQL_TEMPLATE_SAVE, NOUN_TEMPLATE, row);
}

static struct op *add_text(struct db_tx *tx, enum statement statement, const char *text,
                           int n_values)
{
    struct op *op = tx_add(tx, statement, n_values);
    op_text(tx, op, text);
    return op;
}

void db_key_use(struct db_tx *tx, const char *key, int64_t now_us)
{
    struct op *op = add_text(tx, SQL_KEY_USE, key, 2);
    op_int(op, now_us);
    op->refusal = "this request was done before";
}

void db_keys_forget(struct db_tx *tx, int64_t before_us)
{
    add_id(tx, SQL_KEYS_FORGET, before_us, 1);
    add_id(tx, SQL_JOURNALS_FORGET, before_us, 1);
}

void db_journal_use(struct db_tx *tx, const char *journal, int64_t number, int64_t now_us)
{
    struct op *op = add_text(tx, SQL_JOURNAL_USE, journal, 3);
    op_int(op, number);
    op_int(op, now_us);
}

void db_config_save(struct db_tx *tx, int64_t experiment_id, struct str complete,
                    struct str original)
{
    struct op *op = add_id(tx, SQL_CONFIG_SAVE, experiment_id, 3);
    op_bytes(tx, op, VALUE_TEXT, complete);
    op_bytes(tx, op, VALUE_TEXT, original);
}

void db_config_change(struct db_tx *tx, int64_t experiment_id, struct str complete)
{
    op_bytes(tx, add_id(tx, SQL_CONFIG_CHANGE, experiment_id, 2), VALUE_TEXT, complete);
}

void db_searcher_save(struct db_tx *tx, int64_t experiment_id, struct str snapshot)
{
    op_bytes(tx, add_id(tx, SQL_SEARCHER_SAVE, experiment_id, 2), VALUE_TEXT, snapshot);
}

void db_searcher_delete(struct db_tx *tx, int64_t experiment_id)
{
    add_id(tx, SQL_SEARCHER_DELETE, experiment_id, 1);
}

void db_checkpoint_rate(struct db_tx *tx, int64_t trial_id, int64_t steps, double metric)
{
    struct op *op = add_id(tx, SQL_CHECKPOINT_RATE, trial_id, 3);
    op_int(op, steps);
    op_real(op, metric);
}

// Values: the checkpoint, the name of the metric.
static int rate_checkpoint(struct db *db, const struct op *op, det_err *err)
{
    struct value values[] = {op->values[0], {.kind = VALUE_NULL}};
    struct arena arena = ARENA_INIT;
    struct rows r;
    rows_start(&db->writer, SQL_CHECKPOINT_VALIDATION, op->values, 1, &r);
    double value = NAN;
    if (rows_next(&r))
        json_find_number(rows_bytes(&r, 0), json_quoted(op->values[1].bytes, &arena), &value);
    int rc = rows_end(&r, 0, err);
    if (isfinite(value)) values[1] = VALUE_OF_REAL(value);
    if (!rc) rc = statement_run(&db->writer, SQL_CHECKPOINT_VALUE, values, 2, err);
    arena_done(&arena);
    return rc;
}

void db_checkpoint_rate_by(struct db_tx *tx, const char *uuid, const char *name)
{
    if (!name) return;
    struct op *op = add_text(tx, SQL_CHECKPOINT_VALUE, uuid, 2);
    op_text(tx, op, name);
    op->run = rate_checkpoint;
}

void db_experiment_delete(struct db_tx *tx, int64_t id)
{
    // Trials go last: the others are found by them.
    static const enum statement parts[] = {
        SQL_DISCARD_TRIALS,        SQL_SUMMARIES_DELETE_OF, SQL_CHECKPOINTS_DELETE_OF,
        SQL_ALLOCATIONS_DELETE_OF, SQL_TRIALS_DELETE_OF,    SQL_JOBS_DELETE_OF,
        SQL_SEARCHER_DELETE,       SQL_CONFIG_DELETE,       SQL_LABELS_CLEAR,
        SQL_EXPERIMENT_DELETE,
    };
    for (size_t i = 0; i < STATIC_LEN(parts); i++)
        add_id(tx, parts[i], id, 1);
    tx->discards = true;
}

void db_template_delete(struct db_tx *tx, const char *name)
{
    add_text(tx, SQL_TEMPLATE_DELETE, name, 1);
}

void db_metrics_add(struct db_tx *tx, const struct metric_report *row)
{
    struct op *op = tx_add(tx, SQL_METRICS_ADD, (int)metric_report_table.n);
    op_record(tx, op, NOUN_METRIC_REPORT, row, 0);
    op->run = series_add_report;
    for (const struct doc *m = row->metrics->first; m; m = m->next) {
        double value;
        if (!doc_number(m, &value) || !isfinite(value)) continue;
        op = add_id(tx, SQL_SUMMARY_ADD, row->trial_id, 4);
        op_text(tx, op, row->group);
        op_bytes(tx, op, VALUE_TEXT, m->key);
        op_real(op, value);
    }
}

void db_sample_add(struct db_tx *tx, int64_t trial_id, const struct usage_sample *sample)
{
    struct op *op = add_id(tx, SQL_SAMPLE_ADD, trial_id, 6);
    op_int(op, sample->time_us);
    op_real(op, sample->cpu);
    op_int(op, sample->memory_bytes);
    op_real(op, sample->gpu);
    op_int(op, sample->gpu_memory_bytes);
}

void db_trial_advance(struct db_tx *tx, int64_t trial_id, int64_t steps)
{
    op_int(add_id(tx, SQL_TRIAL_ADVANCE, trial_id, 2), steps);
}

void db_metrics_roll_back(struct db_tx *tx, int64_t trial_id, int64_t run_id, const char *group,
                          int64_t steps)
{
    struct op *op = add_id(tx, SQL_METRICS_OUTDATE, trial_id, 4);
    op_int(op, run_id);
    op_text(tx, op, group);
    op_int(op, steps);
    op->run = series_roll_back;
}

void db_logs_delete(struct db_tx *tx, int64_t trial_id, int64_t before_us)
{
    op_int(add_id(tx, SQL_DISCARD, trial_id, 2), before_us);
    tx->discards = true;
}

static struct op *add_hash(struct db_tx *tx, enum statement statement, struct str hash,
                           int n_values)
{
    struct op *op = tx_add(tx, statement, n_values);
    op_bytes(tx, op, VALUE_BLOB, hash);
    return op;
}

void db_session_save(struct db_tx *tx, struct str token_hash, const struct session *row)
{
    struct op *op = add_hash(tx, SQL_SESSION_SAVE, token_hash, 1 + (int)session_table.n);
    op_record(tx, op, NOUN_SESSION, row, 0);
}

void db_session_delete(struct db_tx *tx, struct str token_hash)
{
    add_hash(tx, SQL_SESSION_DELETE, token_hash, 1);
}

void db_sessions_delete_of_user(struct db_tx *tx, int64_t user_id)
{
    add_id(tx, SQL_SESSIONS_DELETE_USER, user_id, 1);
}

void db_sessions_delete_of_allocation(struct db_tx *tx, const char *allocation_id)
{
    add_text(tx, SQL_SESSIONS_DELETE_ALLOCATION, allocation_id, 1);
}

void db_sessions_delete_expired(struct db_tx *tx, int64_t now_us)
{
    add_id(tx, SQL_SESSIONS_DELETE_EXPIRED, now_us, 1);
}

void db_password_save(struct db_tx *tx, int64_t user_id, const char *hash)
{
    op_text(tx, add_id(tx, SQL_PASSWORD_SAVE, user_id, 2), hash);
}

void db_setting_delete(struct db_tx *tx, const char *name)
{
    add_text(tx, SQL_SETTING_DELETE, name, 1);
}

void db_setting_save(struct db_tx *tx, const char *name, const char *value)
{
    op_text(tx, add_text(tx, SQL_SETTING_SAVE, name, 2), value);
}
