#!/usr/bin/env python3
"""Who gets through when very many want to: callers who have not logged in cannot keep a user out, nor one user another, and nobody keeps tasks and the
user who started the master out. With the word "many": twelve thousand connections, and as many again whenever they are closed."""
import contextlib
import http.client
import multiprocessing
import os
import resource
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, run_tests, wait_for  # noqa: E402

LOOP = '''
from task import *
ready()
for i in range(%d):
    report('training', i + 1, loss=1.0 / (i + 1))
complete(1, 0.5)
'''
CONFIG = 'entrypoint: python3 train.py\nmax_restarts: 0\nsearcher: {name: single, metric: loss, max_length: {batches: 1}}'
PER_PROCESS = 2500


def raise_limit():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def besiege(address, sources, n, head, n_made):
    """Keeps n connections open, each with the beginning of a request; whichever is closed is opened anew."""
    raise_limit()
    poll, mine, made = select.epoll(), {}, 0
    while True:
        while len(mine) < n:
            s = socket.socket()
            s.bind((sources[made % len(sources)], 0))
            try:
                s.connect(address)
                s.sendall(head)
            except OSError:
                s.close()
                break
            made += 1
            mine[s.fileno()] = s
            poll.register(s, select.EPOLLIN | select.EPOLLRDHUP)
            n_made.value = made
        for fd, _ in poll.poll(0.05):
            poll.unregister(fd)
            mine.pop(fd).close()


@contextlib.contextmanager
def siege(m, n, sources, head=b''):
    """n connections of others, by processes of their own; that many have been made when it begins."""
    host, port = m.host.split(':')
    crowds = []
    for at in range(0, n, PER_PROCESS):
        size, n_made = min(PER_PROCESS, n - at), multiprocessing.Value('i', 0)
        p = multiprocessing.Process(target=besiege, args=((host, int(port)), sources, size, head, n_made), daemon=True)
        p.start()
        crowds.append((p, n_made))
    try:
        wait_for(lambda: sum(made.value for _, made in crowds) >= n, f'{n} connections', 120)
        yield
    finally:
        for p, _ in crowds:
            p.terminate()
            p.join()


def login(m, name, source=None):
    return m.call('POST', 'auth/login', {'username': name, 'password': 'correct horse'}, token='', source=source)


def new_user(m, name):
    m.post('users', {'username': name, 'password': 'correct horse'})
    return m.good('POST', 'auth/login', {'username': name, 'password': 'correct horse'}, token='')['token']


def numbers(m):
    text = m.call('GET', '/metrics')[1].decode()
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line and line[0] != '#'}


def open_stream(m, token):
    """A connection that stays: a stream of events. None: refused."""
    c = m.connect()
    c.request('GET', '/api/v1/events', headers={'Authorization': 'Bearer ' + token})
    r = c.getresponse()
    if r.status == 200:
        return c, r
    expect('refused', r.status, 429)
    c.close()
    return None


def everybody_works(m, token, n_requests, name):
    """Each on a connection of its own, from the address that the crowd has, too."""
    times = []
    for i in range(n_requests):
        begin = time.monotonic()
        expect(f'request {i}', m.call('GET', 'me', token=token)[0], 200)
        times.append(time.monotonic() - begin)
    expect('the local user', m.call('GET', 'users')[0], 200)
    expect('no token at all', m.call('GET', '/healthz', token='')[0], 200)
    expect('a new login', login(m, name)[0], 200)
    return sorted(times)


def test_anonymous_callers_of_one_address_do_not_keep_others_out(det):
    """They want more than everybody together may have, and come from where everybody comes from."""
    limits = ['--max-connections', '200', '--max-connections-per-address', '40', '--reserved-connections', '40']
    with Master(det, *limits) as m:
        token = new_user(m, 'ann')
        with siege(m, 600, ['127.0.0.1'], b'GET / HTTP/1.1\r\nHo'):
            everybody_works(m, token, 50, 'ann')
            expect('closed for others', numbers(m)['det_http_crowded_total'] > 0, True)
            expect('within the limit', numbers(m)['det_http_connections'] < 200, True)


