#!/usr/bin/env python3
"""Batch inference on a cluster: a job reads checkpoints of its user's trials by the number of the trial, and of nobody else's."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import TASK, Failure, Master, expect, run_tests  # noqa: E402

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
TRAIN = '''
from task import *
for at, value in %r:
    if value is not None: report('validation', at, loss=value)
    print('saved', at, checkpoint(at), flush=True)
complete(9, 0.5)
'''
# Asks for paths, and prints what it got.
READ = '''
from task import *
for path in json.loads(os.environ['PATHS']):
    c = connect()
    c.request('GET', '/api/v1/' + path, headers={'Authorization': 'Bearer ' + os.environ['DET_SESSION_TOKEN']})
    r = c.getresponse()
    print('answer', json.dumps([path, r.status, r.read().decode()]), flush=True)
time.sleep(100 if 'STAY' in os.environ else 0)
'''


def new_user(m, name):
    m.post('users', {'username': name, 'password': 'correct horse'})
    return m.good('POST', 'auth/login', {'username': name, 'password': 'correct horse'}, token='')['token']


def create(m, token, body, files):
    return m.post('experiments', {**body, 'code': m.upload({**files, 'task.py': TASK})}, token=token)['experiment']['id']


def train(m, token, validations, smaller=True):
    """A trial with a checkpoint for each (batches, loss); which checkpoint has which batches."""
    config = {'entrypoint': 'python3 train.py', 'max_restarts': 0, 'checkpoint_storage': {'save_trial_best': 9, 'save_trial_latest': 9},
              'searcher': {'name': 'single', 'metric': 'loss', 'smaller_is_better': smaller, 'max_length': {'batches': 9}}}
    e = create(m, token, {'config': json.dumps(config)}, {'train.py': TRAIN % (validations,)})
    m.wait_experiment(e, 'STATE_COMPLETED')
    t = m.trials(e)[0]['id']
    saved = [line.split() for line in m.lines(t) if line.startswith('saved ')]
    return t, {int(at): uuid for _, at, uuid in saved}


def read_as_task(m, token, paths, job=True):
    """What a task of a user gets: {path: (status, text)}."""
    config = {'entrypoint': 'python3 read.py', 'environment': {'environment_variables': ['PATHS=' + json.dumps(paths)]}}
    if not job:
        config.update(searcher={'name': 'single'}, max_restarts=0)
    e = create(m, token, {'config': json.dumps(config), 'type': 'TYPE_GENERIC' if job else 'TYPE_EXPERIMENT'}, {'read.py': READ})
    m.wait_experiment(e, 'STATE_COMPLETED')
    lines = [json.loads(x[7:]) for x in m.lines(m.trials(e)[0]['id']) if x.startswith('answer ')]
    return {path: (status, text) for path, status, text in lines}


def test_a_job_reads_checkpoints_of_its_user_only(det):
    with Master(det) as m:
        ann, bob = new_user(m, 'ann'), new_user(m, 'bob')
        trial, saved = train(m, ann, [(1, 0.5), (2, 0.25)])
        uuid = saved[2]
        good = [f'trials/{trial}/best_checkpoint', f'trials/{trial}/checkpoints', f'checkpoints/{uuid}', f'checkpoints/{uuid}/files/state']
        bad = [f'trials/{trial}', f'trials/{trial}/logs', f'trials/{trial}/metrics', 'experiments', 'me', f'experiments/{m.trial(trial)["experimentId"]}']
        got = read_as_task(m, ann, good + bad)
        expect('her job', [got[p][0] for p in good + bad], [200] * len(good) + [403] * len(bad))
        expect('best', json.loads(got[good[0]][1])['checkpoint']['uuid'], uuid)
        expect('content', got[good[3]][1], '2')
        for who, token, job in (('job of another', bob, True), ('job of an administrator', m.token, True), ('trial of hers', ann, False)):
            got = read_as_task(m, token, good + bad, job)
            expect(who, {p: got[p][0] for p in good + bad if got[p][0] != 403}, {})
        for path in good:  # and people as before
            expect(path, m.call('GET', path, token=bob)[0], 200)
            expect(path, m.call('GET', path, token='')[0], 401)


def test_the_best_checkpoint_is_that_of_the_searchers_metric(det):
    with Master(det) as m:
        ann = new_user(m, 'ann')
        rows = [(1, 0.5), (2, 0.25), (3, 0.75), (4, None)]
        for validations, smaller, wanted in ((rows, True, 2), (rows, False, 3),
                                             ([(1, 0.5), (2, 0.5)], True, 2),  # equally good: the later one
                                             ([(1, None), (3, None)], True, 3),  # none was validated: the latest
                                             ([(1, 9e300), (2, None)], True, 1)):
            trial, saved = train(m, ann, validations, smaller)
            expect(f'{validations}', m.get(f'trials/{trial}/best_checkpoint')['checkpoint']['uuid'], saved[wanted])
        m.good('DELETE', f'checkpoints/{saved[1]}')
        expect('one that was deleted', m.get(f'trials/{trial}/best_checkpoint')['checkpoint']['uuid'], saved[2])
        e = m.create('entrypoint: "true"\nsearcher: {name: single}')
        m.wait_experiment(e, 'STATE_COMPLETED')
        expect('none', m.call('GET', f'trials/{m.trials(e)[0]["id"]}/best_checkpoint')[0], 404)


def read(*names):
    with open(os.path.join(ROOT, *names), encoding='utf-8') as f:
        return f.read()


# Loads a trial by whatever the job's data names, and says how that went.
LOAD = '''
#include <det/det.h>
#include <stdio.h>
extern const det_trial_ops MNistTrial;
int main(void)
{
    det_err err;
    det_trainer *trainer = det_init();
    const det_config *data = det_data_config(trainer);
    if (det_config_has(data, "uuid"))
        det_load_checkpoint_trial(trainer, &MNistTrial, .uuid = det_config_str(data, "uuid"));
    else
        det_load_checkpoint_trial(trainer, &MNistTrial, .trial_id = det_config_int(data, "trial_id"));
    printf("outcome: %s\\n", det_check(&err) ? err.msg : "loaded");
    det_trainer_free(trainer);
    return 0;
}
'''


def run_job(m, token, entrypoint, files, machine, slots=1, **data):
    """The lines that a job prints; it must succeed."""
    config = json.dumps({'entrypoint': entrypoint, 'data': data, 'resources': {'slots': slots}, **machine})
    e = create(m, token, {'config': config, 'type': 'TYPE_GENERIC'}, files)
    m.wait_experiment(e, 'STATE_COMPLETED')
    return m.lines(m.trials(e)[0]['id'])


def test_a_program_of_c_asks_a_trained_network(det):
    """A network is trained here, and jobs load it by the number of its trial: the example, on two slots."""
    build = os.path.dirname(det)
    variables = [f'CPATH={ROOT}/include', f'LIBRARY_PATH={build}', f'LD_LIBRARY_PATH={build}']
    with Master(det, '--slots', '2') as m, tempfile.TemporaryDirectory(prefix='det-e2e-') as data:
        digits, output = os.path.join(data, 'digits'), os.path.join(data, 'predictions.csv')
        # What tasks of several users need of the machine has to be mounted and set.
        machine = {'bind_mounts': [{'host_path': data, 'container_path': data}], 'environment': {'environment_variables': variables}}
        subprocess.run([sys.executable, os.path.join(ROOT, 'tests/support/make-mnist.py'), digits, '64', '100'], check=True)
        ann, bob = new_user(m, 'ann'), new_user(m, 'bob')
        model = {'model_def.c': read('examples/mnist/model_def.c')}
        config = {**machine, 'entrypoint': 'model_def:MNistTrial', 'max_restarts': 0, 'data': {'dir': digits},
                  'hyperparameters': {'learning_rate': 0.01, 'dropout': 0.5, 'global_batch_size': 16, 'n_filters1': 4, 'n_filters2': 4},
                  'searcher': {'name': 'single', 'metric': 'validation_error', 'max_length': {'batches': 4}}}
        e = create(m, ann, {'config': json.dumps(config)}, model)
        m.wait_experiment(e, 'STATE_COMPLETED')
        trial = m.trials(e)[0]['id']
        uuid = m.get(f'trials/{trial}/best_checkpoint')['checkpoint']['uuid']
        lines = run_job(m, ann, [os.path.join(build, 'example_predict')], {}, machine, slots=2, trial_id=trial, images=digits, batch_size=7, output=output)
        expect(f'predictions: {lines}', any(f'100 predictions in {output}' in x for x in lines), True)
        with open(output, encoding='utf-8') as f:
            expect('lines', len(f.read().splitlines()), 101)
        files = {**model, 'load.c': LOAD}
        command = 'cc -o load load.c model_def.c -ldet -lm && ./load'
        for token, names, wanted in ((ann, {'uuid': uuid}, 'outcome: loaded'), (ann, {'trial_id': 999}, 'outcome: trial 999: '),
                                     (ann, {'uuid': 'nonsense'}, 'outcome: checkpoint nonsense: '),
                                     (bob, {'trial_id': trial}, f'outcome: trial {trial}: a job may only read'),
                                     (bob, {'uuid': uuid}, f'outcome: checkpoint {uuid}: a job may only read')):
            lines = run_job(m, token, command, files, machine, **names)
            expect(f'{names}: {lines}', any(wanted in x for x in lines), True)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
