// Unit migrate.c: the schema, as the list of steps that led to it, in the words of db/dialect.h. What
// a step that was released does is never changed; a new column is a new step.
#include "db/migrate.h"

#include "base/assert.h"

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
    "CREATE INDEX trials_metric ON trials(experimentId, ifnull(searcherMetricValue, INFINITY));"
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
    "CREATE INDEX log_chunks_open ON log_chunks(trialId, id, nBytes) WHERE open = 1;"
    "CREATE TABLE discards(trialId INTEGER PRIMARY KEY, before INTEGER NOT NULL);"
    "INSERT INTO settings SELECT 'last_log_id', '' || ifnull(max(id), 0) FROM logs;",

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
    "INSERT INTO settings SELECT 'series_below', '' || (last + 1) FROM"
    " (SELECT max(trialId) AS last FROM metrics) AS trials WHERE last IS NOT NULL;",

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

    // 10: labels in a table of their own, where they can be searched. More in `own`.
    "CREATE TABLE experiment_labels(experimentId INTEGER NOT NULL, label TEXT NOT NULL,"
    " PRIMARY KEY(experimentId, label)) WITHOUT ROWID;"
    "CREATE INDEX experiment_labels_label ON experiment_labels(label, experimentId);",
};

// What only one engine has, or needs, after a step.
static const struct {
    int version;
    const char *sqlite, *postgres;
} own[] = {
    // Numbers are no truth values. PostgreSQL has no row numbers, and its indexes do not end with
    // them.
    {10,
     "INSERT INTO experiment_labels SELECT DISTINCT experiments.id, l.value FROM experiments,"
     " json_each(CASE WHEN json_valid(labels) THEN labels ELSE '[]' END) l WHERE l.value IS NOT "
     "NULL;"
     "DROP INDEX log_chunks_open;"
     "CREATE INDEX log_chunks_open ON log_chunks(trialId, id, nBytes) WHERE open = 1;",
     "ALTER TABLE allocations ADD COLUMN rowid INTEGER GENERATED BY DEFAULT AS IDENTITY;"
     "ALTER TABLE checkpoints ADD COLUMN rowid INTEGER GENERATED BY DEFAULT AS IDENTITY;"
     "ALTER TABLE templates ADD COLUMN rowid INTEGER GENERATED BY DEFAULT AS IDENTITY;"
     "DROP INDEX trials_id, trials_state, trials_metric, trials_batches, trials_start, trials_end,"
     " trials_restarts, checkpoints_experiment;"
     "CREATE INDEX trials_id ON trials(experimentId, id);"
     "CREATE INDEX trials_state ON trials(experimentId, state, id);"
     "CREATE INDEX trials_metric"
     " ON trials(experimentId, ifnull(searcherMetricValue, INFINITY), id);"
     "CREATE INDEX trials_batches ON trials(experimentId, totalBatchesProcessed, id);"
     "CREATE INDEX trials_start ON trials(experimentId, startTime, id);"
     "CREATE INDEX trials_end ON trials(experimentId, endTime, id);"
     "CREATE INDEX trials_restarts ON trials(experimentId, restarts, id);"
     "CREATE INDEX checkpoints_experiment ON checkpoints(experimentId, rowid);"},
};

static int run(struct connection *c, const char *text, det_err *err)
{
    struct buf words = BUF_INIT(1 << 18);
    dialect_write(c->backend->dialect, str_from(text), &words);
    int rc = c->backend->script(c, buf_str(&words).ptr, err);
    buf_done(&words);
    return rc;
}

static int take_step(struct connection *c, int version, det_err *err)
{
    int rc = run(c, steps[version - 1], err);
    for (size_t i = 0; !rc && i < STATIC_LEN(own); i++) {
        const char *text = c->backend == &sqlite_backend ? own[i].sqlite : own[i].postgres;
        if (own[i].version == version && text) rc = run(c, text, err);
    }
    return rc ? det_wrap(err, "version %d of the schema", version) : 0;
}

// All steps from a version on, in one transaction: a new database is there with one sync.
static int take_steps(struct connection *c, int version, int last, det_err *err)
{
    int rc = statement_run(c, SQL_BEGIN, NULL, 0, err);
    while (!rc && version < last)
        rc = take_step(c, ++version, err);
    if (!rc) rc = c->backend->set_version(c, last, err);
    if (!rc) rc = statement_run(c, SQL_COMMIT, NULL, 0, err);
    if (!rc) rc = connection_flush(c, err);
    if (rc && c->backend->in_transaction(c)) {
        statement_run(c, SQL_ROLLBACK, NULL, 0, NULL);
        connection_flush(c, NULL);
    }
    return rc;
}

int migrate_version(struct connection *c, int *out, det_err *err)
{
    int version = 0;
    int rc = c->backend->version(c, &version, err);
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

int migrate(struct connection *c, int version, det_err *err)
{
    const int today = (int)STATIC_LEN(steps);
    return version == today ? 0 : take_steps(c, version, today, err);
}
