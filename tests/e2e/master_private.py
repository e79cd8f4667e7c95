#!/usr/bin/env python3
"""What users see of each other: values of environment variables never; code, logs and files of checkpoints unless they are private."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import TASK, Failure, Master, expect, run_tests, wait_for  # noqa: E402

MASK = '********'
TRAIN = '''
from task import *
print('the log says', os.environ['SECRET'], json.loads(os.environ['DET_EXPERIMENT_CONFIG'])['data']['secrets']['key'], flush=True)
checkpoint(1)
complete(1, 0.5)
'''


def config(private, secret='hush', **more):
    return json.dumps({'entrypoint': 'python3 train.py', 'max_restarts': 0, 'private': private,
                       'environment': {'environment_variables': ['SECRET=' + secret, 'PLAIN=a=b']}, 'data': {'secrets': {'key': 'hidden key'}},
                       'searcher': {'name': 'single', 'metric': 'x', 'max_length': {'batches': 1}, **more}})


def users(m):
    """Tokens: of the owner, of another user, of an administrator who is neither."""
    tokens = []
    for name, admin in (('ann', False), ('bob', False), ('root', True)):
        m.post('users', {'username': name, 'password': 'correct horse', 'admin': admin})
        tokens.append(m.good('POST', 'auth/login', {'username': name, 'password': 'correct horse'}, token='')['token'])
    return tokens


def create(m, token, text, code):
    """By a user, and run to its end. The number of the experiment and that of its trial."""
    e = m.post('experiments', {'config': text, 'code': code}, token=token)['experiment']['id']
    m.wait_experiment(e, 'STATE_COMPLETED')
    return e, m.trials(e)[0]['id']


def upload(m):
    return m.upload({'train.py': TRAIN, 'task.py': TASK})


def det_as(det, m, token, *args):
    """What a user sees at home: (exit status, output)."""
    home = os.path.join(m.data, 'home-' + token[:8])
    os.makedirs(home + '/det', exist_ok=True)
    with open(home + '/det/login.json', 'w', encoding='utf-8') as f:
        json.dump({'http://' + m.host: token}, f)
    env = {**os.environ, 'DET_HOME': home, 'XDG_CONFIG_HOME': home, 'DET_MASTER': 'http://' + m.host}
    done = subprocess.run([det, *map(str, args)], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_values_of_variables_are_for_the_owner(det):
    with Master(det) as m:
        ann, bob, root = users(m)
        answer = m.post('experiments', {'config': config(False), 'code': upload(m)}, token=ann)
        e = answer['experiment']['id']
        expect('her own answer', answer['config']['environment']['environment_variables']['cpu'], ['SECRET=hush', 'PLAIN=a=b'])
        job = m.post('experiments', {'config': 'entrypoint: "true"\nenvironment: {environment_variables: {cuda: [A=hush]}}',
                                     'type': 'TYPE_GENERIC'}, token=ann)['experiment']['id']
        for who, token, wanted in (('owner', ann, ['SECRET=hush', 'PLAIN=a=b']), ('admin', root, ['SECRET=hush', 'PLAIN=a=b']),
                                   ('other', bob, [f'SECRET={MASK}', f'PLAIN={MASK}'])):
            shown = m.call('GET', f'experiments/{e}', token=token)[1]['config']
            expect(who, shown['environment']['environment_variables']['cpu'], wanted)
            expect('secrets', shown['data']['secrets'], {'key': MASK})
            shown = m.call('GET', f'experiments/{job}', token=token)[1]['config']
            expect(f'job, {who}', shown['environment']['environment_variables']['cuda'], ['A=' + (MASK if token == bob else 'hush')])
            for command in (['experiment', 'config', e], ['experiment', 'describe', e, '--json'], ['experiment', 'list', '--json']):
                status, text = det_as(det, m, token, *command)
                expect(f'{command} as {who}', (status, 'hush' in text), (0, token != bob and command[1] != 'list'))


def test_who_logs_in_to_an_address_is_for_the_owner(det):
    lines = ['numpy>=1', '--index-url https://ann:hush@packages.example/simple?x=a@b', 'https://token@x.example/a.whl']
    with Master(det) as m:
        ann, bob, root = users(m)
        text = json.dumps({'entrypoint': 'true', 'searcher': {'name': 'single'}, 'environment': {'requirements': lines}})
        e = m.post('experiments', {'config': text, 'activate': False}, token=ann)['experiment']['id']
        hidden = ['numpy>=1', f'--index-url https://{MASK}@packages.example/simple?x=a@b', f'https://{MASK}@x.example/a.whl']
        for token, wanted in ((ann, lines), (root, lines), (bob, hidden)):
            expect('lines', m.call('GET', f'experiments/{e}', token=token)[1]['config']['environment']['requirements'], wanted)
            texts = m.call('GET', f'experiments/{e}/config', token=token)[1]
            expect('texts', ['hush' in texts['original'], 'hush' in texts['complete']], [token != bob] * 2)
        shown = m.call('GET', f'experiments/{e}/config', token=bob)[1]['complete']
        fork = {'config': shown, 'parentId': e, 'activate': False}
        expect('fork by another', m.call('POST', 'experiments', fork, token=bob)[0], 400)
        fork = m.post('experiments', fork, token=ann)
        expect('fork by the owner', fork['config']['environment']['requirements'], lines)


def test_forks_keep_what_is_hidden_for_the_owner_only(det):
    with Master(det) as m:
        ann, bob, root = users(m)
        e, t = create(m, ann, config(False), upload(m))
        expect('the task sees it', 'the log says hush hidden key' in m.lines(t), True)
        for who, token in (('owner', ann), ('admin', root)):
            status, text = det_as(det, m, token, 'experiment', 'fork', e, '--follow')
            expect(f'{who}: {text}', status, 0)
            fork = m.trials(int(text.split('Created experiment ')[1].split()[0]))[0]['id']
            expect(f'fork by {who}', 'the log says hush hidden key' in m.lines(fork), True)
        status, text = det_as(det, m, bob, 'experiment', 'fork', e)
        expect('fork by another', (status, 'asterisks stand for a value that you may not see' in text), (1, True))
        status, text = det_as(det, m, bob, 'experiment', 'fork', e, '--config', 'environment.environment_variables=[SECRET=mine]')
        expect('the other one is hidden, too', (status, 'data.secrets.key' in text), (1, True))
        status, text = det_as(det, m, bob, 'experiment', 'fork', e, '--config', 'environment.environment_variables=[SECRET=mine]',
                              '--config', 'data.secrets.key=my key', '--follow')
        expect(f'with values of his own: {text}', status, 0)
        fork = m.trials(int(text.split('Created experiment ')[1].split()[0]))[0]['id']
        expect('his own', 'the log says mine my key' in m.lines(fork), True)
        expect('without a parent', m.call('POST', 'experiments', {'config': config(False, MASK)}, token=ann)[0], 400)


def seen_by(m, e, t, token):
    """What a user gets of code, logs and files: status of each route, and whether the name of the code is shown."""
    uuid = m.get(f'experiments/{e}/checkpoints')['checkpoints'][0]['uuid']
    routes = (f'experiments/{e}/model_def', f'trials/{t}/logs', f'trials/{t}/logs?follow=true', f'checkpoints/{uuid}/files/state')
    one = m.call('GET', f'experiments/{e}', token=token)[1]['experiment']
    several = [x for x in m.call('GET', 'experiments?limit=-1', token=token)[1]['experiments'] if x['id'] == e][0]
    expect('the same in lists', one['modelDefinition'], several['modelDefinition'])
    expect('still there', [m.call('GET', p, token=token)[0] for p in (f'trials/{t}', f'trials/{t}/metrics', f'checkpoints/{uuid}')], [200] * 3)
    return {m.call('GET', p, token=token)[0] for p in routes}, one['modelDefinition'] is not None


def may_reuse(m, e, token):
    """Forking it, and starting from its checkpoint."""
    uuid = m.get(f'experiments/{e}/checkpoints')['checkpoints'][0]['uuid']
    plain = 'entrypoint: "true"\nsearcher: {name: single, source_checkpoint_uuid: %s}' % uuid
    trial = 'entrypoint: "true"\nsearcher: {name: single, source_trial_id: %d}' % m.trials(e)[0]['id']
    bodies = ({'config': 'entrypoint: "true"\nsearcher: {name: single}', 'parentId': e}, {'config': plain}, {'config': trial})
    return {m.call('POST', 'experiments', {**b, 'validateOnly': True}, token=token)[0] for b in bodies}


OPEN, SHUT = ({200}, True), ({403}, False)


def test_private_experiments_are_for_their_owner(det):
    with Master(det) as m:
        ann, bob, root = users(m)
        e, t = create(m, ann, config(True), upload(m))
        shown, _ = create(m, ann, config(False), upload(m))
        for who, token, wanted in (('owner', ann, OPEN), ('admin', root, OPEN), ('local', m.token, OPEN), ('other', bob, SHUT)):
            expect(who, seen_by(m, e, t, token), wanted)
            expect(f'{who}: use', may_reuse(m, e, token), wanted[0])
            expect(f'{who}: what is not private', seen_by(m, shown, m.trials(shown)[0]['id'], token), OPEN)
        expect('it says so', m.experiment(e)['private'], True)
        m.kill()
        m.start()
        expect('after a restart', seen_by(m, e, t, bob), SHUT)
        status, text = det_as(det, m, bob, 'trial', 'logs', t)
        expect(text, (status, 'is private: only its owner' in text), (1, True))


def test_a_private_master_hides_all(det):
    with Master(det, '--private') as m:
        ann, bob, root = users(m)
        e, t = create(m, ann, config(False), upload(m))
        for who, token, wanted in (('owner', ann, OPEN), ('admin', root, OPEN), ('other', bob, SHUT)):
            expect(who, seen_by(m, e, t, token), wanted)
            expect(f'{who}: use', may_reuse(m, e, token), wanted[0])
        m.stop()
        m.args = tuple(a for a in m.args if a != '--private')
        m.start()
        expect('when it is not any more', seen_by(m, e, t, bob), OPEN)


def test_events_hide_the_same(det):
    with Master(det) as m:
        ann, bob, _ = users(m)
        streams = []
        for token in (ann, bob):
            c = m.connect()
            c.request('GET', '/api/v1/events', headers={'Authorization': 'Bearer ' + token})
            streams.append(c.getresponse())
        code = upload(m)
        create(m, ann, config(True), code)
        for r, wanted in zip(streams, (True, False)):
            text = ''
            while 'STATE_COMPLETED' not in text or 'event: experiment' not in text:
                text += r.readline().decode()
            expect('the name of the code', code in text, wanted)
            expect('values', 'hush' in text, False)


def test_a_job_may_be_private(det):
    with Master(det) as m:
        ann, bob, _ = users(m)
        e = m.post('experiments', {'config': 'entrypoint: "echo hello"\nprivate: true', 'type': 'TYPE_GENERIC'}, token=ann)['experiment']['id']
        t = wait_for(lambda: m.trials(e), 'the trial')[0]['id']
        m.wait_line(t, 'hello')
        expect('logs', [m.call('GET', f'trials/{t}/logs', token=x)[0] for x in (ann, bob)], [200, 403])


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
