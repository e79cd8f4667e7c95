// Unit migrate.c: the schema, as the list of steps that led to it. A step that was released is
// never changed; a new column is a new step.
#include "db/migrate.h"

#include "base/assert.h"
#include "db/sqlite.h"

// Names of columns are those of the field tables in entity/record.c.
static const char *const steps[] = {
    // 1
    "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE users(id INTEGER PRIMARY KEY, username TEXT NOT NULL UNIQUE, displayName TEXT,"
    " admin INTEGER NOT NULL, active INTEGER NOT NULL, modifiedAt INTEGER NOT NULL);"
    "CREATE TABLE passwords(userId INTEGER PRIMARY KEY, hash TEXT NOT NULL);"
    "CREATE TABLE sessions(hash BLOB PRIMARY KEY, userId INTEGER NOT NULL, allocationId TEXT,"
    " trialId INTEGER NOT NULL, expiresAt INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX sessions_user ON sessions(userId);"
    "CREATE INDEX sessions_allocation ON sessions(allocationId) WHERE allocationId IS NOT NULL;"
    "CREATE TABLE templates(name TEXT PRIMARY KEY, config TEXT NOT NULL, userId INTEGER NOT NULL);"
    "CREATE TABLE keys(key TEXT PRIMARY KEY, usedAt INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX keys_age ON keys(usedAt);"

    "CREATE TABLE experiments(id INTEGER PRIMARY KEY, type TEXT NOT NULL, state TEXT NOT NULL,"
    " name TEXT, description TEXT, notes TEXT, labels TEXT NOT NULL, archived INTEGER NOT NULL,"
    " userId INTEGER NOT NULL, forkedFrom INTEGER, progress REAL, startTime INTEGER NOT NULL,"
    " endTime INTEGER NOT NULL, numTrials INTEGER NOT NULL, searcherType TEXT, searcherMetric TEXT,"
    " smallerIsBetter INTEGER NOT NULL, bestTrialId INTEGER, bestTrialSearcherMetric REAL,"
    " resourcePool TEXT, jobId TEXT, modelDefinition TEXT, reason TEXT);"
    "CREATE TABLE configs(experimentId INTEGER PRIMARY KEY, complete TEXT NOT NULL,"
    " original TEXT NOT NULL);"
    "CREATE TABLE searchers(experimentId INTEGER PRIMARY KEY, snapshot TEXT NOT NULL);"
    "CREATE TABLE jobs(jobId TEXT PRIMARY KEY, experimentId INTEGER NOT NULL, state TEXT NOT NULL,"
    " priority INTEGER NOT NULL, weight REAL NOT NULL, resourcePool TEXT,"
    " submissionTime INTEGER NOT NULL, position REAL NOT NULL);"
    "CREATE INDEX jobs_experiment ON jobs(experimentId);"

    "CREATE TABLE trials(id INTEGER PRIMARY KEY, experimentId INTEGER NOT NULL,"
    " number INTEGER NOT NULL, requestId TEXT,"
    " taskId TEXT, state TEXT NOT NULL, hparams TEXT, seed INTEGER NOT NULL,"
    " restarts INTEGER NOT NULL, runId INTEGER NOT NULL, startTime INTEGER NOT NULL,"
    " endTime INTEGER NOT NULL, totalBatchesProcessed INTEGER NOT NULL, searcherMetricValue REAL,"
    " bestValidation TEXT, latestValidation TEXT, latestCheckpoint TEXT,"
    " warmStartCheckpointUuid TEXT, operation INTEGER, closing INTEGER NOT NULL,"
    " runnerState TEXT, progress REAL, reason TEXT);"
    "CREATE INDEX trials_id ON trials(experimentId);"
    "CREATE INDEX trials_state ON trials(experimentId, state);"
    "CREATE INDEX trials_metric ON trials(experimentId, ifnull(searcherMetricValue, 9e999));"
    "CREATE INDEX trials_batches ON trials(experimentId, totalBatchesProcessed);"
    "CREATE INDEX trials_start ON trials(experimentId, startTime);"
    "CREATE INDEX trials_end ON trials(experimentId, endTime);"
    "CREATE INDEX trials_restarts ON trials(experimentId, restarts);"
    "CREATE INDEX trials_warm_start ON trials(warmStartCheckpointUuid)"
    " WHERE warmStartCheckpointUuid IS NOT NULL;"
    "CREATE TABLE allocations(allocationId TEXT PRIMARY KEY, taskId TEXT, trialId INTEGER NOT NULL,"
    " runId INTEGER NOT NULL, state TEXT NOT NULL, slots INTEGER NOT NULL,"
    " startTime INTEGER NOT NULL, endTime INTEGER NOT NULL, isReady INTEGER NOT NULL,"
    " preempt INTEGER NOT NULL, kill INTEGER NOT NULL, preemptionAcked INTEGER NOT NULL,"
    " invalidHp INTEGER NOT NULL, exit TEXT, exitStatus INTEGER NOT NULL, reason TEXT,"
    " token INTEGER NOT NULL, logOffset INTEGER NOT NULL);"
    "CREATE INDEX allocations_trial ON allocations(trialId, runId);"
    "CREATE INDEX allocations_live ON allocations(state) WHERE state <> 'STATE_TERMINATED';"
    "CREATE TABLE checkpoints(uuid TEXT PRIMARY KEY, taskId TEXT, allocationId TEXT,"
    " experimentId INTEGER NOT NULL, trialId INTEGER NOT NULL, state TEXT NOT NULL,"
    " reportTime INTEGER NOT NULL, stepsCompleted INTEGER NOT NULL, size INTEGER NOT NULL,"
    " resources TEXT, metadata TEXT, searcherMetric REAL);"
    "CREATE INDEX checkpoints_experiment ON checkpoints(experimentId);"
    "CREATE INDEX checkpoints_trial ON checkpoints(trialId, stepsCompleted);"

    // A report of an older run that no longer counts is kept, out of sight.
    "CREATE TABLE metrics(trialId INTEGER NOT NULL, \"group\" TEXT NOT NULL,"
    " stepsCompleted INTEGER NOT NULL, trialRunId INTEGER NOT NULL, reportTime INTEGER NOT NULL,"
    " metrics TEXT NOT NULL, outdated INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(trialId, \"group\", stepsCompleted, trialRunId)) WITHOUT ROWID;"
    "CREATE TABLE summaries(trialId INTEGER NOT NULL, \"group\" TEXT NOT NULL, name TEXT NOT NULL,"
    " count INTEGER NOT NULL, sum REAL, min REAL, max REAL, last REAL,"
    " PRIMARY KEY(trialId, \"group\", name)) WITHOUT ROWID;"
    "CREATE TABLE logs(id INTEGER PRIMARY KEY, trialId INTEGER NOT NULL,"
    " timestamp INTEGER NOT NULL, level TEXT, rankId INTEGER, allocationId TEXT, agentId TEXT,"
    " containerId TEXT, source TEXT, stdtype TEXT, log TEXT NOT NULL);"
    "CREATE INDEX logs_trial ON logs(trialId, id);",

    // 2
    "CREATE TABLE journals(id TEXT PRIMARY KEY, last INTEGER NOT NULL, usedAt INTEGER NOT NULL)"
    " WITHOUT ROWID;",

    // 3
    "ALTER TABLE experiments ADD COLUMN private INTEGER NOT NULL DEFAULT 0;",

    // 4: a log is kept in chunks (chunk.h). Lines in logs wait to be moved (tidy.c). Numbers of
    // lines go on behind theirs. What is to be deleted and may be much is deleted some at a time:
    // what discards says about a trial.
    "CREATE TABLE log_chunks(id INTEGER PRIMARY KEY, lastId INTEGER NOT NULL,"
    " trialId INTEGER NOT NULL, firstTime INTEGER NOT NULL, lastTime INTEGER NOT NULL,"
    " levels INTEGER NOT NULL, ranks INTEGER NOT NULL, sources INTEGER NOT NULL,"
    " stdtypes INTEGER NOT NULL, nBytes INTEGER NOT NULL, open INTEGER NOT NULL,"
    " lines BLOB NOT NULL);"
    "CREATE INDEX log_chunks_trial ON log_chunks(trialId, id);"
    "CREATE INDEX log_chunks_open ON log_chunks(trialId, id, nBytes) WHERE open;"
    "CREATE TABLE discards(trialId INTEGER PRIMARY KEY, before INTEGER NOT NULL);"
    "INSERT INTO settings SELECT 'last_log_id', ifnull(max(id), 0) FROM logs;",

    // 5: metrics as series, beside the reports (series_write.h). What is there is seen to from the
    // latest trial on: those from series_below on are done.
    "CREATE TABLE metric_spans(trialId INTEGER NOT NULL, \"group\" TEXT NOT NULL,"
    " lastSteps INTEGER NOT NULL, PRIMARY KEY(trialId, \"group\", lastSteps)) WITHOUT ROWID;"
    "CREATE TABLE metric_chunks(trialId INTEGER NOT NULL, \"group\" TEXT NOT NULL,"
    " name TEXT NOT NULL, lastSteps INTEGER NOT NULL, count INTEGER NOT NULL,"
    " firstPoint INTEGER NOT NULL, lastPoint INTEGER NOT NULL, firstTime INTEGER NOT NULL,"
    " lastTime INTEGER NOT NULL, sum REAL, min REAL, max REAL, last REAL, points BLOB NOT NULL,"
    " PRIMARY KEY(trialId, \"group\", name, lastSteps)) WITHOUT ROWID;"
    "CREATE TABLE metric_due(trialId INTEGER NOT NULL, \"group\" TEXT NOT NULL,"
    " whole INTEGER NOT NULL, PRIMARY KEY(trialId, \"group\")) WITHOUT ROWID;"
    "INSERT INTO settings SELECT 'series_below', last + 1 FROM"
    " (SELECT max(trialId) AS last FROM metrics) WHERE last IS NOT NULL;",

    // 6
    "ALTER TABLE allocations ADD COLUMN assignedTime INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE allocations ADD COLUMN fromBatch INTEGER;"
    "ALTER TABLE allocations ADD COLUMN toBatch INTEGER;",

    // 7: how many lines a chunk of a log has, so that they can be counted without unpacking them.
    // Those that are there are counted by tidy.c.
    "ALTER TABLE log_chunks ADD COLUMN nLines INTEGER;"
    "DROP INDEX log_chunks_trial;"
    "CREATE INDEX log_chunks_trial ON log_chunks(trialId, id, lastId, nLines);"
    "CREATE INDEX log_chunks_uncounted ON log_chunks(id) WHERE nLines IS NULL;",

    // 8
    "ALTER TABLE experiments ADD COLUMN logRetentionDays INTEGER;",

    // 9: what tasks use of their machine.
    "CREATE TABLE samples(trialId INTEGER NOT NULL, time INTEGER NOT NULL, cpu REAL,"
    " memory INTEGER, gpu REAL, gpuMemory INTEGER, PRIMARY KEY(trialId, time)) WITHOUT ROWID;",
};

