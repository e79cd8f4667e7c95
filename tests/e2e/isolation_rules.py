#!/usr/bin/env python3
"""Which isolation is in force, what tasks get of the machine, and what they are refused."""
import contextlib
import glob
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402
from namespaces import run_apart  # noqa: E402
from postgres import Postgres  # noqa: E402

NOBODY = 65534
NO_NAMESPACES = [sys.executable, os.path.join(HERE, '..', 'support', 'no_namespaces.py')]


def example(name):
    with open(os.path.join(HERE, '..', '..', 'examples', 'onevar', name)) as f:
        return f.read()


@contextlib.contextmanager
def folder(uid=0):
    path = tempfile.mkdtemp(prefix='det-rules-')
    os.chown(path, uid, uid)
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def master_of(det, uid, *args, wrap=()):
    """A master of a Unix user, with a home of its own."""
    with folder(uid) as base:
        data = os.path.join(base, 'data')
        os.mkdir(data)
        os.chown(data, uid, uid)
        with Master(det, *args, data=data, uid=None if wrap else uid, env={**os.environ, 'HOME': base, 'RULES_SECRET': 'x'}, wrap=wrap) as m:
            yield m


def user(m, name, admin=False):
    m.post('users', {'username': name, 'password': 'password of ' + name, 'admin': admin})
    return m.post('auth/login', {'username': name, 'password': 'password of ' + name})['token']


def run(m, script, more='', token=None, files=None, state='STATE_COMPLETED'):
    """The lines of a task, without those of the shim and of the master."""
    body = {'config': f'entrypoint: ["sh", "-c", {json.dumps(script)}]\nsearcher: {{name: single}}\nmax_restarts: 0\n{more}'}
    if files:
        body['code'] = m.upload(files)
    e = m.post('experiments', body, token=token)['experiment']['id']
    m.wait_experiment(e, state)
    t = m.trials(e)[0]
    return m.lines(t['id'], source='task') if state == 'STATE_COMPLETED' else m.trial(t['id'])['reason']


