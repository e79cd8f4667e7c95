#!/usr/bin/env python3
"""Who may call what. Every route of the table is tried with no token, with wrong, expired and revoked ones, as another task, and as
another user."""
import contextlib
import os
import re
import sqlite3
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

OPEN = {('GET', '/info'), ('GET', '/api/v1/master'), ('GET', '/healthz'), ('GET', '/readyz'),
        ('GET', '/api/openapi.json'), ('POST', '/api/v1/auth/login')}
# What any task may call because it is about the caller alone: the path names nobody.
OWN = {('POST', '/api/v1/checkpoints'), ('POST', '/api/v1/task/logs')}


# What every user may change: things of their own.
MAY = {('POST', '/api/v1/auth/logout'), ('POST', '/api/v1/contexts'), ('POST', '/api/v1/experiments')}


def routes(m):
    for path, methods in m.get('/api/openapi.json')['paths'].items():
        for method in methods:
            if method in ('get', 'post', 'put', 'patch', 'delete'):
                yield method.upper(), path


def filled(path, values):
    return re.sub(r'{(\w+)}', lambda p: str(values.get(p[1], 'x')), path)


def task_token(m, e):
    """The token of a running task, as only the task itself sees it."""
    t = m.trials(e)[0]['id']
    m.wait_line(t, 'token ')
    return t, [x for x in m.lines(t) if x.startswith('token ')][0].split()[1]


def tokens_of_strangers(m):
    """Tokens that were good once, or never. The master is restarted in between."""
    users = {name: m.post('users', {'username': name, 'password': 'correct horse'})['user']['id'] for name in ('ann', 'old', 'gone')}
    tokens = {name: login(m, name, 'correct horse')[1]['token'] for name in users}
    tokens['revoked'] = login(m, 'ann', 'correct horse')[1]['token']
    m.post('auth/logout', token=tokens['revoked'])
    m.good('PATCH', f'users/{users["gone"]}', {'active': False})
    m.stop()
    with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'))) as db, db:
        db.execute('UPDATE sessions SET expiresAt = 1000000 WHERE userId = ?', (users['old'],))
    m.start()
    return tokens.pop('ann'), {'nobody': '', 'wrong': 'f' * 64, 'odd': '\xff"', **tokens}


def test_every_route_refuses_strangers(det):
    with Master(det, '--slots', '2') as m:
        config = 'entrypoint: "echo token $DET_SESSION_TOKEN; sleep 100"\nsearcher: {name: single}'
        mine, other = m.create(config), m.create(config)
        trial, _ = task_token(m, mine)
        _, task = task_token(m, other)
        checkpoint = {'uuid': '11111111-2222-4333-8444-555555555555', 'trialRunId': 1, 'stepsCompleted': 0, 'resources': {}}
        m.good('PUT', 'templates/t', {'config': 'description: x'})
        user, strangers = tokens_of_strangers(m)
        _, own = task_token(m, mine)
        m.post('checkpoints', checkpoint, token=own)
        alloc = m.allocations(trial)[0]
        values = {'experiment': mine, 'trial': trial, 'alloc': alloc['allocationId'], 'task': alloc['taskId'], 'slot': 0, 'user': 1,
                  'job': m.experiment(mine)['jobId'], 'name': 't', 'uuid': checkpoint['uuid'], 'label': 'x'}
        bodies = {'/api/v1/experiments/continue': {'id': mine}, '/api/v1/templates/{name}': {'config': 'description: y'}}
        n_refused = n_denied = 0
        for method, path in routes(m):
            at, body = filled(path, values), bodies.get(path, {}) if method != 'GET' else None
            for who, secret in [*strangers.items(), ('another task', task)]:
                if (method, path) in OPEN or (who == 'another task' and (method, path) in OWN):
                    continue
                wanted = (401, 403) if who == 'another task' else (401,)
                status, answer = m.call(method, at, body, token=secret)
                if status not in wanted:
                    raise Failure(f'{method} {at} as {who}: {status} {answer}')
                n_refused += 1
            if method != 'GET' and (method, path) not in OPEN | MAY:
                status, answer = m.call(method, at, body, token=user)
                if status != 403:
                    raise Failure(f'{method} {at} as another user: {status} {answer}')
                n_denied += 1
        expect('the table is not empty', (n_refused > 350, n_denied > 25), (True, True))
        expect('both still run', [m.experiment(x)['state'] for x in (mine, other)], ['STATE_ACTIVE'] * 2)


def test_a_tasks_token_dies_with_its_run(det):
    with Master(det) as m:
        e = m.create('entrypoint: "echo token $DET_SESSION_TOKEN; sleep 100"\nsearcher: {name: single}')
        t, token = task_token(m, e)
        expect('alive', m.call('GET', f'trials/{t}/searcher/operation', token=token)[0], 200)
        expect('not a user', m.call('POST', f'experiments/{e}/kill', token=token)[0], 403)
        m.post(f'experiments/{e}/kill')
        m.wait_experiment(e, 'STATE_CANCELED')
        expect('dead', m.call('GET', f'trials/{t}/searcher/operation', token=token)[0], 401)


