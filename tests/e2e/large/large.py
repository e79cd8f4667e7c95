#!/usr/bin/python3
"""large.py DET [MEGABYTES]: a master on a large database answers at once, reads while the database is checked, refuses
changes meanwhile with the word that they should come later, and then takes them. Figures are printed."""
import contextlib
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', '..', 'support'))
from master import Failure, Master, expect, wait_for  # noqa: E402

PAUSED = 'entrypoint: "true"\nname: kept\nsearcher: {name: single}'


def fill(path, megabytes):
    """Chunks of a log, of noise: their size is what matters."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute('PRAGMA synchronous = OFF')
        db.executemany('INSERT INTO log_chunks(id, lastId, nLines, trialId, firstTime, lastTime, levels, ranks, sources, stdtypes, nBytes, '
                       'open, lines) VALUES(?, ?, 1000, 999, 0, 0, 0, 0, 0, 0, 65536, 0, randomblob(13000))',
                       ((10**9 + 1000 * i, 10**9 + 1000 * i + 999) for i in range(megabytes * 2**20 // 16400)))


def first_answer(m):
    """Seconds from the start to the first answer that has read the database."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(m.data, 'master.json.seen'))
    before = os.stat(os.path.join(m.data, 'master.json')).st_mtime_ns
    begin = time.monotonic()
    m.process = subprocess.Popen([m.det, 'master', '--data', m.data, '--port', '0'], stderr=m.log)
    while True:
        with contextlib.suppress(OSError, ValueError):
            path = os.path.join(m.data, 'master.json')
            if os.stat(path).st_mtime_ns != before:
                with open(path) as f:
                    found = json.load(f)
                c = http.client.HTTPConnection(found['url'].split('//')[1], timeout=10)
                c.request('GET', '/api/v1/experiments', headers={'Authorization': 'Bearer ' + found['token']})
                r = c.getresponse()
                expect('reads', (r.status, len(json.loads(r.read())['experiments'])), (200, 1))
                m.host, m.token = found['url'].split('//')[1], found['token']
                return time.monotonic() - begin, begin
        time.sleep(0.001)


def main(det, megabytes):
    with Master(det) as m:
        m.create(PAUSED, activate=False)
        m.stop()
        path = os.path.join(m.data, 'det.db')
        fill(path, megabytes)
        size = os.path.getsize(path) / 2**30
        answered, begin = first_answer(m)
        status, answer = m.call('POST', 'experiments', {'config': PAUSED, 'activate': False})
        refused = (status, 'being checked' in str(answer))
        not_ready = m.call('GET', '/readyz')[0]
        n_reads = 0
        while m.call('GET', '/readyz')[0] != 200:
            expect('reading goes on', m.call('GET', 'experiments')[0], 200)
            n_reads += 1
            time.sleep(0.05)
        checked = time.monotonic() - begin
        print(f'database: {size:.2f} GB; first answer after {answered * 1000:.0f} ms; checked after {checked:.1f} s '
              f'({checked / size:.1f} s per GB), {n_reads} reads meanwhile')
        if size > 0.3:
            expect('a change while it is checked', refused, (503, True))
            expect('/readyz while it is checked', not_ready, 503)
        m.create(PAUSED, activate=False)
        m.stop()
        begin = time.monotonic()
        m.start()
        wait_for(lambda: m.call('GET', '/readyz')[0] == 200, 'the check', 120)
        n = len(os.listdir(os.path.join(m.data, 'backups')))
        print(f'backups: {n}')
        expect('experiments', len(m.get('experiments')['experiments']), 2)


if __name__ == '__main__':
    try:
        main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1024)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
