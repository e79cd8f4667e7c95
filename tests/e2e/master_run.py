#!/usr/bin/env python3
"""Experiments from the first request to the last, with real processes."""
import contextlib
import csv
import http.client
import io
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

TRAIN = '''
from task import *
ready()
print('hparams', sorted(hparams), flush=True)
while True:
    op = operation()
    if op['completed']: break
    n = op['op']['validateAfter']['length']
    for i in range(steps + 1, n + 1): report('training', i, loss=1.0 / i)
    report('validation', n, err=hparams.get('x', 0.5))
    checkpoint(n)
    complete(n, hparams.get('x', 0.5))
    steps = n
print('bye', flush=True)
'''
CONFIG = '''
name: first
description: a test
labels: [a, b]
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: grid, metric: err, max_length: {batches: 4}, max_concurrent_trials: 2}
hyperparameters:
  x: {type: categorical, vals: [3, 1, 2]}
'''


def test_a_search_runs_to_its_end(det):
    with Master(det, '--slots', '2') as m:
        e = m.create(CONFIG, {'train.py': TRAIN})
        row = m.wait_experiment(e, 'STATE_COMPLETED')
        expect('progress', row['progress'], 1.0)
        expect('trials', row['numTrials'], 3)
        expect('best', row['bestTrialSearcherMetric'], 1.0)
        trials = m.trials(e, sortBy='searcherMetricValue')
        expect('order', [t['hparams']['x'] for t in trials], [1, 2, 3])
        expect('states', {t['state'] for t in trials}, {'STATE_COMPLETED'})
        expect('best trial', row['bestTrialId'], trials[0]['id'])
        t = trials[0]['id']
        expect('log', m.lines(t), ["hparams ['x']", 'bye'])
        series = m.get(f'trials/{t}/series?group=training&name=loss')
        expect('series', [[p[0], p[2]] for p in series['data']], [[i, 1.0 / i] for i in range(1, 5)])
        summary = m.get(f'trials/{t}')['summaryMetrics']['training']['loss']
        expect('summary', (summary['count'], summary['min'], summary['max']), (4, 0.25, 1.0))
        # One checkpoint a trial: the best and the latest at the same time.
        found = m.get(f'experiments/{e}/checkpoints')['checkpoints']
        expect('checkpoints', sorted((c['trialId'], c['searcherMetric']) for c in found),
               sorted((x['id'], float(x['hparams']['x'])) for x in trials))
        status, text = m.call('GET', f'checkpoints/{found[0]["uuid"]}/files/state')
        expect('file', (status, text), (200, 4))


def test_scripts_without_any_api_run(det):
    with Master(det) as m:
        e = m.create('entrypoint: "echo hello; echo WARNING: careful >&2"\nsearcher: {name: single}')
        m.wait_experiment(e, 'STATE_COMPLETED')
        lines = m.get('trials/1/logs')['logs']
        expect('lines', sorted((x['log'], x['stdtype'], x['level']) for x in lines),
               [('WARNING: careful\n', 'stderr', 'LOG_LEVEL_WARNING'), ('hello\n', 'stdout', 'LOG_LEVEL_INFO')])
        job = m.create('entrypoint: ["sh", "-c", "echo job $DET_TASK_TYPE"]\nresources: {slots: 1}', type='TYPE_GENERIC')
        row = m.wait_experiment(job, 'STATE_COMPLETED')
        expect('type', row['type'], 'TYPE_GENERIC')
        expect('log', m.lines(2), ['job GENERIC'])


