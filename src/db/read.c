// Unit read.c: records found by their key, and the fixed queries.
#include "db/reader.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/tx.h"
#include <math.h>

int db_reader_open(struct db *db, struct db_reader **out, det_err *err)
{
    struct db_reader *r = xcalloc(1, sizeof *r);
    int rc = connection_open(&r->c, db->path, true, err);
    if (rc) {
        free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void db_reader_close(struct db_reader *r)
{
    if (!r) return;
    connection_close(&r->c);
    free(r);
}

static int fail(struct db_reader *r, det_err *err)
{
    return sqlite_fail(r->c.sql, sqlite3_errcode(r->c.sql), err);
}

// Prepares and binds; values up to n.
static sqlite3_stmt *start(struct db_reader *r, enum statement id, const struct value *values,
                           int n, det_err *err)
{
    sqlite3_stmt *s = connection_statement(&r->c, id);
    for (int i = 0; s && i < n; i++)
        if (value_bind(s, i + 1, &values[i]) != SQLITE_OK) s = NULL;
    if (!s) fail(r, err);
    return s;
}

static struct value of_int(int64_t x)
{
    return (struct value){.kind = VALUE_INT, .integer = x};
}

static struct value of_text(const char *text)
{
    return (struct value){.kind = VALUE_TEXT, .bytes = str_from(text)};
}

static void describe_key(const struct value *key, char *out, size_t size)
{
    if (key->kind == VALUE_INT)
        snprintf(out, size, "%lld", (long long)key->integer);
    else
        snprintf(out, size, "'%.60s'", key->kind == VALUE_TEXT ? key->bytes.ptr : "");
}

// The first row of a query by key. *out stands on it, and must be reset.
static int find(struct db_reader *r, enum statement id, struct value key, const char *word,
                sqlite3_stmt **out, det_err *err)
{
    char text[80];
    sqlite3_stmt *s = start(r, id, &key, 1, err);
    if (!s) return err ? err->code : DET_EIO;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *out = s;
        return 0;
    }
    rc = rc == SQLITE_DONE ? 0 : fail(r, err);
    sqlite3_reset(s);
    if (rc) return rc;
    describe_key(&key, text, sizeof text);
    return det_fail(err, DET_ENOTFOUND, "there is no %s %s", word, text);
}

static int find_record(struct db_reader *r, enum statement id, struct value key, enum noun noun,
                       struct arena *a, void *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = find(r, id, key, tables[noun].word, &s, err);
    if (rc) return rc;
    rc = record_read(s, &tables[noun], a, out, err);
    sqlite3_reset(s);
    return rc;
}

int db_experiment_find(struct db_reader *r, int64_t id, struct arena *a, struct experiment *out,
                       det_err *err)
{
    return find_record(r, SQL_EXPERIMENT_FIND, of_int(id), NOUN_EXPERIMENT, a, out, err);
}

int db_trial_find(struct db_reader *r, int64_t id, struct arena *a, struct trial *out, det_err *err)
{
    return find_record(r, SQL_TRIAL_FIND, of_int(id), NOUN_TRIAL, a, out, err);
}

int db_allocation_find(struct db_reader *r, const char *id, struct arena *a, struct allocation *out,
                       det_err *err)
{
    return find_record(r, SQL_ALLOCATION_FIND, of_text(id), NOUN_ALLOCATION, a, out, err);
}

int db_checkpoint_find(struct db_reader *r, const char *uuid, struct arena *a,
                       struct checkpoint *out, det_err *err)
{
    return find_record(r, SQL_CHECKPOINT_FIND, of_text(uuid), NOUN_CHECKPOINT, a, out, err);
}

int db_job_find(struct db_reader *r, const char *id, struct arena *a, struct job *out, det_err *err)
{
    return find_record(r, SQL_JOB_FIND, of_text(id), NOUN_JOB, a, out, err);
}

int db_user_find(struct db_reader *r, int64_t id, struct arena *a, struct user *out, det_err *err)
{
    return find_record(r, SQL_USER_FIND, of_int(id), NOUN_USER, a, out, err);
}

int db_user_find_name(struct db_reader *r, const char *name, struct arena *a, struct user *out,
                      det_err *err)
{
    return find_record(r, SQL_USER_FIND_NAME, of_text(name), NOUN_USER, a, out, err);
}

int db_template_find(struct db_reader *r, const char *name, struct arena *a,
                     struct config_template *out, det_err *err)
{
    return find_record(r, SQL_TEMPLATE_FIND, of_text(name), NOUN_TEMPLATE, a, out, err);
}

// One text of one row.
static int find_text(struct db_reader *r, enum statement id, struct value key, const char *word,
                     struct arena *a, const char **out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = find(r, id, key, word, &s, err);
    if (rc) return rc;
    *out = column_text(s, 0, a);
    sqlite3_reset(s);
    return 0;
}

int db_password_find(struct db_reader *r, int64_t user_id, struct arena *a, const char **out,
                     det_err *err)
{
    return find_text(r, SQL_PASSWORD_FIND, of_int(user_id), "password of user", a, out, err);
}

int db_setting_find(struct db_reader *r, const char *name, struct arena *a, const char **out,
                    det_err *err)
{
    return find_text(r, SQL_SETTING_FIND, of_text(name), "setting", a, out, err);
}

int db_searcher_find(struct db_reader *r, int64_t experiment_id, struct arena *a, struct str *out,
                     det_err *err)
{
    const char *text = NULL;
    int rc = find_text(r, SQL_SEARCHER_FIND, of_int(experiment_id), "searcher of experiment", a,
                       &text, err);
    if (!rc) *out = str_from(text);
    return rc;
}

int db_config_find(struct db_reader *r, int64_t experiment_id, struct arena *a,
                   struct str *complete, struct str *original, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc =
        find(r, SQL_CONFIG_FIND, of_int(experiment_id), "configuration of experiment", &s, err);
    if (rc) return rc;
    *complete = str_from(column_text(s, 0, a));
    *original = str_from(column_text(s, 1, a));
    sqlite3_reset(s);
    return 0;
}

int db_key_find(struct db_reader *r, const char *key, bool *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    det_err local;
    int rc = find(r, SQL_KEY_FIND, of_text(key), "key", &s, &local);
    if (rc && rc != DET_ENOTFOUND) return det_fail(err, rc, "%s", local.msg);
    *out = !rc;
    if (!rc) sqlite3_reset(s);
    return 0;
}

int db_journal_find(struct db_reader *r, const char *journal, int64_t *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    det_err local;
    int rc = find(r, SQL_JOURNAL_FIND, of_text(journal), "journal", &s, &local);
    if (rc && rc != DET_ENOTFOUND) return det_fail(err, rc, "%s", local.msg);
    *out = rc ? 0 : sqlite3_column_int64(s, 0);
    if (!rc) sqlite3_reset(s);
    return 0;
}

int db_next_ids(struct db_reader *r, int64_t *experiment, int64_t *trial, int64_t *user,
                det_err *err)
{
    sqlite3_stmt *s = start(r, SQL_NEXT_IDS, NULL, 0, err);
    if (!s || sqlite3_step(s) != SQLITE_ROW) return fail(r, err);
    *experiment = sqlite3_column_int64(s, 0);
    *trial = sqlite3_column_int64(s, 1);
    *user = sqlite3_column_int64(s, 2);
    sqlite3_reset(s);
    return 0;
}

void *grow(struct growing *g)
{
    if (g->n == g->max) {
        size_t max = g->max ? 2 * g->max : 64;
        char *items = arena_array(g->arena, max, g->size);
        if (g->n) memcpy(items, g->items, g->n * g->size);
        g->items = items;
        g->max = max;
    }
    return g->items + g->n++ * g->size;
}

int collect(struct db_reader *r, sqlite3_stmt *s, enum noun noun, struct arena *a,
            struct db_list *out, det_err *err)
{
    const struct table *t = &tables[noun];
    struct growing list = {.arena = a, .size = t->fields->size};
    int rc, code = 0;
    while (!code && (rc = sqlite3_step(s)) == SQLITE_ROW)
        code = record_read(s, t, a, grow(&list), err);
    if (!code && rc != SQLITE_DONE) code = fail(r, err);
    sqlite3_reset(s);
    if (code) return code;
    out->items = list.items;
    out->n = list.n;
    return 0;
}

static int list_texts(struct db_reader *r, enum statement id, struct arena *a, struct db_list *out,
                      det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(const char *)};
    sqlite3_stmt *s = start(r, id, NULL, 0, err);
    int rc = SQLITE_ERROR;
    while (s && (rc = sqlite3_step(s)) == SQLITE_ROW)
        *(const char **)grow(&list) = column_text(s, 0, a);
    if (rc != SQLITE_DONE) return fail(r, err);
    sqlite3_reset(s);
    *out = (struct db_list){.items = list.items, .n = list.n, .total = (int64_t)list.n};
    return 0;
}

