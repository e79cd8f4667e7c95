#!/usr/bin/env python3
"""What goes wrong: trials that fail, masters that die, people who change their minds."""
import contextlib
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

SINGLE = 'entrypoint: python3 train.py\nsearcher: {name: single, metric: err, max_length: {batches: %d}}\n'

# Trains a step each time the file "go" in the folder of checkpoints grows, so that tests set the pace.
PACED = '''
from task import *
import os
ready()
print('starts at', steps, flush=True)
op = operation()
length = op['op']['validateAfter']['length']
go = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')
while steps < length and not op['completed']:
    while not preempted() and (os.path.getsize(go) if os.path.exists(go) else 0) <= steps: time.sleep(0.02)
    if preempted():
        checkpoint(steps)
        ack()
        print('preempted at', steps, flush=True)
        sys.exit(0)
    steps += 1
    report('training', steps, loss=1.0 / steps)
    print('step', steps, flush=True)
if not op['completed']:
    report('validation', steps, err=0.1)
    checkpoint(steps)
    complete(length, 0.1)
print('done', flush=True)
'''


def let_go(m, n):
    with open(m.shared('go'), 'a') as f:
        f.write('.' * n)


def states(m, t):
    return [(a['exit'], a['exitStatus']) for a in m.allocations(t)]


