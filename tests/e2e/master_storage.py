#!/usr/bin/python3
"""A database that is deleted, emptied or damaged: nothing is acknowledged that is not kept, nothing healthy is harmed, and
there is a way back."""
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

PAUSED = 'entrypoint: "true"\nname: kept\nsearcher: {name: single}'


def said(m):
    m.log.flush()
    with open(m.log.name) as f:
        return f.read()


def path(m, name='det.db'):
    return os.path.join(m.data, name)


def start_refused(m):
    """What a master says that does not start."""
    r = subprocess.run([m.det, 'master', '--data', m.data, '--port', '0'], capture_output=True, text=True, timeout=60)
    expect('status', r.returncode, 1)
    return r.stderr


def recover(m):
    r = subprocess.run([m.det, 'master', '--recover', '--data', m.data], capture_output=True, text=True, timeout=120)
    if r.returncode:
        raise Failure(f'--recover: {r.stderr}')
    return r.stdout


def check_refuses(m, reason):
    def ready():
        status, answer = m.call('GET', '/readyz')
        return status == 503 and reason in str(answer)
    wait_for(ready, f'/readyz to say {reason!r}', 5)
    status, answer = m.call('POST', 'experiments', {'config': PAUSED, 'activate': False})
    expect('a change', (status, reason in str(answer)), (503, True))
    expect('reading goes on', m.call('GET', 'experiments/1')[0], 200)
    expect('in the log', reason in said(m), True)


def test_a_database_that_is_deleted(det):
    for name in ('det.db', 'det.db-wal'):
        with Master(det) as m:
            for _ in range(3):
                m.create(PAUSED, activate=False)
            os.unlink(path(m, name))
            check_refuses(m, 'it was deleted')
            wait_for(lambda: 'all that was acknowledged has been saved' in said(m), 'the backup')
            m.process.send_signal(signal.SIGTERM)
            expect('status', m.process.wait(30), 1)
            words = start_refused(m)
            expect('way out', 'det master --recover' in words, True)
            expect('what', 'is missing' in words, True)
            recover(m)
            m.start()
            expect('experiments', [e['name'] for e in m.get('experiments')['experiments']], ['kept'] * 3)
            m.create(PAUSED, activate=False)


def test_all_of_it_deleted_while_no_master_runs(det):
    with Master(det) as m:
        m.create(PAUSED, activate=False)
        m.stop()  # leaves a backup
        for name in ('det.db', 'det.db-wal', 'det.db-shm', 'det.db-live'):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path(m, name))
        words = start_refused(m)
        expect('words', ('is missing, but' in words, 'move this one away' in words), (True, True))
        expect('no empty database', os.path.exists(path(m)), False)
        open(path(m), 'w').close()
        expect('an empty file is none', 'is empty, but' in start_refused(m), True)
        expect('recovered', 'the newest backup is' in recover(m), True)
        m.start()
        expect('experiments', len(m.get('experiments')['experiments']), 1)


def test_a_new_directory_needs_no_past(det):
    with Master(det) as m:
        expect('experiments', m.get('experiments')['experiments'], [])


def test_a_damaged_database_is_refused(det):
    with Master(det) as m:
        for _ in range(60):
            m.create(PAUSED, activate=False)
        m.stop()
        shutil.rmtree(path(m, 'backups'))
        with contextlib.closing(sqlite3.connect(path(m))) as db:
            page = db.execute("SELECT max(pageno) FROM dbstat WHERE name = 'configs' AND pagetype = 'leaf'").fetchone()[0]
        with open(path(m), 'r+b') as f:
            f.seek((page - 1) * 4096)
            f.write(bytes(range(1, 101)) * 4)
        with open(path(m), 'rb') as f:
            before = f.read()
        words = start_refused(m)
        expect('words', ('is damaged' in words, 'det master --recover' in words, 'Nothing was changed' in words),
               (True, True, True))
        with open(path(m), 'rb') as f:
            expect('untouched', f.read() == before, True)
        report = recover(m)
        expect('report', ('experiments: 60, all' in report, 'configs: damaged' in report), (True, True))
        m.start()
        expect('experiments', len(m.get('experiments?limit=100')['experiments']), 60)
        kept = [f for f in os.listdir(m.data) if f.startswith('det.db.damaged-') and f.endswith('Z')]
        expect('the damaged file is kept', len(kept), 1)


def test_backups_are_made_when_the_master_stops(det):
    with Master(det) as m:
        m.create(PAUSED, activate=False)
        m.stop()
        names = os.listdir(path(m, 'backups'))
        expect('one', len(names), 1)
        with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'backups', names[0]))) as db:
            expect('whole', db.execute('PRAGMA integrity_check').fetchone()[0], 'ok')
            expect('complete', db.execute('SELECT count(*) FROM experiments').fetchone()[0], 1)
        expect('private', os.stat(os.path.join(m.data, 'backups', names[0])).st_mode & 0o777, 0o600)
        m.start()


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
