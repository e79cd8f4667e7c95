#!/usr/bin/env python3
"""What the web page asks for besides records: tables of trials, searching, texts of configurations, sessions."""
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Master, expect, run_tests  # noqa: E402

TRAIN = '''
from task import *
ready()
n = operation()['op']['validateAfter']['length']
for i in range(1, n + 1): report('training', i, loss=hparams['x'] / i)
report('validation', n, err=float(hparams['x']))
checkpoint(n)
complete(n, float(hparams['x']))
'''
CONFIG = '''
name: Grid of three   # a comment
description: some <b>words</b>
labels: [first label, b]
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: grid, metric: err, max_length: {batches: 4}, max_concurrent_trials: 2}
hyperparameters:
  x: {type: categorical, vals: [3, 1, 2]}
  net: {depth: 2, kind: [a, b]}
'''
TABLE = 'experiments/%d/trialsTable'


def columns(answer):
    return {c['name']: c['values'] for c in answer['columns']}


def test_all_trials_come_as_columns(det):
    with Master(det, '--slots', '2') as m:
        e = m.create(CONFIG, {'train.py': TRAIN})
        m.wait_experiment(e, 'STATE_COMPLETED')
        names = 'training.loss:last,training.loss:max,validation.err:min,validation.none:last'
        answer = m.get(TABLE % e + '?metrics=' + names)
        table = columns(answer)
        expect('total', answer['total'], 3)
        expect('lengths', {len(v) for v in table.values()}, {3})
        rows = {t['id']: t for t in m.trials(e)}
        expect('ids', table['id'], sorted(rows))
        for i, t in enumerate(table['id']):
            row, x = rows[t], rows[t]['hparams']['x']
            got = [table[n][i] for n in ('number', 'state', 'batches', 'restarts', 'runId', 'metric', 'checkpoint', 'hparams.x')]
            expect('row', got, [row['number'], 'STATE_COMPLETED', 4, 0, 1, x, row['latestCheckpoint'], x])
            expect('nested', (table['hparams.net.depth'][i], table['hparams.net.kind'][i]), (2, ['a', 'b']))
            expect('metrics', [table[n][i] for n in names.split(',')], [x / 4, x, x, None])
            expect('times', table['endTime'][i] >= table['startTime'][i] > 1.6e12, True)
        for wrong in ('loss', 'training.loss', 'training.loss:mean', ':last'):
            expect(wrong, m.call('GET', TABLE % e + '?metrics=' + wrong)[0], 400)
        expect('no such experiment', m.call('GET', TABLE % 99)[0], 404)


def test_trials_without_the_same_hyperparameters_have_gaps(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}')
        m.wait_experiment(e, 'STATE_COMPLETED')
        table = columns(m.get(TABLE % e))
        expect('nothing but the fixed ones', [n for n in table if '.' in n], [])
        expect('no metric', (table['metric'], table['checkpoint'], table['progress']), ([None], [None], [None]))


def found(m, **query):
    return [e['id'] for e in m.get('experiments?' + urllib.parse.urlencode(query))['experiments']]


def test_experiments_are_found_by_what_people_remember(det):
    with Master(det, '--slots', '2') as m:
        one = m.create(CONFIG, {'train.py': TRAIN})
        two = m.create('name: other\nentrypoint: "true"\nsearcher: {name: single}')
        end = max(m.wait_experiment(e, 'STATE_COMPLETED')['endTime'] for e in (one, two))
        for word, ids in (('grid OF', [one]), ('<B>words', [one]), ('first lab', [one]), (str(two), [two]), ('OTHER', [two]), ("' OR 1", []), ('%', [])):
            expect(word, found(m, search=word), ids)
        expect('below', found(m, metricBelow=1), [one])
        expect('not below', found(m, metricBelow=0.5), [])
        expect('above', found(m, metricAbove=0.5), [one])
        expect('ended', found(m, endTimeAfter=end), [])
        expect('ended before', found(m, endTimeAfter='2020-01-01T00:00:00Z'), [one, two])
        expect('best first', found(m, sortBy='bestTrialSearcherMetric'), [one, two])
        expect('bad bound', m.call('GET', 'experiments?metricBelow=x')[0], 400)


def test_checkpoints_of_all_experiments_are_listed(det):
    with Master(det, '--slots', '2') as m:
        first, second = (m.create(CONFIG, {'train.py': TRAIN}) for _ in range(2))
        m.wait_experiment(first, 'STATE_COMPLETED')
        m.wait_experiment(second, 'STATE_COMPLETED')
        everything = m.get('checkpoints?sortBy=size&orderBy=ORDER_BY_DESC&limit=2')
        expect('page', (len(everything['checkpoints']), everything['pagination']['total']), (2, 6))
        expect('of one', {c['experimentId'] for c in m.get(f'checkpoints?experimentId={second}')['checkpoints']}, {second})
        expect('states', m.get('checkpoints?states=STATE_DELETED')['pagination']['total'], 0)


def test_configurations_come_as_text(det):
    with Master(det) as m:
        text = CONFIG + 'bind_mounts: []\n'
        e = m.create(text, {'train.py': TRAIN})
        answer = m.get(f'experiments/{e}/config')
        expect('as it was written', answer['original'], text)
        expect('complete', 'max_restarts: 0' in answer['complete'] and 'save_trial_best' in answer['complete'], True)
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        ann = m.post('auth/login', {'username': 'ann', 'password': 'correct horse'}, token='')['token']
        others = m.good('GET', f'experiments/{e}/config', token=ann)
        expect('comments are the owner\'s', ('a comment' in others['original'], 'Grid of three' in others['original']), (False, True))
        secret = m.create('entrypoint: "true"\nsearcher: {name: single}\nenvironment: {environment_variables: ["KEY=hush"]}\ndata: {secrets: {a: hush2}}')
        for token in (None, ann):
            both = m.good('GET', f'experiments/{secret}/config', token=token)
            expect('secrets', 'hush2' in both['original'] + both['complete'], False)
        expect('variables', 'hush' in both['original'] + both['complete'], False)


def test_sessions_are_listed_and_ended(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        m.post('users', {'username': 'bob', 'password': 'correct horse'})

        def login(name):
            return m.post('auth/login', {'username': name, 'password': 'correct horse'}, token='')['token']

        def sessions(token=None):
            return m.good('GET', 'sessions', token=token)['sessions']
        first, second, other = login('ann'), login('ann'), login('bob')
        expect('hers', [s['current'] for s in sessions(second)], [False, True])
        expect('all', len(sessions()), 3)
        expect('no token in sight', any(t[:12] in str(sessions()) for t in (first, second, other)), False)
        [his] = sessions(other)
        expect('not hers', m.call('DELETE', f'sessions/{his["id"]}', token=first)[0], 404)
        old = sessions(second)[0]['id']
        m.good('DELETE', f'sessions/{old}', token=second)
        expect('ended', m.call('GET', 'me', token=first)[0], 401)
        expect('goes on', m.call('GET', 'me', token=second)[0], 200)
        m.good('DELETE', f'sessions/{his["id"]}')
        expect('by an administrator', m.call('GET', 'me', token=other)[0], 401)
        m.kill()
        m.start()
        expect('durable', [len(sessions()), m.call('GET', 'me', token=first)[0]], [1, 401])


run_tests(sys.modules[__name__])
