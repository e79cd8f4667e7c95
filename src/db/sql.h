// db/sql.h: every statement there is. Private to the layer.
//
// They are written in the words of db/dialect.h, for both engines. Lists (list.c) are put together
// from parts, and the schema is in migrate.c.
#pragma once

#define CHUNK_COLUMNS                                                             \
    "id, lastId, trialId, firstTime, lastTime, levels, ranks, sources, stdtypes," \
    " nBytes, open, lines, nLines"
#define CHUNK_MATCHES                                                                            \
    "trialId = ?1 AND id >= ?2 AND id < ?3 AND lastTime > ?4 AND firstTime < ?5"                 \
    " AND (levels & ?6) <> 0 AND (ranks & ?7) <> 0 AND (sources & ?8) <> 0 AND (stdtypes & ?9) " \
    "<> 0"

// The groups of trial ?1, from one to the next: the reports between are not looked at.
#define METRIC_GROUPS                                                        \
    "g(name) AS (SELECT min(\"group\") FROM metrics WHERE trialId = ?1"      \
    " UNION ALL SELECT (SELECT min(\"group\") FROM metrics WHERE trialId = " \
    "?1 AND \"group\" > g.name) FROM g WHERE g.name IS NOT NULL)"

#define OF_EXPERIMENT "(SELECT id FROM trials WHERE experimentId = ?1)"

