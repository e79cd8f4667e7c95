#!/usr/bin/env python3
"""The configuration of a master: every key does what it says; mistakes are told with their place; what can change while the master
runs does after SIGHUP. A key without a test below fails."""
import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402
from postgres import Postgres  # noqa: E402

NOBODY = 65534
COVERED = {}  # keys, and the tests that show them
TASK = '''
entrypoint: [sh, -c, '%s']
max_restarts: 0
searcher: {name: single, metric: loss, max_length: {batches: 1}}
'''


def covers(*keys):
    def note(test):
        for key in keys:
            COVERED[key] = test.__name__
        return test
    return note


def settings(m):
    return {s['key']: s for s in m.get('master/info')['settings']}


def det_says(det, *args, status=0, home=None):
    env = {**os.environ, 'DET_HOME': home or '/nowhere', 'NO_COLOR': '1'}
    env.pop('DET_MASTER', None)
    done = subprocess.run([det, *args], capture_output=True, text=True, env=env, timeout=60)
    expect(f'status of {args}: {done.stderr}', done.returncode, status)
    return done.stdout + done.stderr


def refused(det, config):
    """What 'det master' says of a configuration that it does not start with."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'config.yaml')
        with open(path, 'w') as f:
            f.write(config)
        done = subprocess.run([det, 'master', '--config', path, '--data', os.path.join(folder, 'data')],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            raise Failure(f'the master has started with {config}')
        return done.stderr


def run(m, command, state='STATE_COMPLETED'):
    e = m.create(TASK % command)
    m.wait_experiment(e, state)
    return e


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as s:
        return s.getsockname()[1]


def make_certificate(folder):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                    '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', 'key.pem', '-out', 'cert.pem'],
                   cwd=folder, check=True, capture_output=True)


def hang_up(m, said):
    """SIGHUP; what the log says then."""
    before = os.path.getsize(m.log.name)
    m.process.send_signal(signal.SIGHUP)

    def look():
        with open(m.log.name) as f:
            f.seek(before)
            text = f.read()
        return said in text and text
    return wait_for(look, f'{said!r} in the log')


# --- keys

@covers('listen')
def test_listen(det):
    with Master(det, config='{listen: 127.0.0.2, port: 0}') as m:
        expect('address', m.host.split(':')[0], '127.0.0.2')
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(('127.0.0.1', int(m.host.split(':')[1]))).close()
            raise Failure('it listens on 127.0.0.1, too')


@covers('port')
def test_port(det):
    port = free_port()
    with Master(det, config=f'port: {port}') as m:
        expect('port', m.host, f'127.0.0.1:{port}')
    with tempfile.TemporaryDirectory() as data:
        with Master(det, data=data, config='port: 0') as m:
            first = m.host
        with Master(det, data=data, config='port: 0') as m:
            expect('0: that of last time', m.host, first)


@covers('tls.enabled', 'tls.cert', 'tls.key')
def test_tls(det):
    with Master(det, config='{port: 0, tls: {enabled: true}}') as m:
        expect('a certificate of its own', m.announced()['url'].startswith('https:') and m.tls is not None, True)
        m.get('me')
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(folder)
        names = 'cert: cert.pem, key: key.pem'  # from where the file is
        path = os.path.join(folder, 'config.yaml')
        for config, scheme in ((f'{{port: 0, tls: {{{names}}}}}', 'https'), (f'{{port: 0, tls: {{{names}, enabled: false}}}}', 'http')):
            with open(path, 'w') as f:
                f.write(config)
            m = Master(det, config=config)
            m.config = path
            with m:
                expect(config, m.announced()['url'].split(':')[0], scheme)
                m.get('me')
                if scheme == 'https':
                    with open(os.path.join(folder, 'cert.pem')) as cert, open(m.announced()['cert']) as used:
                        expect('certificate', used.read(), cert.read())
    expect('both', 'tls: cert and key go together: key is missing' in refused(det, 'tls: {cert: a.pem}'), True)


@covers('insecure')
def test_insecure(det):
    said = refused(det, '{listen: 0.0.0.0, port: 0}')
    expect(said, 'without TLS' in said or '--insecure' in said, True)
    with Master(det, config='{listen: 0.0.0.0, port: 0, insecure: true}') as m:
        m.get('me')


@covers('slots')
def test_slots(det):
    with Master(det, config='{port: 0, slots: 5}') as m:
        expect('slots', len(m.get('slots')['slots']), 5)


@covers('db')
def test_db(det):
    said = refused(det, 'db: /some/file')
    expect(said, "config.yaml:1:5: db: must be the address of a database in a server" in said, True)
    with Postgres() as server, Master(det, config=f'{{port: 0, db: "{server.url}"}}') as m:
        expect('in force', m.get('master/info')['database'], server.url)
        expect('hidden', settings(m)['db']['value'], '********')
        run(m, 'true')
        expect('it is there', server.sql('SELECT state FROM experiments'), [['STATE_COMPLETED']])
        expect('and no file is', os.path.exists(os.path.join(m.data, 'det.db')), False)


@covers('isolation')
def test_isolation(det):
    if os.environ.get('DET_TEST_ISOLATION'):
        return
    for mode in ('none', 'private'):
        with Master(det, config=f'{{port: 0, isolation: {mode}}}') as m:
            expect('isolation', m.get('master/info')['isolation'], mode)
            e = run(m, f'ls {m.data}/secret.key 2>/dev/null && echo seen || echo hidden')
            expect(mode, m.lines(m.trials(e)[0]['id'])[-1], 'seen' if mode == 'none' else 'hidden')


@covers('task_memory')
def test_task_memory(det):
    with Master(det, config='{port: 0, task_memory: 150M}') as m:
        run(m, 'python3 -c "x = bytearray(50 << 20)"')
        run(m, 'exec python3 -c "x = bytearray(400 << 20)"', state='STATE_ERROR')
        expect('shown', settings(m)['task_memory']['value'], 150 << 20)


@covers('task_processes')
def test_task_processes(det):
    with tempfile.TemporaryDirectory() as data:
        os.chown(data, NOBODY, NOBODY)
        with Master(det, data=data, uid=NOBODY if os.getuid() == 0 else None, config='{port: 0, task_processes: 40}') as m:
            run(m, 'sleep 0.1 & sleep 0.1 & wait')
            run(m, 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i + 1)); done', state='STATE_ERROR')


@covers('private')
def test_private(det):
    with Master(det, config='{port: 0, private: true}') as m:
        e = run(m, 'echo hello')
        m.post('users', {'username': 'eve', 'password': 'long enough'})
        eve = m.post('auth/login', {'username': 'eve', 'password': 'long enough'})['token']
        logs = f'trials/{m.trials(e)[0]["id"]}/logs'
        expect('logs of others', m.call('GET', logs, token=eve)[0], 403)
        m.write_config('{port: 0, private: false}')
        hang_up(m, "'private' has changed and is in force")
        expect('no longer', m.call('GET', logs, token=eve)[0], 200)


def idle(m, n, source=None):
    """Connections that have asked something, and stay."""
    found = []
    for _ in range(n):
        c = m.connect(source)
        c.request('GET', '/info')
        c.getresponse().read()
        found.append(c)
    return found


def is_open(c):
    try:
        c.request('GET', '/info')
        return c.getresponse().read() != b''
    except (OSError, http.client.HTTPException):
        return False


def close_all(m, crowd):
    """Those that are there when a limit is lowered may stay."""
    for c in crowd:
        c.close()

    def is_empty():
        text = m.call('GET', '/metrics')[1].decode()
        return float(text.split('\ndet_http_connections ')[1].split()[0]) <= 2
    wait_for(is_empty, 'the connections to be gone')


@covers('limits.max_connections_per_address')
def test_connections_per_address(det):
    with Master(det, config='{port: 0, limits: {max_connections_per_address: 3}}') as m:
        expect('those that are left of 6', sum(is_open(c) for c in idle(m, 6)), 3)
        m.write_config('{port: 0, limits: {max_connections_per_address: 5}}')
        hang_up(m, "'limits.max_connections_per_address' has changed and is in force")
        expect('from another address, of 8', sum(is_open(c) for c in idle(m, 8, '127.0.0.3')), 5)


@covers('limits.max_connections', 'limits.reserved_connections')
def test_connections_and_reserve(det):
    with Master(det, config='{port: 0, limits: {max_connections: 40, reserved_connections: 10}}') as m:
        crowd = [c for i in range(4) for c in idle(m, 15, f'127.0.0.{10 + i}')]
        expect('anonymous, of 60', sum(is_open(c) for c in crowd) <= 30, True)
        m.write_config('{port: 0, limits: {max_connections: 50, reserved_connections: 20}}')
        text = hang_up(m, "'limits.reserved_connections' has changed and is in force")
        expect('restart', "'limits.max_connections' has changed; that needs a restart" in text, True)
        close_all(m, crowd)
        crowd = [c for i in range(4) for c in idle(m, 15, f'127.0.0.{20 + i}')]
        expect('anonymous now', sum(is_open(c) for c in crowd) <= 20, True)


@covers('limits.max_connections_per_user')
def test_connections_per_user(det):
    with Master(det, config='{port: 0, limits: {max_connections_per_user: 2}}') as m:
        m.post('users', {'username': 'eve', 'password': 'long enough'})
        eve = {'Authorization': 'Bearer ' + m.post('auth/login', {'username': 'eve', 'password': 'long enough'})['token']}
        kept, statuses = [], []
        for _ in range(4):
            c = m.connect()
            c.request('GET', '/api/v1/me', headers=eve)
            answer = c.getresponse()
            answer.read()
            statuses.append(answer.status)
            kept.append(c)
        expect('answers', statuses, [200, 200, 429, 429])


# Tasks that say that they run, and end when they are told to.
HOLD = """
name: %s
entrypoint: python3 hold.py
max_restarts: 0
resources: {%s}
searcher: {name: %s, metric: loss, max_length: {batches: 1}%s}
"""
HOLD_CODE = """
from task import *
ready()
while not os.path.exists(os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'end-' + hparams.get('who', 'all'))):
    if preempted():
        ack()
        raise SystemExit(0)
    time.sleep(0.05)
