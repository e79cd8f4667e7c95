#!/usr/bin/env python3
"""Metrics for charts: many trials at once, thinned out, by batches and by time; what a run that goes back takes away."""
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests  # noqa: E402

TRAIN = '''
from task import *
reports = [{'group': 'training', 'stepsCompleted': i, 'reportTime': '2026-01-31T10:%02d:%02d.5Z' % (i // 60, i % 60),
            'metrics': {'loss': 'NaN' if i == 17 else i * hparams['slope'], 'odd "name"': i, 'word': 'x'}} for i in range(1, 1001)]
call('POST', '/trials/%s/metrics' % trial, {'trialRunId': run, 'reports': reports}, str(uuid.uuid4()))
report('validation', 1000, error=hparams['slope'])
complete(operation()['op']['validateAfter']['length'], hparams['slope'])
'''
CONFIG = '''
entrypoint: python3 train.py
hyperparameters: {slope: {type: categorical, vals: [3, 1, 2]}}
searcher: {name: grid, metric: error, smaller_is_better: %s, max_length: {batches: 1000}}
'''


def series(m, e, **query):
    return m.get(f'experiments/{e}/series?' + urllib.parse.urlencode({'group': 'training', 'name': 'loss', **query}, doseq=True))['series']


def test_series_of_many_trials(det):
    with Master(det) as m:
        e = m.create(CONFIG % 'true', {'train.py': TRAIN})
        m.wait_experiment(e, 'STATE_COMPLETED')
        slope = {t['id']: t['hparams']['slope'] for t in m.trials(e)}
        ordered = sorted(slope, key=slope.get)
        found = series(m, e, trials='all', maxDatapoints=1000)
        expect('trials', sorted(s['trialId'] for s in found), sorted(slope))
        for s in found:
            expect('keys', sorted(s), ['bucket', 'group', 'last', 'n', 'name', 'trialId', 'x'])
            expect('x', s['x'], list(range(1, 1001)))
            expect('values', s['last'], [None if i == 17 else i * slope[s['trialId']] for i in s['x']])
        expect('the best', [s['trialId'] for s in series(m, e, trials='best:2')], ordered[:2])
        expect('some', [s['trialId'] for s in series(m, e, trials=f'{ordered[2]},{ordered[0]},99999')], [ordered[2], ordered[0]])
        thin, = series(m, e, trials=ordered[0], maxDatapoints=10)
        expect('thinned', (len(thin['x']), thin['n'], thin['bucket']), (10, 999, 100))
        expect('stretches', (thin['min'], thin['max'][-1], thin['last'][-1]), ([1] + [100 * i + 1 for i in range(1, 10)], 1000, 1000))
        part, = series(m, e, trials=ordered[0], **{'from': 100, 'to': 103})
        expect('a part', part['x'], [100, 101, 102, 103])
        by_time, = series(m, e, trials=ordered[0], axis='time', **{'from': 1769853601000, 'to': 1769853604000})
        expect('by time', (by_time['x'], by_time['t']), ([1, 2, 3], [1769853601500, 1769853602500, 1769853603500]))
        both = series(m, e, trials=ordered[0], name=['odd "name"', 'loss'], maxDatapoints=5000)
        expect('several', [(s['name'], s['last'][1]) for s in both], [('odd "name"', 2), ('loss', 2)])
        expect('none', series(m, e, trials='all', name='nothing') + series(m, e, trials='all', name='word'), [])
        expect('names', m.get(f'experiments/{e}/metricNames')['names'],
               [{'group': 'training', 'name': 'loss', 'trials': 3}, {'group': 'training', 'name': 'odd "name"', 'trials': 3},
                {'group': 'validation', 'name': 'error', 'trials': 3}])
        other = m.create(CONFIG % 'false', {'train.py': TRAIN})
        m.wait_experiment(other, 'STATE_COMPLETED')
        best = max(m.trials(other), key=lambda t: t['hparams']['slope'])['id']
        expect('larger is better', [s['trialId'] for s in series(m, other, trials='best:1')], [best])
        expect('not its trial', series(m, e, trials=best), [])
        answer = m.get(f'series?group=validation&name=error&trials={best},{ordered[0]}')['series']
        expect('of any experiments', [(s['trialId'], s['last']) for s in answer], [(best, [3]), (ordered[0], [1])])


def test_bad_questions_are_refused(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}')
        for query, word in (('', 'name'), ('name=x&trials=1;2', 'best:N or all'), ('name=x&trials=best:0', 'above 0'), ('name=x&axis=epoch', 'axis'),
                            ('name=x&maxDatapoints=0', 'maxDatapoints'), ('name=x&from=many', 'from')):
            status, answer = m.call('GET', f'experiments/{e}/series?{query}')
            if status != 400 or word not in answer['detail']:
                raise Failure(f'{query}: {status} {answer}')
        expect('no trials', m.call('GET', 'series?name=x')[0], 400)
        expect('no experiment', m.call('GET', 'experiments/99/series?name=x')[0], 404)
        expect('no names', m.call('GET', 'experiments/99/metricNames')[0], 404)


BACK = '''
from task import *
if run == 1:
    reports = [{'group': 'training', 'stepsCompleted': i, 'metrics': {'loss': i}} for i in range(1, 801)]
    call('POST', '/trials/%s/metrics' % trial, {'trialRunId': run, 'reports': reports}, str(uuid.uuid4()))
    report('validation', 800, error=5)
    sys.exit(1)
for i in range(500, 511):
    report('training', i, loss=-i)
report('validation', 510, error=1)
complete(operation()['op']['validateAfter']['length'], 1)
'''


def test_a_run_that_goes_back_takes_points_away(det):
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nmax_restarts: 1\n'
                     'searcher: {name: single, metric: error, max_length: {batches: 10}}', {'train.py': BACK})
        m.wait_experiment(e, 'STATE_COMPLETED')
        for _ in range(2):
            found, = series(m, e, maxDatapoints=5000)
            expect('x', found['x'], list(range(1, 511)))
            expect('values', found['last'], [x if x < 500 else -x for x in found['x']])
            summary = m.get(f'trials/{m.trials(e)[0]["id"]}')['summaryMetrics']
            expect('summary', (summary['training']['loss']['count'], summary['training']['loss']['last'], summary['training']['loss']['max'],
                               summary['validation']['error']['count']), (510, -510, 499, 1))
            m.kill()
            m.start()


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