def login(m, name, password, source=None):
    return m.call('POST', 'auth/login', {'username': name, 'password': password}, token='', source=source)


def test_users_and_passwords(det):
    with Master(det) as m:
        expect('nobody has a password', login(m, 'admin', '')[0], 401)
        ann = m.post('users', {'username': 'ann', 'password': 'correct horse'})['user']
        expect('admin', (ann['admin'], ann['active']), (False, True))
        expect('twice', m.call('POST', 'users', {'username': 'ann'})[0], 409)
        expect('short', m.call('POST', 'users', {'username': 'bob', 'password': 'x'})[0], 400)
        status, answer = login(m, 'ann', 'correct horse')
        expect('login', status, 200)
        token = answer['token']
        expect('me', m.call('GET', 'me', token=token)[1]['user']['username'], 'ann')
        expect('not hers', m.call('POST', 'users', {'username': 'eve'}, token=token)[0], 403)
        e = m.create('entrypoint: sleep 100\nsearcher: {name: single}')
        expect('nor this', m.call('POST', f'experiments/{e}/kill', token=token)[0], 403)
        expect('but visible', m.call('GET', f'experiments/{e}', token=token)[0], 200)
        expect('may not promote herself', m.call('PATCH', f'users/{ann["id"]}', {'admin': True}, token=token)[0], 403)
        m.good('PATCH', f'users/{ann["id"]}', {'password': 'another one'}, token=token)
        expect('old sessions end', m.call('GET', 'me', token=token)[0], 401)
        expect('old password', login(m, 'ann', 'correct horse')[0], 401)
        token = login(m, 'ann', 'another one')[1]['token']
        m.post('auth/logout', token=token)
        expect('logged out', m.call('GET', 'me', token=token)[0], 401)
        token = login(m, 'ann', 'another one')[1]['token']
        m.good('PATCH', f'users/{ann["id"]}', {'active': False})
        expect('closed', (m.call('GET', 'me', token=token)[0], login(m, 'ann', 'another one')[0]), (401, 401))


def test_a_closed_account_is_not_opened_by_a_password(det):
    """Hashing takes a while, and what happens meanwhile must not be undone by it."""
    with Master(det) as m:
        for i in range(5):
            ann = m.post('users', {'username': f'ann{i}', 'password': 'correct horse'})['user']
            change = threading.Thread(target=m.good, args=('PATCH', f'users/{ann["id"]}', {'password': 'another one'}))
            change.start()
            m.good('PATCH', f'users/{ann["id"]}', {'active': False})
            change.join()
            users = {u['id']: u for u in m.get('users')['users']}
            expect('active', users[ann['id']]['active'], False)
            expect('login', login(m, f'ann{i}', 'another one')[0], 401)


def test_a_task_goes_on_when_its_user_changes_the_password(det):
    with Master(det) as m:
        ann = m.post('users', {'username': 'ann', 'password': 'correct horse'})['user']
        session = login(m, 'ann', 'correct horse')[1]['token']
        e = m.post('experiments', {'config': 'entrypoint: "echo token $DET_SESSION_TOKEN; sleep 100"\n'
                                             'searcher: {name: single}'}, token=session)['experiment']['id']
        t, token = task_token(m, e)
        m.good('PATCH', f'users/{ann["id"]}', {'password': 'another one'})
        expect('her session', m.call('GET', 'me', token=session)[0], 401)
        for _ in range(2):  # asked for, then remembered
            expect('her task', m.call('GET', f'trials/{t}/searcher/operation', token=token)[0], 200)
        m.kill()
        m.start()
        expect('after a restart', m.call('GET', f'trials/{t}/searcher/operation', token=token)[0], 200)


