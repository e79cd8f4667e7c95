#!/usr/bin/env python3
"""Tasks that are after the master, after others' tasks, and after the machine (tests/support/hostile.py), under masters of
root and of another user, in every mode."""
import contextlib
import glob
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402
from namespaces import run_apart  # noqa: E402

NOBODY = 65534
with open(os.path.join(HERE, '..', 'support', 'hostile.py')) as source:
    HOSTILE = source.read()
with open(os.path.join(HERE, 'models', 'small.c')) as source:
    SMALL = source.read()

# Has something in every place where others could look for it.
VICTIM = '''
import ctypes, os, time
secret = os.environ['SECRET']
for path in ('/dev/shm/victim', os.environ['DET_CHECKPOINT_STORAGE'] + '/victim'):
    with open(path, 'w') as f: f.write(secret)
ctypes.CDLL(None).shmget(4711, 4096, 0o1666)
print('victim is up', flush=True)
while True: time.sleep(1)
'''

# Open by design: a private sandbox leaves the file system as it is, and tasks of one user are not kept apart.
FILE_SYSTEM = {'read_the_home_directory', 'write_in_the_home_directory', 'write_in_the_system', 'write_in_tmp_of_others',
               'talk_to_those_who_start_programs', 'read_files_of_others', 'find_secrets_in_its_environment'}


class Case:
    """A master of a Unix user in a folder of its own, with something to steal."""

    def __init__(self, det, uid, *args):
        self.secret = secrets.token_hex(16)
        self.base = tempfile.mkdtemp(prefix='det-isolation-')
        os.chmod(self.base, 0o755)
        self.home = os.path.join(self.base, 'home')
        os.makedirs(f'{self.home}/.config/det')
        for name in ('secret', '.config/det/login.json'):
            with open(f'{self.home}/{name}', 'w') as f:
                f.write(self.secret)
        os.chmod(self.home, 0o700)
        data = f'{self.base}/data'
        os.mkdir(data)
        if uid:
            subprocess.run(['chown', '-R', f'{uid}:{uid}', self.base], check=True)
        self.m = Master(det, '--slots', '4', *args, data=data, uid=uid,
                        env={**os.environ, 'HOME': self.home, 'SECRET_OF_THE_MASTER': self.secret})

    def __enter__(self):
        self.m.__enter__()
        return self

    def __exit__(self, *args):
        self.m.__exit__(*args)
        # Shims that were told to end still remove what is theirs.
        wait_for(lambda: shutil.rmtree(self.base, ignore_errors=True) or not os.path.exists(self.base), 'its folder to go')
        for path in ('/tmp/det-hostile-tmp', '/tmp/setuid-id'):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def login(self, name):
        self.m.post('users', {'username': name, 'password': 'password of ' + name})
        return self.m.post('auth/login', {'username': name, 'password': 'password of ' + name})['token']

    def start(self, files, entrypoint, token=None, variables=(), more=''):
        names = ', '.join(json.dumps(x) for x in variables)
        body = {'config': f'entrypoint: {entrypoint}\nsearcher: {{name: single}}\nmax_restarts: 0\n{more}\n'
                          f'environment: {{environment_variables: [{names}]}}',
                'code': self.m.upload(files)}
        return self.m.post('experiments', body, token=token)['experiment']['id']

    def trial_of(self, e):
        return wait_for(lambda: self.m.trials(e), 'a trial')[0]['id']

    def start_victims(self):
        """One with secrets, and one whose first rank waits for the second."""
        e = self.start({'victim.py': VICTIM}, 'python3 victim.py', variables=[f'SECRET={self.secret}'])
        self.m.wait_line(self.trial_of(e), 'victim is up')
        hook = '[ "$RANK" = 1 ] && { echo rank 1 waits; sleep 1000; }'
        ranks = self.start({'model_def.c': SMALL, 'startup-hook.sh': hook}, 'model_def:Small', more=
                           'resources: {slots_per_trial: 2}\nhyperparameters: {global_batch_size: 16, net: mlp, '
                           'optimizer: sgd, lr: 0.1}')
        self.m.wait_line(self.trial_of(ranks), 'rank 1 waits')
        with open('/proc/net/unix') as f:
            wait_for(lambda: f.seek(0) == 0 and '@det-ranks-' in f.read(), 'the socket of its ranks')
        return [e, ranks]

    def pids_outside(self):
        found = [self.m.process.pid]
        for path in glob.glob(f'{self.m.data}/run/*/shim.json'):
            with open(path) as f:
                found.append(json.load(f)['pid'])
        for pid in list(found[1:]):
            out = subprocess.run(['pgrep', '-P', str(pid)], stdout=subprocess.PIPE, text=True).stdout
            found += map(int, out.split())
        starts = []
        for pid in found:
            with contextlib.suppress(OSError), open(f'/proc/{pid}/stat') as f:
                starts.append(f'{pid}:{f.read().rpartition(")")[2].split()[19]}')
        return starts

    def attack(self, token=None, more=''):
        """{way: None if it was closed, or what it got}"""
        disk = next(iter(glob.glob('/dev/vda') + glob.glob('/dev/sda') + glob.glob('/dev/nvme0n1')), '')
        variables = [f'DATA={self.m.data}', f'SECRET={self.secret}', f'MINE={self.base}', f'REAL_HOME={self.home}',
                     'PIDS=' + ' '.join(self.pids_outside()), f'DISK={disk}',
                     f'DISK_NUMBER={os.stat(disk).st_rdev if disk else 0}']
        e = self.start({'hostile.py': HOSTILE}, 'python3 hostile.py', token, variables, more)
        t = self.trial_of(e)
        wait_for(lambda: self.m.experiment(e)['state'] not in ('STATE_ACTIVE', 'STATE_STOPPING_COMPLETED'), 'the end')
        lines = self.m.lines(t)
        found = {}
        for line in lines:
            word, _, rest = line.partition(' ')
            if word in ('OPEN', 'closed'):
                name, _, what = rest.partition(': ')
                found[name] = what if word == 'OPEN' else None
        if len(found) < 40:
            raise Failure(f'the hostile task did not try everything: {lines[-20:]}')
        return found