def test_anonymous_callers_of_many_addresses_do_not_keep_others_out(det):
    limits = ['--max-connections', '200', '--max-connections-per-address', '40', '--reserved-connections', '40']
    with Master(det, *limits) as m:
        token = new_user(m, 'ann')
        e = m.create(CONFIG, {'train.py': LOOP % 50})
        with siege(m, 600, [f'127.0.0.{i}' for i in range(1, 100)], b'G'):
            everybody_works(m, token, 50, 'ann')
            m.wait_experiment(e, 'STATE_COMPLETED')


def test_a_greedy_user_does_not_keep_others_out(det):
    with Master(det, '--max-connections', '100', '--max-connections-per-user', '20', '--reserved-connections', '20') as m:
        greedy, token = new_user(m, 'eve'), new_user(m, 'ann')
        streams = [open_stream(m, greedy) for _ in range(30)]
        expect('streams', [s is not None for s in streams], [True] * 20 + [False] * 10)
        everybody_works(m, token, 20, 'ann')


def test_tasks_and_the_local_user_have_no_limit(det):
    with Master(det, '--max-connections', '60', '--max-connections-per-user', '2', '--reserved-connections', '20') as m:
        streams = [open_stream(m, m.token) for _ in range(30)]
        expect('streams', None in streams, False)
        e = m.create(CONFIG, {'train.py': LOOP % 5})
        m.wait_experiment(e, 'STATE_COMPLETED')


def test_who_does_not_read_is_told_to_read_anew(det):
    """A stream of events that nobody reads takes no more memory than a megabyte, and says what is missing when it is read."""
    with Master(det) as m:
        e = m.create('name: x\nentrypoint: sleep 1000\nsearcher: {name: single}', activate=False)
        sleeping = m.connect()
        sleeping.connect()
        sleeping.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        sleeping.request('GET', '/api/v1/events', headers={'Authorization': 'Bearer ' + m.token})
        answer = sleeping.getresponse()
        text = 'd' * 500000
        c, r = open_stream(m, m.token)
        for i in range(12):
            m.good('PATCH', f'experiments/{e}', {'notes': text + str(i)})
            while f'd{i}"' not in r.readline().decode():  # who reads sees every one
                pass
        m.good('PATCH', f'experiments/{e}', {'notes': 'the end'})
        lines, last = [], b''
        while last != b'event: resync':
            last = answer.readline().strip()
            lines.append(last[:20])
        m.good('PATCH', f'experiments/{e}', {'notes': 'after the end'})
        while 'after the end' not in answer.readline().decode():
            pass
        events = [x for x in lines if x.startswith(b'event: ')]
        expect('events before', (events[-1], len(events) < 12), (b'event: resync', True))
        c.close()


def many(det):
    raise_limit()
    with Master(det) as m:
        token, greedy = new_user(m, 'ann'), new_user(m, 'eve')
        quiet = everybody_works(m, token, 200, 'ann')
        e = m.create(CONFIG, {'train.py': LOOP % 200})
        for what, sources, head in (('one address', ['127.0.0.1'], b'G'),
                                    ('one address, heads', ['127.0.0.1'], b'GET / HTTP/1.1\r\nHost: localhost\r\nX: '),
                                    ('100 addresses', [f'127.0.0.{i}' for i in range(1, 101)], b'GET / HTTP/1.1\r\nX: ')):
            with siege(m, 12000, sources, head):
                times = everybody_works(m, token, 200, 'ann')
                seen = numbers(m)
                print(f'{what}: {seen["det_http_connections"]:.0f} connections, {seen["det_http_crowded_total"]:.0f} closed for others; '
                      f'requests of a user: median {times[100] * 1e3:.1f} ms (quiet: {quiet[100] * 1e3:.1f}), '
                      f'99 % {times[198] * 1e3:.1f} ms (quiet: {quiet[198] * 1e3:.1f})', flush=True)
        m.wait_experiment(e, 'STATE_COMPLETED')
        streams = [open_stream(m, greedy) for _ in range(2010)]
        expect('streams of one user', sum(s is not None for s in streams), 2000)
        everybody_works(m, token, 200, 'ann')


if __name__ == '__main__':
    try:
        if sys.argv[2:] == ['many']:
            many(os.path.realpath(sys.argv[1]))
        else:
            run_tests(sys.modules[__name__])
    except (Failure, http.client.HTTPException) as failure:
        sys.exit(f'FAILED: {failure!r}')
