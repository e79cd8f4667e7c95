#!/usr/bin/env python3
"""A search that wants very many trials at once: they are created, told and listed some at a time, and others are answered meanwhile."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

N = 5000
CONFIG = ('entrypoint: "exec sleep 1000"\nreproducibility: {experiment_seed: 7}\nhyperparameters: {a: {type: double, minval: 0, maxval: 1}}\n'
          f'searcher: {{name: random, metric: m, max_trials: {N}, max_length: {{batches: 1}}, max_concurrent_trials: {N}}}\n')


def n_trials(m, e):
    return m.experiment(e)['numTrials']


def wait_all(m, e):
    wait_for(lambda: n_trials(m, e) >= N, 'all trials')
    trials = m.trials(e, limit=-1)
    expect('numbers of trials', [t['number'] for t in trials], list(range(1, N + 1)))
    return trials


def test_others_are_answered_while_trials_are_created(det):
    with Master(det, '--slots', '1') as m:
        e = m.create(CONFIG)
        seen = [n_trials(m, e) for _ in range(3)]
        if not 0 < seen[0] < N:
            raise Failure(f'the first answers came when there were {seen} trials')
        trials = wait_all(m, e)
        expect('slots that are used', sum(t['state'] == 'STATE_ACTIVE' for t in trials), N)
        expect('why it waits', '0 are free' in m.get('jobs')['jobs'][0]['waiting'], True)
        m.post(f'experiments/{e}/kill')
        expect('state while there are trials left', m.experiment(e)['state'], 'STATE_STOPPING_KILLED')
        m.wait_experiment(e, 'STATE_CANCELED')
        expect('states', {t['state'] for t in m.trials(e, limit=-1)}, {'STATE_CANCELED'})


def test_a_killed_master_goes_on_creating(det):
    with Master(det, '--slots', '1') as m:
        whole = m.create(CONFIG, activate=False)
        wanted = [t['hparams'] for t in wait_all(m, whole)]
        e = m.create(CONFIG, activate=False)
        for _ in range(3):
            m.kill()
            m.start()
        expect('the same trials', [t['hparams'] for t in wait_all(m, e)], wanted)
        expect('states', {t['state'] for t in m.trials(e, limit=-1)}, {'STATE_PAUSED'})


def test_a_killed_master_goes_on_telling(det):
    with Master(det, '--slots', '1') as m:
        e = m.create(CONFIG)
        wait_all(m, e)
        m.post(f'experiments/{e}/pause')
        m.kill()
        m.start()
        wait_for(lambda: {t['state'] for t in m.trials(e, limit=-1)} == {'STATE_PAUSED'}, 'all trials to be paused')
        m.post(f'experiments/{e}/activate')
        m.post(f'experiments/{e}/pause')
        m.post(f'experiments/{e}/activate')
        m.stop(signal.SIGKILL)
        m.start()
        wait_for(lambda: {t['state'] for t in m.trials(e, limit=-1)} == {'STATE_ACTIVE'}, 'all trials to be active')
        m.post(f'experiments/{e}/kill')
        m.kill()
        m.start()
        m.wait_experiment(e, 'STATE_CANCELED')
        expect('states', {t['state'] for t in m.trials(e, limit=-1)}, {'STATE_CANCELED'})


if __name__ == '__main__':
    run_tests(sys.modules[__name__])