complete(1, 0.5)
"""


def hold(m, name, resources='', n=1):
    search = ('random', f', max_trials: {n}, max_concurrent_trials: {n}') if n > 1 else ('single', '')
    return m.create(HOLD % (name, resources, *search), {'hold.py': HOLD_CODE})


def n_running(m, e):
    return sum(x['allocatedSlots'] for x in m.get('jobs')['jobs'] if x['experimentId'] == e)


def wait_running(m, *wanted):
    """Pairs of an experiment and how many slots it should have."""
    wait_for(lambda: all(n_running(m, e) == n for e, n in wanted), f'{wanted}, at last {[n_running(m, e) for e, _ in wanted]}')


def why(m, e):
    return [x['waiting'] for x in m.get('jobs')['jobs'] if x['experimentId'] == e][0]


@covers('scheduler.type', 'scheduler.preemption', 'scheduler.default_priority')
def test_scheduler(det):
    """Two experiments that want all of four slots, one after the other."""
    def config(text):
        return 'port: 0\nslots: 4\nscheduler: {%s}\n' % text

    with Master(det, config=config('type: priority')) as m:
        first, second = hold(m, 'first', n=4), hold(m, 'second', 'priority: 1', n=4)
        wait_running(m, (first, 0), (second, 4))
        expect('default priority', [j['priority'] for j in m.get('jobs')['jobs']], [1, 42])
    with Master(det, config=config('type: priority, preemption: false, default_priority: 7')) as m:
        first = hold(m, 'first', n=4)
        wait_running(m, (first, 4))
        second = hold(m, 'second', 'priority: 1', n=4)
        wait_for(lambda: why(m, second), 'a reason')
        expect('why', why(m, second), 'needs 1 slot, 0 are free')
        wait_running(m, (first, 4), (second, 0))
        expect('default priority', [j['priority'] for j in m.get('jobs')['jobs']], [1, 7])
    with Master(det, config=config('type: fair_share')) as m:
        first, second = hold(m, 'first', 'weight: 3', n=4), hold(m, 'second', 'weight: 1', n=4)
        wait_running(m, (first, 3), (second, 1))
        wait_for(lambda: why(m, second) == 'needs 1 slot, the fair share of experiment 2 is 1', 'the reason')
    with Master(det, config=config('type: round_robin')) as m:
        first = hold(m, 'first', n=3)
        wait_running(m, (first, 3))
        second, third = hold(m, 'second', n=2), hold(m, 'third', 'priority: 1', n=2)
        wait_running(m, (first, 3), (second, 1), (third, 0))  # nothing is taken from anybody
        m.post(f'experiments/{first}/kill')
        wait_running(m, (second, 2), (third, 2))


@covers('resource_pools', 'default_resource_pool')
def test_resource_pools(det):
    config = """
