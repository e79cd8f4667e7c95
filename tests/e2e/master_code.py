#!/usr/bin/env python3
"""What people look at beside curves: configurations while they are written, code, differences, runs."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

GOOD = 'entrypoint: x\nsearcher: {name: single, metric: loss, max_length: {batches: 9}}\n'


def test_a_configuration_is_checked_with_lines_and_columns(det):
    with Master(det) as m:
        answer = m.post('configs/check', {'config': 'name: x\nsearcher:\n  name: random\n  max_trials: 0\n  metrik: loss\nentrypoint: x\n'})
        places = {(e['path'], e['line'], e['column']) for e in answer['errors']}
        expect('places', {('searcher.max_trials', 4, 15), ('searcher.metrik', 5, 3)} <= places, True)
        expect('messages', all(e['message'] for e in answer['errors']), True)
        expect('no configuration', answer['config'], None)
        answer = m.post('configs/check', {'config': 'a: [1\nb: 2'})
        expect('no YAML', (len(answer['errors']), answer['errors'][0]['line'] >= 1, answer['errors'][0]['path']), (1, True, None))
        answer = m.post('configs/check', {'config': GOOD})
        expect('good', (answer['errors'], 'max_restarts: 5' in answer['config']), ([], True))
        m.good('PUT', 'templates/short', {'config': 'description: from a template\nmax_restarts: 3'})
        answer = m.post('configs/check', {'config': GOOD, 'template': 'short'})
        expect('with a template', ('max_restarts: 3' in answer['config'], 'from a template' in answer['config']), (True, True))
        expect('no such template', m.call('POST', 'configs/check', {'config': GOOD, 'template': 'none'})[0], 404)
        answer = m.post('configs/check', {'config': 'entrypoint: x\nresources: {slots: 1}', 'type': 'TYPE_GENERIC'})
        expect('a job', answer['errors'], [])
        expect('nothing was made', m.get('experiments')['experiments'], [])
        expect('large', len(m.post('configs/check', {'config': 'x' * (2 << 20)})['errors']), 1)


FILES = {'train.py': 'import sys\nprint(1)\n', 'lib/net work.py': 'a\nb\nc\n', 'data.bin': 'x\0y', 'empty': '', 'big.txt': 'line\n' * 1000000}


def test_files_of_a_model_definition(det):
    with Master(det) as m:
        e = m.create(GOOD, FILES, activate=False)
        files = {f['path']: (f['bytes'], f['type']) for f in m.get(f'experiments/{e}/files')['files']}
        wanted = {name: (len(text), 'binary' if '\0' in text else 'text') for name, text in FILES.items()}
        expect('files', {k: v for k, v in files.items() if k != 'task.py'}, wanted)
        with contextlib.closing(m.connect()) as c:
            c.request('GET', f'/api/v1/experiments/{e}/files/lib/net%20work.py', headers={'Authorization': 'Bearer ' + m.token})
            r = c.getresponse()
            expect('text', (r.status, r.getheader('Content-Type'), r.read()), (200, 'text/plain; charset=utf-8', b'a\nb\nc\n'))
        expect('bytes', m.call('GET', f'experiments/{e}/files/data.bin'), (200, b'x\0y'))
        expect('empty', m.call('GET', f'experiments/{e}/files/empty'), (200, b''))
        status, answer = m.call('GET', f'experiments/{e}/files/big.txt')
        expect('too large', (status, 'model-def' in answer['detail']), (413, True))
        for name in ('none', '../secret.key', 'lib', 'lib/', '%2e%2e/secret.key'):
            expect(name, m.call('GET', f'experiments/{e}/files/{name}')[0], 404)
        plain = m.create(GOOD, activate=False)
        expect('without code', m.get(f'experiments/{plain}/files'), {'files': []})
        expect('no experiment', m.call('GET', 'experiments/99/files')[0], 404)


def test_differences_of_two_experiments(det):
    with Master(det) as m:
        a = m.create(GOOD + 'name: one\n', {**FILES, 'old.py': 'old\n'}, activate=False)
        b = m.create(GOOD + 'name: two\n', {**FILES, 'train.py': 'import sys\nprint(2)\n', 'new.py': 'new\n', 'data.bin': 'x\0z'}, activate=False)
        answer = m.get(f'experiments/{a}/diff/{b}')
        expect('config', [line for line in answer['config'].split('\n') if line[:1] in '+-' and 'name:' in line], ['-name: one', '+name: two'])
        files = {f['path']: (f['status'], f['diff']) for f in answer['files']}
        expect('files', files, {'train.py': ('changed', '@@ -1,2 +1,2 @@\n import sys\n-print(1)\n+print(2)\n'),
                                'old.py': ('removed', '@@ -1,1 +0,0 @@\n-old\n'), 'new.py': ('added', '@@ -0,0 +1,1 @@\n+new\n'),
                                'data.bin': ('changed', None)})
        expect('with itself', m.get(f'experiments/{a}/diff/{a}'), {'config': '', 'files': []})
        expect('no other', m.call('GET', f'experiments/{a}/diff/99')[0], 404)


def test_code_of_private_experiments_is_private(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        ann = m.post('auth/login', {'username': 'ann', 'password': 'correct horse'}, token='')['token']
        open_one = m.create(GOOD, {'a.py': 'a'}, activate=False)
        private = m.create(GOOD + 'private: true\nenvironment: {environment_variables: ["SECRET=tell nobody"]}', {'a.py': 'private words'}, activate=False)
        for path in ('files', 'files/a.py'):
            expect(path, m.call('GET', f'experiments/{private}/{path}', token=ann)[0], 403)
            expect(f'{path} of the other', m.call('GET', f'experiments/{open_one}/{path}', token=ann)[0], 200)
        status, answer = m.call('GET', f'experiments/{open_one}/diff/{private}', token=ann)
        expect('differences', (status, answer['files'], 'private' in answer['denied'], 'tell nobody' in answer['config'],
                               'private words' in str(answer)), (200, [], True, False, False))
        owner = m.get(f'experiments/{open_one}/diff/{private}')
        expect('for the owner', ('tell nobody' in owner['config'], len(owner['files'])), (True, 1))


RUNS = '''
from task import *
ready()
if run == 1:
    for i in range(1, 9): report('training', i, loss=i)
    checkpoint(5)
    sys.exit(3)
for i in range(steps + 1, 8): report('training', i, loss=i)
if run == 2: sys.exit(4)
report('validation', 9, error=0.5)
complete(operation()['op']['validateAfter']['length'], 0.5)
'''


def test_runs_say_what_did_not_count(det):
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nmax_restarts: 2\nsearcher: {name: single, metric: error, max_length: {batches: 9}}',
                     {'train.py': RUNS})
        m.wait_experiment(e, 'STATE_COMPLETED')
        runs = m.get(f'trials/{m.trials(e)[0]["id"]}/runs')['runs']
        keys = ('run', 'fromBatch', 'toBatch', 'rolledBackTo')
        expect('runs', [tuple(r[k] for k in keys) for r in runs], [(1, 0, 8, 5), (2, 5, 7, 5), (3, 5, 9, None)])
        expect('how they ended', [(r['exit'], bool(r['reason'])) for r in runs][0][1], True)
        for r in runs:
            expect('times', r['askedTime'] <= r['startTime'] <= r['endTime'], True)
        e = m.create('entrypoint: "sleep 100"\nsearcher: {name: single}')
        t = wait_for(lambda: m.trials(e), 'its trial')[0]['id']
        run = wait_for(lambda: m.get(f'trials/{t}/runs')['runs'], 'its run')[0]
        expect('one that goes on', (run['endTime'], run['exit'], run['fromBatch'], run['toBatch']), (None, None, 0, 0))
        m.kill()
        m.start()
        expect('after a restart', m.get(f'trials/{t}/runs')['runs'][0]['startTime'], run['startTime'])
        expect('no trial', m.call('GET', 'trials/99/runs')[0], 404)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