def test_guessing_is_slowed_down(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        expect('guesses', [login(m, 'ann', 'wrong')[0] for _ in range(6)], [401] * 5 + [429])
        expect('even the right one waits', login(m, 'ann', 'correct horse')[0], 429)
        expect('others do not', login(m, 'nobody', 'x')[0], 401)
        expect('unknown names are treated alike', [login(m, 'nobody', 'x')[0] for _ in range(5)], [401] * 4 + [429])


def test_guesses_at_the_same_time_count(det):
    """Four machines, a hundred guesses each, all at once."""
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        begin, answers = threading.Barrier(400), []

        def guess(i):
            begin.wait()
            answers.append(login(m, 'ann', f'wrong {i}', source=f'127.0.0.{1 + i % 4}')[0])
        threads = [threading.Thread(target=guess, args=(i,)) for i in range(400)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        expect('examined', sorted(answers), [401] * 5 + [429] * 395)


def test_wrong_guesses_do_not_lock_the_user_out(det):
    with Master(det) as m:
        m.post('users', {'username': 'ann', 'password': 'correct horse'})
        expect('at home', login(m, 'ann', 'correct horse', source='127.0.0.2')[0], 200)
        expect('guesses', [login(m, 'ann', 'wrong', source='127.0.0.3')[0] for _ in range(6)], [401] * 5 + [429])
        expect('elsewhere', login(m, 'ann', 'correct horse', source='127.0.0.4')[0], 429)
        expect('at home again', login(m, 'ann', 'correct horse', source='127.0.0.2')[0], 200)
        # Somebody who guesses at her place has no more tries than elsewhere, and then waits, too.
        expect('guesses at home', [login(m, 'ann', 'wrong', source='127.0.0.2')[0] for _ in range(6)], [401] * 5 + [429])
        status, answer = login(m, 'ann', 'correct horse', source='127.0.0.2')
        expect('and waits', (status, 'try again in' in answer['detail']), (429, True))


def test_names_of_users_follow_the_same_rules_everywhere(det):
    with Master(det) as m:
        ann = m.post('users', {'username': 'ann', 'password': 'correct horse'})['user']['id']
        m.post('users', {'username': 'bob'})
        bad = [{'username': name} for name in ('', 'x' * 61, 'x' * 5000, 'a\x1b[31m', 'a\nb', 'a\x9bb', 'a\u202eb')]
        bad += [{'displayName': name} for name in ('x' * 201, 'a\x1bb')]
        for body in bad:
            expect(f'POST {body}', m.call('POST', 'users', {'username': 'eve', **body})[0], 400)
            expect(f'PATCH {body}', m.call('PATCH', f'users/{ann}', body)[0], 400)
        expect('no name', m.call('POST', 'users', {'displayName': 'x'})[0], 400)
        expect('taken', m.call('PATCH', f'users/{ann}', {'username': 'bob'})[0], 409)
        expect('the same as before', [u['username'] for u in m.get('users')['users']], ['admin', 'ann', 'bob'])
        m.good('PATCH', f'users/{ann}', {'username': '\u00e5nn \u6d4b', 'displayName': 'x' * 200})
        expect('renamed', login(m, '\u00e5nn \u6d4b', 'correct horse')[0], 200)


def test_links_in_checkpoints_are_not_followed(det):
    """A task can put a link to any file into its checkpoint; the master may be able to read what the caller may not."""
    train = '''
import os
from task import *
name = str(uuid.uuid4())
at = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], name)
os.makedirs(at + '/folder')
open(at + '/real', 'w').write('content')
open(at + '/folder/inner', 'w').write('inner content')
os.symlink('/etc/passwd', at + '/link')
os.symlink('/etc', at + '/etc')
os.symlink('real', at + '/near')
os.mkfifo(at + '/pipe')
files = {n: 7 for n in ('real', 'folder/inner', 'link', 'etc/passwd', 'near', 'pipe', 'missing')}
call('POST', '/checkpoints', {'uuid': name, 'trialRunId': run, 'stepsCompleted': 1, 'resources': files}, str(uuid.uuid4()))
complete(1, 0.5)
'''
    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py\nmax_restarts: 0\nsearcher: {name: single, metric: x, max_length: {batches: 1}}',
                     {'train.py': train})
        m.wait_experiment(e, 'STATE_COMPLETED')
        uuid = m.get(f'experiments/{e}/checkpoints')['checkpoints'][0]['uuid']
        for name, wanted in (('real', (200, b'content')), ('folder/inner', (200, b'inner content'))):
            expect(name, m.call('GET', f'checkpoints/{uuid}/files/{name}'), wanted)
        for name in ('link', 'near', 'pipe'):
            expect(name, m.call('GET', f'checkpoints/{uuid}/files/{name}')[0], 403)
        for name in ('etc/passwd', 'missing', 'unlisted', '../' + uuid + '/real'):
            expect(name, m.call('GET', f'checkpoints/{uuid}/files/{name}')[0], 404)


def test_files_are_private(det):
    with Master(det) as m:
        wait_for(lambda: os.path.exists(os.path.join(m.data, 'det.db')), 'the database')
        for name in ('master.json', 'secret.key', 'det.db'):
            expect(name, stat.S_IMODE(os.stat(os.path.join(m.data, name)).st_mode), 0o600)
        expect('directory', stat.S_IMODE(os.stat(m.data).st_mode), 0o700)
        expect('loopback', m.host.split(':')[0], '127.0.0.1')
        with open(os.path.join(m.data, 'det.db'), 'rb') as f:
            content = f.read()
        for name in ('det.db-wal',):
            with open(os.path.join(m.data, name), 'rb') as f:
                content += f.read()
        expect('tokens are stored as hashes', m.token.encode() in content, False)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