int db_sessions_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct stored_session)};
    sqlite3_stmt *s = start(r, SQL_SESSIONS_LIST, NULL, 0, err);
    const int n_columns = (int)session_table.n;
    int rc = SQLITE_ERROR, code = 0;
    while (s && !code && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct stored_session *one = grow(&list);
        size_t n = (size_t)sqlite3_column_bytes(s, n_columns);
        one->hash = (struct str){arena_strndup(a, sqlite3_column_blob(s, n_columns), n), n};
        code = record_read(s, &tables[NOUN_SESSION], a, &one->row, err);
    }
    if (!code && rc != SQLITE_DONE) code = fail(r, err);
    if (s) sqlite3_reset(s);
    if (code) return code;
    *out = (struct db_list){.items = list.items, .n = list.n, .total = (int64_t)list.n};
    return 0;
}

int db_settings_list(struct db_reader *r, const char *prefix, struct arena *a, struct db_list *out,
                     det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct setting)};
    const struct value value = of_text(prefix);
    sqlite3_stmt *s = start(r, SQL_SETTINGS_LIST, &value, 1, err);
    int rc = SQLITE_ERROR;
    while (s && (rc = sqlite3_step(s)) == SQLITE_ROW)
        *(struct setting *)grow(&list) =
            (struct setting){column_text(s, 0, a), column_text(s, 1, a)};
    if (rc != SQLITE_DONE) return fail(r, err);
    sqlite3_reset(s);
    *out = (struct db_list){.items = list.items, .n = list.n, .total = (int64_t)list.n};
    return 0;
}

