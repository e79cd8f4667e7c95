#!/usr/bin/env python3
"""Whoever is killed, in whatever order, and whatever is found in the directories of tasks afterwards.

    master_lost.py DET [ROUNDS]      kills of everybody; more of them: scripts/check-long
"""
import array
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

ROUNDS = int(sys.argv.pop(2)) if len(sys.argv) > 2 and sys.argv[2].isdigit() else 12
SLEEP = 'entrypoint: "echo up; exec sleep 1000"\nsearcher: {name: single}\nmax_restarts: 0'


def shim_of(m, token):
    with open(os.path.join(m.data, 'run', str(token), 'shim.json')) as f:
        return json.load(f)


def children(pid):
    with contextlib.suppress(OSError), open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(x) for x in f.read().split()]
    return []


def is_alive(pid):
    with contextlib.suppress(OSError), open(f'/proc/{pid}/stat') as f:
        return f.read().rpartition(')')[2].split()[0] not in 'ZX'
    return False


def kill(pid, how=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


def log_of(m):
    with open(m.log.name) as f:
        return f.read()


def marked(text):
    """Processes that have it in their environment or arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('environ', 'cmdline'):
            with contextlib.suppress(OSError), open(f'/proc/{pid}/{name}', 'rb') as f:
                if text.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
    return found


# --- reports

def reported(m, trial):
    """Numbers of all reports that the master has, of both groups."""
    found = []
    for group in ('training', 'validation'):
        found += [p[0] for p in m.get(f'trials/{trial}/series?group={group}&name=loss&maxDatapoints=100000')['data']]
    return sorted(found)


def acknowledged(path):
    numbers = array.array('q')
    with open(path, 'rb') as f:
        data = f.read()
    numbers.frombytes(data[:len(data) // 8 * 8])
    return list(numbers)


def kill_all_round(det, m, seed, order):
    """A program reports; then master, shim and program are killed in some order, at once or with pauses."""
    rnd = random.Random(seed)
    program = os.path.join(os.path.dirname(os.path.abspath(det)), 'test_reporter')
    record = m.shared(f'record-{seed}')
    e = m.create(f'entrypoint: ["{program}"]\nsearcher: {{name: single, metric: loss, max_length: {{batches: 100000000}}}}\n'
                 f'max_restarts: 0\nenvironment: {{environment_variables: ["ACKNOWLEDGED={record}"]}}')
    t = wait_for(lambda: m.trials(e), 'its trial')[0]['id']
    m.wait_line(t, 'reporting')
    token = max(int(x) for x in os.listdir(os.path.join(m.data, 'run')))
    shim = shim_of(m, token)
    task = [p for p in children(shim['pid']) if p != shim.get('init_pid')]
    time.sleep(rnd.uniform(0, 0.2))
    for who in order:
        if who == 'master':
            m.kill()
        else:
            for pid in task if who == 'task' else [shim['pid']]:
                kill(pid)
        time.sleep(rnd.choice([0, 0, rnd.uniform(0, 0.3)]))
    if 'master' in order:
        m.start()
    row = m.wait_experiment(e, 'STATE_ERROR')
    told, known = acknowledged(record), reported(m, t)
    expect(f'round {seed} {order}: acknowledged in order', told, list(range(1, len(told) + 1)))
    # The last one may be on disk although the program was killed before it heard so.
    if known not in (told, told + [len(told) + 1]):
        missing = sorted(set(told) - set(known))
        raise Failure(f'round {seed} {order}: {len(told)} acknowledged, {len(known)} known; missing {missing[:5]}...{missing[-2:]}')
    best = max((x for x in known if x % 100 == 0), default=0)
    if best:
        expect('best validation', m.trial(t)['bestValidation']['totalBatches'], best)
    wait_for(lambda: not os.path.exists(os.path.join(m.data, 'run', str(token))), 'its directory to go')
    expect('nothing runs on', [p for p in task if is_alive(p)], [])
    os.unlink(record)
    return len(told), row['reason']


def test_reports_survive_the_death_of_everybody(det):
    orders = list(itertools.permutations(['master', 'shim', 'task'])) + [('shim', 'task'), ('shim',), ('shim', 'master')]
    total = 0
    with Master(det) as m:
        for i in range(ROUNDS):
            n, _ = kill_all_round(det, m, i, orders[i % len(orders)])
            total += n
    print(f'{ROUNDS} times everybody was killed: {total} reports acknowledged, none lost, none doubled', flush=True)


def test_reports_survive_without_isolation(det):
    with Master(det, '--isolation', 'none') as m:
        for i, order in enumerate([('task', 'shim', 'master'), ('shim', 'master', 'task')]):
            kill_all_round(det, m, 1000 + i, order)


def test_reports_count_before_the_end_of_the_trial(det):
    """The searcher must have heard of a validation before it hears that the trial has ended."""
    with Master(det) as m:
        program = os.path.join(os.path.dirname(os.path.abspath(det)), 'test_reporter')
        record = m.shared('record')
        e = m.create(f'entrypoint: ["{program}"]\nsearcher: {{name: single, metric: loss, max_length: {{batches: 100000000}}}}\n'
                     f'max_restarts: 0\nenvironment: {{environment_variables: ["ACKNOWLEDGED={record}"]}}')
        m.wait_line(1, 'reporting')
        m.kill()
        before = len(acknowledged(record))
        wait_for(lambda: len(acknowledged(record)) > before + 500, 'reports that only the journal has')
        kill(shim_of(m, 1)['pid'])
        m.start()
        m.wait_experiment(e, 'STATE_ERROR')
        n = len(acknowledged(record))
        row = m.experiment(e)
        expect('the best', row['bestTrialSearcherMetric'] <= 1.0 / (n // 100 * 100) + 1e-12, True)


def test_the_master_moves_meanwhile(det):
    """Reports go to where the master is now."""
    with Master(det) as m:
        program = os.path.join(os.path.dirname(os.path.abspath(det)), 'test_reporter')
        record = m.shared('record')
        e = m.create(f'entrypoint: ["{program}"]\nsearcher: {{name: single, metric: loss, max_length: {{batches: 100000000}}}}\n'
                     f'max_restarts: 0\nenvironment: {{environment_variables: ["ACKNOWLEDGED={record}"]}}')
        m.wait_line(1, 'reporting')
        m.kill()
        kill(shim_of(m, 1)['pid'])
        import socket
        host, port = m.host.split(':')
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((host, int(port)))
            s.listen()  # the address of before is taken
            m.start()
        m.wait_experiment(e, 'STATE_ERROR')
        told, known = acknowledged(record), reported(m, 1)
        expect('all are known', known in (told, told + [len(told) + 1]), True)


# --- damaged directories

def innocent():
    return subprocess.Popen(['sleep', '1000'])


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def put(path, text):
    remove(path)
    with open(path, 'w') as f:
        f.write(text)


def foreign(path):
    """The record of a process that has nothing to do with it."""
    p = innocent()
    with open(path) as f:
        record = json.load(f)
    with open(f'/proc/{p.pid}/stat') as f:
        record.update(pid=p.pid, start=int(f.read().rpartition(')')[2].split()[19]))
    put(path, json.dumps(record))
    return p


def huge(path):
    remove(path)
    with open(path, 'wb') as f:
        f.write(b'{"pid": 1, "x": "')
        f.truncate(1 << 33)


DAMAGE = {
    'missing': remove,
    'empty': lambda path: put(path, ''),
    'damaged': lambda path: put(path, '{"pid": 12, "sta'),
    'another kind of document': lambda path: put(path, '[1, 2, {"deep": [[[[[[]]]]]]}]'),
    'a pipe': lambda path: (remove(path), os.mkfifo(path)),
    'a foreign process': foreign,
    'a directory': lambda path: (remove(path), os.mkdir(path)),
    'huge': huge,
    'a link': lambda path: (remove(path), os.symlink('/dev/zero', path)),
    'a device': lambda path: (remove(path), os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))),
}


def two_tasks(m):
    for t in (1, 2):
        m.create(SLEEP)
        m.wait_line(t, 'up')
    m.kill()


def wait_lost(m, what):
    """Why the first run was lost; its trial is started again, for that was not its fault."""
    def look():
        first = m.allocations(1)[0]
        return first['state'] == 'STATE_TERMINATED' and first
    found = wait_for(look, f'{what}: the end of the first run')
    expect(f'{what}: exit', found['exit'], 'NODE_FAILED')
    return found['reason']


def check_goes_on(m, what):
    """The other task goes on, new ones start, and both can be killed."""
    expect(f'{what}: the other', m.experiment(2)['state'], 'STATE_ACTIVE')
    e = m.create('entrypoint: "true"\nsearcher: {name: single}')
    m.wait_experiment(e, 'STATE_COMPLETED')
    m.post('experiments/2/kill')
    m.wait_experiment(2, 'STATE_CANCELED')
    m.post('experiments/1/kill')
    wait_for(lambda: m.experiment(1)['state'] in ('STATE_CANCELED', 'STATE_ERROR'), f'{what}: the end of the first')
    wait_for(lambda: not os.listdir(os.path.join(m.data, 'run')), f'{what}: the directories to go')
    wait_for(lambda: not marked(m.data + '/run/'), f'{what}: its processes to be gone')


def test_a_bad_shim_json_costs_nothing(det):
    """The shim is known by its lock: it is found again, and a foreign process is left alone."""
    for what, damage in DAMAGE.items():
        with Master(det, '--slots', '3') as m:
            two_tasks(m)
            shim = shim_of(m, 1)['pid']
            other = damage(os.path.join(m.data, 'run', '1', 'shim.json'))
            m.start()
            expect(f'{what}: it goes on', (m.experiment(1)['state'], is_alive(shim)), ('STATE_ACTIVE', True))
            check_goes_on(m, what)
            if isinstance(other, subprocess.Popen):
                expect('the foreign process', other.poll(), None)
                other.kill()
                other.wait()


def test_a_bad_spec_json_loses_one_task(det):
    for what, damage in DAMAGE.items():
        if what == 'a foreign process':
            continue
        with Master(det, '--slots', '3') as m:
            two_tasks(m)
            damage(os.path.join(m.data, 'run', '1', 'spec.json'))
            m.start()
            expect(f'{what}: why', 'it cannot be found again' in wait_lost(m, what), True)
            expect(f'{what}: the log says so', 'it cannot be found again' in log_of(m), True)
            check_goes_on(m, what)


def test_a_bad_exit_json_loses_only_the_exit(det):
    """Of a task that has ended meanwhile."""
    for what, damage in DAMAGE.items():
        if what == 'a foreign process':
            continue
        with Master(det, '--slots', '3') as m:
            two_tasks(m)
            for pid in children(shim_of(m, 1)['pid']):
                kill(pid)
            path = os.path.join(m.data, 'run', '1', 'exit.json')
            wait_for(lambda: os.path.exists(path), 'the end of the task')
            wait_for(lambda: not is_alive(shim_of(m, 1)['pid']), 'the end of the shim')
            damage(path)
            m.start()
            wait_lost(m, what)
            check_goes_on(m, what)


def test_bad_logs_and_journals_do_no_harm(det):
    for what, damage in DAMAGE.items():
        if what == 'a foreign process':
            continue
        with Master(det, '--slots', '3') as m:
            two_tasks(m)
            run = os.path.join(m.data, 'run', '1')
            if what != 'huge':  # that is a flood, see the tests of logs
                damage(os.path.join(run, 'log.000000000000000'))
            damage(os.path.join(run, 'task', 'x.journal'))
            damage(os.path.join(run, 'y.journal'))
            kill(shim_of(m, 1)['pid'])
            m.start()
            wait_lost(m, what)
            check_goes_on(m, what)


def test_unreadable_directories_of_another_user(det):
    if os.getuid() != 0:
        print('SKIPPED: needs root')
        return
    data = tempfile.mkdtemp(prefix='det-lost-')
    os.chown(data, 65534, 65534)
    home = {**os.environ, 'HOME': data}
    try:
        for name in ('.', 'shim.json', 'spec.json'):
            own = os.path.join(data, 'data-' + name)
            os.mkdir(own)
            os.chown(own, 65534, 65534)
            with Master(det, '--slots', '3', data=own, uid=65534, env=home) as m:
                two_tasks(m)
                os.chmod(os.path.join(m.data, 'run', '1', name), 0)
                m.start()
                expect('the other', m.experiment(2)['state'], 'STATE_ACTIVE')
                if name != 'shim.json':
                    wait_lost(m, name)
                m.post('experiments/2/kill')
                m.wait_experiment(2, 'STATE_CANCELED')
    finally:
        def removed():
            shutil.rmtree(data, ignore_errors=True)
            return not os.path.exists(data)
        wait_for(removed, 'shims to end, which write until then')


# --- kills

# Its shim is stopped, and nothing of it can be told by its environment.
STOPS_SHIM = ('env -i PATH=$PATH setsid sh -c "trap : TERM INT; while :; do sleep 0.05; done" & '
              'env -i sh -c "kill -STOP $PPID"; echo up; kill -STOP $PPID; trap : TERM; while :; do sleep 0.05; done')


def test_a_task_that_stops_its_shim_is_killed(det):
    with Master(det, '--isolation', 'none') as m:
        e = m.create('entrypoint: ["sh", "-c", %s]\nsearcher: {name: single}\nmax_restarts: 0' % json.dumps(STOPS_SHIM))
        t = wait_for(lambda: m.trials(e), 'its trial')[0]['id']
        wait_for(lambda: m.allocations(t) and m.allocations(t)[0]['state'] == 'STATE_RUNNING', 'it to run')
        shim = shim_of(m, 1)['pid']

        def is_stopped():
            with open(f'/proc/{shim}/status') as f:
                return 'T (stopped)' in f.read()
        wait_for(is_stopped, 'the shim to be stopped')
        tree = set()
        todo = [shim]
        while todo:
            pid = todo.pop()
            tree.add(pid)
            todo += children(pid)
        expect('processes', len(tree) >= 3, True)
        m.post(f'experiments/{e}/kill')
        m.wait_experiment(e, 'STATE_CANCELED')
        expect('exit', [a['exit'] for a in m.allocations(t)], ['KILLED'])
        expect('nothing is left', [p for p in tree if is_alive(p)], [])
        wait_for(lambda: not os.listdir(os.path.join(m.data, 'run')), 'its directory to go')
        expect('said', any('all of its processes' in x for x in m.lines(t)), True)


def change_configs(m, text, *values):
    with contextlib.closing(sqlite3.connect(os.path.join(m.data, 'det.db'))) as db, db:
        before = db.execute('SELECT complete FROM configs WHERE experimentId = 1').fetchone()
        db.execute(text, values)
    return before[0] if before else None


def expect_killed(m, shim):
    wait_for(lambda: not is_alive(shim), 'its shim to end')
    wait_for(lambda: os.listdir(os.path.join(m.data, 'run')) == ['2'], 'its directory to go')
    expect('said', 'belongs to no experiment that is live' in log_of(m), True)
    expect('slots', sum(s['trialId'] is not None for s in m.get('slots')['slots']), 1)


def state_of_first(m):
    return [e['state'] for e in m.get('experiments')['experiments'] if e['id'] == 1]


def test_what_is_gone_does_not_run_on(det):
    with Master(det, '--slots', '3') as m:
        two_tasks(m)
        shim = shim_of(m, 1)['pid']
        m.kill()
        change_configs(m, 'DELETE FROM configs WHERE experimentId = 1')
        m.start()
        expect('the experiment', state_of_first(m), ['STATE_ERROR'])
        expect('the trial', m.trial(1)['state'], 'STATE_ERROR')
        expect('the run', [(a['state'], a['exit']) for a in m.allocations(1)], [('STATE_TERMINATED', 'RESTORE_FAILED')])
        expect_killed(m, shim)


def test_what_cannot_be_read_waits_for_its_repair(det):
    """Its processes are killed, but it is not given up: a backup may have what is damaged."""
    with Master(det, '--slots', '3') as m:
        two_tasks(m)
        shim = shim_of(m, 1)['pid']
        m.kill()
        whole = change_configs(m, "UPDATE configs SET complete = '{' WHERE experimentId = 1")
        m.start()
        expect('the experiment', state_of_first(m), ['STATE_ACTIVE'])
        expect_killed(m, shim)
        m.kill()
        change_configs(m, 'UPDATE configs SET complete = ? WHERE experimentId = 1', whole)
        m.start()
        wait_for(lambda: len(m.allocations(1)) == 2, 'another run of its trial')


if __name__ == '__main__':
    try:
        run_tests(sys.modules[__name__])
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
