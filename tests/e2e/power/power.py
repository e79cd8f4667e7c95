#!/usr/bin/python3
"""power.py DET [CYCLES [SEED]]: a file system on a loop device loses its power again and again (it is shut down by ioctl,
without writing out what it has in memory), under a master that is asked for changes, a task that prints, and a program
that reports and saves checkpoints. What was acknowledged before that moment is there afterwards. (Not what is acknowledged
while the file system goes down: fdatasync() of ext4 succeeds then now and then, with nothing written. Where there is really no
power, nobody hears of it.) Needs root; says so where it cannot run."""
import contextlib
import fcntl
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

here = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(here, '..', '..', 'support'))
from master import Failure, Master, expect  # noqa: E402

SHUTDOWN, NO_FLUSH = 0x8004587D, 2  # _IOR('X', 125, uint32_t): ext4 and xfs
PRINTER = 'entrypoint: "seq 1 3000"\nname: printer\nsearcher: {name: single}\nmax_restarts: 0'
PAUSED = 'entrypoint: "true"\nname: paused\nsearcher: {name: single}'
COUNTS = struct.Struct('qq')


class Disk:
    def __init__(self, folder, kind):
        self.image, self.path = os.path.join(folder, kind + '.img'), os.path.join(folder, kind)
        os.mkdir(self.path)
        subprocess.run(['truncate', '-s', '400M', self.image], check=True)
        make = {'ext4': ['mkfs.ext4', '-q', '-E', 'lazy_itable_init=0'], 'xfs': ['mkfs.xfs', '-q', '-f']}[kind]
        subprocess.run([*make, self.image], check=True)
        self.mount()

    def mount(self):
        subprocess.run(['mount', '-o', 'loop', self.image, self.path], check=True)

    def lose_power(self):
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack('I', NO_FLUSH))
        finally:
            os.close(fd)

    def unmount(self):
        for _ in range(200):
            if subprocess.run(['umount', self.path], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.02)
        raise Failure('the file system is still in use')


class Client(threading.Thread):
    """Somebody who changes things and remembers what was acknowledged."""

    def __init__(self, m, r):
        super().__init__()
        self.m, self.r, self.sent, self.n_noted, self.experiments, self.codes = m, r, [], 0, [], []

    def run(self):
        with contextlib.suppress(Exception):  # the end of the power is the end of the conversation
            while True:
                self.sent.append(f'note {self.r.random()}')
                self.m.good('PATCH', 'experiments/1', {'notes': self.sent[-1]})
                self.n_noted = n = len(self.sent)
                if n % 5 == 0:
                    self.experiments.append(self.m.create(PAUSED, activate=False))
                if n % 7 == 0:
                    self.codes.append(self.m.upload({'train.py': f'# {self.r.random()}\n'}))


class Acknowledged:
    """What a client and the program had been told when the power went off."""

    def __init__(self, client, counts):
        self.n_noted, self.experiments, self.codes = client.n_noted, list(client.experiments), list(client.codes)
        self.n_reports, self.n_checkpoints = 0, 0
        with contextlib.suppress(FileNotFoundError), open(counts, 'rb') as f:
            text = f.read()
            self.n_reports, self.n_checkpoints = COUNTS.unpack(text) if text else (0, 0)


def check_checkpoints(folder, n):
    """At least n whole ones."""
    whole = 0
    for path in glob.glob(folder + '/checkpoints/*-*-*'):
        if not os.path.isdir(path):
            continue
        with open(path + '/manifest.json') as f:
            files = {x['name']: x['bytes'] for x in json.load(f)['files']}
        with open(path + '/state', 'rb') as f:
            text = f.read()
        expect('a checkpoint that is there is whole', (len(text), text), (files['state'], text[:1] * len(text)))
        whole += 1
    if whole < n:
        raise Failure(f'{n} checkpoints were committed, {whole} are there')


def check_reports(folder, n):
    lines = []
    for path in glob.glob(folder + '/*.journal'):
        with open(path, 'rb') as f:
            lines += [x for x in f.read().split(b'\n') if b'/metrics' in x and x.endswith(b'}')]
    if len(lines) < n:
        raise Failure(f'{n} reports were acknowledged, {len(lines)} are there')


def check_master(m, known, sent):
    if known.n_noted:
        now = m.experiment(1)['notes']
        if now not in sent[known.n_noted - 1:]:
            raise Failure(f'the notes are {now!r}; {sent[known.n_noted - 1]!r} was acknowledged')
    there = {e['id'] for e in m.get('experiments?limit=-1')['experiments']}
    expect('experiments that were acknowledged and are gone', [e for e in known.experiments if e not in there], [])
    for name in known.codes:
        if not os.path.getsize(os.path.join(m.data, 'code', name)):
            raise Failure(f'the code {name} is empty')


