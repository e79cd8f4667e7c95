#!/usr/bin/env python3
"""Programs that use the Generic API, and programs that speak the protocol themselves, under a real master."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(__file__), '..', '..', 'examples', 'generic')
CONFIG = '''
entrypoint: ["sh", "-c", "%s"]
max_restarts: 0
searcher: {name: single, metric: loss, max_length: {epochs: %d}}
hyperparameters: {learning_rate: 0.01}
'''


def example(det, name):
    """The command that runs an example and the files that it needs."""
    if name == 'train.c':
        return os.path.join(os.path.dirname(os.path.abspath(det)), 'example_generic'), {}
    with open(os.path.join(EXAMPLES, name)) as f:
        return {'train.sh': 'sh', 'train.py': 'python3'}[name] + ' ' + name, {name: f.read()}


def steps(m, trial, group):
    return [p[0] for p in m.get(f'trials/{trial}/series?group={group}&name=loss&maxDatapoints=100000')['data']]


def check_trained(m, trial, epochs):
    expected = [64 * i for i in range(1, epochs + 1)]
    expect('training', steps(m, trial, 'training'), expected)
    expect('validation', steps(m, trial, 'validation'), expected)
    expect('batches', m.trial(trial)['totalBatchesProcessed'], 64 * epochs)


def test_all_examples_train(det):
    with Master(det, '--slots', '3') as m:
        created = {}
        for name in ('train.c', 'train.sh', 'train.py'):
            command, files = example(det, name)
            created[name] = m.create(CONFIG % (command, 3), files)
        metrics = set()
        for name, e in created.items():
            m.wait_experiment(e, 'STATE_COMPLETED')
            trial = m.trials(e)[0]['id']
            check_trained(m, trial, 3)
            metrics.add('%.9g' % m.experiment(e)['bestTrialSearcherMetric'])
        expect('different results', len(metrics), 1)


def test_paused_programs_go_on_where_they_were(det):
    with Master(det) as m:
        command, files = example(det, 'train.c')
        e = m.create(CONFIG % (command, 200), files)
        wait_for(lambda: len(steps(m, 1, 'validation')) >= 3, 'some epochs')
        m.post(f'experiments/{e}/pause')
        wait_for(lambda: [a['state'] for a in m.allocations(1)] == ['STATE_TERMINATED'], 'the pause')
        expect('exit', [a['exit'] for a in m.allocations(1)], ['PREEMPTED'])
        m.post(f'experiments/{e}/activate')
        m.wait_experiment(e, 'STATE_COMPLETED')
        check_trained(m, 1, 200)


def test_nothing_is_lost_or_doubled_when_the_master_is_killed(det):
    with Master(det) as m:
        command, files = example(det, 'train.c')
        e = m.create(CONFIG % (command, 150), files)
        for n in (3, 40, 90):
            wait_for(lambda: len(steps(m, 1, 'validation')) >= n, f'{n} epochs')
            m.kill()
            m.start()
        m.wait_experiment(e, 'STATE_COMPLETED')
        check_trained(m, 1, 150)
        expect('runs', len(m.allocations(1)), 1)


def test_reports_of_a_killed_program_arrive(det):
    # The master is away while the program reports and is killed; then it comes back.
    script = '''
import os, signal, subprocess, time
p = subprocess.Popen([os.environ['PROGRAM']], stdout=subprocess.PIPE, text=True)
for line in p.stdout:
    print(line, end='', flush=True)
    if line.startswith('epoch 1:'):
        p.send_signal(signal.SIGSTOP)
        while not os.path.exists(os.environ['GO']): time.sleep(0.01)
        p.send_signal(signal.SIGCONT)
    if line.startswith('epoch 200:'): break
p.kill()
p.wait()
open(os.environ['DEAD'], 'w').close()
raise SystemExit(9)
'''
    with Master(det) as m:
        program, _ = example(det, 'train.c')
        go, dead = m.shared('go'), m.shared('dead')
        config = CONFIG % ('python3 kill.py', 1000000) + (
            f'environment: {{environment_variables: [PROGRAM={program}, GO={go}, DEAD={dead}]}}\n')
        e = m.create(config, {'kill.py': script})
        m.wait_line(1, 'epoch 1:')
        m.kill()
        open(go, 'w').close()
        wait_for(lambda: os.path.exists(dead), 'the end of the program')
        m.start()
        m.wait_experiment(e, 'STATE_ERROR')
        done = steps(m, 1, 'training')
        expect('at least 200 epochs', len(done) >= 200, True)
        expect('each once', done, [64 * i for i in range(1, len(done) + 1)])


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
