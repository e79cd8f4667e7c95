"""A master of its own for a test, and the API as a person and as a task would use it.

    with Master(det) as m:
        e = m.create('entrypoint: python3 train.py ...', {'train.py': '...'})
        m.wait_experiment(e, 'STATE_COMPLETED')
"""
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

TASK = '''
import http.client, json, os, ssl, sys, time, uuid
host = os.environ['DET_MASTER'].split('//')[1]
trial, alloc, run = os.environ['DET_TRIAL_ID'], os.environ['DET_ALLOCATION_ID'], int(os.environ['DET_TRIAL_RUN_ID'])
hparams, latest = json.loads(os.environ['DET_HPARAMS']), os.environ.get('DET_LATEST_CHECKPOINT')
steps = int(os.environ['DET_STEPS_COMPLETED'])
def connect():
    if not os.environ['DET_MASTER'].startswith('https'): return http.client.HTTPConnection(host, timeout=90)
    trust = ssl.create_default_context(cafile=os.environ['DET_MASTER_CERT_FILE'])
    return http.client.HTTPSConnection(host, timeout=90, context=trust)
def call(method, path, body=None, key=None):
    for attempt in range(200):
        try:
            c = connect()
            headers = {'Authorization': 'Bearer ' + os.environ['DET_SESSION_TOKEN'], 'Content-Type': 'application/json'}
            if key: headers['Idempotency-Key'] = key
            c.request(method, '/api/v1' + path, json.dumps(body) if body is not None else None, headers)
            r = c.getresponse()
            text = r.read()
            if r.status in (503, 507): raise OSError(r.status)
            if r.status != 200: raise SystemExit('%s %s: %d %s' % (method, path, r.status, text))
            return json.loads(text)
        except OSError:
            time.sleep(0.05)
    raise SystemExit('the master does not answer')
def ready(): call('POST', '/allocations/%s/ready' % alloc)
def operation(): return call('GET', '/trials/%s/searcher/operation' % trial)
def report(group, at, **metrics):
    call('POST', '/trials/%s/metrics' % trial, {'trialRunId': run, 'reports': [{'group': group, 'stepsCompleted': at, 'metrics': metrics}]}, str(uuid.uuid4()))
def complete(length, metric):
    call('POST', '/trials/%s/searcher/completed_operation' % trial, {'op': {'length': length}, 'searcherMetric': metric}, str(uuid.uuid4()))
def preempted(wait=0): return call('GET', '/allocations/%s/signals/preemption?timeout_seconds=%d' % (alloc, wait))['preempt']
def ack(): call('POST', '/allocations/%s/signals/ack_preemption' % alloc)
def checkpoint(at):
    name = str(uuid.uuid4())
    folder = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], name)
    os.makedirs(folder)
    with open(folder + '/state', 'w') as f: f.write(str(at))
    call('POST', '/checkpoints', {'uuid': name, 'trialRunId': run, 'stepsCompleted': at, 'resources': {'state': len(str(at))}}, str(uuid.uuid4()))
    return name
'''


# scripts/check-long runs tests with other kinds of isolation than the usual one, and with databases in a server.
ISOLATION = os.environ.get('DET_TEST_ISOLATION')
SERVER = os.environ.get('DET_TEST_DB')
UNIX_USER = 65534


class Failure(Exception):
    pass


def server_database(data):
    """The database that belongs to a data directory: a schema of its own."""
    name = 'm_' + hashlib.md5(data.encode()).hexdigest()[:16]
    return name, f'{SERVER}?options=-csearch_path%3D{name}'


def server_sql(text):
    subprocess.run(['psql', '-qX', '-v', 'ON_ERROR_STOP=1', SERVER, '-c', text], check=True, capture_output=True)


def expect(what, got, wanted):
    if got != wanted:
        raise Failure(f'{what}: expected {wanted!r}, got {got!r}')


OLD_CODE = ('contexts', 'context')  # what older versions call the code of an experiment: the route, the field


