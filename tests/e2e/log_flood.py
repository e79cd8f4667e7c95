#!/usr/bin/python3
"""log_flood.py DET [MEGABYTES]: a task prints more than anybody will read. Nothing of it is lost, the master stays small,
others are not kept waiting, the disk holds a fraction of it and gets it back. Figures are printed; with more than a few
megabytes they are held against what is promised."""
import http.client
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, wait_for  # noqa: E402

# Lines such as training prints; every one has its number.
FLOOD = '''
import sys, random
random.seed(1)
left, n = int(sys.argv[1]) << 20, 0
out = sys.stdout.buffer
while left > 0:
    block = ''.join('step %d: epoch %d batch %d loss %.6f accuracy %.4f lr %.2e samples/s %.1f\\n' %
                    (i, i // 1000, i % 1000, random.random(), random.random(), 1e-3 / (1 + i), 1000 * random.random())
                    for i in range(n, n + 2000)).encode()
    n += 2000
    left -= len(block)
    out.write(block)
out.flush()
print('printed', n, flush=True)
'''


def status_mb(pid, name):
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(name + ':'))


def disk_mb(m):
    return sum(os.stat(os.path.join(m.data, name)).st_blocks * 512 for name in os.listdir(m.data)
               if name.startswith('det.db')) / 2**20


class Writer(threading.Thread):
    """Another user, who changes something all the time and waits for each answer."""

    def __init__(self, m, e):
        super().__init__()
        self.m, self.e, self.times, self.stopped, self.error = m, e, [], False, None
        self.wal_mb = self.rss_mb = 0

    def run(self):
        try:
            c = http.client.HTTPConnection(self.m.host, timeout=120)
            headers = {'Authorization': 'Bearer ' + self.m.token, 'Content-Type': 'application/json'}
            while not self.stopped:
                begin = time.monotonic()
                c.request('PATCH', f'/api/v1/experiments/{self.e}', '{"notes": "n%d"}' % len(self.times), headers)
                r = c.getresponse()
                r.read()
                if r.status != 200:
                    raise Failure(f'PATCH: {r.status}')
                self.times.append(time.monotonic() - begin)
                self.wal_mb = max(self.wal_mb, os.stat(os.path.join(self.m.data, 'det.db-wal')).st_size / 2**20)
                self.rss_mb = max(self.rss_mb, status_mb(self.m.process.pid, 'VmRSS'))
                time.sleep(0.005)
        except Exception as error:
            self.error = error

    def end(self):
        self.stopped = True
        self.join()
        if self.error:
            raise self.error
        return sorted(self.times)


def check_lines(m, trial, n):
    """Every line is there once, in order; the pages are read as a client would."""
    after, seen = 0, 0
    while True:
        lines = m.get(f'trials/{trial}/logs?limit=20000&after={after}&source=task')['logs']
        if not lines:
            break
        for line in lines:
            words = line['log'].split(' ', 2)
            if words[0] == 'printed':
                expect('the last line', (int(words[1]), seen), (n, n))
                continue
            if (words[0], words[1]) != ('step', f'{seen}:'):
                raise Failure(f'line {seen} is missing or doubled: {line["log"]!r}')
            seen += 1
        after = lines[-1]['id']
    expect('lines', seen, n)


def main(det, megabytes):
    with Master(det, '--slots', '2') as m:
        other = m.create('entrypoint: "true"\nsearcher: {name: single}')
        m.wait_experiment(other, 'STATE_COMPLETED')
        calm = Writer(m, other)
        calm.start()
        time.sleep(1)
        before = calm.end()
        empty_mb = disk_mb(m)
        writer = Writer(m, other)
        writer.start()
        begin = time.monotonic()
        e = m.create(f'entrypoint: python3 flood.py {megabytes}\nsearcher: {{name: single}}', {'flood.py': FLOOD})
        wait_for(lambda: m.experiment(e)['state'] == 'STATE_COMPLETED', 'the flood to end', 1200)
        took = time.monotonic() - begin
        times = writer.end()
        trial = m.trials(e)[0]['id']
        last = m.lines(trial, orderBy='ORDER_BY_DESC', limit=1, source='task')[0]
        n = int(last.split()[1])
        p99 = times[int(0.99 * (len(times) - 1))] * 1000
        figures = {'MB printed': megabytes, 'lines': n, 'seconds': round(took, 1),
                   'RSS of the master, MB': round(writer.rss_mb), 'WAL, MB': round(writer.wal_mb),
                   'p50 of writes, ms': round(times[len(times) // 2] * 1000, 1), 'p99': round(p99, 1),
                   'worst': round(times[-1] * 1000, 1), 'p99 without the flood': round(before[int(0.99 * (len(before) - 1))] * 1000, 1),
                   'writes': len(times), 'disk, MB': round(disk_mb(m) - empty_mb, 1)}
        for name, value in figures.items():
            print(f'{name}: {value}', flush=True)
        check_lines(m, trial, n)
        begin = time.monotonic()
        found = m.lines(trial, searchText=f'step {n - 1}:')
        expect('found', len(found), 1)
        print(f'a search through all of it: {time.monotonic() - begin:.1f} s')
        limit_mb = 0.5 * megabytes + 20  # and the WAL
        if disk_mb(m) - empty_mb > limit_mb:
            raise Failure(f'{disk_mb(m) - empty_mb:.0f} MB of disk for {megabytes} MB of text')
        if writer.rss_mb > 200 or writer.wal_mb > 100:
            raise Failure('the master has grown')
        expect('deleted', m.call('DELETE', f'experiments/{e}')[0], 200)
        wait_for(lambda: disk_mb(m) - empty_mb < 25 + 0.02 * megabytes, 'the space to be given back', 300)
        print(f'disk after deleting it, MB: {disk_mb(m) - empty_mb:.1f}')


if __name__ == '__main__':
    try:
        main(os.path.realpath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
