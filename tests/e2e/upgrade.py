#!/usr/bin/python3
"""What older versions have left is taken over as it is: tests/golden/v2/ and v3/ are directories of masters that were killed."""
import contextlib
import http.client
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

here = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

VERSIONS = (2, 3)  # of the database
OUTPUT = ['up'] + [str(i) for i in range(1, 501)]  # of the task that ended while no master was there


@contextlib.contextmanager
def golden(version):
    """A copy of the directory, and what the old master answered."""
    with tempfile.TemporaryDirectory(prefix='det-e2e-') as folder:
        with tarfile.open(os.path.join(here, '..', 'golden', f'v{version}', 'data.tar.gz')) as tar:
            tar.extractall(folder)
        with open(os.path.join(folder, 'expected.json')) as f:
            yield os.path.join(folder, 'data'), json.load(f)


def count(data, table):
    with contextlib.closing(sqlite3.connect(os.path.join(data, 'det.db'), timeout=30)) as db:
        return db.execute(f'SELECT count(*) FROM {table}').fetchone()[0]


def follow(m, trial, last):
    """The numbers of the lines that a client gets that comes back after line `last`."""
    c = http.client.HTTPConnection(m.host, timeout=60)
    c.request('GET', f'/api/v1/trials/{trial}/logs?follow=true',
              headers={'Authorization': 'Bearer ' + m.token, 'Last-Event-ID': str(last)})
    text = c.getresponse().read().decode()
    c.close()
    return [int(line[4:]) for line in text.splitlines() if line.startswith('id: ')]


def check(m, wanted):
    for t, lines in wanted['logs'].items():
        got = m.get(f'trials/{t}/logs?limit=100000')['logs']
        expect(f'lines of trial {t}', got[:len(lines)], lines)
        if int(t) != wanted['ended_trial']:
            expect(f'number of lines of trial {t}', len(got), len(lines))
            middle = lines[len(lines) // 2]['id']
            expect('after Last-Event-ID', follow(m, t, middle), [x['id'] for x in lines if x['id'] > middle])
    for t, reports in wanted['metrics'].items():
        expect(f'metrics of trial {t}', m.get(f'trials/{t}/metrics')['metrics'], reports)
    for e in wanted['experiments']:
        if e['id'] == wanted['ended']:
            continue
        now = m.experiment(e['id'])
        expect(f'experiment {e["id"]}', {key: now[key] for key in e}, e)
        expect('whether it is private', now['private'], e.get('private', False))


def take_over(det, version):
    with golden(version) as (data, wanted), Master(det, '--slots', '2', data=data) as m:
        check(m, wanted)  # whether or not the lines have been moved by now
        wait_for(lambda: count(data, 'logs') == 0, 'the lines to be moved')
        check(m, wanted)
        m.wait_experiment(wanted['ended'], 'STATE_COMPLETED')
        t = wanted['ended_trial']
        expect('output of while no master was there', m.lines(t, source='task'), OUTPUT)
        ids = [x['id'] for x in m.get(f'trials/{t}/logs?limit=1000')['logs']]
        expect('numbers go on', ids == sorted(set(ids)) and ids[1] > max(x['id'] for y in wanted['logs'].values() for x in y), True)
        wait_for(lambda: os.path.exists(os.path.join(data, f'det.db.v{version}')), 'the copy')
        m.post(f'experiments/{wanted["paused"]}/activate')
        m.wait_experiment(wanted['paused'], 'STATE_COMPLETED')
        m.stop()
        m.start()
        check(m, {**wanted, 'experiments': [e for e in wanted['experiments'] if e['id'] != wanted['paused']]})


def check_copy(det, version):
    with golden(version) as (data, wanted):
        copy = os.path.join(data, f'det.db.v{version}')
        with Master(det, '--slots', '2', data=data):
            wait_for(lambda: os.path.exists(copy), 'the copy')
        with contextlib.closing(sqlite3.connect(copy)) as db:
            expect('version', db.execute('PRAGMA user_version').fetchone()[0], version)
            expect('lines', db.execute('SELECT count(*) FROM logs').fetchone()[0], sum(map(len, wanted['logs'].values())))
            expect('whole', db.execute('PRAGMA integrity_check').fetchone()[0], 'ok')


def recover(det, version):
    """Columns that the file does not have yet are no damage, and new lines get new numbers."""
    with golden(version) as (data, wanted):
        path = os.path.join(data, 'det.db')
        with contextlib.closing(sqlite3.connect(path)) as db:
            page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'keys_age'").fetchone()[0]
            size = db.execute('PRAGMA page_size').fetchone()[0]
        with open(path, 'r+b') as f:
            f.seek((page - 1) * size)
            f.write(b'\xff' * size)
        said = subprocess.run([det, 'master', '--recover', '--data', data], capture_output=True, text=True)
        expect('the way it ended: ' + said.stderr, said.returncode, 0)
        expect('what is damaged', [x.split(':')[0] for x in said.stdout.splitlines() if ': damaged;' in x], ['keys'])
        with Master(det, '--slots', '2', data=data) as m:
            m.wait_experiment(wanted['ended'], 'STATE_COMPLETED')
            check(m, wanted)
            ids = [x['id'] for t in wanted['logs'] for x in m.get(f'trials/{t}/logs?limit=10000')['logs']]
            expect('every line has a number of its own', len(ids), len(set(ids)))
            expect('output of while no master was there', m.lines(wanted['ended_trial'], source='task'), OUTPUT)


def version_of(data):
    with contextlib.closing(sqlite3.connect(os.path.join(data, 'det.db'))) as db:
        return db.execute('PRAGMA user_version').fetchone()[0]


def test_a_disk_without_space_for_the_copy(det):
    """Nothing is changed before there is space; then all goes on."""
    with golden(2) as (data, wanted), tempfile.TemporaryDirectory(prefix='det-e2e-') as folder:
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder], stderr=subprocess.DEVNULL).returncode:
            print('skipped: a small disk can be made by root only')
            return
        try:
            shutil.copytree(data, folder, dirs_exist_ok=True)
            said = subprocess.run([det, 'master', '--data', folder, '--port', '0'], capture_output=True, text=True, timeout=60)
            expect('it ends: ' + said.stderr, (said.returncode, 'free some space' in said.stderr), (1, True))
            expect('version', version_of(folder), 2)
            subprocess.run(['mount', '-o', 'remount,size=256m', folder], check=True)
            with Master(det, '--slots', '2', data=folder) as m:
                check(m, wanted)
        finally:
            subprocess.run(['umount', '-l', folder], check=True)


def test_the_directory_of_an_older_master(det):
    for version in VERSIONS:
        take_over(det, version)


def test_the_copy_is_what_the_older_version_had(det):
    for version in VERSIONS:
        check_copy(det, version)


def test_the_damaged_database_of_an_older_master(det):
    for version in VERSIONS:
        recover(det, version)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
