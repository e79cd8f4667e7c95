#!/usr/bin/env python3
"""What the web page asks about searches: rungs, importance, previews; and about logs: how long they are, where a text is."""
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Master, expect, run_tests, wait_for  # noqa: E402

TRAIN = '''
from task import *
import os, time
ready()
gate = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')
while True:
    op = operation()
    if op['completed']: ack(); break
    n = op['op']['validateAfter']['length']
    while n > 4 and not os.path.exists(gate): time.sleep(0.05)
    report('validation', n, err=hparams['x'] + 1 / n, other=-hparams['y'])
    complete(n, hparams['x'] + 1 / n)
'''
CONFIG = '''
name: halving
reproducibility: {experiment_seed: 7}
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: async_halving, metric: err, max_length: {batches: 16}, num_rungs: 2, divisor: 4, max_trials: 8, max_concurrent_trials: 4}
hyperparameters:
  x: {type: double, minval: 0, maxval: 1}
  y: {type: double, minval: 0, maxval: 1}
'''
FLAT = CONFIG.replace('async_halving', 'random').replace('num_rungs: 2, divisor: 4, ', '')


def rungs(m, e):
    return m.get(f'experiments/{e}/search')['brackets'][0]['rungs']


def test_rungs_fill_while_a_search_goes_on(det):
    with Master(det, '--slots', '4') as m:
        e = m.create(CONFIG, {'train.py': TRAIN})
        wait_for(lambda: len([r for r in rungs(m, e)[0]['trials'] if r['metric'] is not None]) == 8, 'all results')
        first, last = rungs(m, e)
        expect('lengths', (first['length'], last['length']), (4, 16))
        ranked = sorted(m.trials(e), key=lambda t: t['hparams']['x'])
        promoted = [r['trialId'] for r in first['trials'] if r['decision'] == 'promoted']
        expect('those who run', sorted(r['trialId'] for r in last['trials']), sorted(promoted))
        expect('what they do', {(r['decision'], r['metric']) for r in last['trials']}, {('running', None)})
        results = [r['metric'] for r in first['trials']]
        expect('the best first', results, sorted(results))
        expect('the cut', first['cutoff'] in results, True)
        open(os.path.join(m.data, 'checkpoints', 'go'), 'w').close()
        m.wait_experiment(e, 'STATE_COMPLETED')
        whole = m.get(f'experiments/{e}/search')
        expect('head', [whole[k] for k in ('method', 'metric', 'unit', 'smallerIsBetter')], ['async_halving', 'err', 'batches', True])
        first, last = whole['brackets'][0]['rungs']
        expect('all are decided', {r['decision'] for r in first['trials']}, {'promoted', 'stopped'})
        expect('the end', {r['decision'] for r in last['trials']}, {'finished'})
        expect('the best', first['trials'][0]['trialId'], ranked[0]['id'])
        m.stop()
        m.start()
        expect('after a restart', m.get(f'experiments/{e}/search'), whole)
        expect('it does not go on', m.call('POST', 'experiments/continue', {'id': e})[0] >= 400, True)


def test_a_search_without_rungs_has_none(det):
    with Master(det, '--slots', '4') as m:
        e = m.create(FLAT, {'train.py': TRAIN.replace('n > 4', 'False')})
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('brackets', m.get(f'experiments/{e}/search')['brackets'], [])
        found = m.get(f'experiments/{e}/importance')
        expect('trials', found['trials'], 8)
        expect('what matters', found['importance'][0]['name'], 'x')
        other = m.get(f'experiments/{e}/importance?metric=other')
        expect('for another metric', other['importance'][0]['name'], 'y')
        expect('no such metric', m.get(f'experiments/{e}/importance?metric=none'), {'trials': 0, 'importance': []})
        job = m.post('experiments', {'config': 'entrypoint: "true"', 'type': 'TYPE_GENERIC'})['experiment']['id']
        for route in ('search', 'importance'):
            expect('of a job', m.call('GET', f'experiments/{job}/{route}')[0], 501)
            expect('of nothing', m.call('GET', f'experiments/99/{route}')[0], 404)