// S(name, noun, text): %s in the text stands for the columns of the noun; a text of NULL is the one
// that saves a record.
#define DB_STATEMENTS(S)                                                                          \
    S(BEGIN, N_NOUN, "BEGIN IMMEDIATE")                                                           \
    S(SNAPSHOT, N_NOUN, "BEGIN DEFERRED")                                                         \
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
    S(CONFIG_SAVE, N_NOUN,                                                                        \
      "INSERT INTO configs(experimentId, complete, original) VALUES(?1, ?2, ?3)"                  \
      " ON CONFLICT(experimentId) DO UPDATE SET complete = excluded.complete,"                    \
      " original = excluded.original")                                                            \
    S(CONFIG_CHANGE, N_NOUN, "UPDATE configs SET complete = ?2 WHERE experimentId = ?1")          \
    S(CONFIG_FIND, N_NOUN, "SELECT complete, original FROM configs WHERE experimentId = ?1")      \
    S(SEARCHER_SAVE, N_NOUN,                                                                      \
      "INSERT INTO searchers(experimentId, snapshot) VALUES(?1, ?2)"                              \
      " ON CONFLICT(experimentId) DO UPDATE SET snapshot = excluded.snapshot")                    \
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
    S(CHECKPOINT_VALIDATION, N_NOUN,                                                              \
      "SELECT m.metrics FROM checkpoints c JOIN metrics m ON m.trialId = c.trialId"               \
      " AND m.\"group\" = 'validation' AND m.stepsCompleted = c.stepsCompleted"                   \
      " WHERE c.uuid = ?1 AND m.outdated = 0 ORDER BY m.trialRunId DESC LIMIT 1")                 \
    S(CHECKPOINT_VALUE, N_NOUN, "UPDATE checkpoints SET searcherMetric = ?2 WHERE uuid = ?1")     \
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
    S(SESSION_SAVE, N_NOUN,                                                                       \
      "INSERT INTO sessions(hash, userId, allocationId, trialId, expiresAt)"                      \
      " VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(hash) DO UPDATE SET userId = excluded.userId,"     \
      " allocationId = excluded.allocationId, trialId = excluded.trialId,"                        \
      " expiresAt = excluded.expiresAt")                                                          \
    S(SESSIONS_LIST, NOUN_SESSION, "SELECT %s, hash FROM sessions ORDER BY expiresAt")            \
    S(SESSION_DELETE, N_NOUN, "DELETE FROM sessions WHERE hash = ?1")                             \
    S(SESSIONS_DELETE_USER, N_NOUN,                                                               \
      "DELETE FROM sessions WHERE userId = ?1 AND allocationId IS NULL")                          \
    S(SESSIONS_DELETE_ALLOCATION, N_NOUN, "DELETE FROM sessions WHERE allocationId = ?1")         \
    S(SESSIONS_DELETE_EXPIRED, N_NOUN,                                                            \
      "DELETE FROM sessions WHERE expiresAt > 0 AND expiresAt <= ?1")                             \
    S(PASSWORD_SAVE, N_NOUN,                                                                      \
      "INSERT INTO passwords(userId, hash) VALUES(?1, ?2)"                                        \
      " ON CONFLICT(userId) DO UPDATE SET hash = excluded.hash")                                  \
    S(PASSWORD_FIND, N_NOUN, "SELECT hash FROM passwords WHERE userId = ?1")                      \
    S(SETTING_SAVE, N_NOUN,                                                                       \
      "INSERT INTO settings(name, value) VALUES(?1, ?2)"                                          \
      " ON CONFLICT(name) DO UPDATE SET value = excluded.value")                                  \
    S(SETTING_DELETE, N_NOUN, "DELETE FROM settings WHERE name = ?1")                             \
    S(SETTINGS_LIST, N_NOUN,                                                                      \
      "SELECT name, value FROM settings WHERE substr(name, 1, length(?1)) = ?1")                  \
    S(SETTING_FIND, N_NOUN, "SELECT value FROM settings WHERE name = ?1")                         \
    S(KEY_USE, N_NOUN, "INSERT INTO keys(key, usedAt) VALUES(?1, ?2)")                            \
    S(KEY_FIND, N_NOUN, "SELECT 1 FROM keys WHERE key = ?1")                                      \
    S(KEYS_FORGET, N_NOUN, "DELETE FROM keys WHERE usedAt < ?1")                                  \
    S(JOURNAL_USE, N_NOUN,                                                                        \
      "INSERT INTO journals(id, last, usedAt) VALUES(?1, ?2, ?3)"                                 \
      " ON CONFLICT(id) DO UPDATE SET last = GREATEST(journals.last, excluded.last),"             \
      " usedAt = excluded.usedAt")                                                                \
    S(JOURNAL_FIND, N_NOUN, "SELECT last FROM journals WHERE id = ?1")                            \
    S(JOURNALS_FORGET, N_NOUN, "DELETE FROM journals WHERE usedAt < ?1")                          \
    S(METRICS_ADD, N_NOUN,                                                                        \
      "INSERT INTO metrics(trialId, trialRunId, \"group\", stepsCompleted, reportTime, metrics)"  \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                                          \
    S(METRICS_FIND, N_NOUN,                                                                       \
      "SELECT metrics FROM metrics WHERE trialId = ?1 AND trialRunId = ?2"                        \
      " AND \"group\" = ?3 AND stepsCompleted = ?4")                                              \
    S(METRICS_CHANGE, N_NOUN,                                                                     \
      "UPDATE metrics SET reportTime = ?5, metrics = ?6 WHERE trialId = ?1"                       \
      " AND trialRunId = ?2 AND \"group\" = ?3 AND stepsCompleted = ?4")                          \
    S(METRICS_LAST, N_NOUN,                                                                       \
      "SELECT max(stepsCompleted) FROM metrics WHERE trialId = ?1 AND \"group\" = ?2")            \
    S(SUMMARY_ADD, N_NOUN,                                                                        \
      "INSERT INTO summaries(trialId, \"group\", name, count, sum, min, max, last)"               \
      " VALUES(?1, ?2, ?3, 1, ?4, ?4, ?4, ?4) ON CONFLICT(trialId, \"group\", name)"              \
      " DO UPDATE SET count = summaries.count + 1,"                                               \
      " sum = summaries.sum + excluded.sum,"                                                      \
      " min = LEAST(summaries.min, excluded.min), max = GREATEST(summaries.max, excluded.max),"   \
      " last = excluded.last")                                                                    \
    S(METRICS_OUTDATE, N_NOUN,                                                                    \
      "UPDATE metrics SET outdated = 1 WHERE trialId = ?1 AND \"group\" = ?2"                     \
      " AND stepsCompleted >= ?3 AND trialRunId < ?4 AND outdated = 0")                           \
    S(SUMMARIES_CLEAR, N_NOUN, "DELETE FROM summaries WHERE trialId = ?1")                        \
    S(SUMMARY_MERGE, N_NOUN,                                                                      \
      "INSERT INTO summaries(trialId, \"group\", name, count, sum, min, max, last)"               \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(trialId, \"group\", name)"             \
      " DO UPDATE SET count = summaries.count + excluded.count,"                                  \
      " sum = summaries.sum + excluded.sum,"                                                      \
      " min = LEAST(summaries.min, excluded.min), max = GREATEST(summaries.max, excluded.max),"   \
      " last = excluded.last")                                                                    \
    S(SAMPLE_ADD, N_NOUN,                                                                         \
      "INSERT INTO samples(trialId, time, cpu, memory, gpu, gpuMemory)"                           \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(trialId, time) DO UPDATE"                      \
      " SET cpu = excluded.cpu, memory = excluded.memory, gpu = excluded.gpu,"                    \
      " gpuMemory = excluded.gpuMemory")                                                          \
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
    S(SPAN_ADD, N_NOUN,                                                                           \
      "INSERT INTO metric_spans(trialId, \"group\", lastSteps) VALUES(?1, ?2, ?3)")               \
    S(SPAN_DELETE, N_NOUN,                                                                        \
      "DELETE FROM metric_spans WHERE trialId = ?1 AND \"group\" = ?2 AND lastSteps = ?3")        \
    S(SPANS_DELETE_FROM, N_NOUN,                                                                  \
      "DELETE FROM metric_spans WHERE trialId = ?1 AND lastSteps >= ?2")                          \
    S(POINTS_PUT, N_NOUN,                                                                         \
      "INSERT INTO metric_chunks(trialId, \"group\", name, lastSteps, count, firstPoint,"         \
      " lastPoint, firstTime, lastTime, sum, min, max, last, points)"                             \
      " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"                      \
      " ON CONFLICT(trialId, \"group\", name, lastSteps) DO UPDATE SET count = excluded.count,"   \
      " firstPoint = excluded.firstPoint, lastPoint = excluded.lastPoint,"                        \
      " firstTime = excluded.firstTime, lastTime = excluded.lastTime, sum = excluded.sum,"        \
      " min = excluded.min, max = excluded.max, last = excluded.last, points = excluded.points")  \
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
      " AND stepsCompleted > ?3 AND outdated = 0 LIMIT ?4) AS tail")                              \
    S(TAIL, N_NOUN,                                                                               \
      "SELECT stepsCompleted, reportTime, metrics FROM metrics WHERE trialId = ?1"                \
      " AND \"group\" = ?2 AND stepsCompleted > ?3 AND stepsCompleted <= ?4 AND outdated = 0"     \
      " ORDER BY stepsCompleted, trialRunId LIMIT ?5")                                            \
    S(DUE_ADD, N_NOUN,                                                                            \
      "INSERT INTO metric_due(trialId, \"group\", whole) VALUES(?1, ?2, ?3)"                      \
      " ON CONFLICT(trialId, \"group\") DO UPDATE"                                                \
      " SET whole = GREATEST(metric_due.whole, excluded.whole)")                                  \
    S(DUE_ADD_TRIAL, N_NOUN,                                                                      \
      "INSERT INTO metric_due(trialId, \"group\", whole) WITH RECURSIVE " METRIC_GROUPS           \
      " SELECT CAST(?1 AS INTEGER), name, 1 FROM g WHERE name IS NOT NULL"                        \
      " ON CONFLICT(trialId, \"group\") DO UPDATE SET whole = 1")                                 \
    S(DUE_FIND, N_NOUN, "SELECT trialId, \"group\", whole FROM metric_due LIMIT 1")               \
    S(DUE_DONE, N_NOUN, "DELETE FROM metric_due WHERE trialId = ?1 AND \"group\" = ?2")           \
    S(SERIES_BELOW, N_NOUN,                                                                       \
      "SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'series_below'")                  \
    S(SERIES_BELOW_SAVE, N_NOUN, "UPDATE settings SET value = ?1 WHERE name = 'series_below'")    \
    S(SERIES_BELOW_DELETE, N_NOUN, "DELETE FROM settings WHERE name = 'series_below'")            \
    S(TRIAL_BELOW, N_NOUN, "SELECT max(trialId) FROM metrics WHERE trialId < ?1")                 \
    S(METRICS_LIST, NOUN_METRIC_REPORT,                                                           \
      "SELECT %s FROM metrics WHERE trialId = ?1 AND \"group\" = ?2 AND stepsCompleted > ?3"      \
      " AND outdated = 0 ORDER BY stepsCompleted LIMIT ?4")                                       \
    S(METRICS_AFTER, NOUN_METRIC_REPORT,                                                          \
      "SELECT %s FROM metrics WHERE trialId = ?1 AND \"group\" = ?2"                              \
      " AND (stepsCompleted, trialRunId) > (?3, ?4) AND outdated = 0"                             \
      " ORDER BY stepsCompleted, trialRunId LIMIT ?5")                                            \
    S(METRICS_GROUPS, N_NOUN,                                                                     \
      "WITH RECURSIVE " METRIC_GROUPS " SELECT name FROM g WHERE name IS NOT NULL")               \
    S(SUMMARIES_LIST, NOUN_METRIC_SUMMARY,                                                        \
      "SELECT %s FROM summaries WHERE trialId = ?1 ORDER BY \"group\", name")                     \
    S(METRIC_VALUES, N_NOUN,                                                                      \
      "SELECT s.trialId, s.min, s.max, s.last FROM trials t JOIN summaries s ON s.trialId = t.id" \
      " WHERE t.experimentId = ?1 AND s.\"group\" = ?2 AND s.name = ?3 ORDER BY t.id")            \
    S(SERIES_TAIL, N_NOUN,                                                                        \
      "SELECT stepsCompleted, reportTime, metrics FROM metrics WHERE trialId = ?1"                \
      " AND \"group\" = ?2 AND stepsCompleted > ?3 AND outdated = 0"                              \
      " ORDER BY stepsCompleted, trialRunId")                                                     \
    S(SERIES_BEST, N_NOUN,                                                                        \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NOT NULL"         \
      " ORDER BY ifnull(searcherMetricValue, INFINITY) LIMIT ?2")                                 \
    S(SERIES_BEST_DOWN, N_NOUN,                                                                   \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NOT NULL"         \
      " ORDER BY ifnull(searcherMetricValue, INFINITY) DESC LIMIT ?2")                            \
    S(SERIES_OTHERS, N_NOUN,                                                                      \
      "SELECT id FROM trials WHERE experimentId = ?1 AND searcherMetricValue IS NULL"             \
      " ORDER BY id LIMIT ?2")                                                                    \
    S(METRIC_NAMES, N_NOUN,                                                                       \
      "SELECT s.\"group\", s.name, count(*) FROM trials t JOIN summaries s ON s.trialId = t.id"   \
      " WHERE t.experimentId = ?1 GROUP BY s.\"group\", s.name ORDER BY s.\"group\", s.name")     \
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
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE trialId = ?1 AND open = 1 ORDER BY id")     \
    S(CHUNKS_COUNT_OPEN, N_NOUN,                                                                  \
      "SELECT count(*), CAST(ifnull(sum(nBytes), 0) AS INTEGER) FROM log_chunks"                  \
      " WHERE trialId = ?1 AND open = 1")                                                         \
    S(CHUNK_OF, N_NOUN, "SELECT max(id) FROM log_chunks WHERE trialId = ?1 AND id <= ?2")         \
    S(CHUNKS_UP, N_NOUN,                                                                          \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE " CHUNK_MATCHES " ORDER BY id LIMIT ?10")   \
    S(CHUNKS_DOWN, N_NOUN,                                                                        \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE " CHUNK_MATCHES                             \
      " ORDER BY id DESC LIMIT ?10")                                                              \
    S(CHUNKS_DISCARD, N_NOUN,                                                                     \
      "DELETE FROM log_chunks WHERE id IN (SELECT id FROM log_chunks"                             \
      " WHERE trialId = ?1 AND lastTime < ?2 LIMIT 64)")                                          \
    S(CHUNK_TO_SHORTEN, N_NOUN,                                                                   \
      "SELECT " CHUNK_COLUMNS " FROM log_chunks WHERE trialId = ?1 AND firstTime < ?2 LIMIT 1")   \
    S(OLD_LINES_RANGE, N_NOUN,                                                                    \
      "SELECT (SELECT min(id) FROM logs WHERE trialId = ?1),"                                     \
      " (SELECT max(id) FROM logs WHERE trialId = ?1)")                                           \
    S(OLD_LINES_UP, NOUN_LOG_LINE,                                                                \
      "SELECT %s FROM logs WHERE trialId = ?1 AND id > ?2 AND id < ?3 ORDER BY id LIMIT ?4")      \
    S(OLD_LINES_DOWN, NOUN_LOG_LINE,                                                              \
      "SELECT %s FROM logs WHERE trialId = ?1 AND id > ?2 AND id < ?3 ORDER BY id DESC LIMIT ?4") \
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
      "SELECT 1 + GREATEST(ifnull((SELECT lastId FROM log_chunks ORDER BY id DESC LIMIT 1), 0),"  \
      " ifnull((SELECT max(id) FROM logs), 0),"                                                   \
      " ifnull((SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'last_log_id'), 0))")    \
    S(LAST_LOG_ID_SAVE, N_NOUN,                                                                   \
      "INSERT INTO settings(name, value) VALUES('last_log_id', ?1)"                               \
      " ON CONFLICT(name) DO UPDATE SET value = excluded.value")                                  \
    S(DISCARD, N_NOUN,                                                                            \
      "INSERT INTO discards(trialId, before) VALUES(?1, ?2) ON CONFLICT(trialId) DO UPDATE"       \
      " SET before = GREATEST(discards.before, excluded.before)")                                 \
    S(DISCARD_TRIALS, N_NOUN,                                                                     \
      "INSERT INTO discards(trialId, before)"                                                     \
      " SELECT id, 9223372036854775807 FROM trials WHERE experimentId = ?1"                       \
      " ON CONFLICT(trialId) DO UPDATE SET before = excluded.before")                             \
    S(DISCARD_FIND, N_NOUN, "SELECT trialId, before FROM discards LIMIT 1")                       \
    S(HAS_DISCARDS, N_NOUN, "SELECT 1 FROM discards LIMIT 1")                                     \
    S(HAS_OLD_LINES, N_NOUN, "SELECT 1 FROM logs LIMIT 1")                                        \
    S(HAS_UNCOUNTED, N_NOUN, "SELECT 1 FROM log_chunks WHERE nLines IS NULL LIMIT 1")             \
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
    S(LABELS_LIST, N_NOUN, "SELECT DISTINCT label FROM experiment_labels ORDER BY label")         \
    S(LABELS_CLEAR, N_NOUN, "DELETE FROM experiment_labels WHERE experimentId = ?1")              \
    S(LABEL_ADD, N_NOUN,                                                                          \
      "INSERT INTO experiment_labels(experimentId, label) VALUES(?1, ?2)"                         \
      " ON CONFLICT(experimentId, label) DO NOTHING")                                             \
    /* of PostgreSQL: who may write (postgres_store.c) */                                         \
    S(CLUSTER_IS_THERE, N_NOUN, "SELECT to_regclass('cluster') IS NOT NULL")                      \
    S(CLUSTER_VERSION, N_NOUN, "SELECT version FROM cluster")                                     \
    S(CLUSTER_SET_VERSION, N_NOUN, "UPDATE cluster SET version = ?1")                             \
    S(CLUSTER_LOCK, N_NOUN,                                                                       \
      "SELECT pg_try_advisory_lock(hashtextextended('det ' || current_schema(), 0))")             \
    S(CLUSTER_UNLOCK, N_NOUN,                                                                     \
      "SELECT pg_advisory_unlock(hashtextextended('det ' || current_schema(), 0))")               \
    S(CLUSTER_HOLDER, N_NOUN, "SELECT holder FROM cluster")                                       \
    S(CLUSTER_BEGIN, N_NOUN, "UPDATE cluster SET epoch = epoch + 1, batch = 0, holder = ?1")      \
    S(CLUSTER_EPOCH, N_NOUN, "SELECT epoch FROM cluster")                                         \
    S(CLUSTER_FENCE, N_NOUN, "UPDATE cluster SET batch = ?1 WHERE epoch = ?2")                    \
    S(CLUSTER_LAST, N_NOUN, "SELECT epoch, batch FROM cluster")                                   \
    S(SERVER_SETTINGS, N_NOUN,                                                                    \
      "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes')"                  \
      " AND setting = 'off'")                                                                     \
    S(NEXT_IDS, N_NOUN,                                                                           \
      "SELECT (SELECT ifnull(max(id), 0) + 1 FROM experiments),"                                  \
      " (SELECT GREATEST(ifnull((SELECT max(id) FROM trials), 0),"                                \
      " ifnull((SELECT max(trialId) FROM discards), 0)) + 1),"                                    \
      " (SELECT ifnull(max(id), 0) + 1 FROM users)")

enum statement {
#define DB_STATEMENT_NAME(name, noun, text) SQL_##name,
    DB_STATEMENTS(DB_STATEMENT_NAME)
#undef DB_STATEMENT_NAME
        N_STATEMENT
};
