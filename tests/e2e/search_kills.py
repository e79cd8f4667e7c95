#!/usr/bin/env python3
"""A search whose tasks, shims and masters are killed at random gives what a simulation says, operation by operation.

    search_kills.py DET [SEARCHES]      more of them: scripts/check-long

What a search decides depends on the order in which operations are completed. So the order is that of the simulation: a
task trains when it likes, but completes an operation only when that is the next one.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect  # noqa: E402

CONFIG = '''
entrypoint: python3 train.py
max_restarts: 1000
reproducibility: {experiment_seed: %d}
searcher: {name: adaptive_asha, metric: err, max_trials: 16, max_length: {batches: 16}, divisor: 4, max_concurrent_trials: 2}
hyperparameters: {x: {type: double, minval: 0, maxval: 1}, slope: {type: double, minval: 0, maxval: 1}}
'''
LENGTHS = (1, 4, 16)
TRAIN = '''
from task import *
folder = os.environ['DET_CHECKPOINT_STORAGE']
order = json.load(open(folder + '/order.json'))
metric = lambda n: hparams['x'] + hparams['slope'] / n
ready()
print('starts at', steps, flush=True)
while True:
    op = operation()
    if op['completed']:
        ack()
        break
    n = op['op']['validateAfter']['length']
    place = order.index([int(trial), n])
    while steps < n:
        steps += 1
        report('training', steps, loss=metric(steps))
    while len(open(folder + '/turn').read()) < place: time.sleep(0.01)
    report('validation', n, err=metric(n))
    checkpoint(n)
    complete(n, metric(n))
'''


def simulate(det, folder, config):
    """Hyperparameters of the trials, and the operations in the order of their completion."""
    path, curves = os.path.join(folder, 'config.yaml'), os.path.join(folder, 'curves.jsonl')
    with open(path, 'w') as f:
        f.write(config)

    def events(*args):
        out = subprocess.run([det, 'simulate-search', path, '--json', *args], check=True, stdout=subprocess.PIPE).stdout
        return [json.loads(line) for line in out.splitlines()]
    trials = [e for e in events() if e['event'] == 'create']
    with open(curves, 'w') as f:
        for t in trials:
            f.write(json.dumps({'curve': [[n, metric(t['hparams'], n)] for n in LENGTHS]}) + '\n')
    told = events('--curves', curves)
    created = [(e['hparams'], e['trial_seed']) for e in told if e['event'] == 'create']
    return created, [[e['trial'], e['length']] for e in told if e['event'] == 'validate']


def metric(hparams, n):
    return hparams['x'] + hparams['slope'] / n


class Killer:
    """Kills somebody now and then, as long as there is something left to do."""

    def __init__(self, m, seed):
        self.m, self.random = m, random.Random(seed)
        self.n = {'task': 0, 'shim': 0, 'master': 0}

    def shims(self):
        run = os.path.join(self.m.data, 'run')
        for name in sorted(os.listdir(run)):
            try:
                with open(os.path.join(run, name, 'shim.json')) as f:
                    yield json.load(f)['pid']
            except (OSError, ValueError):
                pass

    def kill_process(self, kind):
        shims = list(self.shims())
        if not shims:
            return
        victims = [self.random.choice(shims)]
        if kind == 'task':
            try:
                with open(f'/proc/{victims[0]}/task/{victims[0]}/children') as f:
                    victims = [int(pid) for pid in f.read().split()]
            except OSError:
                return
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
                self.n[kind] += 1
            except ProcessLookupError:
                pass

    def strike(self):
        kind = self.random.choices(['task', 'shim', 'master'], [6, 2, 3])[0]
        if kind == 'master':
            self.m.kill()
            time.sleep(self.random.random() * 0.1)
            self.m.start()
            self.n[kind] += 1
        else:
            self.kill_process(kind)


def run_search(det, seed, share):
    """share: of the looks at the search that end with a blow."""
    with Master(det, '--slots', '2') as m:
        config = CONFIG % seed
        created, order = simulate(det, m.data, config)
        with open(m.shared('order.json'), 'w') as f:
            json.dump(order, f)
        turn = open(m.shared('turn'), 'w')  # as many bytes as operations are complete
        e = m.create(config, {'train.py': TRAIN})
        killer, done, end = Killer(m, seed), 0, time.monotonic() + 120
        while m.experiment(e)['state'] == 'STATE_ACTIVE':
            rows = {t['number']: t for t in m.trials(e, limit=-1)}
            while done < len(order) and is_complete(rows, *order[done]):
                done += 1
                turn.write('x')
                turn.flush()
            if killer.random.random() < share:
                killer.strike()
            if time.monotonic() > end:
                raise Failure(f'operation {done} of {len(order)} is not completed: {order[done:done + 1]}, {rows}')
            time.sleep(0.02)
        turn.close()
        m.wait_experiment(e, 'STATE_COMPLETED')
        check(m, e, created, order)
        print(f'seed {seed}: {len(order)} operations of 16 trials as simulated, {killer.n} killed')


def is_complete(rows, trial, length):
    t = rows.get(trial)
    return t and t['operation'] != length and (t['latestValidation'] or {}).get('totalBatches', 0) >= length


def check(m, e, created, order):
    trials = sorted(m.trials(e, limit=-1), key=lambda t: t['number'])
    expect('trials', [(t['hparams'], t['seed']) for t in trials], created)
    for t in trials:
        lengths = [n for number, n in order if number == t['number']]
        reports = m.get(f'trials/{t["id"]}/metrics?group=validation')['metrics']
        expect(f'validations of trial {t["number"]}', [(r['stepsCompleted'], r['metrics']['err']) for r in reports],
               [(n, metric(t['hparams'], n)) for n in lengths])
        steps = [r['stepsCompleted'] for r in m.get(f'trials/{t["id"]}/metrics?group=training')['metrics']]
        expect(f'steps of trial {t["number"]}', steps, list(range(1, lengths[-1] + 1)))
        expect(f'batches of trial {t["number"]}', t['totalBatchesProcessed'], lengths[-1])
        # One that is killed between its last operation and its end has failed, with all its work done.
        late = any(words in (t['reason'] or '') for words in ('it failed while it was being stopped', 'it failed after the search'))
        expect(f'state of trial {t["number"]}', t['state'], 'STATE_ERROR' if late else 'STATE_COMPLETED')
    expect('nothing is left', os.listdir(os.path.join(m.data, 'run')), [])


if __name__ == '__main__':
    program = os.path.realpath(sys.argv[1])
    try:
        run_search(program, 1, 0)
        for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
            run_search(program, 2 + number, 0.1)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
