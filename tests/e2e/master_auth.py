#!/usr/bin/env python3
"""Who may call what. Every route of the table is tried by everybody: with no token, with wrong, expired and revoked ones, by tasks and
jobs of the same and of another user, by users who own it and who do not, by administrators."""
import contextlib
import json
import os
import re
import select
import sqlite3
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

# Who may call what: every route of the table is in one of these, and whoever is not named by its key gets 403, or 401 without a token
# that is good. `own`: the task of the trial in question; `job`: a job of the same user; `tasks`: all of them, about themselves.
USERS = ('ann', 'bob', 'root', 'local')
TASKS = ('own', 'other trial', 'job', "bob's task", "bob's job")
RULES = {
    ('everybody',): """
        GET /info; GET /api/v1/master; GET /healthz; GET /readyz; GET /api/openapi.json; POST /api/v1/auth/login
        POST /api/v1/auth/redeem""",
    USERS: """
        GET /metrics; POST /api/v1/auth/logout; POST /api/v1/auth/codes; GET /api/v1/me; GET /api/v1/users; POST /api/v1/code; GET /api/v1/experiments
        POST /api/v1/experiments; GET /api/v1/experiment/labels; GET /api/v1/experiments/{experiment}
        GET /api/v1/experiments/{experiment}/model_def; GET /api/v1/experiments/{experiment}/trials
        GET /api/v1/experiments/{experiment}/checkpoints; GET /api/v1/trials/{trial}/allocations; GET /api/v1/trials/{trial}/series
        GET /api/v1/trials/{trial}/logs; GET /api/v1/jobs; GET /api/v1/slots; GET /api/v1/resource-pools; GET /api/v1/templates; GET /api/v1/templates/{name}
        GET /api/v1/experiments/{experiment}/series; GET /api/v1/experiments/{experiment}/metricNames; GET /api/v1/series
        GET /api/v1/experiments/{experiment}/trialsTable; GET /api/v1/experiments/{experiment}/config
        GET /api/v1/checkpoints; GET /api/v1/sessions; DELETE /api/v1/sessions/{session}
        GET /api/v1/experiments/{experiment}/files; GET /api/v1/experiments/{experiment}/files/{file}
        GET /api/v1/experiments/{experiment}/diff/{other}; POST /api/v1/configs/check; GET /api/v1/trials/{trial}/runs
        GET /api/v1/experiments/{experiment}/search; GET /api/v1/experiments/{experiment}/importance
        POST /api/v1/search/preview; POST /api/v1/search/simulate
        GET /api/v1/trials/{trial}/resources; GET /api/v1/trials/{trial}/logs/extent; GET /api/v1/trials/{trial}/logs/search
        GET /api/v1/events; GET /api/v1/stream; GET /api/v1/master/info; GET /api/v1/users/{user}/agent-user""",
    (*USERS, 'own'): """
        GET /api/v1/trials/{trial}; GET /api/v1/trials/{trial}/metrics
        GET /api/v1/experiments/{experiment}/searcher/best_searcher_validation_metric""",
    (*USERS, 'own', 'job'): """
        GET /api/v1/trials/{trial}/checkpoints; GET /api/v1/trials/{trial}/best_checkpoint""",
    (*USERS, 'job'): """
        GET /api/v1/checkpoints/{uuid}; GET /api/v1/checkpoints/{uuid}/files/{file}""",
    ('ann', 'root', 'local'): """
        POST /api/v1/experiments/continue; POST /api/v1/experiments/{experiment}/activate; POST /api/v1/experiments/{experiment}/pause
        POST /api/v1/experiments/{experiment}/cancel; POST /api/v1/experiments/{experiment}/kill
        POST /api/v1/experiments/{experiment}/archive; POST /api/v1/experiments/{experiment}/unarchive
        PATCH /api/v1/experiments/{experiment}; PUT /api/v1/experiments/{experiment}/labels/{label}
        DELETE /api/v1/experiments/{experiment}/labels/{label}; DELETE /api/v1/experiments/{experiment}
        POST /api/v1/trials/{trial}/kill; DELETE /api/v1/checkpoints/{uuid}; PATCH /api/v1/jobs/{job}
        PUT /api/v1/templates/{name}; DELETE /api/v1/templates/{name}; PATCH /api/v1/users/{user}""",
    ('root', 'local'): """
        POST /api/v1/users; POST /api/v1/slots/{slot}/enable; POST /api/v1/slots/{slot}/disable
        PUT /api/v1/users/{user}/agent-user; DELETE /api/v1/users/{user}/agent-user""",
    ('own',): """
        GET /api/v1/trials/{trial}/searcher/operation; POST /api/v1/trials/{trial}/searcher/completed_operation
        POST /api/v1/trials/{trial}/progress; POST /api/v1/trials/{trial}/metrics; POST /api/v1/trials/{trial}/early_exit
        POST /api/v1/trials/{trial}/runner/metadata; POST /api/v1/allocations/{alloc}/ready
        GET /api/v1/allocations/{alloc}/signals/preemption; POST /api/v1/allocations/{alloc}/signals/ack_preemption
        POST /api/v1/allocations/{alloc}/signals/pending_preemption; GET /api/v1/tasks/{task}/context_directory""",
    TASKS: """
        POST /api/v1/checkpoints; POST /api/v1/task/logs""",
}