def test_failures_are_restarted_from_the_last_checkpoint(det):
    train = '''
from task import *
ready()
print('run', run, 'starts at', steps, flush=True)
if run <= 3:
    steps += 10
    report('training', steps, loss=1)
    checkpoint(steps)
    os._exit(40 + run)
report('validation', steps, err=1)
complete(operation()['op']['validateAfter']['length'], 1)
'''
    with Master(det) as m:
        e = m.create(SINGLE % 30 + 'max_restarts: 3', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        starts = [x for x in m.lines(1, source='task')]
        expect('starts', starts, ['run 1 starts at 0', 'run 2 starts at 10', 'run 3 starts at 20', 'run 4 starts at 30'])
        expect('exits', states(m, 1), [('TASK_FAILED', 41), ('TASK_FAILED', 42), ('TASK_FAILED', 43), ('DONE', 0)])
        expect('restarts', m.trial(1)['restarts'], 3)


def test_max_restarts_is_the_limit(det):
    with Master(det) as m:
        train = 'from task import *\nready()\nreport("training", run, loss=1)\nos._exit(7)\n'
        e = m.create(SINGLE % 30 + 'max_restarts: 2', {'train.py': train})
        row = m.wait_experiment(e, 'STATE_ERROR')
        expect('runs', len(m.allocations(1)), 3)
        expect('reason', m.trial(1)['reason'], 'the task returned 7; it failed more often than max_restarts allows')
        expect('experiment', row['reason'], m.trial(1)['reason'])


def test_a_failure_is_told_in_the_last_words_of_the_task(det):
    words = '"ValueError: expected (64,1), found (64,)", the task returned 3; it failed more often than max_restarts allows'
    config = 'entrypoint: "echo hello; echo \'ValueError: expected (64,1), found (64,)\' >&2; exit 3"\nmax_restarts: 0\n'
    grid = 'searcher: {name: grid}\nhyperparameters: {a: {type: categorical, vals: [1, 2]}}'
    with Master(det) as m:
        expect('one trial', m.wait_experiment(m.create(config + 'searcher: {name: single}'), 'STATE_ERROR')['reason'], words)
        expect('several', m.wait_experiment(m.create(config + grid), 'STATE_ERROR')['reason'], 'every trial failed, the last one: ' + words)
        private = m.create(config + 'searcher: {name: single}\nprivate: true')
        why = m.wait_experiment(private, 'STATE_ERROR')['reason']
        expect('private', why, 'the task returned 3; it failed more often than max_restarts allows')


def test_the_same_failure_twice_is_enough(det):
    with Master(det) as m:
        e = m.create('entrypoint: "exit 9"\nsearcher: {name: single}\nmax_restarts: 5')
        m.wait_experiment(e, 'STATE_ERROR')
        expect('exits', states(m, 1), [('TASK_FAILED', 9), ('TASK_FAILED', 9)])
        why = m.trial(1)['reason']
        expect('reason', why, 'the task returned 9; it failed twice in the same way at the same point')


def test_invalid_hyperparameters_are_replaced(det):
    train = '''
from task import *
ready()
if hparams['x'] > 50:
    call('POST', '/trials/%s/early_exit' % trial, {'reason': 'EXITED_REASON_INVALID_HP'})
    sys.exit(1)
complete(operation()['op']['validateAfter']['length'], 0)
'''
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nmax_restarts: 5\nreproducibility: {experiment_seed: 5}\n'
                     'searcher: {name: random, max_trials: 4, max_length: {batches: 1}, metric: err}\n'
                     'hyperparameters: {x: {type: int, minval: 0, maxval: 100}}', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        trials = m.trials(e)
        good = [t for t in trials if t['hparams']['x'] <= 50]
        bad = [t for t in trials if t['hparams']['x'] > 50]
        expect('good ones', len(good), 4)
        if not bad:
            raise Failure('the seed gave no invalid hyperparameters')
        expect('bad ones run once', [t['runId'] for t in bad], [1] * len(bad))
        expect('reason', {t['reason'] for t in bad}, {'its hyperparameters are invalid'})


def test_pause_saves_and_activate_goes_on(det):
    with Master(det) as m:
        e = m.create(SINGLE % 4, {'train.py': PACED})
        let_go(m, 2)
        m.wait_line(1, 'step 2')
        m.post(f'experiments/{e}/pause')
        m.wait_line(1, 'preempted at 2')
        wait_for(lambda: states(m, 1) == [('PREEMPTED', 0)], 'the run to end')
        expect('state', m.experiment(e)['state'], 'STATE_PAUSED')
        expect('slots', [s['trialId'] for s in m.get('slots')['slots']], [None])
        let_go(m, 2)
        m.post(f'experiments/{e}/activate')
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('log', [x for x in m.lines(1) if x.startswith('starts')], ['starts at 0', 'starts at 2'])
        expect('restarts', m.trial(1)['restarts'], 0)


def test_cancel_is_graceful_and_kill_is_not(det):
    with Master(det, '--slots', '2') as m:
        for verb, exit, line in (('cancel', 'PREEMPTED', True), ('kill', 'KILLED', False)):
            e = m.create(SINGLE % 4, {'train.py': PACED})
            t = m.trials(e)[0]['id']
            m.wait_line(t, 'starts at 0')
            m.post(f'experiments/{e}/{verb}')
            m.wait_experiment(e, 'STATE_CANCELED')
            expect('exit', states(m, t)[0][0], exit)
            expect('saved', any('preempted' in x for x in m.lines(t)), line)


def test_who_does_not_stop_is_killed(det):
    with Master(det) as m:
        train = 'from task import *\nready()\nprint("up", flush=True)\nwhile True: time.sleep(1)\n'
        e = m.create(SINGLE % 4 + 'preemption_timeout: 1', {'train.py': train})
        m.wait_line(1, 'up')
        m.post(f'experiments/{e}/cancel')
        m.wait_experiment(e, 'STATE_CANCELED')
        expect('exit', [x[0] for x in states(m, 1)], ['KILLED'])
        expect('said', 'run 1 did not stop in time and is killed' in m.lines(1), True)


def test_killing_one_trial(det):
    with Master(det, '--slots', '2') as m:
        e = m.create('entrypoint: sleep 100\nsearcher: {name: random, max_trials: 2, max_length: {batches: 1}}')
        for t in (1, 2):
            wait_for(lambda: [a['state'] for a in m.allocations(t)] == ['STATE_RUNNING'], 'it to run')
        m.post('trials/1/kill')
        wait_for(lambda: m.trial(1)['state'] == 'STATE_CANCELED', 'the trial to end')
        expect('the other', m.trial(2)['state'], 'STATE_ACTIVE')
        m.post('trials/2/kill')
        row = m.wait_experiment(e, 'STATE_CANCELED')
        expect('reason', row['reason'], 'every trial was canceled')


def test_a_new_run_rolls_metrics_back(det):
    train = '''
from task import *
ready()
if run == 1:
    for i in (1, 2, 3): report('training', i, loss=float(i))
    report('validation', 2, err=0.5)
    report('validation', 3, err=0.1)
    os._exit(1)
report('training', 2, loss=20.0)
report('validation', 3, err=0.7)
complete(operation()['op']['validateAfter']['length'], 0.7)
'''
    with Master(det) as m:
        e = m.create(SINGLE % 3 + 'max_restarts: 1', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        reports = m.get('trials/1/metrics?group=training')['metrics']
        expect('training', [(r['stepsCompleted'], r['metrics']['loss']) for r in reports], [(1, 1.0), (2, 20.0)])
        reports = m.get('trials/1/metrics?group=validation')['metrics']
        expect('validation', [(r['stepsCompleted'], r['metrics']['err']) for r in reports], [(2, 0.5), (3, 0.7)])
        t = m.trial(1)
        expect('best', (t['searcherMetricValue'], t['bestValidation']['totalBatches']), (0.5, 2))
        expect('latest', t['latestValidation']['totalBatches'], 3)


def test_a_new_run_repeats_a_validation(det):
    """Killed after a validation, before the checkpoint: the next run trains and validates the same steps again."""
    train = '''
from task import *
ready()
report('training', 2, loss=1.0)
report('validation', 2, err=1.0 / run)
if run == 1: os._exit(1)
complete(operation()['op']['validateAfter']['length'], 1.0 / run)
'''
    with Master(det) as m:
        e = m.create(SINGLE % 2 + 'max_restarts: 1', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        reports = m.get('trials/1/metrics?group=validation')['metrics']
        expect('validation', [(r['stepsCompleted'], r['metrics']['err']) for r in reports], [(2, 0.5)])
        t = m.get('trials/1')
        expect('counted once', t['summaryMetrics']['validation']['err']['count'], 1)
        expect('best', (t['trial']['searcherMetricValue'], t['trial']['totalBatchesProcessed']), (0.5, 2))


def test_reports_of_one_step_are_joined(det):
    train = '''
from task import *
ready()
report('training', 1, a=1)
report('training', 1, b=2)
try: report('training', 1, b=3)
except SystemExit as e: print('refused:', e, flush=True)
complete(operation()['op']['validateAfter']['length'], 'NaN')
'''
    with Master(det) as m:
        e = m.create(SINGLE % 1, {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('metrics', m.get('trials/1/metrics')['metrics'][0]['metrics'], {'a': 1, 'b': 2})
        expect('refused', any('409' in x and 'was reported for step 1 before' in x for x in m.lines(1)), True)


def test_tasks_outlive_the_master(det):
    with Master(det) as m:
        e = m.create(SINGLE % 6, {'train.py': PACED})
        let_go(m, 2)
        m.wait_line(1, 'step 2')
        m.kill()
        let_go(m, 2)  # it cannot report now, and waits
        m.start()
        m.wait_line(1, 'step 4')
        m.stop()  # in order, this time
        m.start()
        let_go(m, 2)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('runs', states(m, 1), [('DONE', 0)])
        losses = [r['stepsCompleted'] for r in m.get('trials/1/metrics?group=training')['metrics']]
        expect('no report is lost or doubled', losses, [1, 2, 3, 4, 5, 6])
        expect('no line is lost or doubled', [x for x in m.lines(1) if x.startswith('step')],
               [f'step {i}' for i in range(1, 7)])


def test_what_ends_without_the_master_is_noticed(det):
    with Master(det, '--slots', '2') as m:
        flag = m.shared('flag')
        e = m.create(f'entrypoint: "echo up; while [ ! -e {flag} ]; do sleep 0.05; done; echo end; exit 5"\n'
                     'searcher: {name: single}\nmax_restarts: 0')
        m.wait_line(1, 'up')
        m.kill()
        open(flag, 'w').close()
        wait_for(lambda: os.path.exists(os.path.join(m.data, 'run', '1', 'exit.json')), 'the task to end')
        m.start()
        m.wait_experiment(e, 'STATE_ERROR')
        expect('exit', states(m, 1), [('TASK_FAILED', 5)])
        expect('log', [x for x in m.lines(1, source='task')], ['up', 'end'])
        expect('nothing is left', os.listdir(os.path.join(m.data, 'run')), [])
        wait_for(lambda: not os.listdir(os.path.join(m.data, 'work')), 'its working directory to go')


def test_signals_survive_a_restart(det):
    """Asked to stop before the master died: asked again, or ended, by the next one."""
    slow = '''
from task import *
ready()
print('up', flush=True)
flag = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'flag')
while not os.path.exists(flag) or not preempted(): time.sleep(0.02)
checkpoint(1); ack()
'''
    for verb, end in (('pause', 'STATE_PAUSED'), ('cancel', 'STATE_CANCELED')):
        with Master(det) as m:
            e = m.create(SINGLE % 4, {'train.py': slow})
            m.wait_line(1, 'up')
            m.post(f'experiments/{e}/{verb}')
            m.kill()
            m.start()
            open(m.shared('flag'), 'w').close()
            wait_for(lambda: states(m, 1) == [('PREEMPTED', 0)], 'the run to end')
            m.wait_experiment(e, end)


def processes_of(m):
    """Those that were started for a task of this master."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/environ', 'rb') as f:
            if m.data.encode() in f.read() and int(pid) != os.getpid():
                yield int(pid)


def command(m, *words):
    """As a person would type it, with nobody waiting for the master."""
    env = {**os.environ, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data}
    env.pop('DET_MASTER', None)
    return subprocess.run([m.det, 'experiment', *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_commands_around_a_restart_are_honoured(det):
    """While no master is there they fail, and say so; the first request that the next one hears is carried out."""
    for verb, end, exits in (('pause', 'STATE_PAUSED', 'PREEMPTED'), ('cancel', 'STATE_CANCELED', 'PREEMPTED'),
                             ('kill', 'STATE_CANCELED', 'KILLED')):
        with Master(det) as m:
            e = m.create(SINGLE % 4, {'train.py': PACED})
            let_go(m, 1)
            m.wait_line(1, 'step 1')
            m.kill()
            failed = command(m, verb, str(e))
            expect('without a master', (failed.returncode, b'det up' in failed.stderr), (1, True))
            m.start()
            expect(verb, command(m, verb, str(e)).returncode, 0)
            m.kill()  # what was acknowledged is remembered
            m.start()
            m.wait_experiment(e, end)
            wait_for(lambda: [x[0] for x in states(m, 1)] == [exits], 'the run to end')
            expect('one run', [x for x in m.lines(1) if x.startswith('starts')], ['starts at 0'])
            wait_for(lambda: not list(processes_of(m)), 'its processes to be gone')
            if verb == 'pause':
                let_go(m, 3)
                expect('activate', command(m, 'activate', str(e)).returncode, 0)
                m.wait_experiment(e, 'STATE_COMPLETED')
                steps = [r['stepsCompleted'] for r in m.get('trials/1/metrics?group=training')['metrics']]
                expect('every step once', steps, [1, 2, 3, 4])


def test_a_waiting_experiment_survives_a_restart(det):
    with Master(det) as m:
        first = m.create('entrypoint: sleep 100\nsearcher: {name: single}')
        second = m.create('entrypoint: "true"\nsearcher: {name: single}')
        wait_for(lambda: [a['state'] for a in m.allocations(1)] == ['STATE_RUNNING'], 'it to run')
        why = m.get(f'experiments/{second}')['waiting']
        expect('why', 'needs 1 slot' in why, True)
        m.kill()
        m.start()
        expect('still there', m.experiment(second)['state'], 'STATE_ACTIVE')
        m.post(f'experiments/{first}/kill')
        m.wait_experiment(second, 'STATE_COMPLETED')
        expect('the first', m.experiment(first)['state'], 'STATE_CANCELED')


def test_a_search_continues_exactly_after_kills(det):
    """The same trials, with and without a master that is killed again and again."""
    train = '''
from task import *
ready()
while True:
    op = operation()
    if op['completed']:
        ack(); break
    n = op['op']['validateAfter']['length']
    report('validation', n, err=hparams['x'])
    checkpoint(n)
    complete(n, hparams['x'])
'''
    config = ('entrypoint: python3 train.py\nreproducibility: {experiment_seed: 11}\n'
              'searcher: {name: adaptive_asha, metric: err, max_trials: 8, max_length: {batches: 16}, divisor: 4,'
              ' max_concurrent_trials: 2}\nhyperparameters: {x: {type: double, minval: 0, maxval: 1}}')

    def outcome(m, e):
        m.wait_experiment(e, 'STATE_COMPLETED')
        return [(t['hparams'], t['seed']) for t in m.trials(e, limit=-1)]
    with Master(det, '--slots', '2') as m:
        wanted = outcome(m, m.create(config, {'train.py': train}))
    with Master(det, '--slots', '2') as m:
        e = m.create(config, {'train.py': train})
        for n in (1, 3, 5):
            wait_for(lambda: len(m.trials(e)) >= n, 'trials')
            m.kill()
            m.start()
        expect('trials', outcome(m, e), wanted)


def test_important_work_goes_first(det):
    with Master(det) as m:
        low = m.create(SINGLE % 4 + 'resources: {priority: 50}', {'train.py': PACED})
        let_go(m, 1)
        m.wait_line(1, 'step 1')
        high = m.create('entrypoint: "echo now"\nsearcher: {name: single}\nresources: {priority: 10}')
        m.wait_experiment(high, 'STATE_COMPLETED')
        expect('gave way', 'preempted at 1' in m.lines(1), True)
        let_go(m, 3)
        m.wait_experiment(low, 'STATE_COMPLETED')
        expect('exits', [x[0] for x in states(m, 1)], ['PREEMPTED', 'DONE'])


def test_one_master_per_directory(det):
    with Master(det) as m:
        other = Master(det, data=m.data)
        try:
            other.start()
        except Failure as f:
            expect('status', 'ended with 1' in str(f), True)
        else:
            raise Failure('two masters run')
        finally:
            other.stop(signal.SIGKILL)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
