// Unit salvage.c: reads around the damage in a file. Called by recover.c.
//
// SQLite stops at a damaged page. What lies behind it is reached from the other end of the table,
// and, where rows have numbers, from numbers in between.
#include "db/recover.h"

#include "base/assert.h"
#include "doc/json.h"
#include "base/number.h"
#include "db/log_write.h"
#include "db/migrate.h"

enum { MAX_PROBES = 4000 };

static const struct json_opts json_opts = {.source = "stored", .max_bytes = 256 << 20};

struct copying {
    sqlite3 *from, *to;
    const char *table;
    enum noun noun; // N_NOUN: none
    bool has_numbers, is_log, is_json;
    int n_columns;
    char *columns;   // "a", "b", ...
    char *sources;   // what to read for them
    char *backwards; // the order from the end: "a" DESC, ...
    sqlite3_stmt *insert;
    int64_t n_rows, n_bad, n_probes, n_absent; // absent: columns
    int rc;                                    // of the side that is written: ends everything
};

// --- the rows

static enum noun noun_of(const char *table)
{
    for (int i = 0; i < N_NOUN; i++)
        if (str_eqz(str_from(tables[i].name), table)) return (enum noun)i;
    return N_NOUN;
}

// Damage inside of a row does not bother SQLite, but its readers.
static bool makes_sense(const struct copying *j, sqlite3_stmt *row)
{
    struct rows r = sqlite_row(row);
    struct arena arena = ARENA_INIT;
    char record[1024];
    bool good = true;
    if (j->is_log) {
        struct chunk chunk;
        struct chunk_lines lines;
        log_read_chunk(&r, &arena, &chunk);
        good = !chunk_unpack(&chunk, NULL, &arena, &lines, NULL);
    } else if (j->is_json) {
        struct diag_list diags = DIAG_INIT(&arena);
        struct str text = rows_bytes(&r, 1);
        good = text.ptr && json_parse(&arena, text, &json_opts, &diags);
    } else if (j->noun != N_NOUN) {
        ASSERT(tables[j->noun].fields->size <= sizeof record);
        good = !record_read(&r, &tables[j->noun], &arena, record, NULL);
    }
    arena_done(&arena);
    return good;
}

static void keep_row(struct copying *j, sqlite3_stmt *row)
{
    int rc = SQLITE_OK;
    bool good = makes_sense(j, row);
    j->n_bad += !good;
    if (!good || !j->insert) return;
    for (int i = 0; rc == SQLITE_OK && i < j->n_columns; i++)
        rc = sqlite3_bind_value(j->insert, i + 1, sqlite3_column_value(row, i));
    if (rc == SQLITE_OK) rc = sqlite3_step(j->insert);
    sqlite3_reset(j->insert);
    if (rc == SQLITE_DONE)
        j->n_rows++;
    else if ((rc & 0xFF) == SQLITE_CONSTRAINT) // a null where there is none: it is damaged
        j->n_bad++;
    else
        j->rc = rc;
}

// --- reading

// Runs to the end, or to the damage. last: of rows with numbers, that of the last one.
static bool read_all(struct copying *j, char *text, int64_t *last)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(j->from, text, -1, &s, NULL);
    if (rc == SQLITE_OK) rc = SQLITE_ROW;
    while (rc == SQLITE_ROW && !j->rc && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (last) *last = sqlite3_column_int64(s, j->n_columns);
        keep_row(j, s);
    }
    sqlite3_finalize(s);
    sqlite3_free(text);
    return rc == SQLITE_DONE;
}

// Rows with numbers between two, exclusive. True: all of them.
static bool read_between(struct copying *j, int64_t low, int64_t high, bool down, int64_t *last)
{
    return read_all(j,
                    sqlite3_mprintf("SELECT %s, rowid FROM \"%w\" NOT INDEXED WHERE rowid > %lld"
                                    " AND rowid < %lld ORDER BY rowid %s",
                                    j->sources, j->table, (long long)low, (long long)high,
                                    down ? "DESC" : "ASC"),
                    last);
}

// From both ends; and what lies between them in halves, until there is nothing in between.
static void read_around(struct copying *j, int64_t low, int64_t high)
{
    int64_t up = low, down = high;
    if (high - low < 2 || j->rc || ++j->n_probes > MAX_PROBES) return;
    if (read_between(j, low, high, false, &up) || read_between(j, up, high, true, &down)) return;
    int64_t middle = up + (down - up) / 2;
    if (middle <= up || middle >= down) return;
    read_around(j, up, middle + 1);
    read_around(j, middle, down);
}

static void read_from_both_ends(struct copying *j)
{
    if (read_all(j, sqlite3_mprintf("SELECT %s FROM \"%w\"", j->sources, j->table), NULL)) return;
    read_all(
        j, sqlite3_mprintf("SELECT %s FROM \"%w\" ORDER BY %s", j->sources, j->table, j->backwards),
        NULL);
}

// --- a table

