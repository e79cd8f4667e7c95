// db/sqlite.h: connections and what SQLite says when something fails. Private to the layer.
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "db/tables.h"
#include "det/err.h"
#include <sqlite3.h>
#include <stdint.h>

// DET_ENOSPC for a full disk, DET_ECORRUPT for a damaged file, DET_ESTATE for a broken rule of the
// schema, else DET_EIO; with SQLite's words.
int sqlite_fail(sqlite3 *sql, int rc, det_err *err);

// What SQLite says about a damaged file may quote from it. Makes that one line that can be shown.
int sqlite_clean(det_err *err, int code); // returns the code

#define CHUNK_COLUMNS                                                             \
    "id, lastId, trialId, firstTime, lastTime, levels, ranks, sources, stdtypes," \
    " nBytes, open, lines, nLines"
#define CHUNK_MATCHES                                                            \
    "trialId = ?1 AND id >= ?2 AND id < ?3 AND lastTime > ?4 AND firstTime < ?5" \
    " AND levels & ?6 AND ranks & ?7 AND sources & ?8 AND stdtypes & ?9"

// The groups of trial ?1, from one to the next: the reports between are not looked at.
#define METRIC_GROUPS                                                        \
    "g(name) AS (SELECT min(\"group\") FROM metrics WHERE trialId = ?1"      \
    " UNION ALL SELECT (SELECT min(\"group\") FROM metrics WHERE trialId = " \
    "?1 AND \"group\" > g.name) FROM g WHERE g.name IS NOT NULL)"

#define OF_EXPERIMENT "(SELECT id FROM trials WHERE experimentId = ?1)"