def command(m, *words, status=0):
    env = {**os.environ, 'DET_HOME': m.data, 'XDG_CONFIG_HOME': m.data}
    done = subprocess.run([m.det, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(f'status of {words}: {done.stderr}', done.returncode, status)
    return done.stdout + done.stderr


def refused(det, *args, wrap=(), uid=0):
    with folder(uid) as base:
        who = {'user': uid, 'group': uid, 'extra_groups': []} if uid and not wrap else {}
        done = subprocess.run([*wrap, det, 'master', '--data', os.path.join(base, 'data'), '--port', '0', *args], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, 'HOME': base}, **who)
        expect('it does not start', done.returncode != 0, True)
        return done.stdout


# --- which one is in force

def test_the_second_user_makes_it_strict(det):
    with master_of(det, 0) as m:
        write = '(echo x > /etc/det-rules-test) 2>/dev/null && echo wrote && rm /etc/det-rules-test || echo no'
        expect('with one user', (m.get('master/info')['isolation'], run(m, write)), ('private', ['wrote']))
        user(m, 'ada')
        expect('with two', (m.get('master/info')['isolation'], run(m, write)), ('strict', ['no']))
        m.stop()
        m.start()
        expect('after a restart', m.get('master/info')['isolation'], 'strict')
        said = command(m, 'master', 'info')
        for word in ('Isolation of tasks', 'strict', m.data, m.host):
            expect(word, word in said, True)


def test_what_was_asked_for_stays(det):
    for mode in ('none', 'private', 'strict'):
        with master_of(det, 0, '--isolation', mode) as m:
            user(m, 'ada')
            expect(mode, m.get('master/info')['isolation'], mode)


def test_what_does_not_work_is_refused(det):
    said = refused(det, '--isolation', 'secret')
    expect('unknown', "--isolation: isolation: must be one of none, private, strict, users, found 'secret'" in said, True)
    said = refused(det, '--isolation', 'users', uid=NOBODY)
    expect('users', 'does not work here: only root can run tasks as other users' in said, True)
    for mode in ('private', 'strict'):
        said = refused(det, '--isolation', mode, wrap=NO_NAMESPACES, uid=NOBODY)
        expect(mode, f"isolation: {mode} does not work here: cannot make 'a user namespace'" in said, True)


def test_a_default_that_does_not_work_is_said(det):
    with master_of(det, NOBODY, wrap=NO_NAMESPACES) as m:
        info = m.get('master/info')
        expect('in force', info['isolation'], 'none')
        said = "tasks should be isolated as with isolation: private, but they are as with none: cannot make 'a user namespace'"
        expect('info', said in info['notInForce'], True)
        with open(m.log.name) as f:
            expect('log', said in f.read(), True)
        expect('command', said in command(m, 'master', 'info'), True)
        expect('it works', run(m, 'echo works'), ['works'])
        expect('why', said in command(m, 'why', '1'), True)


# --- mounts

def test_bind_mounts_are_mounts(det):
    config = '''
bind_mounts:
  - {{host_path: {d}, container_path: data}}
  - {{host_path: {d}, container_path: deep/er/data, read_only: true}}
  - {{host_path: {d}, container_path: /det-rules/data}}
  - {{host_path: {d}/file, container_path: /etc/det-rules-file, read_only: true}}
'''
    script = ('cat data/file deep/er/data/file /det-rules/data/file /etc/det-rules-file; echo new > data/new; '
              'for f in deep/er/data/x /etc/det-rules-file; do (echo x > $f) 2>/dev/null || echo no; done; '
              'cat /det-rules/data/new; ls -d /etc/passwd; rm data/new')
    wanted = ['text'] * 4 + ['no', 'no', 'new', '/etc/passwd']
    for uid in (0, NOBODY):
        for mode in ('private', 'strict'):
            with master_of(det, uid, '--isolation', mode) as m, folder(uid) as d:
                with open(f'{d}/file', 'w') as f:
                    f.write('text\n')
                expect(f'{mode} {uid}', run(m, script, config.format(d=d)), wanted)
                expect('nothing outside', glob.glob('/det-rules*') + glob.glob('/etc/det-rules*'), [])
    with master_of(det, 0, '--isolation', 'none') as m, folder() as d:
        with open(f'{d}/file', 'w') as f:
            f.write('text\n')
        expect('links', run(m, 'cat data/file deep/er/data/file', config.format(d=d)), ['text', 'text'])
        expect('said', any("bind_mounts: '/det-rules/data' is not there" in x for x in m.lines(1)), True)


def test_the_masters_directories_cannot_be_named(det):
    with master_of(det, 0) as m:
        for path in (m.data, m.data + '/run', m.data + '/../data', os.path.join(m.data, '..', '.config', 'det')):
            status, why = m.call('POST', 'experiments', {
                'config': f'entrypoint: x\nsearcher: {{name: single}}\nbind_mounts: [{{host_path: "{path}", container_path: x}}]'})
            expect(path, (status, 'bind_mounts: the directories of the master' in why['detail']), (400, True))
        for storage in (f'{{type: directory, container_path: "{m.data}/run"}}', f'{{type: shared_fs, host_path: "{m.data}"}}'):
            status, why = m.call('POST', 'experiments', {
                'config': f'entrypoint: x\nsearcher: {{name: single}}\ncheckpoint_storage: {storage}'})
            expect(storage, (status, 'checkpoint_storage: the directories of the master' in why['detail']), (400, True))
        link = os.path.join(os.path.dirname(m.data), 'link')
        os.symlink(m.data, link)
        for path in (link, '/', os.path.dirname(m.data)):
            mounts = f'bind_mounts: [{{host_path: "{path}", container_path: /det-rules}}]'
            expect(path, run(m, f'ls /det-rules/master.json /det-rules/data/master.json /det-rules{m.data}/master.json 2>/dev/null; echo -',
                             mounts), ['-'])


def write(path, text, uid):
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chown(path, uid, uid)
    os.chmod(path, 0o600)


def test_secrets_outside_of_the_masters_directory_are_hidden(det):
    """Its configuration, the key of its certificate, and what logs it in to the server of its database."""
    for uid, has_server in itertools.product((0, NOBODY), (False, True)):
        with contextlib.ExitStack() as stack:
            base = stack.enter_context(folder(uid))
            secrets = [f'{base}/{name}' for name in ('det.yaml', 'link-key.pem', 'passwords', '.pgpass', '.postgresql/postgresql.key')]
            os.makedirs(f'{base}/data')
            os.makedirs(f'{base}/.postgresql')
            for path in ('data', '.postgresql'):
                os.chown(f'{base}/{path}', uid, uid)
            subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', f'{base}/key.pem', '-out',
                            f'{base}/cert.pem', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'], check=True, stderr=subprocess.DEVNULL)
            for name in ('key.pem', 'cert.pem'):
                os.chown(f'{base}/{name}', uid, uid)
            os.symlink('key.pem', secrets[1])
            config = f'port: 0\ntls: {{cert: {base}/cert.pem, key: {secrets[1]}}}\nisolation: private\n'
            if has_server:
                config += f'db: {stack.enter_context(Postgres(fsync="off")).url}\n'
            for path in secrets[2:]:
                write(path, 'secret', uid)
            variables = {'HOME': base, 'PGPASSWORD': 'secret', 'PGPASSFILE': secrets[2]}
            m = Master(det, data=f'{base}/data', uid=uid, env={**os.environ, **variables})
            m.config = secrets[0]
            write(m.config, config, uid)
            stack.enter_context(m)
            mine = secrets if has_server else secrets[:2]
            mounts = f'bind_mounts: [{{host_path: "{base}", container_path: /tmp/rules-again}}]'
            again = [path.replace(base, '/tmp/rules-again') for path in mine]
            expect('readable', run(m, f'cat {" ".join(mine + again)} 2>/dev/null; env | grep -c ^PG; true', mounts), ['0' if has_server else '2'])


def test_users_mount_nothing_that_makes_them_administrators(det):
    with master_of(det, 0) as m, folder() as data:
        os.chmod(data, 0o777)
        ada, eve = user(m, 'ada', admin=True), user(m, 'eve')
        home = os.path.dirname(m.data)
        mount = 'bind_mounts: [{host_path: "%s", container_path: /det-rules, read_only: %s}]'
        for path, read_only in ((home, 'true'), (home + '/.config', 'true'), ('/', 'true'), ('/etc', 'false'), ('/proc', 'true'),
                                ('/root', 'true'), ('/dev', 'true'), ('/run', 'true'), ('/tmp', 'true'), ('/usr/local', 'false')):
            why = run(m, 'true', mount % (path, read_only), eve, state='STATE_ERROR')
            expect(f'{path} {read_only}: {why}', 'by administrators only' in why, True)
        expect('read-only', run(m, 'ls /det-rules/passwd', mount % ('/etc', 'true'), eve), ['/det-rules/passwd'])
        expect('data', run(m, 'echo x > /det-rules/x; cat /det-rules/x', mount % (data, 'false'), eve), ['x'])
        os.symlink('/etc', f'{data}/link')
        why = run(m, 'true', mount % (f'{data}/link', 'false'), eve, state='STATE_ERROR')
        expect('through a link', 'by administrators only' in why, True)
        storage = 'checkpoint_storage: {type: directory, container_path: "/usr/local/det-rules"}'
        why = run(m, 'true', storage, eve, state='STATE_ERROR')
        expect('storage', 'by administrators only' in why, True)
        os.rmdir('/usr/local/det-rules')
        expect('administrators', run(m, 'ls /det-rules/det-rules-test 2>/dev/null; echo ok', mount % ('/etc', 'false'), ada), ['ok'])


def test_the_home_is_hidden_unless_mounted(det):
    with master_of(det, 0, '--isolation', 'strict') as m:
        home = os.path.dirname(m.data)
        os.mkdir(f'{home}/sub')
        with open(f'{home}/sub/file', 'w') as f:
            f.write('text\n')
        expect('hidden', run(m, 'ls -A ~ | grep -v -e data -e .cache; echo x > ~/x; cat ~/x'), ['x'])
        expect('nothing of it stays', os.path.exists(f'{home}/x'), False)
        mounts = f'bind_mounts: [{{host_path: {home}/sub, container_path: {home}/sub, read_only: true}}]'
        expect('mounted', run(m, 'cat ~/sub/file', mounts), ['text'])
        run(m, 'mkdir -p ~/.cache/x; echo kept > ~/.cache/x/y')
        expect('the cache stays', run(m, 'cat ~/.cache/x/y'), ['kept'])


def test_a_start_from_the_checkpoint_of_another_user(det):
    """Checkpoints of users are apart; the one to start from can be read."""
    with master_of(det, 0) as m:
        eve = user(m, 'eve')
        files = {'model_def.c': example('model_def.c')}
        code = m.upload(files)
        e = m.post('experiments', {'config': example('const.yaml'), 'code': code})['experiment']['id']
        m.wait_experiment(e, 'STATE_COMPLETED')
        t = m.trials(e)[0]['id']
        first = m.trial(t)['latestCheckpoint']
        config = example('const.yaml').replace('searcher:', f'searcher:\n  source_trial_id: {t}', 1)
        other = m.post('experiments', {'config': config, 'code': code}, token=eve)['experiment']['id']
        m.wait_experiment(other, 'STATE_COMPLETED')
        row = m.trials(other)[0]
        expect('start', row['warmStartCheckpointUuid'], first)
        last = m.trial(row['id'])['latestCheckpoint']
        expect('apart', (os.path.isdir(m.shared(first)), os.path.isdir(f'{m.data}/users/2/checkpoints/{last}')), (True, True))
        status, _ = m.call('GET', f'checkpoints/{last}/files/metadata.json')
        expect('served', status, 200)
        # It goes on from where the other had come to.
        losses = m.get(f'trials/{row["id"]}/series?group=training&name=loss&maxDatapoints=100')['data']
        before = m.get(f'trials/{t}/series?group=training&name=loss&maxDatapoints=100')['data']
        expect('loss', losses[0][2] < before[-1][2], True)
        m.good('DELETE', f'experiments/{other}', token=eve)
        wait_for(lambda: not os.listdir(f'{m.data}/users/2/checkpoints'), 'the checkpoints of the other to go')


# --- memory, processes

EAT = 'python3 -c "x = bytearray(%d << 20); print(len(x) >> 20, flush=True)"'


def test_shared_memory_has_the_size_that_was_asked_for(det):
    for uid in (0, NOBODY):
        with master_of(det, uid) as m:
            out = run(m, 'df --output=size -B1 /dev/shm | tail -1; head -c 3000000 /dev/zero > /dev/shm/x 2>/dev/null || echo full',
                      'resources: {shm_size: 2097152}')
            expect('size', [x.strip() for x in out], ['2097152', 'full'])


def test_memory_is_limited(det):
    """Of all processes together."""
    four = """python3 -c '
import os, time
for i in range(4):
    if os.fork() == 0:
        x = bytearray(60 << 20)
        time.sleep(1000)
os.wait()
raise SystemExit(1)'"""
    for uid in (0, NOBODY):
        with master_of(det, uid, '--task-memory', '150M') as m:
            by = m.get('master/info')['taskMemory']
            expect(by, ('157286400 bytes, by cgroup' if not uid else '157286400 bytes, by rlimits') in by, True)
            with open(m.log.name) as f:
                expect('said at the start', f'memory of a task: {by}' in f.read(), True)
            expect('enough', run(m, EAT % 60), ['60'])
            run(m, EAT % 300, state='STATE_ERROR')
            why = run(m, four, state='STATE_ERROR')
            expect(why, 'the limit of memory is 157286400 bytes' in why, True)
            wait_for(lambda: not glob.glob('/sys/fs/cgroup/*/det-*/[0-9]*'), 'its cgroups to go')


def test_processes_are_limited(det):
    bomb = 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i + 1)); done; echo all of them'
    for uid in (0, NOBODY):
        with master_of(det, uid, '--task-processes', '40') as m:
            expect('enough', run(m, 'sleep 0.1 & sleep 0.1 & wait; echo fine'), ['fine'])
            run(m, bomb, state='STATE_ERROR')
            lines = m.lines(2)
            expect('not all', 'all of them' in lines, False)
            expect('said', any('Cannot fork' in x or 'unavailable' in x for x in lines), True)