def check_printers(m):
    """The run that has ended well has all of its lines in the log. Of the last ones: those before were looked at before."""
    for e in m.get('experiments?limit=100&sortBy=id&orderBy=ORDER_BY_DESC')['experiments']:
        if e['name'] == 'printer' and e['state'] == 'STATE_COMPLETED':
            t = m.trials(e['id'])[0]['id']
            run = m.allocations(t)[-1]['allocationId']
            lines = [x for x in m.get(f'trials/{t}/logs?source=task&limit=100000')['logs'] if x['allocationId'] == run]
            expect('lines', [x['log'] for x in lines], [f'{i}\n' for i in range(1, 3001)])


def end_everything(m, *others):
    for p in others:
        p.kill()
        p.wait()
    if m.process:
        m.process.kill()
        m.process.wait()
    m.process = None
    for pid in filter(str.isdigit, os.listdir('/proc')):  # shims and tasks
        with contextlib.suppress(OSError), open(f'/proc/{pid}/environ', 'rb') as f, open(f'/proc/{pid}/cmdline', 'rb') as g:
            if (m.data.encode() in f.read() or m.data.encode() in g.read()) and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)


def cycle(det, disk, reporter, folder, r, number, acked):
    data, run = os.path.join(disk.path, 'data'), os.path.join(disk.path, f'run-{number}')
    log = open(os.path.join(folder, 'stderr.txt'), 'ab')
    m = Master(det, '--slots', '2', data=folder)  # its log stays outside
    m.data = data
    try:
        cut_and_check(m, disk, reporter, folder, r, run, acked, log)
    finally:
        end_everything(m)
        log.close()
        m.log.close()
    shutil.rmtree(run, ignore_errors=True)


def cut_and_check(m, disk, reporter, folder, r, run, acked, log):
    m.start()
    if not m.get('experiments?limit=1')['experiments']:
        m.create(PAUSED, activate=False)
    m.create(PRINTER)
    counts = os.path.join(folder, 'counts')
    with contextlib.suppress(FileNotFoundError):
        os.unlink(counts)
    program = subprocess.Popen([reporter, run, counts], stderr=log)
    client = Client(m, r)
    client.start()
    time.sleep(r.uniform(0.02, 0.6))
    known = Acknowledged(client, counts)
    disk.lose_power()
    end_everything(m, program)
    client.join()
    disk.unmount()
    disk.mount()
    m.start()
    check_master(m, known, client.sent)
    check_printers(m)
    end_everything(m)
    check_reports(run, known.n_reports)
    check_checkpoints(run, known.n_checkpoints)
    acked['changes'] += known.n_noted
    acked['experiments'] += len(known.experiments)
    acked['codes'] += len(known.codes)
    acked['reports'] += known.n_reports
    acked['checkpoints'] += known.n_checkpoints


def build_reporter(det, folder):
    build, program = os.path.dirname(det), os.path.join(folder, 'reporter')
    include = os.path.join(here, '..', '..', '..', 'include')
    subprocess.run(['cc', '-D_GNU_SOURCE', '-I', include, os.path.join(here, 'reporter.c'), '-o', program, '-L', build,
                    '-ldet', f'-Wl,-rpath,{build}', '-lm'], check=True)
    return program


def main(det, n, seed):
    if os.geteuid() != 0 or not shutil.which('mkfs.ext4'):
        print('skipped: only root can mount a file system')
        return
    if not os.environ.get('DET_POWER_PRIVATE'):  # mounts of our own, gone with us
        os.execvpe('unshare', ['unshare', '--mount', sys.executable, *sys.argv], {**os.environ, 'DET_POWER_PRIVATE': '1'})
    r = random.Random(seed)
    acked = {'changes': 0, 'experiments': 0, 'codes': 0, 'reports': 0, 'checkpoints': 0}
    kinds = [kind for kind in ('ext4', 'xfs') if shutil.which('mkfs.' + kind)]
    with tempfile.TemporaryDirectory(prefix='det-power-') as folder:
        reporter = build_reporter(det, folder)
        disks = []
        try:
            try:
                for kind in kinds:
                    disks.append(Disk(folder, kind))
            except (subprocess.CalledProcessError, OSError) as error:
                if not disks:
                    print(f'skipped: no file system can be mounted here ({error})')
                    return
            for i in range(n):
                disk = disks[i % len(disks)]
                try:
                    cycle(det, disk, reporter, folder, r, i, acked)
                except Failure as failure:
                    raise Failure(f'cycle {i} of seed {seed}, {disk.path}: {failure}') from None
        finally:
            for disk in disks:
                subprocess.run(['umount', '-l', disk.path], stderr=subprocess.DEVNULL)
    print(f'{n} power losses on {", ".join(kinds)}; acknowledged and not lost: ' + ', '.join(f'{v} {k}' for k, v in acked.items()))


if __name__ == '__main__':
    try:
        main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10,
             int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
