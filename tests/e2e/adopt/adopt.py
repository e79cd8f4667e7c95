#!/usr/bin/env python3
"""adopt.py OLD NEW: tasks that a master of an older det has started go on under a newer one.

scripts/old-build makes the older one.
"""
import array
import contextlib
import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'support'))
from master import OLD_CODE, Failure, Master, expect, wait_for  # noqa: E402

OLD, NEW = (os.path.realpath(x) for x in sys.argv[1:3])
PACED = '''
from task import *
ready()
print('up', flush=True)
go = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')
while steps < 4 and not preempted():
    while os.path.getsize(go) <= steps: time.sleep(0.02)
    steps += 1
    report('training', steps, loss=1.0 / steps)
    print('step', steps, flush=True)
report('validation', steps, err=0.1)
checkpoint(steps)
complete(4, 0.1)
'''


def example(name):
    with open(os.path.join(HERE, '..', '..', '..', 'examples', 'onevar', name)) as f:
        return f.read()


def shim_of(m, token):
    with open(os.path.join(m.data, 'run', str(token), 'shim.json')) as f:
        return json.load(f)['pid']


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(x) for x in f.read().split()]


def start_tasks(m):
    """1: paced; 2: sleeps; 3: fails; 4: reports as fast as it can; 5: trains a trial in C."""
    m.create('entrypoint: python3 train.py\nsearcher: {name: single, metric: err, max_length: {batches: 4}}', {'train.py': PACED})
    m.create('entrypoint: "echo up; exec sleep 1000"\nsearcher: {name: single}')
    end = os.path.join(m.data, 'checkpoints', 'end')
    m.create(f'entrypoint: "echo up; while [ ! -e {end} ]; do sleep 0.05; done; echo last; exit 7"\nsearcher: {{name: single}}\n'
             'max_restarts: 0')
    program = os.path.join(os.path.dirname(NEW), 'test_reporter')
    m.create(f'entrypoint: ["sh", "-c", "echo up; exec {program}"]\nsearcher: {{name: single, metric: loss, '
             f'max_length: {{batches: 100000000}}}}\nmax_restarts: 0\n'
             f'environment: {{environment_variables: ["ACKNOWLEDGED={m.data}/checkpoints/record"]}}')
    config = example('const.yaml').replace('epochs: 10', 'epochs: 200').replace('batches: 20', 'batches: 400')
    m.create(config, {'model_def.c': example('model_def.c')})
    for t in (1, 2, 3, 4):
        m.wait_line(t, 'up')
    m.wait_line(4, 'reporting')
    wait_for(lambda: os.listdir(os.path.join(m.data, 'run')) and len(m.trials(5)) == 1, 'the trial')


def reported(m, trial):
    return sorted(p[0] for group in ('training', 'validation') for p in
                  m.get(f'trials/{trial}/series?group={group}&name=loss&maxDatapoints=100000')['data'])


def check(m):
    for e in (1, 2, 3, 4):
        expect(f'experiment {e}', m.experiment(e)['state'], 'STATE_ACTIVE')
        expect(f'runs of {e}', len(m.allocations(e)), 1)
    shim = shim_of(m, 4)
    for pid in [shim] + children(shim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    m.wait_experiment(4, 'STATE_ERROR')
    numbers = array.array('q')
    with open(m.shared('record'), 'rb') as f:
        numbers.frombytes(f.read())
    known = reported(m, 4)
    expect('reports of its journal', known in (list(numbers), list(numbers) + [len(numbers) + 1]), True)
    with open(m.shared('go'), 'a') as f:
        f.write('....')
    m.wait_experiment(1, 'STATE_COMPLETED')
    expect('every line once', [x for x in m.lines(1) if x.startswith('step')], [f'step {i}' for i in (1, 2, 3, 4)])
    m.post('experiments/2/kill')
    m.wait_experiment(2, 'STATE_CANCELED')
    open(m.shared('end'), 'w').close()
    m.wait_experiment(3, 'STATE_ERROR')
    expect('exit', [(a['exit'], a['exitStatus']) for a in m.allocations(3)], [('TASK_FAILED', 7)])
    expect('log', 'last' in m.lines(3), True)
    m.wait_experiment(5, 'STATE_COMPLETED')
    wait_for(lambda: not os.listdir(os.path.join(m.data, 'run')), 'all directories to go')
    print(f'{len(numbers)} reports acknowledged under the old master, {len(known)} known')


def main():
    with Master(OLD, '--slots', '5') as m:
        m.code = OLD_CODE
        open(m.shared('go'), 'w').close()
        start_tasks(m)
        m.kill()
        time.sleep(0.2)
        m.det = NEW
        m.start()
        check(m)


if __name__ == '__main__':
    try:
        main()
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