int db_labels_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    return list_texts(r, SQL_LABELS_LIST, a, out, err);
}

int db_contexts_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    return list_texts(r, SQL_CONTEXTS_LIST, a, out, err);
}

int db_old_logs_list(struct db_reader *r, int64_t now_us, int64_t usual_days, struct arena *a,
                     struct db_list *out, det_err *err)
{
    const struct value values[] = {of_int(now_us), of_int(usual_days)};
    struct growing list = {.arena = a, .size = sizeof(int64_t)};
    sqlite3_stmt *s = start(r, SQL_OLD_LOGS_LIST, values, 2, err);
    int rc = SQLITE_ERROR;
    while (s && (rc = sqlite3_step(s)) == SQLITE_ROW)
        *(int64_t *)grow(&list) = sqlite3_column_int64(s, 0);
    if (rc != SQLITE_DONE) return fail(r, err);
    sqlite3_reset(s);
    *out = (struct db_list){.items = list.items, .n = list.n, .total = (int64_t)list.n};
    return 0;
}

int db_warm_starts_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    return list_texts(r, SQL_WARM_STARTS_LIST, a, out, err);
}

int db_metrics_list(struct db_reader *r, int64_t trial_id, const char *group, int64_t after_steps,
                    int64_t limit, struct arena *a, struct db_list *out, det_err *err)
{
    const struct value values[] = {of_int(trial_id), of_text(group), of_int(after_steps),
                                   of_int(limit ? limit : -1)};
    sqlite3_stmt *s = start(r, SQL_METRICS_LIST, values, 4, err);
    if (!s) return fail(r, err);
    return collect(r, s, NOUN_METRIC_REPORT, a, out, err);
}

int db_metric_summaries(struct db_reader *r, int64_t trial_id, struct arena *a, struct db_list *out,
                        det_err *err)
{
    const struct value id = of_int(trial_id);
    sqlite3_stmt *s = start(r, SQL_SUMMARIES_LIST, &id, 1, err);
    if (!s) return fail(r, err);
    return collect(r, s, NOUN_METRIC_SUMMARY, a, out, err);
}

static double column_value(sqlite3_stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL ? NAN : sqlite3_column_double(s, i);
}

int db_metric_values(struct db_reader *r, int64_t experiment_id, const char *group,
                     const char *name, struct arena *a, struct db_list *out, det_err *err)
{
    const struct value values[] = {of_int(experiment_id), of_text(group), of_text(name)};
    struct growing rows = {.arena = a, .size = sizeof(struct metric_value)};
    sqlite3_stmt *s = start(r, SQL_METRIC_VALUES, values, STATIC_LEN(values), err);
    if (!s) return fail(r, err);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        *(struct metric_value *)grow(&rows) = (struct metric_value){
            sqlite3_column_int64(s, 0), column_value(s, 1), column_value(s, 2), column_value(s, 3)};
    int code = rc == SQLITE_DONE ? 0 : fail(r, err);
    sqlite3_reset(s);
    if (code) return code;
    out->items = rows.items;
    out->n = rows.n;
    return 0;
}