// Every statement there is, except those of lists (see list.c), which are put together from parts.
// S(name, noun, text): %s in the text stands for the columns of the noun; a text of NULL is the one
// that saves a record.
#define DB_STATEMENTS(S)                                                                          \
    S(BEGIN, N_NOUN, "BEGIN IMMEDIATE")                                                           \
    S(COMMIT, N_NOUN, "COMMIT")                                                                   \
    S(ROLLBACK, N_NOUN, "ROLLBACK")                                                               \
    S(SAVEPOINT, N_NOUN, "SAVEPOINT one")                                                         \
    S(RELEASE, N_NOUN, "RELEASE one")                                                             \
    S(ROLLBACK_TO, N_NOUN, "ROLLBACK TO one")                                                     \
    S(EXPERIMENT_SAVE, NOUN_EXPERIMENT, NULL)                                                     \
    S(EXPERIMENT_FIND, NOUN_EXPERIMENT, "SELECT %s FROM experiments WHERE id = ?1")               \
    S(EXPERIMENT_DELETE, N_NOUN, "DELETE FROM experiments WHERE id = ?1")                         \
    S(JOBS_DELETE_OF, N_NOUN, "DELETE FROM jobs WHERE experimentId = ?1")                         \
    S(CONFIG_DELETE, N_NOUN, "DELETE FROM configs WHERE experimentId = ?1")                       \
    S(TRIALS_DELETE_OF, N_NOUN, "DELETE FROM trials WHERE experimentId = ?1")                     \
    S(ALLOCATIONS_DELETE_OF, N_NOUN, "DELETE FROM allocations WHERE trialId IN " OF_EXPERIMENT)   \
    S(SUMMARIES_DELETE_OF, N_NOUN, "DELETE FROM summaries WHERE trialId IN " OF_EXPERIMENT)       \
    S(CHECKPOINTS_DELETE_OF, N_NOUN, "DELETE FROM checkpoints WHERE experimentId = ?1")           \
    S(CONFIG_SAVE, N_NOUN, "INSERT OR REPLACE INTO configs VALUES(?1, ?2, ?3)")                   \
    S(CONFIG_CHANGE, N_NOUN, "UPDATE configs SET complete = ?2 WHERE experimentId = ?1")          \
    S(CONFIG_FIND, N_NOUN, "SELECT complete, original FROM configs WHERE experimentId = ?1")      \
    S(SEARCHER_SAVE, N_NOUN, "INSERT OR REPLACE INTO searchers VALUES(?1, ?2)")                   \
    S(SEARCHER_FIND, N_NOUN, "SELECT snapshot FROM searchers WHERE experimentId = ?1")            \
    S(SEARCHER_DELETE, N_NOUN, "DELETE FROM searchers WHERE experimentId = ?1")                   \
    S(TRIAL_SAVE, NOUN_TRIAL, NULL)                                                               \
    S(TRIAL_FIND, NOUN_TRIAL, "SELECT %s FROM trials WHERE id = ?1")                              \
    S(TRIAL_NUMBERS, N_NOUN,                                                                      \
      "SELECT number, id FROM trials WHERE experimentId = ?1 ORDER BY number")                    \
    S(TRIAL_ADVANCE, N_NOUN,                                                                      \
      "UPDATE trials SET totalBatchesProcessed = ?2"                                              \
      " WHERE id = ?1 AND totalBatchesProcessed < ?2")                                            \
    S(ALLOCATION_SAVE, NOUN_ALLOCATION, NULL)                                                     \
    S(ALLOCATION_FIND, NOUN_ALLOCATION, "SELECT %s FROM allocations WHERE allocationId = ?1")     \
    S(CHECKPOINT_SAVE, NOUN_CHECKPOINT, NULL)                                                     \
    S(CHECKPOINT_FIND, NOUN_CHECKPOINT, "SELECT %s FROM checkpoints WHERE uuid = ?1")             \
    S(CHECKPOINT_RATE, N_NOUN,                                                                    \
      "UPDATE checkpoints SET searcherMetric = ?3 WHERE trialId = ?1 AND stepsCompleted = ?2")    \
    S(CHECKPOINT_RATE_BY, N_NOUN,                                                                 \
      "UPDATE checkpoints SET searcherMetric = (SELECT json_extract(m.metrics, ?2)"               \
      " FROM metrics m WHERE m.trialId = checkpoints.trialId AND m.\"group\" = 'validation'"      \
      " AND m.stepsCompleted = checkpoints.stepsCompleted AND NOT m.outdated"                     \
      " AND json_type(m.metrics, ?2) IN ('integer', 'real')) WHERE uuid = ?1")                    \
    S(WARM_STARTS_LIST, N_NOUN,                                                                   \
      "SELECT DISTINCT warmStartCheckpointUuid FROM trials"                                       \
      " WHERE warmStartCheckpointUuid IS NOT NULL")                                               \
    S(JOB_SAVE, NOUN_JOB, NULL)                                                                   \
    S(JOB_FIND, NOUN_JOB, "SELECT %s FROM jobs WHERE jobId = ?1")                                 \
    S(USER_SAVE, NOUN_USER, NULL)                                                                 \
    S(USER_FIND, NOUN_USER, "SELECT %s FROM users WHERE id = ?1")                                 \
    S(USER_FIND_NAME, NOUN_USER, "SELECT %s FROM users WHERE username = ?1")                      \
    S(TEMPLATE_SAVE, NOUN_TEMPLATE, NULL)                                                         \
    S(TEMPLATE_FIND, NOUN_TEMPLATE, "SELECT %s FROM templates WHERE name = ?1")                   \
    S(TEMPLATE_DELETE, N_NOUN, "DELETE FROM templates WHERE name = ?1")                           \
    S(SESSION_SAVE, N_NOUN, "INSERT OR REPLACE INTO sessions VALUES(?1, ?2, ?3, ?4, ?5)")         \
    S(SESSIONS_LIST, NOUN_SESSION, "SELECT %s, hash FROM sessions ORDER BY expiresAt")            \
    S(SESSION_DELETE, N_NOUN, "DELETE FROM sessions WHERE hash = ?1")                             \
    S(SESSIONS_DELETE_USER, N_NOUN,                                                               \
      "DELETE FROM sessions WHERE userId = ?1 AND allocationId IS NULL")                          \
    S(SESSIONS_DELETE_ALLOCATION, N_NOUN, "DELETE FROM sessions WHERE allocationId = ?1")         \
    S(SESSIONS_DELETE_EXPIRED, N_NOUN,                                                            \
      "DELETE FROM sessions WHERE expiresAt > 0 AND expiresAt <= ?1")                             \
    S(PASSWORD_SAVE, N_NOUN, "INSERT OR REPLACE INTO passwords VALUES(?1, ?2)")                   \
    S(PASSWORD_FIND, N_NOUN, "SELECT hash FROM passwords WHERE userId = ?1")                      \
    S(SETTING_SAVE, N_NOUN, "INSERT OR REPLACE INTO settings VALUES(?1, ?2)")                     \
    S(PROBE, N_NOUN, "INSERT OR REPLACE INTO settings VALUES('probe', zeroblob(65536))")          \
    S(SETTING_DELETE, N_NOUN, "DELETE FROM settings WHERE name = ?1")                             \
    S(SETTINGS_LIST, N_NOUN,                                                                      \
      "SELECT name, value FROM settings WHERE substr(name, 1, length(?1)) = ?1")                  \
    S(SETTING_FIND, N_NOUN, "SELECT value FROM settings WHERE name = ?1")                         \
    S(KEY_USE, N_NOUN, "INSERT INTO keys VALUES(?1, ?2)")                                         \
    S(KEY_FIND, N_NOUN, "SELECT 1 FROM keys WHERE key = ?1")                                      \
    S(KEYS_FORGET, N_NOUN, "DELETE FROM keys WHERE usedAt < ?1")                                  \
    S(JOURNAL_USE, N_NOUN,                                                                        \
      "INSERT INTO journals VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE"                             \
      " SET last = max(last, excluded.last), usedAt = excluded.usedAt")                           \
    S(JOURNAL_FIND, N_NOUN, "SELECT last FROM journals WHERE id = ?1")                            \
    S(JOURNALS_FORGET, N_NOUN, "DELETE FROM journals WHERE usedAt < ?1")                          \
    S(METRICS_ADD, N_NOUN,                                                                        \
      "INSERT INTO metrics(trialId, trialRunId, \"group\", stepsCompleted, reportTime, metrics)"  \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE"                                     \
      " SET metrics = json_patch(metrics, excluded.metrics), reportTime = excluded.reportTime")   \
    S(SUMMARY_ADD, N_NOUN,                                                                        \
      "INSERT INTO summaries VALUES(?1, ?2, ?3, 1, ?4, ?4, ?4, ?4) ON CONFLICT DO UPDATE"         \
      " SET count = count + 1, sum = sum + excluded.sum, min = min(min, excluded.min),"           \
      " max = max(max, excluded.max), last = excluded.last")                                      \
    S(METRICS_OUTDATE, N_NOUN,                                                                    \
      "UPDATE metrics SET outdated = 1 WHERE trialId = ?1 AND \"group\" = ?2"                     \
      " AND stepsCompleted >= ?3 AND trialRunId < ?4 AND NOT outdated")                           \
    S(SUMMARIES_CLEAR, N_NOUN, "DELETE FROM summaries WHERE trialId = ?1")                        \
    S(SUMMARY_MERGE, N_NOUN,                                                                      \
      "INSERT INTO summaries VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE"        \
      " SET count = count + excluded.count, sum = sum + excluded.sum,"                            \
      " min = min(min, excluded.min), max = max(max, excluded.max), last = excluded.last")        \
    S(SAMPLE_ADD, N_NOUN, "INSERT OR REPLACE INTO samples VALUES(?1, ?2, ?3, ?4, ?5, ?6)")        \
    S(SAMPLES_LIST, N_NOUN,                                                                       \
      "SELECT time, cpu, memory, gpu, gpuMemory FROM samples WHERE trialId = ?1 ORDER BY time")   \
    S(SAMPLES_DISCARD, N_NOUN,                                                                    \
      "DELETE FROM samples WHERE trialId = ?1 AND time IN"                                        \
      " (SELECT time FROM samples WHERE trialId = ?1 LIMIT 1000)")                                \
    S(SPANS_MARK, N_NOUN,                                                                         \
      "SELECT max(lastSteps) FROM metric_spans WHERE trialId = ?1 AND \"group\" = ?2")            \
    S(SPAN_OF, N_NOUN,                                                                            \
      "SELECT min(lastSteps) FROM metric_spans WHERE trialId = ?1 AND \"group\" = ?2"             \
      " AND lastSteps >= ?3")                                                                     \
    S(SPAN_BEFORE, N_NOUN,                                                                        \
      "SELECT max(lastSteps) FROM metric_spans WHERE trialId = ?1 AND \"group\" = ?2"             \
      " AND lastSteps < ?3")                                                                      \
    S(SPAN_ADD, N_NOUN, "INSERT INTO metric_spans VALUES(?1, ?2, ?3)")                            \
    S(SPAN_DELETE, N_NOUN,                                                                        \
      "DELETE FROM metric_spans WHERE trialId = ?1 AND \"group\" = ?2 AND lastSteps = ?3")        \
    S(SPANS_DELETE_FROM, N_NOUN,                                                                  \
      "DELETE FROM metric_spans WHERE trialId = ?1 AND lastSteps >= ?2")                          \
    S(POINTS_PUT, N_NOUN,                                                                         \
      "INSERT OR REPLACE INTO metric_chunks VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"      \
      " ?11, ?12, ?13, ?14)")                                                                     \
    S(POINTS_FIND, N_NOUN,                                                                        \
      "SELECT points FROM metric_chunks WHERE trialId = ?1 AND \"group\" = ?2 AND name = ?3"      \
      " AND lastSteps = ?4")                                                                      \
    S(POINTS_DELETE, N_NOUN,                                                                      \
      "DELETE FROM metric_chunks WHERE trialId = ?1 AND \"group\" = ?2 AND lastSteps = ?3")       \
    S(POINTS_DELETE_FROM, N_NOUN,                                                                 \
      "DELETE FROM metric_chunks WHERE trialId = ?1 AND lastSteps >= ?2")                         \
    S(POINTS_OF_TRIAL, N_NOUN,                                                                    \
      "SELECT \"group\", name, count, sum, min, max, last FROM metric_chunks"                     \
      " WHERE trialId = ?1 ORDER BY \"group\", name, lastSteps")                                  \
    S(POINTS_OF, N_NOUN,                                                                          \
      "SELECT lastSteps, count, firstPoint, lastPoint, firstTime, lastTime, min, max, last"       \
      " FROM metric_chunks WHERE trialId = ?1 AND \"group\" = ?2 AND name = ?3"                   \
      " AND lastSteps >= ?4 ORDER BY lastSteps")                                                  \
    S(POINTS_DISCARD, N_NOUN,                                                                     \
      "DELETE FROM metric_chunks WHERE trialId = ?1 AND (\"group\", name, lastSteps) IN"          \
      " (SELECT \"group\", name, lastSteps FROM metric_chunks WHERE trialId = ?1 LIMIT 200)")     \
    S(SPANS_DISCARD, N_NOUN, "DELETE FROM metric_spans WHERE trialId = ?1")                       \
    S(TAIL_COUNT, N_NOUN,                                                                         \
      "SELECT count(*) FROM (SELECT 1 FROM metrics WHERE trialId = ?1 AND \"group\" = ?2"         \
      " AND stepsCompleted > ?3 AND NOT outdated LIMIT ?4)")                                      \
    S(TAIL, N_NOUN,                                                                               \
      "SELECT stepsCompleted, reportTime, metrics FROM metrics WHERE trialId = ?1"                \
      " AND \"group\" = ?2 AND stepsCompleted > ?3 AND stepsCompleted <= ?4 AND NOT outdated"     \
      " ORDER BY stepsCompleted, trialRunId")                                                     \
    S(DUE_ADD, N_NOUN,                                                                            \
      "INSERT INTO metric_due VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE"                           \
      " SET whole = max(whole, excluded.whole)")                                                  \
    S(DUE_ADD_TRIAL, N_NOUN,                                                                      \
      "INSERT INTO metric_due WITH RECURSIVE " METRIC_GROUPS                                      \
      " SELECT ?1, name, 1 FROM g WHERE name IS NOT NULL ON CONFLICT DO UPDATE SET whole = 1")    \
    S(DUE_FIND, N_NOUN, "SELECT trialId, \"group\", whole FROM metric_due LIMIT 1")               \
    S(DUE_DONE, N_NOUN, "DELETE FROM metric_due WHERE trialId = ?1 AND \"group\" = ?2")           \
    S(SERIES_BELOW, N_NOUN,                                                                       \
      "SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'series_below'")                  \
    S(SERIES_BELOW_SAVE, N_NOUN, "UPDATE settings SET value = ?1 WHERE name = 'series_below'")    \
    S(SERIES_BELOW_DELETE, N_NOUN, "DELETE FROM settings WHERE name = 'series_below'")            \
    S(TRIAL_BELOW, N_NOUN, "SELECT max(trialId) FROM metrics WHERE trialId < ?1")                 \
    S(METRICS_LIST, NOUN_METRIC_REPORT,                                                           \
      "SELECT %s FROM metrics WHERE trialId = ?1 AND \"group\" = ?2 AND stepsCompleted > ?3"      \
      " AND NOT outdated ORDER BY stepsCompleted LIMIT ?4")                                       \
    S(METRICS_AFTER, NOUN_METRIC_REPORT,                                                          \
      "SELECT %s FROM metrics WHERE trialId = ?1 AND \"group\" = ?2"                              \
      " AND (stepsCompleted, trialRunId) > (?3, ?4) AND NOT outdated"                             \
      " ORDER BY stepsCompleted, trialRunId LIMIT ?5")                                            \
    S(METRICS_GROUPS, N_NOUN,                                                                     \
      "WITH RECURSIVE " METRIC_GROUPS " SELECT name FROM g WHERE name IS NOT NULL")               \
    S(SUMMARIES_LIST, NOUN_METRIC_SUMMARY,                                                        \
      "SELECT %s FROM summaries WHERE trialId = ?1 ORDER BY \"group\", name")                     \
    S(METRIC_VALUES, N_NOUN,                                                                      \
      "SELECT s.trialId, s.min, s.max, s.last FROM trials t JOIN summaries s ON s.trialId = t.id" \
      " WHERE t.experimentId = ?1 AND s.\"group\" = ?2 AND s.name = ?3 ORDER BY t.id")            \
    S(SERIES_TAIL, N_NOUN,                                                                        \
      "SELECT stepsCompleted, reportTime, json_extract(metrics, ?3) FROM metrics"                 \
      " WHERE trialId = ?1 AND \"group\" = ?2 AND stepsCompleted > ?4 AND NOT outdated"           \
      " ORDER BY stepsCompleted, trialRunId")                                                     \
    S(SERIES_TAIL_ANY, N_NOUN, /* of any name: a path cannot have a quotation mark in it */       \
      "SELECT stepsCompleted, reportTime, (SELECT value FROM json_each(metrics) WHERE key = ?3)"  \
      " FROM metrics WHERE trialId = ?1 AND \"group\" = ?2 AND stepsCompleted > ?4"               \
      " AND NOT outdated ORDER BY stepsCompleted, trialRunId")                                    \
    S(SERIES_BEST, N_NOUN,                                                                        \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NOT NULL"         \
      " ORDER BY ifnull(searcherMetricValue, 9e999) LIMIT ?2")                                    \
    S(SERIES_BEST_DOWN, N_NOUN,                                                                   \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NOT NULL"         \
      " ORDER BY ifnull(searcherMetricValue, 9e999) DESC LIMIT ?2")                               \
    S(SERIES_OTHERS, N_NOUN,                                                                      \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NULL"             \
      " ORDER BY id LIMIT ?2")                                                                    \
    S(METRIC_NAMES, N_NOUN,                                                                       \
      "SELECT s.\"group\", s.name, count(*) FROM trials t JOIN summaries s ON s.trialId = t.id"   \
      " WHERE t.experimentId = ?1 GROUP BY s.\"group\", s.name")                                  \
    S(CHUNK_ADD, N_NOUN,                                                                          \
      "INSERT INTO log_chunks(" CHUNK_COLUMNS ")"                                                 \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")                          \
    S(CHUNK_FIND, N_NOUN, "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE id = ?1")               \
    S(CHUNK_COUNTS, N_NOUN,                                                                       \
      "SELECT id, lastId, nLines FROM log_chunks WHERE trialId = ?1 AND id >= ?2 AND id < ?3"     \
      " ORDER BY id")                                                                             \
    S(CHUNKS_UNCOUNTED, N_NOUN,                                                                   \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE nLines IS NULL ORDER BY id LIMIT 16")       \
    S(CHUNK_COUNTED, N_NOUN, "UPDATE log_chunks SET nLines = ?2 WHERE id = ?1")                   \
    S(CHUNK_DELETE, N_NOUN, "DELETE FROM log_chunks WHERE id = ?1")                               \
    S(CHUNK_CLOSE, N_NOUN, "UPDATE log_chunks SET open = 0 WHERE id = ?1")                        \
    S(CHUNKS_OPEN, N_NOUN,                                                                        \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE trialId = ?1 AND open ORDER BY id")         \
    S(CHUNKS_COUNT_OPEN, N_NOUN,                                                                  \
      "SELECT count(*), ifnull(sum(nBytes), 0) FROM log_chunks WHERE trialId = ?1 AND open")      \
    S(CHUNK_OF, N_NOUN, "SELECT max(id) FROM log_chunks WHERE trialId = ?1 AND id <= ?2")         \
    S(CHUNKS_UP, N_NOUN,                                                                          \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE " CHUNK_MATCHES " ORDER BY id")             \
    S(CHUNKS_DOWN, N_NOUN,                                                                        \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE " CHUNK_MATCHES " ORDER BY id DESC")        \
    S(CHUNKS_DISCARD, N_NOUN,                                                                     \
      "DELETE FROM log_chunks WHERE id IN (SELECT id FROM log_chunks"                             \
      " WHERE trialId = ?1 AND lastTime < ?2 LIMIT 64)")                                          \
    S(CHUNK_TO_SHORTEN, N_NOUN,                                                                   \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE trialId = ?1 AND firstTime < ?2 LIMIT 1")   \
    S(OLD_LINES_RANGE, N_NOUN,                                                                    \
      "SELECT (SELECT min(id) FROM logs WHERE trialId = ?1),"                                     \
      " (SELECT max(id) FROM logs WHERE trialId = ?1)")                                           \
    S(OLD_LINES_UP, NOUN_LOG_LINE,                                                                \
      "SELECT %s FROM logs WHERE trialId = ?1 AND id > ?2 AND id < ?3 ORDER BY id")               \
    S(OLD_LINES_DOWN, NOUN_LOG_LINE,                                                              \
      "SELECT %s FROM logs WHERE trialId = ?1 AND id > ?2 AND id < ?3 ORDER BY id DESC")          \
    S(OLD_LINES_TRIAL, N_NOUN, "SELECT min(trialId) FROM logs")                                   \
    S(OLD_LINES_MOVED, N_NOUN, "DELETE FROM logs WHERE trialId = ?1 AND id <= ?2")                \
    S(OLD_LINES_DISCARD, N_NOUN,                                                                  \
      "DELETE FROM logs WHERE id IN (SELECT id FROM logs"                                         \
      " WHERE trialId = ?1 AND timestamp < ?2 LIMIT 1000)")                                       \
    S(METRICS_DISCARD, N_NOUN,                                                                    \
      "DELETE FROM metrics WHERE trialId = ?1 AND (\"group\", stepsCompleted, trialRunId) IN"     \
      " (SELECT \"group\", stepsCompleted, trialRunId FROM metrics WHERE trialId = ?1 LIMIT "     \
      "1000)")                                                                                    \
    S(NEXT_LOG_ID, N_NOUN,                                                                        \
      "SELECT 1 + max(ifnull((SELECT lastId FROM log_chunks ORDER BY id DESC LIMIT 1), 0),"       \
      " ifnull((SELECT max(id) FROM logs), 0),"                                                   \
      " ifnull((SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'last_log_id'), 0))")    \
    S(LAST_LOG_ID_SAVE, N_NOUN, "INSERT OR REPLACE INTO settings VALUES('last_log_id', ?1)")      \
    S(DISCARD, N_NOUN,                                                                            \
      "INSERT INTO discards VALUES(?1, ?2) ON CONFLICT DO UPDATE"                                 \
      " SET before = max(before, excluded.before)")                                               \
    S(DISCARD_TRIALS, N_NOUN,                                                                     \
      "INSERT INTO discards SELECT id, 9223372036854775807 FROM trials WHERE experimentId = ?1"   \
      " ON CONFLICT DO UPDATE SET before = excluded.before")                                      \
    S(DISCARD_FIND, N_NOUN, "SELECT trialId, before FROM discards LIMIT 1")                       \
    S(DISCARD_DONE, N_NOUN, "DELETE FROM discards WHERE trialId = ?1")                            \
    S(CONTEXTS_LIST, N_NOUN,                                                                      \
      "SELECT DISTINCT modelDefinition FROM experiments WHERE modelDefinition IS NOT NULL")       \
    S(OLD_LOGS_LIST, N_NOUN,                                                                      \
      "SELECT trials.id FROM trials JOIN experiments ON experiments.id = experimentId"            \
      " WHERE trials.endTime > 0 AND ifnull(logRetentionDays, ?2) >= 0"                           \
      " AND trials.endTime <= ?1 - ifnull(logRetentionDays, ?2) * 86400000000"                    \
      " AND (EXISTS (SELECT 1 FROM log_chunks WHERE trialId = trials.id)"                         \
      " OR EXISTS (SELECT 1 FROM logs WHERE trialId = trials.id))"                                \
      " AND NOT EXISTS (SELECT 1 FROM discards WHERE trialId = trials.id) LIMIT 10000")           \
    S(LABELS_LIST, N_NOUN,                                                                        \
      "SELECT DISTINCT value FROM experiments, json_each(labels) ORDER BY value")                 \
    S(NEXT_IDS, N_NOUN,                                                                           \
      "SELECT (SELECT ifnull(max(id), 0) + 1 FROM experiments),"                                  \
      " (SELECT max(ifnull((SELECT max(id) FROM trials), 0), ifnull((SELECT max(trialId) FROM "   \
      "discards), 0)) + 1),"                                                                      \
      " (SELECT ifnull(max(id), 0) + 1 FROM users)")