class Master:
    code = ('code', 'code')

    def __init__(self, det, *args, data=None, uid=None, env=None, wrap=(), config=None):
        """config: the text of a configuration file, which then also chooses the port."""
        self.det = det
        self.args = args if not ISOLATION or '--isolation' in args else (*args, '--isolation', ISOLATION)
        self.who = {'user': uid, 'group': uid, 'extra_groups': []} if uid else {}
        self.env = env
        self.wrap = wrap
        self.own = data is None
        self.data = data or tempfile.mkdtemp(prefix='det-e2e-')
        self.log = open(os.path.join(self.data, 'stderr.txt'), 'ab')
        self.process = None
        self.config = None
        if SERVER and '--db' not in self.args:
            name, url = server_database(self.data)
            server_sql(f'CREATE SCHEMA IF NOT EXISTS {name}')
            self.args = (*self.args, '--db', url)
        if config is not None:
            self.config = os.path.join(self.data, 'config.yaml')
            self.write_config(config)

    def write_config(self, text):
        with open(self.config, 'w') as f:
            f.write(text)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.stop()
        except Failure as failure:
            kind = kind or Failure
            print(f'FAILED: {failure}', file=sys.stderr)
        self.end_tasks()
        if kind and kind is not SystemExit:
            with open(self.log.name) as f:
                print('--- the master said:', f.read()[-8000:], sep='\n', file=sys.stderr)
        self.log.close()
        if self.own:
            shutil.rmtree(self.data, ignore_errors=True)
            if SERVER:
                server_sql(f'DROP SCHEMA {server_database(self.data)[0]} CASCADE')
        if kind is Failure and value is None:
            raise Failure('the master did not end well')

    def start(self):
        how = ('--config', self.config) if self.config else ('--port', '0')
        command = [*self.wrap, self.det, 'master', '--data', self.data, *how, *self.args]
        self.process = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL, env=self.env, **self.who)

        def is_up():
            if self.process.poll() is not None:
                raise Failure(f'the master ended with {self.process.returncode}')
            now = self.announced()
            return now and now.get('pid') == self.process.pid and now
        found = wait_for(is_up, 'the master to start')
        self.host = found['url'].split('//')[1]
        self.token = found['token']
        self.tls = ssl.create_default_context(cafile=found['cert']) if 'cert' in found else None
        if ISOLATION:
            expect('isolation', self.get('master/info')['isolation'], self.args[self.args.index('--isolation') + 1])
        if ('--isolation', 'users') in zip(self.args, self.args[1:]):
            self.good('PUT', 'users/1/agent-user', {'uid': UNIX_USER, 'gid': UNIX_USER})

    def shared(self, name):
        """A file that both this test and tasks can reach: tasks see of the data directory only what is theirs."""
        return os.path.join(self.data, 'checkpoints', name)

    def announced(self):
        try:
            with open(os.path.join(self.data, 'master.json')) as f:
                return json.load(f)
        except (OSError, ValueError):
            return None

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            status = self.process.wait(30)
            self.process = None
            if how == signal.SIGTERM and status != 0:
                raise Failure(f'the master ended with {status}')
        self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    def end_tasks(self):
        """Shims that are left: theirs is the group of processes to end."""
        run = os.path.join(self.data, 'run')
        for name in os.listdir(run) if os.path.isdir(run) else []:
            with contextlib.suppress(OSError, ValueError, KeyError, ProcessLookupError):
                with open(os.path.join(run, name, 'shim.json')) as f:
                    os.kill(json.load(f)['pid'], signal.SIGINT)

    def connect(self, source=None):
        """source: another address of this machine to come from, such as 127.0.0.2."""
        source = source and (source, 0)
        return (http.client.HTTPSConnection(self.host, timeout=60, context=self.tls, source_address=source) if self.tls else
                http.client.HTTPConnection(self.host, timeout=60, source_address=source))

    def call(self, method, path, body=None, token=None, headers=None, raw=None, source=None):
        """Status and answer, as JSON if it is."""
        c = self.connect(source)
        h = {'Authorization': 'Bearer ' + (self.token if token is None else token)}
        if token == '':
            h = {}
        if body is not None:
            h['Content-Type'] = 'application/json'
        h.update(headers or {})
        c.request(method, path if path.startswith('/') else '/api/v1/' + path,
                  raw if raw is not None else json.dumps(body) if body is not None else None, h)
        r = c.getresponse()
        text = r.read()
        c.close()
        try:
            return r.status, json.loads(text)
        except ValueError:
            return r.status, text

    def get(self, path):
        return self.good('GET', path)

    def post(self, path, body=None, **more):
        return self.good('POST', path, body, **more)

    def good(self, method, path, body=None, **more):
        status, answer = self.call(method, path, body, **more)
        if status != 200:
            raise Failure(f'{method} {path}: {status} {answer}')
        return answer

    def upload(self, files):
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode='wb', mtime=0) as zipped, tarfile.open(fileobj=zipped, mode='w') as tar:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                content = text if isinstance(text, bytes) else text.encode()
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        route, field = self.code
        return self.post(route, raw=out.getvalue())[field]

    def create(self, config, files=None, **more):
        body = {'config': config, **more}
        if files:
            body[self.code[1]] = self.upload({**files, 'task.py': TASK})
        return self.post('experiments', body)['experiment']['id']

    def experiment(self, e):
        return self.get(f'experiments/{e}')['experiment']

    def trials(self, e, **query):
        return self.get(f'experiments/{e}/trials?' + urllib.parse.urlencode(query))['trials']

    def trial(self, t):
        return self.get(f'trials/{t}')['trial']

    def allocations(self, t):
        return self.get(f'trials/{t}/allocations')['allocations']

    def lines(self, t, **query):
        return [x['log'].rstrip('\n') for x in
                self.get(f'trials/{t}/logs?' + urllib.parse.urlencode(query))['logs']]

    def wait_experiment(self, e, *states):
        ended = ('STATE_COMPLETED', 'STATE_CANCELED', 'STATE_ERROR')

        def look():
            row = self.experiment(e)
            if row['state'] in ended and row['state'] not in states:
                logs = {t['id']: self.lines(t['id'])[-20:] for t in self.trials(e)}
                raise Failure(f'experiment {e} is {row["state"]} ({row["reason"]}): {logs}')
            return row['state'] in states and row
        return wait_for(look, f'experiment {e} to be {states}')

    def wait_line(self, t, text):
        return wait_for(lambda: any(text in x for x in self.lines(t)), f'{text!r} in the log of trial {t}')


def wait_for(look, what, seconds=60):
    """What look() returns, once that is true. A test that waits in vain has failed."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise Failure(f'waited in vain for {what}')
        time.sleep(0.02)


def run_tests(module):
    """Runs every function test_* of a module with the path of det."""
    det = os.path.realpath(sys.argv[1])
    chosen = sys.argv[2:]
    for name, test in sorted(vars(module).items()):
        if name.startswith('test_') and (not chosen or name in chosen):
            begin = time.monotonic()
            test(det)
            print(f'{name}: {time.monotonic() - begin:.1f} s', flush=True)