static char *ask(sqlite3 *sql, const char *text, const char *table)
{
    sqlite3_stmt *s = NULL;
    char *answer = NULL;
    sqlite3_prepare_v2(sql, text, -1, &s, NULL);
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
        answer = sqlite3_mprintf("%s", sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return answer;
}

static int64_t count_rows(sqlite3 *sql, const char *table)
{
    char *text = sqlite3_mprintf("SELECT count(*) FROM \"%w\" WHERE ?1 IS ?1", table);
    char *answer = ask(sql, text, table);
    int64_t n = 0;
    if (answer) number_to_int(str_from(answer), 10, &n);
    sqlite3_free(text);
    sqlite3_free(answer);
    return n;
}

// A file of an older version lacks columns; their defaults are what bringing it up to date gives.
static char *source_of(struct copying *j, const char *column)
{
    char *known = sqlite3_mprintf("SELECT '\"%w\"' FROM pragma_table_info(?1) WHERE name = %Q",
                                  column, column);
    char *other = sqlite3_mprintf("SELECT ifnull(dflt_value, 'NULL') FROM pragma_table_info(?1)"
                                  " WHERE name = %Q",
                                  column);
    char *source = ask(j->from, known, j->table);
    j->n_absent += !source;
    if (!source) source = ask(j->to, other, j->table);
    sqlite3_free(known);
    sqlite3_free(other);
    return source ? source : sqlite3_mprintf("NULL");
}

// Counts the columns, too.
static void find_sources(struct copying *j)
{
    struct buf text = BUF_INIT(1 << 16);
    char *names = sqlite3_mprintf("%s", j->columns), *rest = NULL;
    for (char *name = strtok_r(names, ", \"", &rest); name; name = strtok_r(NULL, ", \"", &rest)) {
        char *source = source_of(j, name);
        buf_printf(&text, "%s%s", j->n_columns++ ? ", " : "", source);
        sqlite3_free(source);
    }
    j->sources = sqlite3_mprintf("%s", buf_str(&text).ptr);
    sqlite3_free(names);
    buf_done(&text);
}

// The columns, in the order of the records; what else is to be known about the table.
static void copying_open(struct copying *j)
{
    struct buf text = BUF_INIT(1 << 16);
    struct str table = str_from(j->table);
    j->noun = noun_of(j->table);
    j->is_log = str_eqz(table, "log_chunks");
    j->is_json = str_eqz(table, "configs") || str_eqz(table, "searchers");
    if (j->is_log) {
        buf_addz(&text, CHUNK_COLUMNS);
        j->columns = sqlite3_mprintf("%s", buf_str(&text).ptr);
    } else if (j->noun != N_NOUN && tables[j->noun].key) { // else there are columns besides
        table_add_columns(&tables[j->noun], &text);
        j->columns = sqlite3_mprintf("%s", buf_str(&text).ptr);
    } else {
        j->noun = N_NOUN;
        j->columns = ask(j->to,
                         "SELECT group_concat('\"' || name || '\"', ', ')"
                         " FROM pragma_table_info(?1)",
                         j->table);
    }
    j->backwards = ask(j->to,
                       "SELECT group_concat('\"' || name || '\" DESC', ', ') FROM"
                       " (SELECT name FROM pragma_table_info(?1) WHERE pk ORDER BY pk)",
                       j->table);
    char *without =
        ask(j->to, "SELECT 1 FROM pragma_table_list(?1) WHERE schema = 'main' AND wr", j->table);
    j->has_numbers = !without;
    sqlite3_free(without);
    find_sources(j);
    buf_done(&text);
}

static bool prepare_insert(struct copying *j)
{
    struct buf text = BUF_INIT(1 << 16);
    buf_printf(&text, "INSERT OR REPLACE INTO \"%s\"(%s) VALUES(?1", j->table, j->columns);
    for (int i = 2; i <= j->n_columns; i++)
        buf_printf(&text, ", ?%d", i);
    buf_addc(&text, ')');
    int rc = sqlite3_prepare_v2(j->to, buf_str(&text).ptr, -1, &j->insert, NULL);
    buf_done(&text);
    return rc == SQLITE_OK;
}

static void copying_close(struct copying *j)
{
    sqlite3_finalize(j->insert);
    sqlite3_free(j->columns);
    sqlite3_free(j->sources);
    sqlite3_free(j->backwards);
}

static void run(sqlite3 *sql, char *text)
{
    sqlite3_exec(sql, text, NULL, NULL, NULL);
    sqlite3_free(text);
}

// If it can be read from one end to the other, what the backup has does not count.
static bool replace_all(struct copying *j)
{
    run(j->to, sqlite3_mprintf("SAVEPOINT whole; DELETE FROM \"%w\"", j->table));
    bool whole = read_all(
        j, sqlite3_mprintf("SELECT %s FROM \"%w\" NOT INDEXED", j->sources, j->table), NULL);
    whole = whole && !j->n_bad && !j->rc;
    run(j->to, sqlite3_mprintf(whole ? "RELEASE whole" : "ROLLBACK TO whole; RELEASE whole"));
    return whole;
}

static void say(const struct copying *j, bool whole, int64_t n_before, struct buf *report)
{
    int64_t n_now = count_rows(j->to, j->table);
    if (whole) {
        if (j->n_rows) buf_printf(report, "%s: %lld, all\n", j->table, (long long)j->n_rows);
        return;
    }
    buf_printf(report, "%s: damaged; %lld could be read", j->table, (long long)j->n_rows);
    if (n_before)
        buf_printf(report, ", %lld are as they were in the backup", (long long)(n_now - j->n_rows));
    buf_addz(report, n_before ? "; others are lost\n" : "; the others are lost\n");
}

static bool is_there(const struct copying *j)
{
    char *answer = ask(j->from, "SELECT 1 FROM sqlite_schema WHERE name = ?1", j->table);
    bool there = answer != NULL;
    sqlite3_free(answer);
    return there;
}

// An older version did not have all tables and columns.
static bool is_old(sqlite3 *sql)
{
    struct connection c = sqlite_connection(sql);
    int version = 0;
    return !migrate_version(&c, &version, NULL) && migrate_is_old(version);
}

static int salvage_table(struct copying *j, struct buf *report, det_err *err)
{
    int64_t n_before = count_rows(j->to, j->table);
    copying_open(j);
    if (!prepare_insert(j)) return sqlite_fail(j->to, sqlite3_errcode(j->to), err);
    bool there = is_there(j), whole = there && replace_all(j);
    if (there && !whole && !j->rc) {
        j->n_rows = j->n_bad = 0;
        if (j->has_numbers)
            read_around(j, -1, INT64_MAX - 1);
        else
            read_from_both_ends(j);
    }
    if (there || !is_old(j->from)) say(j, whole, n_before, report);
    return j->rc ? sqlite_fail(j->to, j->rc, err) : 0;
}

// What charts are made of is made anew from the reports (series_write.h).
static int forget_series(sqlite3 *sql, det_err *err)
{
    int rc = sqlite3_exec(sql,
                          "DELETE FROM metric_spans; DELETE FROM metric_chunks;"
                          "DELETE FROM metric_due;"
                          "INSERT OR REPLACE INTO settings SELECT 'series_below', last + 1 FROM"
                          " (SELECT max(trialId) AS last FROM metrics) WHERE last IS NOT NULL",
                          NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_fail(sql, rc, err);
}

static sqlite3_stmt *list_tables(sqlite3 *sql)
{
    sqlite3_stmt *s = NULL;
    sqlite3_prepare_v2(sql,
                       "SELECT name FROM sqlite_schema WHERE type = 'table'"
                       " AND name NOT LIKE 'sqlite_%'"
                       " AND name NOT IN ('metric_spans', 'metric_chunks', 'metric_due')"
                       " ORDER BY rowid",
                       -1, &s, NULL);
    return s;
}

int salvage(sqlite3 *from, sqlite3 *to, struct buf *report, det_err *err)
{
    sqlite3_stmt *s = list_tables(to);
    int code = s ? 0 : sqlite_fail(to, sqlite3_errcode(to), err);
    while (!code && sqlite3_step(s) == SQLITE_ROW) {
        struct copying j = {
            .from = from, .to = to, .table = (const char *)sqlite3_column_text(s, 0)};
        code = salvage_table(&j, report, err);
        copying_close(&j);
    }
    sqlite3_finalize(s);
    return code ? code : forget_series(to, err);
}

static int check_table(struct copying *j, bool old, det_err *err)
{
    copying_open(j);
    bool there = is_there(j);
    if (there) read_all(j, sqlite3_mprintf("SELECT %s FROM \"%w\"", j->sources, j->table), NULL);
    if (j->n_bad)
        return det_fail(err, DET_ECORRUPT, "%lld records of the table %s make no sense",
                        (long long)j->n_bad, j->table);
    if (!old && (!there || j->n_absent))
        return det_fail(err, DET_ECORRUPT, "%s %s cannot be found",
                        there ? "columns of the table" : "the table", j->table);
    return 0;
}

int salvage_check(sqlite3 *sql, det_err *err)
{
    sqlite3 *today = NULL; // an empty one, for what there should be
    int rc = sqlite3_open(":memory:", &today);
    struct connection c = sqlite_connection(today);
    int code = rc == SQLITE_OK ? migrate(&c, 0, err) : sqlite_fail(today, rc, err);
    sqlite3_stmt *s = code ? NULL : list_tables(today);
    bool old = is_old(sql);
    while (s && !code && sqlite3_step(s) == SQLITE_ROW) {
        struct copying j = {
            .from = sql, .to = today, .table = (const char *)sqlite3_column_text(s, 0)};
        code = check_table(&j, old, err);
        copying_close(&j);
    }
    sqlite3_finalize(s);
    connection_close(&c);
    return code;
}