enum statement {
#define DB_STATEMENT_NAME(name, noun, text) SQL_##name,
    DB_STATEMENTS(DB_STATEMENT_NAME)
#undef DB_STATEMENT_NAME
        N_STATEMENT
};

enum { DB_BUSY_MS = 10000 }; // how long another program may have the lock

// One connection and its prepared statements. Used by one thread.
struct connection {
    sqlite3 *sql;
    sqlite3_stmt *statements[N_STATEMENT];
};

void connection_check(void); // that the calling thread may wait for the disk

int connection_open(struct connection *c, const char *path, bool read_only, det_err *err);
void connection_close(struct connection *c);

// Prepared at first use; reset and without values. NULL after an error, which is SQLite's.
sqlite3_stmt *connection_statement(struct connection *c, enum statement id);

// Values that a record's fields are stored as.
enum value_kind { VALUE_NULL, VALUE_INT, VALUE_REAL, VALUE_TEXT, VALUE_BLOB };

struct value {
    enum value_kind kind;
    int64_t integer;
    double real;
    struct str bytes;
};

int value_bind(sqlite3_stmt *s, int index, const struct value *v); // SQLite's code

#define VALUE_OF_INT(x) ((struct value){.kind = VALUE_INT, .integer = (x)})
#define VALUE_OF_REAL(x) ((struct value){.kind = VALUE_REAL, .real = (x)})
#define VALUE_OF_TEXT(s) ((struct value){.kind = VALUE_TEXT, .bytes = (s)})

// A statement with values for its first parameters; NULL after an error, which is SQLite's.
sqlite3_stmt *statement_start(struct connection *c, enum statement id, const struct value *values,
                              int n);
// The same for one that gives nothing.
int statement_run(struct connection *c, enum statement id, const struct value *values, int n,
                  det_err *err);
// The same for one that gives a row with a number; a null, and no row, are `otherwise`.
int statement_number(struct connection *c, enum statement id, const struct value *values, int n,
                     int64_t otherwise, int64_t *out, det_err *err);
// The end of one that was stepped to rc; resets it.
int statement_end(struct connection *c, sqlite3_stmt *s, int rc, det_err *err);

// The value of a field, with texts in the arena.
struct value value_of(const struct field *f, const void *record, struct arena *a);

// Fills a record from the row that s stands on. Its columns are those of the table, in order.
int record_read(sqlite3_stmt *s, const struct table *t, struct arena *a, void *out, det_err *err);

// Text of a column that lives in the arena; NULL for a null.
const char *column_text(sqlite3_stmt *s, int column, struct arena *a);

// A document as JSON in the arena.
struct str json_text(const struct doc *doc, struct arena *a);