def rules():
    """(method, path): those who may."""
    return {tuple(row.split()): who for who, rows in RULES.items() for row in re.split(r'[;\n]', rows) if row.strip()}


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


def tokens_of_others(m):
    """Tokens that were good once, or never. The master is restarted in between."""
    users = {name: m.post('users', {'username': name, 'password': 'correct horse'})['user']['id'] for name in ('amy', 'old', 'gone')}
    tokens = {name: login(m, name, 'correct horse')[1]['token'] for name in users}
    tokens['revoked'] = tokens.pop('amy')
    m.post('auth/logout', token=tokens['revoked'])
    m.good('PATCH', f'users/{users["gone"]}', {'active': False})
    m.stop()
    with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'))) as db, db:
        db.execute('UPDATE sessions SET expiresAt = 1000000 WHERE userId = ?', (users['old'],))
    m.start()
    return {'nobody': '', 'wrong': 'f' * 64, 'odd': '\xff"', **tokens}


def create_as(m, token, job=False):
    """Something that runs, of a user: the numbers of the experiment and the trial, and the task's token."""
    config = 'entrypoint: "echo token $DET_SESSION_TOKEN; sleep 1000"\n' + ('' if job else 'searcher: {name: single}\n')
    body = {'config': config, 'type': 'TYPE_GENERIC' if job else 'TYPE_EXPERIMENT'}
    e = m.post('experiments', body, token=token)['experiment']['id']
    wait_for(lambda: m.trials(e), 'its trial')
    return (e, *task_token(m, e))


class Callers:
    """Everybody who could call, and what they could call about: an experiment of ann's."""

    def __init__(self, m):
        ids = {name: m.post('users', {'username': name, 'password': 'correct horse', 'admin': name == 'root'})['user']['id']
               for name in ('ann', 'bob', 'root')}
        self.tokens = {name: login(m, name, 'correct horse')[1]['token'] for name in ids}
        self.tokens['local'] = m.token
        self.experiment, self.trial, self.tokens['own'] = create_as(m, self.tokens['ann'])
        for name, user, job in (('other trial', 'ann', False), ('job', 'ann', True), ("bob's task", 'bob', False), ("bob's job", 'bob', True)):
            *_, self.tokens[name] = create_as(m, self.tokens[user], job)
        checkpoint = {'uuid': '11111111-2222-4333-8444-555555555555', 'trialRunId': 1, 'stepsCompleted': 0, 'resources': {}}
        m.post('checkpoints', checkpoint, token=self.tokens['own'])
        m.good('PUT', 'templates/t', {'config': 'description: x'}, token=self.tokens['ann'])
        alloc = m.allocations(self.trial)[0]
        self.values = {'experiment': self.experiment, 'trial': self.trial, 'alloc': alloc['allocationId'], 'task': alloc['taskId'], 'slot': 0,
                       'user': ids['ann'], 'job': m.experiment(self.experiment)['jobId'], 'name': 't', 'uuid': checkpoint['uuid'], 'label': 'x', 'other': self.experiment}

    def call(self, m, method, path, token):
        body = {'POST /api/v1/experiments/continue': {'id': self.experiment},
                'PUT /api/v1/templates/{name}': {'config': 'description: y'}}.get(f'{method} {path}', {})
        if path == '/api/v1/events':
            return self.begin(m, path, token)
        return m.call(method, filled(path, self.values), body if method != 'GET' else None, token=token)

    def begin(self, m, path, token):
        """A stream has no end; its status is enough."""
        with contextlib.closing(m.connect()) as c:
            c.request('GET', path, headers={'Authorization': 'Bearer ' + token})
            r = c.getresponse()
            return r.status, ''


