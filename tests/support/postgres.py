#!/usr/bin/env python3
"""A PostgreSQL server of its own for a test.

    with Postgres() as server:
        server.url                    # postgresql://det@127.0.0.1:.../postgres
        server.kill(); server.start() # kill -9 of all of it, and again

As a program: postgres.py PROGRAM... runs each program with DET_TEST_DB, one after the other; words behind -- go to each.
"""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

USER = 65534  # the server does not want to be root


def find_programs():
    found = sorted(glob.glob('/usr/lib/postgresql/*/bin'))
    if not found:
        sys.exit('PostgreSQL is missing: make deps-test installs it')
    return found[-1]


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Postgres:
    def __init__(self, **settings):
        """settings: of postgresql.conf."""
        self.programs = find_programs()
        self.settings = {'fsync': 'on', 'max_connections': '200', **settings}
        self.folder = tempfile.mkdtemp(prefix='det-postgres-')
        self.port = free_port()
        self.url = f'postgresql://det@127.0.0.1:{self.port}/postgres'
        self.process = None
        self.who = {}
        if os.getuid() == 0:
            os.chown(self.folder, USER, USER)
            self.who = {'user': USER, 'group': USER, 'extra_groups': []}
        subprocess.run([f'{self.programs}/initdb', '-D', f'{self.folder}/data', '-U', 'det', '--auth=trust', '--no-sync',
                        '-E', 'UTF8', '--locale=C.UTF-8'], check=True, stdout=subprocess.DEVNULL, cwd='/', **self.who)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        settings = [x for k, v in self.settings.items() for x in ('-c', f'{k}={v}')]
        log = open(f'{self.folder}/log', 'ab')
        command = [f'{self.programs}/postgres', '-D', f'{self.folder}/data', '-p', str(self.port), '-k', self.folder,
                   '-c', 'listen_addresses=127.0.0.1', *settings]
        end = time.monotonic() + 60
        while True:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd='/', **self.who)
            while self.process.poll() is None:
                if self.is_ready():
                    log.close()
                    return
                time.sleep(0.02)
            # After a kill the shared memory belongs to processes that are just ending.
            if time.monotonic() > end:
                sys.exit(f'PostgreSQL does not start: {open(f"{self.folder}/log").read()[-2000:]}')
            time.sleep(0.1)

    def is_ready(self):
        return subprocess.run([f'{self.programs}/pg_isready', '-q', '-h', '127.0.0.1', '-p', str(self.port)]).returncode == 0

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # fast: connections are closed
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait(20)
        self.process = None

    def kill(self):
        """As a power loss would, for those who are connected."""
        self.process.kill()
        self.process.wait()

    def sql(self, text, url=None):
        """Rows of a query, each a list of texts."""
        done = subprocess.run(['psql', '-qAtX', '-F', '\t', '-v', 'ON_ERROR_STOP=1', url or self.url, '-c', text],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [line.split('\t') for line in done.stdout.splitlines()]

    def database(self, name):
        """The address of a new, empty database."""
        self.sql(f'CREATE DATABASE {name}')
        return self.url.replace('/postgres', f'/{name}')


def main():
    failed, words = [], sys.argv[1:]
    programs = words[:words.index('--')] if '--' in words else words
    more = words[len(programs) + 1:]
    with Postgres(fsync='off') as server:  # it is not the disk that is tested
        for program in programs:
            begin = time.monotonic()
            if subprocess.run([program, *more], env={**os.environ, 'DET_TEST_DB': server.url}).returncode:
                failed.append(program)
            print(f'--- {program}: {time.monotonic() - begin:.1f} s', flush=True)
    sys.exit(f'failed: {failed}' if failed else 0)


if __name__ == '__main__':
    main()
