#!/usr/bin/env python3
"""Trials in C as experiments: the same files that det-run trains on its own, with a master."""
import hashlib
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402


def example(name):
    with open(os.path.join(HERE, '..', '..', 'examples', 'onevar', name)) as f:
        return f.read()


FILES = {'model_def.c': example('model_def.c')}
LENGTH = 2000  # batches
# Slow enough to be caught in the middle: every tenth batch waits a little.
SLOW = {'model_def.c': FILES['model_def.c'].replace(
    'struct onevar *m = self;\n    det_tensor *loss',
    'struct onevar *m = self;\n    if (step->batch_idx % 10 == 0) usleep(20000);\n    det_tensor *loss')
    .replace('#include <det/det.h>', '#include <det/det.h>\n#include <unistd.h>')}
CONFIG = f'''
entrypoint: model_def:OneVarTrial
hyperparameters: {{learning_rate: 0.001, global_batch_size: 32}}
searcher: {{name: single, metric: loss, max_length: {{batches: {LENGTH}}}}}
min_validation_period: {{batches: 500}}
min_checkpoint_period: {{batches: 100}}
reproducibility: {{experiment_seed: 7}}
'''


def series(m, t, group, name):
    data = m.get(f'trials/{t}/series?group={group}&name={name}&maxDatapoints=10000')['data']
    return [(p[0], p[2]) for p in data]


def last_weights(m, t):
    """Of the newest checkpoint: batches trained, and a hash of everything that was wrapped."""
    found = m.get(f'trials/{t}/checkpoints?limit=-1')['checkpoints']
    newest = max((c for c in found if c['state'] == 'STATE_COMPLETED'), key=lambda c: c['stepsCompleted'])
    with open(os.path.join(m.data, 'checkpoints', newest['uuid'], 'state-dict.pth'), 'rb') as f:
        return newest['stepsCompleted'], hashlib.sha256(f.read()).hexdigest()


