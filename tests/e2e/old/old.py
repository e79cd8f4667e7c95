#!/usr/bin/python3
"""old.py DET [KILLS]: the programs of the last version that kept a row for each line of a log, built from the history of this
repository, and today's beside them: a task that the old master started goes on under the new one; its database is brought
up to date while the new master is killed again and again, and serves in between. Says so where there is no history."""
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.realpath(__file__))
root = os.path.realpath(os.path.join(here, '..', '..', '..'))
sys.path.insert(0, os.path.join(here, '..', '..', 'support'))
from master import OLD_CODE, Failure, Master, expect, wait_for  # noqa: E402

MARK = 'a log is kept in chunks'  # what src/db/migrate.c says about the step that came after the old version
N_TRIALS, N_LINES = 5, 120000  # of each


def git(*words):
    r = subprocess.run(['git', '-C', root, *words], capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else ''


def old_build():
    """The old programs: those of $DET_OLD_BUILD, or built once from history. None if there is none."""
    given = os.environ.get('DET_OLD_BUILD')
    if given:
        return given
    commits = git('log', '--format=%H', '-S' + MARK, '--', 'src/db/migrate.c').split()
    before = git('rev-parse', '--verify', '--quiet', commits[-1] + '^') if commits else ''
    if not before:
        return None
    source = os.path.join(root, 'build', 'old', before[:12])
    build = os.path.join(source, 'build')
    if not os.path.exists(os.path.join(build, 'det')):
        os.makedirs(source, exist_ok=True)
        archive = subprocess.run(['git', '-C', root, 'archive', before], check=True, capture_output=True).stdout
        subprocess.run(['tar', 'x', '-C', source], input=archive, check=True)
        subprocess.run(['cmake', '-S', source, '-B', build, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release', '-DDET_TESTS=OFF'],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(['ninja', '-C', build, 'det', 'det-run'], check=True, stdout=subprocess.DEVNULL)
    return build


def add_lines(path):
    """More lines than anybody likes to wait for, as the old master would have written them."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        trials = [x[0] for x in db.execute('SELECT id FROM trials ORDER BY id LIMIT ?', (N_TRIALS,))]
        db.executemany(
            'INSERT INTO logs(trialId, timestamp, level, rankId, allocationId, source, stdtype, log)'
            " VALUES(?, ?, 'LOG_LEVEL_INFO', 0, 'a.1', 'task', 'stdout', ?)",
            ((trials[i % N_TRIALS], 1700000000000000 + i, f'line {i} of many: loss {i * 7919 % 10007} accuracy {i % 97}\n')
             for i in range(N_TRIALS * N_LINES)))
        return {t: db.execute('SELECT id, log FROM logs WHERE trialId = ? ORDER BY id', (t,)).fetchall() for t in trials}


def page(m, trial, after, limit):
    return [(x['id'], x['log']) for x in m.get(f'trials/{trial}/logs?after={after}&limit={limit}')['logs']]


def check_some(m, lines, r):
    trial = r.choice(list(lines))
    at = r.randrange(len(lines[trial]) - 60)
    expect(f'50 lines of trial {trial}', page(m, trial, lines[trial][at][0], 50), lines[trial][at + 1:at + 51])


def n_left(m):
    with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'), timeout=60)) as db:
        return db.execute('SELECT count(*) FROM logs').fetchone()[0]


def test_moving_survives_kills(old, det, n_kills):
    folder = tempfile.mkdtemp(prefix='det-e2e-')
    r = random.Random(1)
    m = Master(old, data=folder)
    m.start()
    for _ in range(N_TRIALS):
        m.wait_experiment(m.create('entrypoint: "echo one; echo two"\nsearcher: {name: single}'), 'STATE_COMPLETED')
    m.stop()
    lines = add_lines(os.path.join(folder, 'det.db'))
    m.det, done = det, None
    try:
        for i in range(n_kills):
            m.start()
            wait_for(lambda: m.call('GET', '/readyz')[0] == 200, 'the check of the database')
            time.sleep(r.uniform(0, 0.03))
            if i % 10 == 0:
                check_some(m, lines, r)
            m.kill()
            if done is None and i % 10 == 9 and n_left(m) == 0:
                done = i
        m.start()
        while n_left(m):
            check_some(m, lines, r)
        print(f'{n_kills} kills; all lines were moved {"after " + str(done) + " of them" if done else "when they were over"}')
        for trial, wanted in lines.items():
            after, got = 0, []
            for part in iter(lambda: page(m, trial, after, 50000), []):
                got += part
                after = part[-1][0]
            if got != wanted:
                raise Failure(f'trial {trial} has {len(got)} lines instead of {len(wanted)}, or others')
        m.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(folder, 'det.db'))) as db:
            expect('the database', db.execute('PRAGMA integrity_check').fetchone()[0], 'ok')
    except Failure:
        with open(m.log.name) as f:
            print(f.read()[-3000:], file=sys.stderr)
        raise
    finally:
        m.kill()
        m.log.close()
        shutil.rmtree(folder, ignore_errors=True)


PACED = '''
from task import *
ready()
for i in range(1, 7):
    while not os.path.exists(os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go-%d' % i)): time.sleep(0.02)
    print('step', i, flush=True)
    report('training', i, loss=float(i))
complete(operation()['op']['validateAfter']['length'], 0.5)
'''


def test_a_running_task_changes_its_master(old, det):
    """Started by the old master with the old shim; ended under the new one."""
    with Master(old) as m:
        m.code = OLD_CODE
        e = m.create('entrypoint: python3 train.py\nsearcher: {name: single, metric: err, max_length: {batches: 6}}',
                     {'train.py': PACED})

        def go(*steps):
            for i in steps:
                open(os.path.join(m.data, 'checkpoints', f'go-{i}'), 'w').close()
        go(1, 2)
        m.wait_line(1, 'step 2')
        m.kill()
        go(3)
        m.det = det
        m.start()
        go(4, 5)
        m.wait_line(1, 'step 5')
        m.kill()
        m.start()
        go(6)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('lines', m.lines(1, source='task'), [f'step {i}' for i in range(1, 7)])
        reports = [x['stepsCompleted'] for x in m.get('trials/1/metrics?group=training')['metrics']]
        expect('reports', reports, [1, 2, 3, 4, 5, 6])
        ids = [x['id'] for x in m.get('trials/1/logs')['logs']]
        expect('numbers', ids == sorted(set(ids)), True)


def main(det, n_kills):
    old = old_build()
    if not old:
        print('skipped: the history of this repository does not reach back to the old version')
        return
    test_a_running_task_changes_its_master(os.path.join(old, 'det'), det)
    test_moving_survives_kills(os.path.join(old, 'det'), det, n_kills)


if __name__ == '__main__':
    try:
        main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