def test_configurations_are_refused_with_reasons(det):
    with Master(det, '--slots', '1') as m:
        def refused(config, **more):
            status, answer = m.call('POST', 'experiments', {'config': config, **more})
            return status, answer['detail']
        status, why = refused('entrypoint: a\nsearcher: {name: singel}')
        expect('status', status, 400)
        expect('reason', 'searcher.name: must be one of' in why, True)
        status, why = refused('entrypoint: a\nsearcher: {name: single}\nresources: {slots_per_trial: 9}')
        expect('slots', (status, why), (400, "resources: 9 slots are wanted, pool 'default' has 1"))
        status, why = refused('entrypoint: a\nsearcher: {name: single}', code='../../etc/passwd')
        expect('code', status, 404)
        status, why = refused('entrypoint: a\nsearcher: {name: single, source_trial_id: 7}')
        expect('source', (status, why), (404, 'searcher: there is no trial 7'))
        status, why = refused('entrypoint: a\nsearcher: {name: single}\n'
                              'checkpoint_storage: {type: shared_fs, host_path: /nonexistent/x}')
        expect('storage', status, 404)
        status, why = refused('entrypoint: a\nsearcher: {name: single}\ndata: {x: "%s"}' % ('y' * 130000))
        expect('size', status, 413)
        expect('nothing was made', m.get('experiments')['pagination']['total'], 0)
        ok = m.post('experiments', {'config': 'entrypoint: a\nsearcher: {name: single}', 'validateOnly': True})
        expect('config', ok['config']['searcher']['name'], 'single')
        expect('still nothing', m.get('experiments')['pagination']['total'], 0)


def test_what_people_write_about_experiments(det):
    with Master(det) as m:
        e = m.create('entrypoint: "true"\nsearcher: {name: single}\nname: old')
        m.wait_experiment(e, 'STATE_COMPLETED')
        m.good('PATCH', f'experiments/{e}', {'name': 'new', 'notes': 'n', 'labels': ['x', 'x', 'y']})
        m.good('PUT', f'experiments/{e}/labels/with%20space')
        m.good('DELETE', f'experiments/{e}/labels/x')
        row = m.experiment(e)
        expect('row', (row['name'], row['notes'], row['labels']), ('new', 'n', ['y', 'with space']))
        expect('labels', m.get('experiment/labels')['labels'], ['with space', 'y'])
        expect('found', len(m.get('experiments?labels=y')['experiments']), 1)
        expect('not found', len(m.get('experiments?labels=y,z')['experiments']), 0)
        m.post(f'experiments/{e}/archive')
        expect('archived', m.get('experiments?archived=false')['pagination']['total'], 0)
        m.post(f'experiments/{e}/unarchive')
        status, why = m.call('POST', f'experiments/{e}/pause')
        expect('pause', (status, why['detail']), (409, 'cannot pause: experiment in terminal state COMPLETED'))
        m.post(f'experiments/{e}/kill')  # silently


