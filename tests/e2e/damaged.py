#!/usr/bin/python3
"""damaged.py DET [N]: N copies of a database, each with 400 damaged bytes. Whatever SQLite's quick_check rejects is not taken
into use and not changed; the way out leads out. What it accepts is used, and no healthy experiment is harmed."""
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, wait_for  # noqa: E402

TRAIN = '''
from task import *
ready()
for i in range(300): print('line', i, 'some output of a task that is not the same in every line', i * i % 97)
for i in range(1, 40): report('training', i, loss=1.0 / i, accuracy=i / 40)
report('validation', 40, err=0.5)
complete(operation()['op']['validateAfter']['length'], 0.5)
'''
SEARCH = ('entrypoint: python3 train.py\nsearcher: {name: random, metric: err, max_trials: 3, max_length: {batches: 40}}\n'
          'hyperparameters: {x: {type: double, minval: 0, maxval: 1}}')


def make_data(det):
    m = Master(det, '--slots', '2', data=tempfile.mkdtemp(prefix='det-e2e-'))
    m.start()
    e = m.create(SEARCH, {'train.py': TRAIN})
    for i in range(20):
        m.create(f'entrypoint: "true"\nname: paused {i}\nsearcher: {{name: single}}', activate=False)
    m.wait_experiment(e, 'STATE_COMPLETED')
    states = {x['id']: x['state'] for x in m.get('experiments?limit=-1')['experiments']}
    m.stop()
    m.log.close()
    return m.data, states


def damage(path, r):
    """400 bytes, in one place or in many."""
    size, n = os.path.getsize(path), r.choice((1, 4, 40, 400, 400, 400))
    with open(path, 'r+b') as f:
        for _ in range(n):
            f.seek(r.randrange(size - 400 // n))
            f.write(r.randbytes(400 // n))


def is_whole(path):
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(path, folder)
        try:
            with contextlib.closing(sqlite3.connect(copy)) as db:
                return db.execute('PRAGMA quick_check(1)').fetchone()[0] == 'ok'
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            return False


def content(path):
    with open(path, 'rb') as f:
        return f.read()


def start(m):
    """None if it is ready, else what it said."""
    process = subprocess.Popen([m.det, 'master', '--data', m.data, '--port', '0', '--slots', '2'], stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL)

    def outcome():
        if process.poll() is not None:
            return 'ended'
        now = m.announced()
        if not now or now.get('pid') != process.pid:
            return None
        m.host, m.token, m.tls = now['url'].split('//')[1], now['token'], None
        with contextlib.suppress(OSError):
            return m.call('GET', '/readyz')[0] == 200 and 'ready'
        return None
    found = wait_for(outcome, 'the master to start or to refuse')
    m.process = process
    if found == 'ready':
        return None
    expect('status', process.returncode, 1)
    return process.stderr.read().decode(errors='replace')


def stop(m):
    m.process.terminate()
    m.process.communicate(timeout=60)
    m.process = None


def one(det, template, states, seed, counts):
    r = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix='det-e2e-') as folder:
        data = shutil.copytree(template, os.path.join(folder, 'data'))
        m = Master(det, data=data)
        path = os.path.join(data, 'det.db')
        damage(path, r)
        if r.random() < 0.5:
            shutil.rmtree(os.path.join(data, 'backups'))
        try:
            check(m, path, states, counts)
        finally:
            if m.process:
                m.process.kill()
                m.process.wait()
            m.log.close()


def check(m, path, states, counts):
    whole, before = is_whole(path), content(path)
    said = start(m)
    if said is None:
        if not whole:
            raise Failure('a damaged database was taken into use')
        counts['whole'] += 1
        status, answer = m.call('GET', 'experiments?limit=-1')
        if status == 200:
            now = {x['id']: x['state'] for x in answer['experiments']}
            harmed = [i for i in now if now[i] == 'STATE_ERROR' and states.get(i) != 'STATE_ERROR']
            expect('harmed experiments', harmed, [])
        stop(m)
        return
    if 'det master --recover' not in said or 'damaged' not in said and 'missing' not in said:
        raise Failure(f'no way out: {said}')
    expect('the damaged file is as it was', content(path) == before, True)
    counts['refused'] += 1
    done = subprocess.run([m.det, 'master', '--recover', '--data', m.data], capture_output=True, text=True, timeout=120)
    if done.returncode:
        if 'neither a database that can be read nor a backup' not in done.stderr:
            raise Failure(f'--recover: {done.stderr}')
        counts['lost'] += 1
        return
    counts['recovered'] += 1
    said = start(m)
    if said is not None:
        raise Failure(f'after --recover ({done.stdout}): {said}')
    expect('experiments can be read', m.call('GET', 'experiments?limit=-1')[0], 200)
    stop(m)


def main(det, n):
    template, states = make_data(det)
    counts = {'refused': 0, 'recovered': 0, 'lost': 0, 'whole': 0}
    try:
        for seed in range(n):
            try:
                one(det, template, states, seed, counts)
            except Failure as failure:
                raise Failure(f'seed {seed}: {failure}') from None
    finally:
        shutil.rmtree(template, ignore_errors=True)
    print(f'{n} databases with 400 damaged bytes: {counts["refused"]} refused, of these {counts["recovered"]} recovered and '
          f'{counts["lost"]} with nothing to recover from; {counts["whole"]} that quick_check accepts')


if __name__ == '__main__':
    try:
        main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 12)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