def test_a_search_is_previewed_and_simulated(det):
    with Master(det) as m:
        m.good('PUT', 'templates/small', {'config': 'searcher: {name: async_halving, max_trials: 4}'})
        plan = m.post('search/preview', {'config': CONFIG})
        expect('plan', [plan[k] for k in ('method', 'unit', 'trials', 'units', 'hasRungs')], ['async_halving', 'batches', 8, 56, True])
        expect('lengths', plan['lengths'], [{'length': 4, 'trials': 6}, {'length': 16, 'trials': 2}])
        expect('with a template', m.post('search/preview', {'config': CONFIG.replace('max_trials: 8, ', ''), 'template': 'small'})['trials'], 4)
        rows = m.post('search/simulate', {'config': CONFIG})['brackets'][0]['rungs']
        expect('simulated', [(r['length'], len(r['trials'])) for r in rows], [(4, 8), (16, len([r for r in rows[0]['trials'] if r['decision'] == 'promoted']))])
        for route in ('preview', 'simulate'):
            code, answer = m.call('POST', f'search/{route}', {'config': CONFIG.replace('async_halving', 'randum')})
            expect('a mistake', (code, 'randum' in str(answer)), (400, True))
            expect('no such template', m.call('POST', f'search/{route}', {'config': CONFIG, 'template': 'none'})[0], 404)
        huge = CONFIG.replace('max_trials: 8', 'max_trials: 50000')
        expect('too large', m.call('POST', 'search/simulate', {'config': huge})[0] >= 400, True)


PRINTS = r'for i in $(seq 1 3000); do echo "line $i"; if [ $((i % 500)) = 0 ]; then echo "Found NEEDLE $i" >&2; fi; done'


def slices(m, path, **query):
    """All answers, one after the other."""
    cursor, answers = None, []
    while not answers or not answers[-1]['done']:
        more = {**query, **({'cursor': cursor} if cursor else {})}
        answers.append(m.get(f'{path}?{urllib.parse.urlencode(more)}'))
        cursor = answers[-1]['cursor']
    return answers


def test_places_in_a_log(det):
    with Master(det) as m:
        e = m.create(f"entrypoint: '{PRINTS}'\nsearcher: {{name: single}}")
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trials(e)[0]['id']
        logs = m.get(f'trials/{t}/logs?limit=-1')['logs']
        extent = slices(m, f'trials/{t}/logs/extent')
        expect('lines', extent[-1]['lines'], len(logs))
        marks = [mark for a in extent for mark in a['marks']]
        expect('marks', len(marks) >= 2 and marks[0][0] == 0, True)
        expect('where they are', [i for _, i in marks], [logs[n]['id'] for n, _ in marks])
        for query, wanted in (({'searchText': 'needle', 'anyCase': 'true'}, 'NEEDLE'), ({'searchText': 'NEEDLE'}, 'NEEDLE'), ({'searchText': 'needle'}, 'needle')):
            matches = [x for a in slices(m, f'trials/{t}/logs/search', **query) for x in a['matches']]
            expect(str(query), matches, [[n, x['id']] for n, x in enumerate(logs) if wanted in x['log']])
        errors = [x for x in logs if x.get('stdtype') == 'stderr']
        expect('filtered', slices(m, f'trials/{t}/logs/extent', stdtype='stderr')[-1]['lines'], len(errors))
        matches = [x for a in slices(m, f'trials/{t}/logs/search', stdtype='stderr', searchText='NEEDLE 2') for x in a['matches']]
        expect('found among them', matches, [[n, x['id']] for n, x in enumerate(errors) if 'NEEDLE 2' in x['log']])
        for wrong in ('extent?cursor=x', 'extent?cursor=1', 'extent?cursor=-1.2', 'search', 'search?searchText=', 'search?searchText=a&cursor=1.x'):
            expect(wrong, m.call('GET', f'trials/{t}/logs/{wrong}')[0], 400)
        expect('no such trial', m.call('GET', 'trials/99/logs/extent')[0], 404)


run_tests(sys.modules[__name__])