def test_many_trials_run_at_once(det):
    """More than the usual limit of open files would let a program watch, if that were small."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (48, hard))
    try:
        with Master(det, '--slots', '80') as m:
            ran, end = m.shared('ran'), m.shared('end')
            os.mkfifo(end)
            e = m.create(f'entrypoint: "echo $DET_TRIAL_ID >> {ran}; read line < {end} || true"\nsearcher: {{name: random,'
                         ' max_trials: 80, max_length: {batches: 1}, max_concurrent_trials: 80}')

            def started():
                with contextlib.suppress(FileNotFoundError), open(ran) as f:
                    return f.read().split()
            wait_for(lambda: len(started() or []) == 80, 'all of them to run')
            open(end, 'w').close()
            m.wait_experiment(e, 'STATE_COMPLETED')
            expect('each ran once', sorted(map(int, started())), list(range(1, 81)))
            expect('none failed', {(t['state'], t['runId']) for t in m.trials(e, limit=-1)}, {('STATE_COMPLETED', 1)})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_deleting_takes_the_files_too(det):
    with Master(det) as m:
        e = m.create(CONFIG, {'train.py': TRAIN})
        status, why = m.call('DELETE', f'experiments/{e}')
        expect('too early', status, 409)
        m.wait_experiment(e, 'STATE_COMPLETED')
        folder = os.path.join(m.data, 'checkpoints')
        uuids = [c['uuid'] for c in m.get(f'experiments/{e}/checkpoints')['checkpoints']]
        expect('checkpoints', [u for u in uuids if not os.path.isdir(os.path.join(folder, u))], [])
        m.good('DELETE', f'experiments/{e}')
        wait_for(lambda: m.call('GET', f'experiments/{e}')[0] == 404, 'the experiment to vanish')
        expect('files', [u for u in uuids if os.path.exists(os.path.join(folder, u))], [])
        expect('trial', m.call('GET', 'trials/1')[0], 404)


def test_model_definitions_go_when_nothing_uses_them(det):
    with Master(det) as m:
        folder = os.path.join(m.data, 'code')
        first = m.create(CONFIG, {'train.py': TRAIN})
        second = m.create(CONFIG, {'train.py': TRAIN})  # the same content
        other = m.create('entrypoint: "true"\nsearcher: {name: single}', {'another.py': ''})
        unused = m.upload({'never.py': ''})
        for e in (first, second, other):
            m.wait_experiment(e, 'STATE_COMPLETED')
        codes = {e: m.experiment(e)['modelDefinition'] for e in (first, second, other)}
        expect('shared', codes[first], codes[second])

        def delete(e):
            for name in os.listdir(folder):  # as if they had been uploaded long ago
                os.utime(os.path.join(folder, name), (0, 0))
            if e == second:
                m.upload({'never.py': ''})  # somebody is about to use it
            m.good('DELETE', f'experiments/{e}')
        delete(first)
        wait_for(lambda: sorted(os.listdir(folder)) == sorted([codes[second], codes[other]]), 'what is unused to go')
        m.upload({'never.py': ''})
        delete(second)
        wait_for(lambda: codes[second] not in os.listdir(folder), 'it to go')
        expect('left', sorted(os.listdir(folder)), sorted([codes[other], unused]))
        os.utime(os.path.join(folder, unused), (0, 0))
        m.kill()
        m.start()
        wait_for(lambda: os.listdir(folder) == [codes[other]], 'it to go when a master starts')


def test_retention_keeps_best_and_latest(det):
    train = '''
from task import *
ready()
for i, err in enumerate([0.5, 0.1, 0.9, 0.7], 1):
    report('validation', i, err=err)
    checkpoint(i)
complete(4, 0.7)
'''
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nsearcher: {name: single, metric: err, max_length: {batches: 4}}\n'
                     'checkpoint_storage: {save_trial_best: 1, save_trial_latest: 1}', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        found = m.get(f'experiments/{e}/checkpoints?sortBy=stepsCompleted')['checkpoints']
        expect('kept', [c['state'] for c in found],
               ['STATE_DELETED', 'STATE_COMPLETED', 'STATE_DELETED', 'STATE_COMPLETED'])
        folder = os.path.join(m.data, 'checkpoints')
        gone = [c['uuid'] for c in found if c['state'] == 'STATE_DELETED']
        wait_for(lambda: not any(os.path.exists(os.path.join(folder, u)) for u in gone), 'files to vanish')


def test_following_a_log(det):
    with Master(det) as m:
        e = m.create('entrypoint: "for i in 1 2 3; do echo line $i; sleep 0.2; done"\nsearcher: {name: single}')
        c = http.client.HTTPConnection(m.host, timeout=60)
        c.request('GET', '/api/v1/trials/1/logs?follow=true', headers={'Authorization': 'Bearer ' + m.token})
        text = c.getresponse().read().decode()  # ends with the trial
        events = [x for x in text.split('\n\n') if 'data:' in x]
        logs = [json.loads(x.split('data: ')[1]).get('log') for x in events]
        expect('lines', logs, ['line 1\n', 'line 2\n', 'line 3\n', None])
        expect('end', 'event: end' in events[-1], True)
        m.wait_experiment(e, 'STATE_COMPLETED')
        last = [x.split('id: ')[1].split('\n')[0] for x in events if 'id: ' in x][0]
        c = http.client.HTTPConnection(m.host, timeout=60)
        c.request('GET', '/api/v1/trials/1/logs?follow=true',
                  headers={'Authorization': 'Bearer ' + m.token, 'Last-Event-ID': last})
        expect('resumed', c.getresponse().read().decode().count('line '), 2)


def test_a_single_experiment_can_be_continued(det):
    train = '''
from task import *
ready()
print('from', steps, flush=True)
n = operation()['op']['validateAfter']['length']
report('validation', n, err=1.0 / n)
checkpoint(n)
complete(n, 1.0 / n)
'''
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nsearcher: {name: single, metric: err, max_length: {batches: 2}}',
                     {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        changes = 'searcher: {name: single, max_length: {batches: 5}}'
        m.post('experiments/continue', {'id': e, 'overrideConfig': changes})
        expect('runs again', m.experiment(e)['endTime'], None)
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('log', m.lines(1), ['from 0', 'from 2'])
        t = m.trial(1)
        expect('trial', (t['runId'], t['totalBatchesProcessed'], t['searcherMetricValue']), (2, 5, 0.2))


def test_trials_of_a_grid_that_failed_are_continued(det):
    train = '''
from task import *
ready()
good = os.path.exists(os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'good'))
if hparams['x'] == 1 and not good: checkpoint(1); sys.exit(3)
print('from', steps, flush=True)
n = operation()['op']['validateAfter']['length']
report('validation', n, err=hparams['x'])
complete(n, hparams['x'])
'''
    with Master(det) as m:
        e = m.create(CONFIG, {'train.py': train})
        expect('too early', m.call('POST', 'experiments/continue', {'id': e})[0], 409)
        m.wait_experiment(e, 'STATE_COMPLETED')
        failed = [t for t in m.trials(e) if t['hparams']['x'] == 1][0]
        others = [t for t in m.trials(e) if t['hparams']['x'] != 1]
        expect('failed', failed['state'], 'STATE_ERROR')
        for change, why in (('hyperparameters: {x: {type: categorical, vals: [1, 2]}}', 'hyperparameters'),
                            ('searcher: {name: random, max_trials: 3}', "cannot become 'random'")):
            status, answer = m.call('POST', 'experiments/continue', {'id': e, 'overrideConfig': change})
            expect(change, (status, why in answer['detail']), (400, True))
        m.post('experiments/continue', {'id': e})
        m.kill()  # it goes on with the same trials after a restart, too
        m.start()
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('fails again', m.trial(failed['id'])['state'], 'STATE_ERROR')
        open(m.shared('good'), 'w').close()
        m.post('experiments/continue', {'id': e})
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trial(failed['id'])
        expect('its trial', (t['state'], m.lines(t['id'])[-1]), ('STATE_COMPLETED', 'from 1'))
        expect('the others', [m.trial(t['id']) for t in others], others)
        expect('trials', len(m.trials(e)), 3)
        expect('nothing left', m.call('POST', 'experiments/continue', {'id': e})[0], 409)


def test_a_random_search_is_continued_with_more_trials(det):
    config = ('entrypoint: python3 train.py\nreproducibility: {experiment_seed: 5}\nsearcher: {name: random, metric: err,'
              ' max_trials: %d, max_length: {batches: 2}, max_concurrent_trials: 1}\n'
              'hyperparameters: {x: {type: double, minval: 0, maxval: 1}}')
    with Master(det, '--slots', '2') as m:
        wanted = m.create(config % 5, {'train.py': TRAIN})
        e = m.create(config % 3, {'train.py': TRAIN})
        m.wait_experiment(e, 'STATE_COMPLETED')
        m.wait_experiment(wanted, 'STATE_COMPLETED')
        before = m.trials(e)
        m.post('experiments/continue', {'id': e, 'overrideConfig': 'searcher: {name: random, max_trials: 5}'})
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('those of before', m.trials(e)[:3], before)
        expect('as if it had been five', [t['hparams'] for t in m.trials(e)], [t['hparams'] for t in m.trials(wanted)])


def test_a_canceled_search_goes_on_where_it_was(det):
    """With the same trials and lengths as one that nobody has canceled."""
    train = '''
from task import *
ready()
while True:
    op = operation()
    if op['completed']: ack(); break
    n = op['op']['validateAfter']['length']
    while not os.path.exists(os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')) and n > 1:
        if preempted(): ack(); sys.exit()
        time.sleep(0.02)
    report('validation', n, err=hparams['x'])
    checkpoint(n)
    complete(n, hparams['x'])
'''
    config = ('entrypoint: python3 train.py\nreproducibility: {experiment_seed: 11}\nsearcher: {name: async_halving,'
              ' num_rungs: 3, metric: err, max_trials: 6, max_length: {batches: 16}, divisor: 4,'
              ' max_concurrent_trials: 1}\n'
              'hyperparameters: {x: {type: double, minval: 0, maxval: 1}}')

    def outcome(m, e):
        m.wait_experiment(e, 'STATE_COMPLETED')
        return [(t['hparams'], t['totalBatchesProcessed'], t['state']) for t in m.trials(e)]
    with Master(det) as m:
        go = m.shared('go')
        for verb in ('cancel', 'kill'):
            e = m.create(config, {'train.py': train})
            wait_for(lambda: any((t['operation'] or 0) > 1 for t in m.trials(e)), 'a promotion')
            m.post(f'experiments/{e}/{verb}')
            m.wait_experiment(e, 'STATE_CANCELED')
            status, why = m.call('POST', 'experiments/continue',
                                 {'id': e, 'overrideConfig': 'searcher: {name: async_halving, max_trials: 9}'})
            expect('no other search', (status, 'cannot change' in why['detail']), (400, True))
            m.post('experiments/continue', {'id': e})
            m.kill()
            m.start()
            open(go, 'w').close()
            found = outcome(m, e)
            status, why = m.call('POST', 'experiments/continue', {'id': e})
            expect('over', (status, 'only if it was canceled' in why['detail']), (501, True))
            os.remove(go)
            if verb == 'cancel':
                open(go, 'w').close()
                wanted = outcome(m, m.create(config, {'train.py': train}))
                os.remove(go)
            expect(verb, found, wanted)


def test_a_search_by_a_time_metric_stops_trials(det):
    train = '''
from task import *
ready()
for i in range(1, 101):
    report('validation', i, err=hparams['x'], seconds=i)
    if preempted(): ack(); print('stopped at', i, flush=True); break
'''
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nreproducibility: {experiment_seed: 1}\n'
                     'searcher: {name: adaptive_asha, metric: err, max_trials: 4, time_metric: seconds, max_time: 64,'
                     ' mode: aggressive, max_concurrent_trials: 1}\n'
                     'hyperparameters: {x: {type: double, minval: 0, maxval: 1}}', {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        batches = [t['totalBatchesProcessed'] for t in m.trials(e)]
        expect('some stop early, one does not', (min(batches) < 64, max(batches) >= 64), (True, True))


def test_log_policies(det):
    with Master(det) as m:
        e = m.create('entrypoint: "echo CUDA out of memory; sleep 0.1; exit $DET_TRIAL_RUN_ID"\nsearcher: {name: single}\n'
                     'max_restarts: 3\nlog_policies: [{name: oom, pattern: "out of mem.*", action: cancel_retries}]')
        m.wait_experiment(e, 'STATE_ERROR')
        expect('runs', len(m.allocations(1)), 1)
        expect('reason', m.trial(1)['reason'].endswith('a log policy forbids to try again'), True)
        status, why = m.call('POST', 'experiments', {'config': 'entrypoint: a\nsearcher: {name: single}\n'
                                                     'log_policies: [{name: x, pattern: "(", action: cancel_retries}]'})
        expect('pattern', (status, why['detail'].split(':')[0]), (400, 'log_policies[0].pattern'))


def test_log_policies_outlive_the_master(det):
    with Master(det) as m:
        e = m.create('entrypoint: "echo CUDA out of memory; until test -e go; do sleep 0.05; done; exit 3"\nsearcher: {name: single}\n'
                     'max_restarts: 3\nlog_policies: [{name: oom, pattern: "out of mem.*", action: cancel_retries}]')
        m.wait_line(1, "log policy 'oom' matches")
        m.kill()
        m.start()
        with open(os.path.join(m.data, 'work', '1', 'go'), 'w'):
            pass
        m.wait_experiment(e, 'STATE_ERROR')
        expect('runs', len(m.allocations(1)), 1)
        expect('said once', sum("'oom' matches" in line for line in m.lines(1)), 1)


def test_patterns_that_take_too_long_are_given_up(det):
    """A search for this in 64 KB of one letter takes hours; others are answered meanwhile, and the run ends as it should."""
    with Master(det) as m:
        e = m.create('entrypoint: "head -c 60000 /dev/zero | tr \'\\\\0\' a; echo; echo the end; exit 1"\nsearcher: {name: single}\n'
                     'max_restarts: 1\nlog_policies: [{name: slow, pattern: "(?:.*?){9}[qr]", action: cancel_retries}, '
                     '{name: last, pattern: "^the end$"}]')
        m.wait_experiment(e, 'STATE_ERROR')
        lines = m.lines(1)
        expect('given up', sum(x.startswith("log policy 'slow': its pattern takes too long") for x in lines), 1)
        expect('the others count', sum(x.startswith("log policy 'last' matches") for x in lines), 1)
        expect('no decision without a match', len(m.allocations(1)), 2)
        for pattern in ('((((((a{1,200}){1,200}){1,200}){1,200}){1,200}){1,200})', 'a' * 1001):
            status, why = m.call('POST', 'experiments', {'config': 'entrypoint: a\nsearcher: {name: single}\n'
                                                         f'log_policies: [{{name: x, pattern: "{pattern}"}}]'})
            expect('pattern', (status, why['detail'].split(':')[0]), (400, 'log_policies[0].pattern'))


REPORTS = """
from task import *
ready()
rows = [{'group': 'training', 'stepsCompleted': i, 'metrics': {'loss': 1 / (i + 1)}} for i in range(2000)]
rows += [{'group': 'validation', 'stepsCompleted': 10 * i, 'metrics': {'loss': 0.5, 'group': 'a,b', 'only': i}} for i in range(200)]
for at in range(0, len(rows), 1000):
    call('POST', '/trials/%s/metrics' % trial, {'trialRunId': run, 'reports': rows[at:at + 1000]}, str(uuid.uuid4()))