port: 0
slots: 3
scheduler: {default_priority: 50}
default_resource_pool: rest
resource_pools:
- {name: one, description: for experiments that are urgent, slot_ids: [1], scheduler: {preemption: false, default_priority: 9}}
- {name: rest, max_aux_tasks: 0, scheduler: {type: round_robin}}
"""
    with Master(det, config=config) as m:
        expect('slots', [(s['id'], s['resourcePool']) for s in m.get('slots')['slots']], [(0, 'rest'), (1, 'one'), (2, 'rest')])
        first, second = hold(m, 'a', 'resource_pool: one'), hold(m, 'b', 'slots_per_trial: 2')
        wait_running(m, (first, 1), (second, 2))
        a, b = m.trials(first)[0]['id'], m.trials(second)[0]['id']
        wait_for(lambda: [s['trialId'] for s in m.get('slots')['slots']] == [b, a, b], 'them to run where they belong')
        expect('records', [m.experiment(e)['resourcePool'] for e in (first, second)], ['one', 'rest'])
        expect('priorities', [j['priority'] for j in m.get('jobs')['jobs']], [9, 50])
        third = hold(m, 'c', 'resource_pool: one, priority: 1')
        wait_for(lambda: why(m, third), 'a reason')
        expect('its own scheduler', (why(m, third), n_running(m, first)), ('needs 1 slot, 0 are free', 1))
        pools = {p['name']: p for p in m.get('resource-pools')['resourcePools']}
        expect('pool one', [pools['one'][k] for k in ('slots', 'slotsInUse', 'waiting', 'default', 'scheduler', 'preemption')],
               [1, 1, 1, False, 'priority', False])
        expect('pool rest', [pools['rest'][k] for k in ('slots', 'slotsInUse', 'waiting', 'default', 'scheduler', 'defaultPriority')],
               [2, 2, 0, True, 'round_robin', 50])
        for resources, text in (('slots_per_trial: 2, resource_pool: one', "2 slots are wanted, pool 'one' has 1"),
                                ('slots_per_trial: 0', "pool 'rest' takes no tasks without slots"),
                                ('resource_pool: two', "there is no pool 'two', only 'one', 'rest'")):
            status, answer = m.call('POST', 'experiments', {'config': HOLD % ('x', resources, 'single', '')})
            expect(f'{resources}: {answer}', (status, text in str(answer)), (400, True))
        zero = hold(m, 'd', 'slots_per_trial: 0, resource_pool: one')
        wait_for(lambda: m.trials(zero) and m.get(f'trials/{m.trials(zero)[0]["id"]}/runs')['runs'], 'one without slots to run')
        m.write_config('port: 0\nslots: 3\nresource_pools: [{name: other}]\n')
        m.stop()
        m.start()
        wait_for(lambda: why(m, third), 'a reason')
        expect('a pool that is gone', why(m, third), "the configuration of the master has no resource pool 'one' any more")
        expect('what runs goes on', n_running(m, first), 1)
        m.post(f'experiments/{first}/kill')
        m.wait_experiment(first, 'STATE_CANCELED')
    for text, said in (('[{name: a}, {name: a, slot_ids: [1]}]', "there are two pools named 'a'"),
                       ('[{name: a}, {name: b}]', "pools 'a' and 'b' would both have all slots"),
                       ('[{name: a, slot_ids: [1]}, {name: b, slot_ids: [0, 1]}]', "slot 1 is in pool 'a' already"),
                       ('[{name: ""}]', 'must not be empty'), ('[{slot_ids: [1]}]', 'name')):
        expect(f'{text}: {refused(det, "resource_pools: " + text)}', said in refused(det, 'resource_pools: ' + text), True)
    expect('default', "no pool named 'x'" in refused(det, 'default_resource_pool: x'), True)


@covers(*('checkpoint_storage.' + key for key in ('type', 'save_experiment_best', 'save_trial_best', 'save_trial_latest')))
def test_checkpoint_storage(det):
    train = 'from task import *\nready()\nfor i in range(4): checkpoint(i + 1)\ncomplete(1, 0.5)\n'
    search = 'entrypoint: python3 train.py\nsearcher: {name: single, metric: x, max_length: {batches: 1}}\n'
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        usual = f'checkpoint_storage: {{type: shared_fs, host_path: {folder}, storage_path: usual, save_trial_latest: 3, save_trial_best: 0,'
        usual += ' save_experiment_best: 5}'

        def there(name):
            return sorted(os.listdir(os.path.join(folder, name)))
        with Master(det, config=f'port: 0\n{usual}\n') as m:
            e = m.create(search, {'train.py': train})
            m.wait_experiment(e, 'STATE_COMPLETED')
            kept = m.get(f'experiments/{e}/checkpoints?states=STATE_COMPLETED')['checkpoints']
            expect('kept', len(kept), 3)
            wait_for(lambda: there('usual') == sorted(c['uuid'] for c in kept), 'the others to be deleted')
            # What an experiment says goes before it, key by key; another place leaves nothing of this one but how many are kept.
            e = m.create(search + 'checkpoint_storage: {save_trial_latest: 1}\n', {'train.py': train})
            m.wait_experiment(e, 'STATE_COMPLETED')
            wait_for(lambda: len(there('usual')) == 4, 'its own number')
            e = m.create(search + f'checkpoint_storage: {{type: directory, container_path: {folder}/own}}\n', {'train.py': train})
            m.wait_experiment(e, 'STATE_COMPLETED')
            kept = m.get(f'experiments/{e}/checkpoints?states=STATE_COMPLETED')['checkpoints']
            wait_for(lambda: there('own') == sorted(c['uuid'] for c in kept), 'its own place')
            expect('kept there', len(kept), 3)
            checked = m.post('configs/check', {'config': search})['config']
            for line in (f'host_path: {folder}', 'save_trial_best: 0', 'save_experiment_best: 5', 'save_trial_latest: 3'):
                expect(line, line in checked, True)
    expect('gcs', 'is refused' in refused(det, 'checkpoint_storage: {type: gcs, bucket: b}'), True)


def age(m, days):
    """All trials ended so long ago."""
    m.stop()
    with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'))) as db, db:
        db.execute('UPDATE trials SET endTime = endTime - ?', (days * 86400 * 1000000,))
    m.start()


@covers('retention_policy.log_retention_days')
def test_log_retention(det):
    with Master(det, config='port: 0\nretention_policy: {log_retention_days: 30}\n') as m:
        e = {days: m.create(TASK % 'echo words' + (f'retention_policy: {{log_retention_days: {days}}}\n' if days is not None else ''))
             for days in (None, -1, 0, 50)}
        for x in e.values():
            m.wait_experiment(x, 'STATE_COMPLETED')
        trials = {days: m.trials(x)[0]['id'] for days, x in e.items()}

        def left():
            return {days for days, t in trials.items() if 'words' in m.lines(t)}
        age(m, 0)  # cleaning is the first thing that a master does
        wait_for(lambda: left() == {None, -1, 50}, 'those that are not kept to go')
        age(m, 29)
        expect('not yet', left(), {None, -1, 50})
        age(m, 2)
        wait_for(lambda: left() == {-1, 50}, "those of the master's days to go")
        det_says(det, '-m', 'http://' + m.host, 'experiment', 'set', 'log-retention', str(e[-1]), '31', home=m.data)
        expect('changed', m.experiment(e[-1])['logRetentionDays'], 31)
        age(m, 0)
        wait_for(lambda: left() == {50}, 'what was changed to go')


@covers('ui_dir')
def test_ui_dir(det):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'index.html'), 'w') as f:
            f.write('<p>mine</p>')
        with Master(det, config=f'{{port: 0, ui_dir: {folder}}}') as m:
            status, text = m.call('GET', '/')
            expect('page', (status, b'mine' in text), (200, True))


# --- all of it

def test_zz_every_key_has_a_test(det):
    with Master(det, config='port: 0') as m:
        keys = set(settings(m))
    expect('keys without a test', sorted(keys - set(COVERED)), [])
    expect('tests of keys that are gone', sorted(set(COVERED) - keys), [])


def test_sources_are_shown(det):
    with Master(det, '--slots', '3', '--private', config='port: 0\nslots: 7\nlimits:\n  max_connections: 300\n') as m:
        found = settings(m)
        expect('file', found['limits.max_connections'],
               {'key': 'limits.max_connections', 'value': 300, 'source': f'{os.path.realpath(m.config)}:4'})
        expect('option before file', found['slots'], {'key': 'slots', 'value': 3, 'source': '--slots'})
        expect('flag', found['private'], {'key': 'private', 'value': True, 'source': '--private'})
        expect('default', found['insecure'], {'key': 'insecure', 'value': False, 'source': 'default'})
        text = det_says(det, 'master', 'info', home=m.data)
        expect('table', 'limits.max_connections' in text and f'{os.path.realpath(m.config)}:4' in text, True)


def test_mistakes_are_told_with_their_place(det):
    said = refused(det, 'port: 0\nslotz: 3\nlimits: {max_connections: many}\nisolation: tight\ntls:\n  crt: x\n')
    for wanted in (":2:1: slotz: unknown field; did you mean 'slots'?",
                   ':3:27: limits.max_connections: must be an integer, found \'many\'',
                   ":4:12: isolation: must be one of none, private, strict, users, found 'tight'",
                   ":6:3: tls.crt: unknown field; did you mean 'cert'?"):
        expect(said, wanted in said, True)
    said = refused(det, 'port: [')
    expect(said, 'config.yaml:2:1: ' in said, True)
    expect('no file', "'/no/such/file'" in det_says(det, 'master', '--config', '/no/such/file', '--data', '/tmp/none', status=2), True)


def test_check(det):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'det.yaml')
        with open(path, 'w') as f:
            f.write('slots: 3\n')
        said = json.loads(det_says(det, 'master', 'config', 'check', path, '--json'))
        expect('complete', (said['slots'], said['port']), (3, 8080))
        with open(path, 'w') as f:
            f.write('slots: 0\n')
        said = det_says(det, 'master', 'config', 'check', path, status=2)
        expect(said, 'det.yaml:1:8: slots: must be between 1 and 4096, found 0' in said, True)


def test_reading_again(det):
    with Master(det, config='{port: 0, slots: 2}') as m:
        m.write_config('{port: 0, slots: 4, private: true}')
        text = hang_up(m, "'slots' has changed; that needs a restart")
        expect(text, "'private' has changed and is in force" in text, True)
        found = settings(m)
        expect('in force', (found['slots']['value'], found['private']['value']), (2, True))
        expect('told', found['slots']['afterRestart'], 4)
        m.write_config('{port: 0, slotz: 4, private: false}')
        hang_up(m, "the configuration stays as it was")
        expect('in force', settings(m)['private']['value'], True)
        m.write_config('{port: 0, slots: 2, private: true}')
        hang_up(m, 'nothing has changed')
        m.write_config('{port: 0, slots: 4}')
        m.stop()
        m.start()
        expect('after a restart', settings(m)['slots']['value'], 4)


def test_up_remembers(det):
    with tempfile.TemporaryDirectory() as home:
        data, path = os.path.join(home, 'data'), os.path.join(home, 'det.yaml')

        def slots():
            info = json.loads(det_says(det, 'master', 'info', '--json', home=data))
            det_says(det, 'down', home=data)
            return {s['key']: s['value'] for s in info['settings']}['slots']
        with open(path, 'w') as f:
            f.write('{port: 0, slots: 3}')
        det_says(det, 'up', '--config', path, home=data)
        expect('given', slots(), 3)
        det_says(det, 'up', home=data)
        expect('remembered', slots(), 3)
        with open(os.path.join(home, 'bad.yaml'), 'w') as f:
            f.write('slotz: 3')
        said = det_says(det, 'up', '--config', os.path.join(home, 'bad.yaml'), status=1, home=data)
        expect(said, "did you mean 'slots'?" in said, True)
        det_says(det, 'up', '--slots', '2', home=data)
        expect('the good one, and an option', slots(), 2)
        det_says(det, 'up', '--no-config', '--port', '0', home=data)
        expect('forgotten', slots(), None)
        det_says(det, 'up', '--port', '0', home=data)
        expect('for good', slots(), None)


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
