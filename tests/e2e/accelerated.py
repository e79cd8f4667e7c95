#!/usr/bin/env python3
"""The accelerated trainer under a master: metrics, checkpoints, pause, resume, a kill, search; the same program as alone."""
import os
import signal
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

import trial  # noqa: E402

EPOCHS, BATCHES = 6, 64  # of an epoch
CONFIG = f'''
entrypoint_script: PROGRAM
hyperparameters: {{lr: 0.005, width: 16}}
searcher: {{name: single, metric: eval_loss_epoch, max_length: {{epochs: {EPOCHS}}}}}
min_checkpoint_period: {{batches: 16}}
reproducibility: {{experiment_seed: 7}}
'''
SLOW = CONFIG + 'environment: {environment_variables: [SLOW=1]}\n'


def create(m, config):
    return m.create(config.replace('PROGRAM', os.path.join(os.path.dirname(os.path.realpath(m.det)), 'test_points')), {})


def undisturbed(m):
    e = create(m, CONFIG)
    m.wait_experiment(e, 'STATE_COMPLETED')
    return m.trials(e)[0]['id']


def check_whole(m, t):
    steps = [BATCHES * (i + 1) for i in range(EPOCHS)]
    for group, name in (('training', 'train_loss_epoch'), ('validation', 'eval_loss_epoch'), ('validation', 'ema_model_eval_loss_epoch')):
        expect(name, [n for n, _ in trial.series(m, t, group, name)], steps)


def test_metrics_and_checkpoints_reach_the_master(det):
    with Master(det) as m:
        t = undisturbed(m)
        check_whole(m, t)
        row = m.trial(t)
        expect('batches', row['totalBatchesProcessed'], EPOCHS * BATCHES)
        e = m.experiment(row['experimentId'])
        expect('progress', e['progress'], 1.0)
        losses = [v for _, v in trial.series(m, t, 'validation', 'eval_loss_epoch')]
        expect('best', abs(e['bestTrialSearcherMetric'] - min(losses)) < 1e-12, True)
        newest = m.get(f'trials/{t}/checkpoints')['checkpoints'][-1]
        expect('files', [x in newest['resources'] for x in ('state-dict.pth', 'loop.json')], [True] * 2)
        m.wait_line(t, f'ended after {EPOCHS * BATCHES} batches: 0')


def test_pause_and_activate_go_on_exactly(det):
    with Master(det) as m:
        wanted = trial.last_weights(m, undisturbed(m))
        e = create(m, SLOW)
        t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
        trial.wait_checkpoints(m, t, 32)
        m.post(f'experiments/{e}/pause')
        wait_for(lambda: all(a['endTime'] for a in m.allocations(t)), 'the task to end')
        expect('paused', m.experiment(e)['state'], 'STATE_PAUSED')
        m.wait_line(t, 'batches: 2')  # DET_STOP_PREEMPTED
        expect('in the middle', 32 <= trial.last_weights(m, t)[0] < EPOCHS * BATCHES, True)
        m.post(f'experiments/{e}/activate')
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('restarts', m.trial(t)['restarts'], 0)
        expect('weights', trial.last_weights(m, t), wanted)
        check_whole(m, t)


def test_a_killed_task_goes_on_exactly(det):
    with Master(det) as m:
        wanted = trial.last_weights(m, undisturbed(m))
        e = create(m, SLOW)
        t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
        for kill_at in (40, 150):
            trial.wait_checkpoints(m, t, kill_at)
            os.kill(trial.trial_process(t, program='test_points'), signal.SIGKILL)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('restarts', m.trial(t)['restarts'], 2)
        expect('weights', trial.last_weights(m, t), wanted)
        check_whole(m, t)


def test_a_search_decides_how_long(det):
    config = '''
entrypoint_script: PROGRAM
hyperparameters: {lr: {type: log, base: 10, minval: -3, maxval: -1}, width: {type: int, minval: 4, maxval: 8}}
searcher: {name: adaptive_asha, metric: eval_loss_epoch, max_trials: 5, max_length: {batches: 192}, max_rungs: 3, divisor: 4,
           mode: aggressive}
reproducibility: {experiment_seed: 1}
'''
    with Master(det, '--slots', '2') as m:
        e = create(m, config)
        row = m.wait_experiment(e, 'STATE_COMPLETED')
        trials = m.trials(e)
        expect('lengths', sorted({t['totalBatchesProcessed'] for t in trials}), [48, 192])  # 48 is amid an epoch
        for t in trials:
            expect('hyperparameters', 4 <= t['hparams']['width'] <= 8, True)
            steps = [n for n, _ in trial.series(m, t['id'], 'validation', 'eval_loss_epoch')]
            expect('evaluated where a length ends', 48 in steps and steps[-1] == t['totalBatchesProcessed'], True)
        best = max(trials, key=lambda t: t['totalBatchesProcessed'])
        expect('best', row['bestTrialId'], best['id'])


def test_two_slots_train_as_one_does(det):
    config = CONFIG + f'launch_layer: {os.path.dirname(os.path.realpath(det))}/det-launch\nresources: {{slots_per_trial: 2}}\n'
    with Master(det, '--slots', '2') as m:
        alone = undisturbed(m)
        e = create(m, config)
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trials(e)[0]['id']
        check_whole(m, t)
        one, two = ([v for _, v in trial.series(m, x, 'training', 'train_loss_epoch')] for x in (alone, t))
        expect('losses', [i for i in range(EPOCHS) if abs(one[i] - two[i]) > 0.15], [])  # dropout differs between ranks


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