for i in range(3000): print('line', i)
"""


def test_all_reports_are_there(det):
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nsearcher: {name: single}\nlabels: [a, b, c]', {'train.py': REPORTS})
        m.wait_experiment(e, 'STATE_COMPLETED')
        everything = m.get('trials/1/metrics?limit=-1')
        reports = everything['metrics']
        expect('reports', len(reports), 2200)
        expect('order', reports, sorted(reports, key=lambda r: (r['stepsCompleted'], r['group'])))
        expect('the last page', 'next' in everything['pagination'], False)
        expect('some', m.get('trials/1/metrics?limit=5&offset=7')['metrics'][0], reports[7])
        expect('a group', len(m.get('trials/1/metrics?limit=-1&group=validation')['metrics']), 200)
        paged, after = [], '-1'
        while after:
            page = m.get(f'trials/1/metrics?limit=333&after={after}')
            paged += page['metrics']
            after = page['pagination'].get('next')
        expect('pages', paged, reports)

        def det_says(*args):
            env = {**os.environ, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data}
            env.pop('DET_MASTER', None)
            return subprocess.run([det, 'trial', 'metrics', '1', *args], env=env, check=True, stdout=subprocess.PIPE).stdout.decode()
        expect('JSON', json.loads(det_says('--json')), reports)
        expect('YAML', det_says('--yaml').count('- trialId') + det_says('--yaml').count('- group'), 2200)
        expect('lines of a table', det_says().count('\n'), 2201)
        rows = list(csv.DictReader(io.StringIO(det_says('--csv'), newline='')))
        expect('columns', list(rows[0]), ['group', 'stepsCompleted', 'reportTime', 'loss', 'metrics.group', 'only'])
        expect('rows', [(r['group'], int(r['stepsCompleted']), float(r['loss'])) for r in rows],
               [(r['group'], r['stepsCompleted'], r['metrics']['loss']) for r in reports])
        expect('cells', sorted({r['metrics.group'] for r in rows}), ['', 'a,b'])


def test_every_list_can_be_had_in_parts(det):
    with Master(det, '--slots', '2') as m:
        e = m.create('entrypoint: "for i in $(seq 2500); do echo line $i; done; exec sleep 1000"\nsearcher: {name: random, metric: x, '
                     'max_trials: 250, max_length: {batches: 1}, max_concurrent_trials: 250}\nlabels: [a, b, c]')
        wait_for(lambda: m.experiment(e)['numTrials'] == 250, 'trials')
        t = m.trials(e, limit=1)[0]['id']
        m.wait_line(t, 'line 1')
        wait_for(lambda: len(m.lines(t, limit=-1)) >= 2500, 'lines')
        m.post(f'experiments/{e}/pause')
        wait_for(lambda: all(a['state'] == 'STATE_TERMINATED' for a in m.allocations(t)), 'the end of the run')
        waiting = [m.create('entrypoint: "true"\nsearcher: {name: single}', activate=False) for _ in range(3)]
        for i in range(4):
            m.post('users', {'username': f'u{i}'})
            m.good('PUT', f'templates/t{i}', {'config': 'name: x'})
        lists = {f'experiments/{e}/trials': 'trials', 'experiments': 'experiments', f'trials/{t}/logs': 'logs', 'jobs': 'jobs',
                 'slots': 'slots', 'users': 'users', 'templates': 'templates', 'experiment/labels': 'labels',
                 f'trials/{t}/allocations': 'allocations', f'experiments/{e}/checkpoints': 'checkpoints'}
        for path, name in lists.items():
            everything = m.get(f'{path}?limit=-1')[name]
            expect(f'{path}: one', m.get(f'{path}?limit=1')[name], everything[:1])
            expect(f'{path}: some', m.get(f'{path}?limit=2&offset=1')[name], everything[1:3])
            expect(f'{path}: the rest', m.get(f'{path}?limit=-1&offset=2')[name], everything[2:])
            expect(f'{path}: none', m.get(f'{path}?offset=1000000000000')[name], [])
            if path not in ('jobs', 'slots', 'experiment/labels'):  # these have an order of their own
                got, after = [], ''
                while after is not None:
                    page = m.get(f'{path}?limit={7 if len(everything) < 400 else 700}{after}')
                    got += page[name]
                    following = page['pagination'].get('next')
                    after = f'&after={following}' if following else None
                expect(f'{path}: pages', got, everything)
        expect('trials', len(m.trials(e, limit=-1)), 250)
        for x in waiting:
            m.post(f'experiments/{x}/kill')
        m.post(f'experiments/{e}/kill')
        m.wait_experiment(e, 'STATE_CANCELED')


def test_watching_changes(det):
    with Master(det) as m:
        c = http.client.HTTPConnection(m.host, timeout=60)
        c.request('GET', '/api/v1/events', headers={'Authorization': 'Bearer ' + m.token})
        stream = c.getresponse()
        e = m.create('entrypoint: "true"\nsearcher: {name: single}\nname: seen')
        event, states = None, {'experiment': [], 'trial': []}
        while 'STATE_COMPLETED' not in states['experiment']:
            line = stream.readline().decode().rstrip('\n')
            if line.startswith('event: '):
                event = line[7:]
            elif line.startswith('data: '):
                states[event].append(json.loads(line[6:])['state'])
        expect('trial', states['trial'][-1], 'STATE_COMPLETED')
        m.good('PATCH', f'experiments/{e}', {'name': 'renamed'})
        while True:
            line = stream.readline().decode()
            if line.startswith('data: ') and json.loads(line[6:])['name'] == 'renamed':
                break
        c.close()


def test_templates(det):
    with Master(det) as m:
        m.good('PUT', 'templates/base', {'config': 'max_restarts: 0\nsearcher: {name: single}'})
        e = m.create('entrypoint: "exit 3"', template='base')
        m.wait_experiment(e, 'STATE_ERROR')
        expect('runs', len(m.allocations(1)), 1)
        m.good('DELETE', 'templates/base')
        expect('gone', m.call('GET', 'templates/base')[0], 404)


def test_a_key_makes_a_request_happen_once(det):
    with Master(det) as m:
        body = {'config': 'entrypoint: "true"\nsearcher: {name: single}'}
        for _ in range(3):
            m.post('experiments', body, headers={'Idempotency-Key': 'k1'})
        expect('experiments', m.get('experiments')['pagination']['total'], 1)


def test_numbers_for_prometheus(det):
    with Master(det, '--slots', '2') as m:
        status, text = m.call('GET', '/metrics')
        expect('status', status, 200)
        for line in ('det_slots{state="free"} 2', 'det_experiments 0', 'det_database_full 0'):
            expect(line, line in text.decode(), True)
        for path in ('/healthz', '/readyz', '/info', '/api/openapi.json'):
            expect(path, m.call('GET', path, token='')[0], 200)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
