#!/usr/bin/env python3
"""What was acknowledged is there: whatever kills the master, whenever the disk is full.

    master_durable.py DET [KILLS]      more kills: scripts/check-long
"""
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, wait_for  # noqa: E402
from namespaces import make_own_mounts  # noqa: E402

N_CLIENTS = 8


class Client(threading.Thread):
    """Reports steps 1, 2, 3, ... of a group of its own, again and again until each is acknowledged."""

    def __init__(self, m, token, number):
        super().__init__(daemon=True)
        self.m, self.token, self.group = m, token, f'group{number}'
        # Half of them number their reports, as the journals of our own clients do.
        self.key = f'{uuid.uuid4()}:' if number % 2 else f'{self.group}-'
        self.acked, self.stop, self.refused = 0, False, 0

    def run(self):
        while not self.stop:
            step = self.acked + 1
            body = {'trialRunId': 1, 'reports': [{'group': self.group, 'stepsCompleted': step,
                                                  'metrics': {'loss': step, 'text': 'x' * 200}}]}
            try:
                status, answer = self.m.call('POST', 'trials/1/metrics', body, token=self.token,
                                             headers={'Idempotency-Key': f'{self.key}{step}'})
            except OSError:
                status = 0
            if status == 200:
                self.acked = step
            elif status == 507:
                self.refused += 1
                time.sleep(0.02)
            elif status:
                self.error = answer
                return


def begin(m):
    m.create('entrypoint: "echo token $DET_SESSION_TOKEN; sleep 1000"\nsearcher: {name: single, metric: err}')
    m.wait_line(1, 'token ')
    token = [x for x in m.lines(1) if x.startswith('token ')][0].split()[1]
    clients = [Client(m, token, i) for i in range(N_CLIENTS)]
    for c in clients:
        c.start()
    return clients


def check(m, clients):
    for c in clients:
        c.stop = True
        c.join(60)
        if hasattr(c, 'error'):
            raise Failure(f'{c.group}: {c.error}')
    summaries = m.get('trials/1')['summaryMetrics']
    for c in clients:
        steps = [r['stepsCompleted'] for r in m.get(f'trials/1/metrics?group={c.group}&limit=100000')['metrics']]
        # The one after the last acknowledged may be there: its answer was lost.
        expect(c.group, steps[:c.acked], list(range(1, c.acked + 1)))
        expect(c.group + ': no more than were sent', len(steps) <= c.acked + 1, True)
        expect(c.group + ': counted once', summaries[c.group]['loss']['count'], len(steps))


def test_kills(det, n):
    rng = random.Random(n)
    with Master(det) as m:
        clients = begin(m)
        for _ in range(n):
            before = sum(c.acked for c in clients)
            wait_for(lambda: sum(c.acked for c in clients) > before + N_CLIENTS, 'some reports')
            time.sleep(rng.random() * 0.02)
            m.kill()
            m.start()
        check(m, clients)
        print(f'{n} kills, {sum(c.acked for c in clients)} acknowledged reports, none lost or doubled')


def test_full_disk(det):
    folder = tempfile.mkdtemp(prefix='det-e2e-full-')
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder]
    if not make_own_mounts() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        print('a full disk: not tried, mounting is not allowed here')
        os.rmdir(folder)
        return
    try:
        with Master(det, data=folder) as m:
            clients = begin(m)
            ballast = os.path.join(folder, 'ballast')
            wait_for(lambda: sum(c.acked for c in clients) > 20, 'some reports')
            for _ in range(3):
                with open(ballast, 'wb', buffering=0) as f:
                    try:
                        while True:
                            f.write(b'x' * 4096)
                    except OSError:
                        pass
                refused = sum(c.refused for c in clients)
                wait_for(lambda: sum(c.refused for c in clients) > refused + 5, 'refusals')
                expect('ready', m.call('GET', '/readyz')[0], 507)
                os.remove(ballast)
                acked = sum(c.acked for c in clients)
                wait_for(lambda: sum(c.acked for c in clients) > acked + 20, 'reports to be taken again')
            check(m, clients)
            m.post('experiments/1/kill')
            m.wait_experiment(1, 'STATE_CANCELED')
        print(f'a full disk, 3 times: {sum(c.acked for c in clients)} acknowledged reports, none lost')
    finally:
        subprocess.run(['umount', folder], check=True)
        os.rmdir(folder)


def test_edits_at_once(det, n_each=25):
    """The record of an experiment that has ended is read and written as a whole; none of them undoes another."""
    with Master(det) as m:
        m.create('entrypoint: "true"\nsearcher: {name: single, metric: err}')
        m.wait_experiment(1, 'STATE_COMPLETED')
        wanted = [[f'label-{i}-{k}' for k in range(n_each)] for i in range(N_CLIENTS)]

        def add(labels):
            for label in labels:
                expect(label, m.call('PUT', f'experiments/1/labels/{label}')[0], 200)
        threads = [threading.Thread(target=add, args=(labels,)) for labels in wanted]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        expect('labels', sorted(m.get('experiments/1')['experiment']['labels']), sorted(sum(wanted, [])))
        print(f'{N_CLIENTS * n_each} labels by {N_CLIENTS} clients at once, all there')


if __name__ == '__main__':
    program = os.path.realpath(sys.argv[1])
    try:
        test_kills(program, int(sys.argv[2]) if len(sys.argv) > 2 else 10)
        test_full_disk(program)
        test_edits_at_once(program)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
