#!/usr/bin/env python3
"""container.py DET: a master that is the first process of a container waits for every process whose parent has ended, stops when
the container is stopped, and goes on with everything when it is started again."""
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
from master import Master, expect, wait_for  # noqa: E402

CONFIG = '''
name: container
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 3}}
'''
TRAIN = '''
from task import *
ready()
start = int(open(os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], latest, 'state')).read()) if latest else 0
for at in range(start + 1, 4):
    report('training', at, loss=1.0 / at)
    checkpoint(at)
    print('trained to', at, flush=True)
    if at == 2 and not latest: time.sleep(3600)
report('validation', 3, loss=0.1)
complete(3, 0.1)
'''


def children(pid):
    return [int(p) for p in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def state(pid):
    """R, S, Z, ...; nothing once it is gone."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
    except OSError:
        return ''


class Container(Master):
    """A master in a pid namespace; root inside of it, if it is not root outside."""
    USER = () if os.getuid() == 0 else ('--user', '--map-root-user')

    def start(self):
        # A process whose parent has ended before the master is there: it becomes a child of the first process.
        script = '(sleep 86400 & echo $! >"$1/orphan"); shift; exec "$@"'
        self.process = subprocess.Popen(
            ['unshare', *self.USER, '--pid', '--fork', '--mount-proc', 'sh', '-c', script, '-', self.data,
             self.det, 'master', '--data', self.data, '--port', '0', *self.args],
            stderr=self.log, stdin=subprocess.DEVNULL)
        found = wait_for(lambda: self.process.poll() is None and self.announced(), 'the master to start')
        self.host, self.token, self.tls = found['url'].split('//')[1], found['token'], None
        self.first = children(self.process.pid)[0]

    def stop(self, how=signal.SIGTERM):
        if self.process:
            os.kill(self.first, how)
            expect('the status of the container', self.process.wait(30), 0)
            expect('what is left of it', state(self.first), '')
        self.process = None


def test_first_process_waits_for_what_others_leave(m):
    orphan = wait_for(lambda: [p for p in children(m.first) if Path(f'/proc/{p}/comm').read_text() == 'sleep\n'],
                      'the orphan to be a child of the first process')[0]
    os.kill(orphan, signal.SIGKILL)
    wait_for(lambda: state(orphan) == '', 'the orphan to be waited for')


def test_a_stopped_container_goes_on(m):
    e = m.create(CONFIG, {'train.py': TRAIN})
    t = wait_for(lambda: m.trials(e), 'a trial')[0]['id']
    m.wait_line(t, 'trained to 2')
    m.stop()
    (Path(m.data) / 'master.json').unlink(missing_ok=True)
    m.start()
    m.wait_experiment(e, 'STATE_COMPLETED')
    expect('what was trained', [x for x in m.lines(t) if 'trained' in x], ['trained to 1', 'trained to 2', 'trained to 3'])


def main():
    with tempfile.TemporaryDirectory() as data, Container(os.path.abspath(sys.argv[1]), data=data) as m:
        test_first_process_waits_for_what_others_leave(m)
        test_a_stopped_container_goes_on(m)
    print('container: ok')


main()