def holds(case, found, open_ones):
    """Only what is open by design is open, nobody was harmed, and nothing is left of it."""
    really = {name: what for name, what in found.items() if what is not None}
    if not os.path.exists(f'{case.home}/.hostile'):  # in a home of the task's own
        really.pop('write_in_the_home_directory', None)
    if not os.path.exists('/tmp/det-hostile-tmp'):
        really.pop('write_in_tmp_of_others', None)
    bad = {name: what for name, what in really.items() if name not in open_ones}
    expect('ways that are open', bad, {})
    expect('number of ways', len(found) >= 40, True)


def check(det, uid, mode, *args, users=1, open_ones=(), link=None):
    with Case(det, uid, *args) as case:
        m = case.m
        token = None
        if users > 1:
            token = case.login('bob')
        expect('mode', m.get('master/info')['isolation'], mode)
        if link:
            for name, number in link.items():
                user = next(u['id'] for u in m.get('users')['users'] if u['username'] == name)
                m.good('PUT', f'users/{user}/agent-user', {'uid': number, 'gid': number})
        victims = case.start_victims()
        found = case.attack(token)
        holds(case, found, set(open_ones))
        for e in victims:
            expect('the victim', m.experiment(e)['state'], 'STATE_ACTIVE')
        wait_for(lambda: len(os.listdir(f'{m.data}/run')) == len(victims), 'the directory of the hostile task to go')
        wait_for(lambda: len(os.listdir(f'{m.data}/work')) == len(victims), 'its working directory to go')
        return {name for name, what in found.items() if what is not None}


def test_none_is_open_for_comparison(det):
    """If these ways were closed without isolation, the test would show nothing."""
    with Case(det, 0, '--isolation', 'none') as case:
        case.start_victims()
        found = case.attack()
        for name in ('read_the_admin_token', 'read_the_database', 'see_runs_of_others', 'read_tokens_of_others', 'trace_others',
                     'see_other_processes', 'mount_something', 'read_shared_memory_of_others', 'have_capabilities',
                     'attach_shared_memory_of_others', 'write_in_the_system', 'join_the_ranks_of_others', 'make_a_disk',
                     'stop_its_shim', 'write_its_own_records', 'read_logins_of_the_command_line', 'make_a_cgroup',
                     'set_the_program_for_core_dumps', 'change_the_root', 'bind_the_root_once_more'):
            if found[name] is None:
                raise Failure(f'{name} is closed without isolation')


def test_private_of_root(det):
    check(det, 0, 'private', open_ones=FILE_SYSTEM)


def test_private_of_another_user(det):
    check(det, NOBODY, 'private', open_ones=FILE_SYSTEM)


def test_strict_of_root(det):
    check(det, 0, 'strict', users=2)


def test_strict_of_another_user(det):
    check(det, NOBODY, 'strict', users=2)


def test_users(det):
    """The rest of the file system is as the Unix user sees it."""
    check(det, 0, 'users', '--isolation', 'users', users=2, link={'admin': 1, 'bob': NOBODY},
          open_ones={'write_in_tmp_of_others', 'talk_to_those_who_start_programs'})


def main():
    """In namespaces of its own: without isolation the hostile task has its way."""
    if os.getuid() != 0:
        print('SKIPPED: needs root')
    else:
        run_apart(lambda: run_tests(sys.modules[__name__]), '--uts', '--ipc')


if __name__ == '__main__':
    try:
        main()
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