def check_ranks_shown(m, t):
    """Each line says once whose it is."""
    env = {**os.environ, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data}
    out = subprocess.run([m.det, 'trial', 'logs', str(t)], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    expect('doubled', [x for x in out.splitlines() if x.count('[rank=') > 1], [])
    expect('rank 1 is shown', any('[rank=1] ' in x for x in out.splitlines()), True)


def wait_checkpoints(m, t, steps):
    def look():
        found = m.get(f'trials/{t}/checkpoints?limit=-1')['checkpoints']
        return max([c['stepsCompleted'] for c in found], default=0) >= steps
    wait_for(look, f'a checkpoint of trial {t} at step {steps}')


def undisturbed(m):
    e = m.create(CONFIG, FILES)
    m.wait_experiment(e, 'STATE_COMPLETED')
    return m.trials(e)[0]['id']


def test_the_example_runs_as_it_is(det):
    with Master(det) as m:
        e = m.create(example('const.yaml'), FILES)
        row = m.wait_experiment(e, 'STATE_COMPLETED')
        expect('progress', row['progress'], 1.0)
        t = m.trials(e)[0]
        # The loss after n batches is known: (1 - 2 r)^2n.
        loss = series(m, t['id'], 'validation', 'loss')
        expect('validations', [n for n, _ in loss], list(range(2, 21, 2)))
        expect('loss', [v for n, v in loss if abs(v - 0.998 ** (2 * n)) > 1e-5], [])
        expect('batches', t['totalBatchesProcessed'], 20)
        expect('metric', row['bestTrialSearcherMetric'], loss[-1][1])
        newest = m.get(f'trials/{t["id"]}/checkpoints')['checkpoints'][-1]
        files = sorted(newest['resources'])
        expect('files', [x in files for x in ('state-dict.pth', 'loop.json', 'code/model_def.c')], [True] * 3)
        expect('metadata', newest['metadata']['framework'], 'det')
        lines = m.lines(t['id'])
        expect('rate', any('batches/s' in x and 'loss' in x for x in lines), True)
        expect('end', any(x.startswith('finished after 20 batches (10 epochs)') for x in lines), True)


def test_a_search_gives_hyperparameters_and_lengths(det):
    config = '''
entrypoint: model_def:OneVarTrial
hyperparameters:
  global_batch_size: 32
  learning_rate: {type: double, minval: 0.001, maxval: 0.1}
searcher: {name: adaptive_asha, metric: loss, max_trials: 5, max_length: {batches: 64}, max_rungs: 3, divisor: 4,
           mode: aggressive}
reproducibility: {experiment_seed: 1}
'''
    with Master(det, '--slots', '2') as m:
        e = m.create(config, FILES)
        row = m.wait_experiment(e, 'STATE_COMPLETED')
        trials = m.trials(e)
        lengths = sorted({t['totalBatchesProcessed'] for t in trials})
        expect('lengths', lengths, [16, 64])
        for t in trials:
            n, loss = series(m, t['id'], 'validation', 'loss')[-1]
            expect('steps', n, t['totalBatchesProcessed'])
            expect('loss', round(loss, 4), round((1 - 2 * t['hparams']['learning_rate']) ** (2 * n), 4))
        best = max(trials, key=lambda t: t['totalBatchesProcessed'])
        expect('best', row['bestTrialId'], best['id'])


def test_a_killed_task_goes_on_exactly(det):
    with Master(det) as m:
        wanted = last_weights(m, undisturbed(m))
        expect('length', wanted[0], LENGTH)
        e = m.create(CONFIG, SLOW)
        t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
        for kill_at in (200, 900):
            wait_checkpoints(m, t, kill_at)
            os.kill(trial_process(t), signal.SIGKILL)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('restarts', m.trial(t)['restarts'], 2)
        expect('weights', last_weights(m, t), wanted)
        # Every report once, whatever was reported twice.
        expect('training', [n for n, _ in series(m, t, 'training', 'loss')], list(range(100, LENGTH + 1, 100)))
        expect('validation', [n for n, _ in series(m, t, 'validation', 'loss')], [500, 1000, 1500, 2000])


def trial_process(t, rank=None, program='det-run'):
    """That of a trial, or of one of its ranks: the only one whose environment says so."""
    wanted = {f'DET_TRIAL_ID={t}'.encode()} | ({f'RANK={rank}'.encode()} if rank is not None else set())

    def look():
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/comm') as f, open(f'/proc/{pid}/environ', 'rb') as env:
                    if f.read() == f'{program}\n' and wanted <= set(env.read().split(b'\0')):
                        return int(pid)
            except OSError:
                pass
    return wait_for(look, f'the process of trial {t}')


def test_pause_and_activate_go_on_exactly(det):
    with Master(det) as m:
        wanted = last_weights(m, undisturbed(m))
        e = m.create(CONFIG, SLOW)
        t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
        wait_checkpoints(m, t, 100)
        m.post(f'experiments/{e}/pause')
        wait_for(lambda: all(a['endTime'] for a in m.allocations(t)), 'the task to end')
        expect('paused', m.experiment(e)['state'], 'STATE_PAUSED')
        m.wait_line(t, 'stopped after')
        steps, _ = last_weights(m, t)
        expect('in the middle', 100 <= steps < LENGTH, True)
        m.post(f'experiments/{e}/activate')
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('restarts', m.trial(t)['restarts'], 0)
        expect('weights', last_weights(m, t), wanted)


def test_hyperparameters_that_cannot_work_are_not_tried_again(det):
    source = FILES['model_def.c'].replace('return det_check(err);', '''
    if (det_hparam_double(ctx, "learning_rate") > 0.5) return det_fail(err, DET_EHPARAM, "too fast");
    return det_check(err);''', 1)
    config = CONFIG.replace('learning_rate: 0.001', 'learning_rate: {type: categorical, vals: [0.9, 0.1]}')
    config = config.replace('name: single', 'name: grid').replace(f'batches: {LENGTH}', 'batches: 4')
    with Master(det) as m:
        e = m.create(config, {'model_def.c': source})
        m.wait_experiment(e, 'STATE_COMPLETED')
        runs = {t['hparams']['learning_rate']: (t['runId'], t['totalBatchesProcessed']) for t in m.trials(e)}
        expect('runs', runs, {0.9: (1, 0), 0.1: (1, 4)})


def test_hyperparameters_that_one_rank_refuses(det):
    source = FILES['model_def.c'].replace('return det_check(err);', '''
    if (det_context_rank(ctx) == 1) return det_fail(err, DET_EHPARAM, "too fast");
    return det_check(err);''', 1)
    with Master(det, '--slots', '2') as m:
        e = m.create(TWO_SLOTS, {'model_def.c': source})
        m.wait_experiment(e, 'STATE_COMPLETED', 'STATE_ERROR')
        t = m.trials(e)[0]
        expect('runs', (t['runId'], t['totalBatchesProcessed']), (1, 0))


# --- several slots

TWO_SLOTS = CONFIG + 'resources: {slots_per_trial: 2}\n'


def test_two_slots_train_as_one_does(det):
    source = FILES['model_def.c'].replace('return det_check(err);', '''
    printf("slot %d of %d has %d samples\\n", det_context_rank(ctx), det_context_size(ctx),
           (int)det_context_per_slot_batch_size(ctx));
    return det_check(err);''', 1).replace('#include <det/det.h>', '#include <det/det.h>\n#include <stdio.h>')
    with Master(det, '--slots', '2') as m:
        e = m.create(example('const.yaml') + 'resources: {slots_per_trial: 2}\n', {'model_def.c': source})
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trials(e)[0]['id']
        loss = series(m, t, 'validation', 'loss')
        expect('validations', [n for n, _ in loss], list(range(2, 21, 2)))
        expect('loss', [v for n, v in loss if abs(v - 0.998 ** (2 * n)) > 1e-5], [])
        lines = m.lines(t)
        for rank in (0, 1):
            expect('rank', f'[rank={rank}] slot {rank} of 2 has 16 samples' in lines, True)
        check_ranks_shown(m, t)
        expect('one of them reports', len([x for x in lines if 'finished after 20 batches' in x]), 1)


def test_two_slots_go_on_exactly(det):
    with Master(det, '--slots', '2') as m:
        whole = m.create(TWO_SLOTS, FILES)
        m.wait_experiment(whole, 'STATE_COMPLETED')
        wanted = last_weights(m, m.trials(whole)[0]['id'])
        e = m.create(TWO_SLOTS, SLOW)
        t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
        for rank, kill_at in ((1, 200), (0, 600)):
            wait_checkpoints(m, t, kill_at)
            os.kill(trial_process(t, rank), signal.SIGKILL)
            wait_for(lambda: m.trial(t)['restarts'] == (1 if rank else 2), 'a restart')
        wait_checkpoints(m, t, 900)
        m.post(f'experiments/{e}/pause')
        wait_for(lambda: all(a['endTime'] for a in m.allocations(t)), 'the task to end')
        m.post(f'experiments/{e}/activate')
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('restarts', m.trial(t)['restarts'], 2)
        expect('weights', last_weights(m, t), wanted)
        expect('training', [n for n, _ in series(m, t, 'training', 'loss') if n % 100 == 0],
               list(range(100, LENGTH + 1, 100)))
        expect('culprit', any('rank 1 was ended by signal 9' in (a['reason'] or '') for a in m.allocations(t)), True)


def test_a_launch_layer_starts_the_ranks(det):
    layer = os.path.join(os.path.dirname(os.path.realpath(det)), 'det-launch')
    with Master(det, '--slots', '2') as m:
        e = m.create(example('const.yaml') + f'resources: {{slots_per_trial: 2}}\nlaunch_layer: {layer}\n', FILES)
        m.wait_experiment(e, 'STATE_COMPLETED')
        loss = series(m, m.trials(e)[0]['id'], 'validation', 'loss')
        expect('loss', [v for n, v in loss if abs(v - 0.998 ** (2 * n)) > 1e-5], [])


def test_a_program_of_ones_own_on_two_slots(det):
    """The launch layer starts it once for each slot; det_init does the rest."""
    here = os.path.dirname(os.path.realpath(det))
    config = f'''
entrypoint_script: {here}/example_onevar
launch_layer: {here}/det-launch
hyperparameters: {{learning_rate: 0.001, global_batch_size: 32}}
searcher: {{name: single, metric: loss, max_length: {{epochs: 10}}}}
resources: {{slots_per_trial: 2}}
'''
    with Master(det, '--slots', '2') as m:
        e = m.create(config, {})
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trials(e)[0]['id']
        steps, loss = series(m, t, 'validation', 'loss')[-1]
        expect('steps', steps, 20)
        expect('loss', round(loss, 5), round(0.998 ** 40, 5))
        lines = m.lines(t)
        expect('rank 1', any(x.startswith('[rank=1] trained 20 batches') for x in lines), True)
        check_ranks_shown(m, t)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
