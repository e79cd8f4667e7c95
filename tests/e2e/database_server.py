#!/usr/bin/env python3
"""A database in a server: what was acknowledged is there, whoever is killed and whatever hangs; a second master takes over.

    database_server.py DET [TIMES] [TEST ...]      more times: scripts/check-long
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'support'))
from master import Failure, Master, expect, wait_for  # noqa: E402
from postgres import Postgres  # noqa: E402
from proxy import Proxy  # noqa: E402

N_CLIENTS = 6


class Creator(threading.Thread):
    """Creates experiments, each with a name and a key of its own, again and again until it is acknowledged by a master."""

    def __init__(self, masters, number):
        super().__init__(daemon=True)
        self.masters, self.number, self.acked, self.stop, self.longest = masters, number, [], False, 0.0
        self.error = None

    def run(self):
        n = 0
        while not self.stop:
            n += 1
            name, key, began = f'client{self.number}-{n}', str(uuid.uuid4()), time.monotonic()
            while not self.stop and not self.create(name, key):
                time.sleep(0.01)
            self.longest = max(self.longest, time.monotonic() - began)

    def create(self, name, key):
        config = f'name: {name}\nentrypoint: "true"\nsearcher: {{name: single}}\n'
        for m in self.masters:
            try:
                status, answer = m.call('POST', 'experiments', {'config': config, 'activate': False},
                                        headers={'Idempotency-Key': key})
            except (OSError, AttributeError):  # nobody there, or not yet
                continue
            if status == 200:
                self.acked.append(name)
                return True
            if status == 409 and 'done before' in str(answer):  # by one whose answer was lost
                self.acked.append(name)
                return True
            if status not in (503, 401):  # 401: the token of another master, which has just ended
                self.error = (status, answer)
                self.stop = True
        return False


def start_clients(masters):
    clients = [Creator(masters, i) for i in range(N_CLIENTS)]
    for c in clients:
        c.start()
    return clients


def n_acked(clients):
    return sum(len(c.acked) for c in clients)


def wait_for_more(clients, n=N_CLIENTS):
    before = n_acked(clients)
    wait_for(lambda: n_acked(clients) > before + n or any(c.error for c in clients), 'more to be acknowledged')


def check(server, clients, url=None):
    for c in clients:
        c.stop = True
    for c in clients:
        c.join(60)
        if c.error:
            raise Failure(f'client {c.number}: {c.error}')
    stored = [row[0] for row in server.sql('SELECT name FROM experiments', url)]
    acked = [name for c in clients for name in c.acked]
    expect('acknowledged and lost', [x for x in acked if x not in set(stored)], [])
    expect('doubled', sorted({x for x in stored if stored.count(x) > 1}), [])
    expect('none that nobody asked for', len(stored) <= len(acked) + len(clients), True)
    return len(acked)


def test_the_server_is_killed(det, times):
    rng = random.Random(times)
    with Postgres() as server, Master(det, '--db', server.url) as m:
        clients = start_clients([m])
        for _ in range(times):
            wait_for_more(clients)
            time.sleep(rng.random() * 0.05)
            server.kill()
            expect('while it is gone', wait_for(lambda: m.call('GET', '/readyz')[0] == 503, 'the master to notice'), True)
            server.start()
        wait_for_more(clients)
        print(f'{times} kills of the server: {check(server, clients)} acknowledged, none lost or doubled')
        expect('it goes on', m.call('GET', '/readyz')[0], 200)


def test_connections_break(det, times):
    """At any point of an exchange: also between a commit and its answer."""
    rng = random.Random(times)
    with Postgres() as server, Proxy(server.port) as network:
        url = server.url.replace(str(server.port), str(network.port))
        with Master(det, '--db', url) as m:
            clients = start_clients([m])
            for _ in range(times * 10):
                wait_for_more(clients, 1)
                time.sleep(rng.random() * 0.02)
                network.cut()
            wait_for_more(clients)
            print(f'{times * 10} broken connections: {check(server, clients)} acknowledged, none lost or doubled')


def test_the_master_is_killed(det, times):
    rng = random.Random(times)
    with Postgres() as server, Master(det, '--db', server.url) as m:
        clients = start_clients([m])
        for _ in range(times):
            wait_for_more(clients)
            time.sleep(rng.random() * 0.02)
            m.kill()
            m.start()
        wait_for_more(clients)
        print(f'{times} kills of the master: {check(server, clients)} acknowledged, none lost or doubled')


class Pair:
    """Two masters of one database, each behind a network of its own. There is no saying which one works."""

    def __init__(self, det, server):
        self.networks = [Proxy(server.port).__enter__() for _ in range(2)]
        urls = [server.url.replace(str(server.port), str(n.port)) for n in self.networks]
        self.masters = [Master(det, '--db', url) for url in urls]
        self.masters[0].start()
        self.active = 0
        self.launch(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for i, m in enumerate(self.masters):
            self.networks[i].resume()
            if m.process and m.process.poll() is None:
                m.process.kill()
                m.process.wait()
            m.process = None
            m.__exit__(*_)
        for n in self.networks:
            n.__exit__()

    def launch(self, i):
        """As a standby."""
        m = self.masters[i]
        before = os.path.getsize(m.log.name)
        if os.path.exists(os.path.join(m.data, 'master.json')):
            os.remove(os.path.join(m.data, 'master.json'))
        m.process = subprocess.Popen([m.det, 'master', '--data', m.data, '--port', '0', *m.args], stderr=m.log,
                                     stdin=subprocess.DEVNULL)

        def waits():
            with open(m.log.name) as f:
                f.seek(before)
                return 'standby: the database is used by the master on ' in f.read()
        wait_for(waits, 'the other one to wait')

    def wait_takeover(self):
        began = time.monotonic()
        m = self.masters[1 - self.active]

        def is_up():
            now = m.announced()
            return now and now.get('pid') == m.process.pid and now
        found = wait_for(is_up, 'the other one to take over')
        m.host, m.token, m.tls = found['url'].split('//')[1], found['token'], None
        wait_for(lambda: m.call('GET', '/readyz')[0] == 200, 'the other one to be ready')
        self.active = 1 - self.active
        return time.monotonic() - began


def test_a_standby_takes_over(det, times):
    """Killed, stopped, or cut off without a word: the other one goes on, and the first comes back as a standby."""
    rng = random.Random(times)
    longest = {}
    with Postgres() as server, Pair(det, server) as pair:
        clients = start_clients(pair.masters)
        for i in range(times):
            wait_for_more(clients)
            time.sleep(rng.random() * 0.05)
            old, network = pair.masters[pair.active], pair.networks[pair.active]
            how = ('kill', 'hang', 'stop', 'freeze')[i % 4]
            if how == 'hang':
                network.hang()
            elif how == 'freeze':
                old.process.send_signal(signal.SIGSTOP)
            else:
                old.process.send_signal(signal.SIGKILL if how == 'kill' else signal.SIGTERM)
            longest[how] = max(longest.get(how, 0), pair.wait_takeover())
            wait_for_more(clients)
            network.resume()
            if how == 'freeze':
                old.process.send_signal(signal.SIGCONT)
            status = old.process.wait(60)
            expect(f'{how}: how the first one ends', status, {'kill': -9, 'stop': 0}.get(how, 1))
            if how in ('hang', 'freeze'):
                with open(old.log.name) as f:
                    expect('why', 'another process has taken over the database' in f.read(), True)
            pair.launch(1 - pair.active)
        n = check(server, clients)
        waited = max(c.longest for c in clients)
        print(f'{times} take-overs: {n} acknowledged, none lost or doubled; without a master for at most '
              f'{", ".join(f"{s:.1f} s ({how})" for how, s in longest.items())}; clients waited {waited:.1f} s at most')


def test_a_standby_can_be_stopped(det, _):
    with Postgres() as server, Pair(det, server) as pair:
        other = pair.masters[1]
        other.process.send_signal(signal.SIGTERM)
        expect('status', other.process.wait(10), 0)
        other.process = None


def says(det, url, data):
    done = subprocess.run([det, 'master', '--data', data, '--port', '0', '--db', url], capture_output=True, text=True, timeout=60)
    expect(f'status with {url}', done.returncode, 1)
    return done.stderr


def test_what_is_wrong_is_said(det, _):
    with Postgres() as server, tempfile.TemporaryDirectory() as data:
        latin = server.database("latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        for url, words in ((server.url.replace('/postgres', '/nothing'), 'database "nothing" does not exist'),
                           (server.url.replace(str(server.port), '1'), 'cannot be reached'),
                           (server.url + '?options=-csearch_path%3Dnothing', 'make it with CREATE SCHEMA'),
                           (latin.split(' ')[0], 'its encoding is LATIN1')):
            said = says(det, url, data)
            expect(f'{words!r} in {said!r}', words in said, True)
        done = subprocess.run([det, 'master', '--data', data, '--db', '/some/file'], capture_output=True, text=True)
        expect('a file is no address', (done.returncode, 'postgresql://' in done.stderr), (2, True))
        server.sql("CREATE ROLE guest LOGIN PASSWORD 'canary-of-passwords'")
        with open(f'{server.folder}/data/pg_hba.conf', 'w') as f:
            f.write('host all det 127.0.0.1/32 trust\nhost all guest 127.0.0.1/32 scram-sha-256\n')
        server.sql('SELECT pg_reload_conf()')
        secret = server.url.replace('det@', 'guest:wrong-canary@')
        said = says(det, secret, data)
        expect(f'{said!r} names the user, not the password', ('guest' in said, 'canary' in said), (True, False))


def test_passwords_are_not_shown(det, _):
    with Postgres() as server:
        server.sql("CREATE ROLE guest LOGIN PASSWORD 'canary'")
        url = server.database('own OWNER guest').split(' ')[0].replace('det@', 'guest:canary@')
        with Master(det, '--db', url) as m:
            expect('settings', 'canary' in str(m.get('master/info')), False)
            expect('database', m.get('master/info')['database'], url.replace(':canary', ''))
            with open(m.log.name) as f:
                expect('the log', 'canary' in f.read(), False)


def test_a_network_that_hangs_stops_nobody_who_needs_no_database(det, _):
    with Postgres() as server, Proxy(server.port, delay=0.02) as network:
        url = server.url.replace(str(server.port), str(network.port))
        with Master(det, '--db', url) as m:
            clients = start_clients([m])
            wait_for_more(clients, 30)
            network.hang()
            for _ in range(50):
                expect('health', m.call('GET', '/healthz')[0], 200)
            network.resume()
            wait_for_more(clients, 30)
            print(f'20 ms added to each exchange: {check(server, clients)} acknowledged, none lost or doubled')


TESTS = [(name, value) for name, value in sorted(globals().items()) if name.startswith('test_')]

if __name__ == '__main__':
    program, chosen = os.path.realpath(sys.argv[1]), sys.argv[3:]
    n_times = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    try:
        for name, test in TESTS:
            if not chosen or name in chosen:
                begin = time.monotonic()
                test(program, n_times)
                print(f'{name}: {time.monotonic() - begin:.1f} s', flush=True)
    except Failure as failure:
        sys.exit(f'FAILED: {failure}')