static int run(sqlite3 *sql, const char *text, det_err *err)
{
    int rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_fail(sql, rc, err);
}

static int read_version(sqlite3 *sql, int *out, det_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(sql, "PRAGMA user_version", -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int(s, 0);
    int code = rc == SQLITE_ROW ? 0 : sqlite_fail(sql, rc, err);
    sqlite3_finalize(s);
    return code;
}

// All steps from a version on, in one transaction: a new database is there with one sync.
static int take_steps(sqlite3 *sql, int version, int last, det_err *err)
{
    char mark[64];
    snprintf(mark, sizeof mark, "PRAGMA user_version = %d", last);
    int rc = run(sql, "BEGIN IMMEDIATE", err);
    for (; !rc && version < last; version++)
        rc = run(sql, steps[version], err);
    if (!rc) rc = run(sql, mark, err);
    if (!rc) rc = run(sql, "COMMIT", err);
    if (rc) sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int migrate_version(sqlite3 *sql, int *out, det_err *err)
{
    int version = 0;
    int rc = read_version(sql, &version, err);
    if (!rc && version > (int)STATIC_LEN(steps))
        rc = det_fail(err, DET_EUNSUPPORTED,
                      "the database has version %d, this program knows up to %d; use a newer det",
                      version, (int)STATIC_LEN(steps));
    if (!rc) *out = version;
    return rc;
}

bool migrate_is_old(int version)
{
    return version > 0 && version < (int)STATIC_LEN(steps);
}

int migrate(sqlite3 *sql, int version, det_err *err)
{
    const int today = (int)STATIC_LEN(steps);
    return version == today ? 0 : take_steps(sql, version, today, err);
}
