// Unit read.c: records found by their key, and the fixed queries.
#include "db/reader.h"

#include "base/assert.h"
#include "base/mem.h"
#include "db/tx.h"

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

// The first row of a query by key. On success rows stands on it, and must be ended.
static int find(struct db_reader *r, enum statement id, struct value key, const char *word,
                struct rows *rows, det_err *err)
{
    char text[80];
    rows_start(&r->c, id, &key, 1, rows);
    if (rows_next(rows)) return 0;
    int rc = rows_end(rows, 0, err);
    if (rc) return rc;
    describe_key(&key, text, sizeof text);
    return det_fail(err, DET_ENOTFOUND, "there is no %s %s", word, text);
}

static int find_record(struct db_reader *r, enum statement id, struct value key, enum noun noun,
                       struct arena *a, void *out, det_err *err)
{
    struct rows rows;
    int rc = find(r, id, key, tables[noun].word, &rows, err);
    if (rc) return rc;
    return rows_end(&rows, record_read(&rows, &tables[noun], a, out, err), err);
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
    struct rows rows;
    int rc = find(r, id, key, word, &rows, err);
    if (rc) return rc;
    *out = rows_text(&rows, 0, a);
    return rows_end(&rows, 0, err);
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
    struct rows rows;
    int rc =
        find(r, SQL_CONFIG_FIND, of_int(experiment_id), "configuration of experiment", &rows, err);
    if (rc) return rc;
    *complete = str_from(rows_text(&rows, 0, a));
    *original = str_from(rows_text(&rows, 1, a));
    return rows_end(&rows, 0, err);
}

int db_key_find(struct db_reader *r, const char *key, bool *out, det_err *err)
{
    const struct value value = of_text(key);
    int64_t found = 0;
    int rc = statement_number(&r->c, SQL_KEY_FIND, &value, 1, 0, &found, err);
    if (!rc) *out = found;
    return rc;
}

int db_journal_find(struct db_reader *r, const char *journal, int64_t *out, det_err *err)
{
    const struct value value = of_text(journal);
    return statement_number(&r->c, SQL_JOURNAL_FIND, &value, 1, 0, out, err);
}

int db_next_ids(struct db_reader *r, int64_t *experiment, int64_t *trial, int64_t *user,
                det_err *err)
{
    struct rows rows;
    rows_start(&r->c, SQL_NEXT_IDS, NULL, 0, &rows);
    if (rows_next(&rows)) {
        *experiment = rows_int(&rows, 0);
        *trial = rows_int(&rows, 1);
        *user = rows_int(&rows, 2);
    }
    return rows_end(&rows, 0, err);
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

int collect(struct rows *rows, enum noun noun, struct arena *a, struct db_list *out, det_err *err)
{
    const struct table *t = &tables[noun];
    struct growing list = {.arena = a, .size = t->fields->size};
    int code = 0;
    while (!code && rows_next(rows))
        code = record_read(rows, t, a, grow(&list), err);
    code = rows_end(rows, code, err);
    if (code) return code;
    out->items = list.items;
    out->n = list.n;
    return 0;
}

static struct db_list list_of(const struct growing *g)
{
    return (struct db_list){.items = g->items, .n = g->n, .total = (int64_t)g->n};
}

static int list_texts(struct db_reader *r, enum statement id, struct arena *a, struct db_list *out,
                      det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(const char *)};
    struct rows rows;
    rows_start(&r->c, id, NULL, 0, &rows);
    while (rows_next(&rows))
        *(const char **)grow(&list) = rows_text(&rows, 0, a);
    int rc = rows_end(&rows, 0, err);
    if (!rc) *out = list_of(&list);
    return rc;
}

int db_sessions_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct stored_session)};
    struct rows rows;
    int rc = 0;
    rows_start(&r->c, SQL_SESSIONS_LIST, NULL, 0, &rows);
    while (!rc && rows_next(&rows)) {
        struct stored_session *one = grow(&list);
        struct str hash = rows_bytes(&rows, (int)session_table.n);
        one->hash = (struct str){arena_strndup(a, hash.ptr, hash.len), hash.len};
        rc = record_read(&rows, &tables[NOUN_SESSION], a, &one->row, err);
    }
    rc = rows_end(&rows, rc, err);
    if (!rc) *out = list_of(&list);
    return rc;
}

int db_settings_list(struct db_reader *r, const char *prefix, struct arena *a, struct db_list *out,
                     det_err *err)
{
    struct growing list = {.arena = a, .size = sizeof(struct setting)};
    const struct value value = of_text(prefix);
    struct rows rows;
    rows_start(&r->c, SQL_SETTINGS_LIST, &value, 1, &rows);
    while (rows_next(&rows))
        *(struct setting *)grow(&list) =
            (struct setting){rows_text(&rows, 0, a), rows_text(&rows, 1, a)};
    int rc = rows_end(&rows, 0, err);
    if (!rc) *out = list_of(&list);
    return rc;
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
    struct rows rows;
    rows_start(&r->c, SQL_OLD_LOGS_LIST, values, 2, &rows);
    while (rows_next(&rows))
        *(int64_t *)grow(&list) = rows_int(&rows, 0);
    int rc = rows_end(&rows, 0, err);
    if (!rc) *out = list_of(&list);
    return rc;
}

int db_warm_starts_list(struct db_reader *r, struct arena *a, struct db_list *out, det_err *err)
{
    return list_texts(r, SQL_WARM_STARTS_LIST, a, out, err);
}

int db_metrics_list(struct db_reader *r, int64_t trial_id, const char *group, int64_t after_steps,
                    int64_t limit, struct arena *a, struct db_list *out, det_err *err)
{
    const struct value values[] = {of_int(trial_id), of_text(group), of_int(after_steps),
                                   of_int(limit ? limit : INT64_MAX)};
    struct rows rows;
    rows_start(&r->c, SQL_METRICS_LIST, values, 4, &rows);
    return collect(&rows, NOUN_METRIC_REPORT, a, out, err);
}

int db_metric_summaries(struct db_reader *r, int64_t trial_id, struct arena *a, struct db_list *out,
                        det_err *err)
{
    const struct value id = of_int(trial_id);
    struct rows rows;
    rows_start(&r->c, SQL_SUMMARIES_LIST, &id, 1, &rows);
    return collect(&rows, NOUN_METRIC_SUMMARY, a, out, err);
}

int db_metric_values(struct db_reader *r, int64_t experiment_id, const char *group,
                     const char *name, struct arena *a, struct db_list *out, det_err *err)
{
    const struct value values[] = {of_int(experiment_id), of_text(group), of_text(name)};
    struct growing list = {.arena = a, .size = sizeof(struct metric_value)};
    struct rows rows;
    rows_start(&r->c, SQL_METRIC_VALUES, values, STATIC_LEN(values), &rows);
    while (rows_next(&rows))
        *(struct metric_value *)grow(&list) = (struct metric_value){
            rows_int(&rows, 0), rows_value(&rows, 1), rows_value(&rows, 2), rows_value(&rows, 3)};
    int rc = rows_end(&rows, 0, err);
    if (!rc) *out = list_of(&list);
    return rc;
}