def must_refuse(callers, m, who, method, path, token, statuses):
    status, answer = callers.call(m, method, path, token)
    if status not in statuses:
        raise Failure(f'{method} {path} as {who}: {status} {answer}, not {statuses}')


def test_every_route_refuses_whom_it_is_not_for(det):
    with Master(det, '--slots', '5') as m:
        others = tokens_of_others(m)
        callers, table = Callers(m), rules()
        expect('routes without a rule, and rules without a route', set(routes(m)) ^ set(table), set())
        for (method, path), who_may in sorted(table.items()):
            for who, token in others.items():
                if who_may != ('everybody',):
                    must_refuse(callers, m, who, method, path, token, (401,))
            for who, token in callers.tokens.items():
                if who not in who_may and who_may != ('everybody',):
                    must_refuse(callers, m, who, method, path, token, (403,))
        expect('ann is not disturbed', m.experiment(callers.experiment)['state'], 'STATE_ACTIVE')


# What ends what others need comes last.
LAST = ('early_exit', 'pending_preemption', 'cancel', 'kill', 'logout', 'PATCH /api/v1/users', 'DELETE')


def test_every_route_lets_in_whom_it_is_for(det):
    """The answer may be that the request makes no sense, but not that the caller may not make it."""
    with Master(det, '--slots', '5') as m:
        callers = Callers(m)
        order = sorted(rules().items(), key=lambda r: [word in ' '.join(r[0]) for word in reversed(LAST)])
        n_allowed = 0
        for kind in (TASKS, USERS):
            for (method, path), who_may in order:
                for who in kind:
                    if who not in who_may and who_may != ('everybody',):
                        continue
                    status, answer = callers.call(m, method, path, callers.tokens[who])
                    ended = kind == TASKS and any(word in path for word in LAST)
                    if status in (401, 403) and path not in ('/api/v1/auth/login', '/api/v1/auth/redeem') and not ended:
                        raise Failure(f'{method} {path} as {who}: {status} {answer}')
                    n_allowed += 1
                    if path.endswith('logout') and who in ('ann', 'bob', 'root'):
                        callers.tokens[who] = login(m, who, 'correct horse')[1]['token']
                    if who == 'local' and m.call('GET', 'me', token=callers.tokens[who])[0] == 401:
                        callers.tokens[who] = m.token = new_local_token(m)
        expect('the table is not empty', n_allowed > 150, True)


def new_local_token(m):
    """What master.json says as soon as it is not the token that has ended."""
    return wait_for(lambda: (m.announced() or {}).get('token', m.token) != m.token and m.announced()['token'], 'another token in master.json')


def test_the_local_user_is_never_locked_out(det):
    """The token of master.json ends like any other one, but then the file has a new one."""
    with Master(det) as m:
        for change in (lambda: m.post('auth/logout'), lambda: m.good('PATCH', 'users/1', {'password': 'correct horse'})):
            old = m.token
            change()
            m.token = new_local_token(m)
            expect('the old one has ended', m.call('GET', 'me', token=old)[0], 401)
            expect('the new one is good', m.get('me')['user']['username'], 'admin')
        m.stop()
        m.start()
        expect('after a restart', m.get('me')['user']['username'], 'admin')
        for change in ({'active': False}, {'admin': False}):
            status, answer = m.call('PATCH', 'users/1', change)
            expect('refused', (status, 'whoever starts the master' in str(answer)), (400, True))


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


def test_uploads_do_not_wait_for_guesses(det):
    """A hundred clients guess passwords. Archives that are sent after all of these requests are kept before the last guess is examined."""
    n_guesses, n_names, n_uploads = 100, 8, 20
    with Master(det) as m:
        open_ones = []
        for i in range(n_names):
            m.post('users', {'username': f'user{i}'})
        body = {'password': 'wrong horse'}
        for i in range(n_guesses):
            c = m.connect(source=f'127.0.1.{i + 1}')
            c.request('POST', '/api/v1/auth/login', json.dumps({**body, 'username': f'user{i % n_names}'}), {'Content-Type': 'application/json'})
            open_ones.append(c)
        for i in range(n_uploads):
            m.upload({'train.py': f'print({i})'})
        answered, _, _ = select.select([c.sock for c in open_ones], [], [], 0)
        expect('all guesses were examined before the last upload was kept', len(answered) == n_guesses, False)
        expect('nobody is let in', {c.getresponse().status for c in open_ones} <= {401, 429}, True)


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