def test_limits_that_cannot_be_read(det):
    for option, value, why in (('--task-memory', '1.5', 'task_memory: must be a number of bytes or a size'),
                               ('--task-memory', '12X', 'task_memory: must be a number of bytes or a size'),
                               ('--task-memory', '0', 'task_memory: must be more than 0'),
                               ('--task-processes', 'many', 'task_processes: must be an integer')):
        expect(value, f'{option}: {why}' in refused(det, option, value), True)


# --- Unix users

def test_users_run_as_unix_users(det):
    with master_of(det, 0, '--isolation', 'users') as m:
        eve = user(m, 'eve')
        why = run(m, 'id -u', token=eve, state='STATE_ERROR')
        expect('none', "user 'eve' has no Unix user to run tasks as" in why and 'link-with-agent-user' in why, True)
        said = command(m, 'user', 'link-with-agent-user', 'eve', '--agent-uid', '4321', '--agent-gid', '8765')
        expect('linked', "Tasks of 'eve' run as the Unix user with number 4321." in said, True)
        out = run(m, 'id -u; id -g; id -G; pwd; echo x > x; echo y > $DET_CHECKPOINT_STORAGE/y; stat -c %u x; env', token=eve,
                  files={'sub/file': 'text'}, more='environment: {environment_variables: [A=b]}')
        expect('ids', out[:3], ['4321', '8765', '8765'])
        expect('its files are its own', out[4], '4321')
        expect('a clean environment', [x for x in out[5:] if 'RULES_SECRET' in x], [])
        expect('of the code, too', run(m, 'stat -c %u sub sub/file; echo more >> sub/file', token=eve,
                                                   files={'sub/file': 'text'}), ['4321', '4321'])
        expect('storage', os.stat(f'{m.data}/users/2/checkpoints/y').st_uid, 4321)
        m.stop()
        m.start()
        expect('the link is kept', run(m, 'id -u', token=eve), ['4321'])
        command(m, 'user', 'link-with-agent-user', 'eve', '--unlink')
        run(m, 'id -u', token=eve, state='STATE_ERROR')
        command(m, 'user', 'link-with-agent-user', 'eve', '--agent-uid', '0', '--agent-gid', '0', status=1)
        expect('only administrators', m.call('PUT', 'users/2/agent-user', {'uid': 1, 'gid': 1}, token=eve)[0], 403)


def test_users_of_the_same_name(det):
    with master_of(det, 0, '--isolation', 'users') as m:
        token = user(m, 'nobody')
        out = run(m, 'id -un; echo $HOME; echo $USER; cat ~root/.bashrc 2>/dev/null | wc -l', token=token)
        expect('name', (out[0], out[2]), ('nobody', 'nobody'))


def main():
    if os.getuid() != 0:
        print('SKIPPED: needs root')
    else:
        run_apart(lambda: run_tests(sys.modules[__name__]))


if __name__ == '__main__':
    try:
        main()
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
